// Counts of all matches of sequences per key, by Flink's CEP: every match is built, then counted by its panes.
// Arguments: csv file, window and slide in microseconds, parallelism, patterns as A,B,C;D,E,F.
// Prints query,key,first pane,last pane,count.

import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;

public class FlinkCep {
    public static class Event extends Tuple3<Long, String, Long> {
        public Event() {}

        public Event(long time, String type, long key) {
            super(time, type, key);
        }
    }

    static class Is extends SimpleCondition<Tuple3<Long, String, Long>> {
        final String type;

        Is(String type) {
            this.type = type;
        }

        @Override
        public boolean filter(Tuple3<Long, String, Long> event) {
            return event.f1.equals(type);
        }
    }

    static class Panes extends PatternProcessFunction<Tuple3<Long, String, Long>, Tuple4<Integer, Long, Long, Long>> {
        final int query;
        final String last;
        final long slide;

        Panes(int query, String last, long slide) {
            this.query = query;
            this.last = last;
            this.slide = slide;
        }

        @Override
        public void processMatch(
                Map<String, List<Tuple3<Long, String, Long>>> match,
                Context context,
                Collector<Tuple4<Integer, Long, Long, Long>> out) {
            Tuple3<Long, String, Long> begin = match.get("0").get(0);
            long end = match.get(last).get(0).f0;
            out.collect(Tuple4.of(query, begin.f2, begin.f0 / slide, end / slide));
        }
    }

    public static void main(String[] args) throws Exception {
        long within = Long.parseLong(args[1]);
        long slide = Long.parseLong(args[2]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(Integer.parseInt(args[3]));
        env.getConfig().enableObjectReuse();
        List<Tuple3<Long, String, Long>> events = new ArrayList<>();
        try (BufferedReader reader = Files.newBufferedReader(Paths.get(args[0]))) {
            for (String line; (line = reader.readLine()) != null; ) {
                String[] parts = line.split(",");
                events.add(Tuple3.of(Long.parseLong(parts[0]), parts[1], Long.parseLong(parts[2])));
            }
        }
        TypeInformation<Tuple3<Long, String, Long>> type =
                TypeInformation.of(new TypeHint<Tuple3<Long, String, Long>>() {});
        // Event time in Flink is in milliseconds.
        KeyedStream<Tuple3<Long, String, Long>, Long> keyed = env.fromData(events, type)
                .setParallelism(1)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple3<Long, String, Long>>forMonotonousTimestamps()
                                .withTimestampAssigner((event, at) -> event.f0 / 1000))
                .setParallelism(1)
                .keyBy(event -> event.f2);
        DataStream<Tuple4<Integer, Long, Long, Long>> all = null;
        String[] patterns = args[4].split(";");
        for (int query = 0; query < patterns.length; query++) {
            String[] types = patterns[query].split(",");
            Pattern<Tuple3<Long, String, Long>, Tuple3<Long, String, Long>> pattern =
                    Pattern.<Tuple3<Long, String, Long>>begin("0").where(new Is(types[0]));
            for (int at = 1; at < types.length; at++) {
                pattern = pattern.followedByAny(String.valueOf(at)).where(new Is(types[at]));
            }
            pattern = pattern.within(Duration.ofMillis(within / 1000));
            DataStream<Tuple4<Integer, Long, Long, Long>> found = CEP.pattern(keyed, pattern)
                    .process(new Panes(query, String.valueOf(types.length - 1), slide));
            all = all == null ? found : all.union(found);
        }
        Map<String, Long> counts = new HashMap<>();
        try (CloseableIterator<Tuple4<Integer, Long, Long, Long>> matches = all.executeAndCollect()) {
            while (matches.hasNext()) {
                Tuple4<Integer, Long, Long, Long> match = matches.next();
                counts.merge(match.f0 + "," + match.f1 + "," + match.f2 + "," + match.f3, 1L, Long::sum);
            }
        }
        counts.forEach((place, count) -> System.out.println(place + "," + count));
    }
}
