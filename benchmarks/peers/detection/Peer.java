// What all peers of detection have in common: reading the question and the events, running them several times, and
// adding up what was found. Arguments: question, events as csv (id, milliseconds, type, k, x, y), how often.
// Prints for each time: matches, checksum, CPU seconds. The first time warms the JVM up.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

abstract class Peer {
    /** A condition `left.attribute + offset < right.attribute` (or >) between two events of a sequence. */
    static class Condition {
        final int left;
        final int right;
        final String leftAttribute;
        final String rightAttribute;
        final double offset;
        final boolean less;

        Condition(String text) { // 0 x 0.25 < 1 y
            String[] parts = text.split(" ");
            left = Integer.parseInt(parts[0]);
            leftAttribute = parts[1];
            offset = Double.parseDouble(parts[2]);
            less = parts[3].equals("<");
            right = Integer.parseInt(parts[4]);
            rightAttribute = parts[5];
        }

        /** Return what the attribute on the right has to be, in the notation that all peers share. */
        String text(String before) {
            return rightAttribute + (less ? " > " : " < ") + before + leftAttribute + " + " + offset;
        }

        boolean holds(Object[] one, Object[] other) {
            double bound = value(one, leftAttribute) + offset;
            double compared = value(other, rightAttribute);
            return less ? compared > bound : compared < bound;
        }

        private static double value(Object[] event, String attribute) {
            return (Double) event[attribute.equals("x") ? 2 : 3];
        }
    }

    /** A sequence of three types; with an absence between the first two, or with the second repeated. */
    static class Query {
        final int number;
        final String kind; // seq, not, kleene
        final String[] types;
        final String absent;
        final long within; // milliseconds
        final boolean keyed;
        final List<Condition> conditions = new ArrayList<>();

        Query(int number, String line) {
            String[] fields = line.split("\t");
            this.number = number;
            kind = fields[0];
            types = fields[1].split(",");
            absent = fields[2];
            within = Long.parseLong(fields[3]);
            keyed = Boolean.parseBoolean(fields[4]);
            for (int at = 5; at < fields.length; at++) {
                conditions.add(new Condition(fields[at]));
            }
        }

        /** Write the filter of an event in a pattern whose events are e0, e1, e2: its key and its conditions. */
        String filter(int place, String conjunction) {
            String conditions = conditions(place, conjunction);
            if (!keyed || place == 0) {
                return conditions;
            }
            String key = conjunction.equals(" and ") ? "k == e0.k" : "k = e0.k";
            return conditions.isEmpty() ? key : key + conjunction + conditions;
        }

        /** Write the conditions of an event on those before it. */
        String conditions(int place, String conjunction) {
            return conditions.stream()
                    .filter(condition -> condition.right == place)
                    .map(condition -> condition.text("e" + condition.left + "."))
                    .collect(Collectors.joining(conjunction));
        }
    }

    static class Event {
        final long time;
        final int type;
        final Object[] row; // id, k, x, y

        Event(String line) {
            String[] parts = line.split(",");
            time = Long.parseLong(parts[1]);
            type = Integer.parseInt(parts[2].substring(1));
            row = new Object[] {
                Long.parseLong(parts[0]), Long.parseLong(parts[3]), Double.parseDouble(parts[4]), Double.parseDouble(parts[5])
            };
        }
    }

    long matches;
    long checksum;

    /** Count a match by the numbers of its events, in any order of matches. */
    void add(long query, long first, long second, long third) {
        matches++;
        long mixed = (query + 1) * 0x9E3779B97F4A7C15L ^ (first + 1) * 0xC2B2AE3D27D4EB4FL;
        mixed = (mixed ^ (mixed >>> 29)) * 0xBF58476D1CE4E5B9L ^ (second + 1) * 0x165667B19E3779F9L;
        mixed = (mixed ^ (mixed >>> 32)) * 0x94D049BB133111EBL ^ (third + 1) * 0xD6E8FEB86659FD93L;
        checksum += mixed ^ (mixed >>> 31);
    }

    /** Make what runs the queries ready; not part of the time. */
    abstract void open(List<Query> queries) throws Exception;

    abstract void run(List<Event> events) throws Exception;

    void close() throws Exception {}

    static <T extends Peer> void main(String[] args, java.util.function.Supplier<T> make) throws Exception {
        List<Query> queries = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            queries.add(new Query(queries.size(), line));
        }
        List<Event> events = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(Path.of(args[1]))) {
            for (String line; (line = reader.readLine()) != null; ) {
                events.add(new Event(line));
            }
        }
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int time = 0; time <= Integer.parseInt(args[2]); time++) {
            T peer = make.get();
            peer.open(queries);
            long before = system.getProcessCpuTime();
            peer.run(events);
            double seconds = (system.getProcessCpuTime() - before) / 1e9;
            peer.close();
            System.out.println("found " + peer.matches + " " + peer.checksum + " " + seconds);
        }
        System.exit(0);
    }
}
