// Flink's CEP in a cluster of this process: every match of a sequence by followedByAny, a job for all queries.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple6;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;

public class FlinkDetection extends Peer {
    private List<Query> queries;

    /** The type of an event, and its conditions with those bound before it. */
    static class Fits extends IterativeCondition<Tuple6<Long, Long, Integer, Long, Double, Double>> {
        private final int type;
        private final int place;
        private final int[] left;
        private final int[] fields;
        private final double[] offsets;
        private final boolean[] less;

        Fits(String type, int place, List<Condition> conditions) {
            this.type = Integer.parseInt(type.substring(1));
            this.place = place;
            int count = conditions.size();
            left = new int[count];
            fields = new int[2 * count];
            offsets = new double[count];
            less = new boolean[count];
            for (int at = 0; at < count; at++) {
                Condition condition = conditions.get(at);
                left[at] = condition.left;
                fields[2 * at] = condition.leftAttribute.equals("x") ? 4 : 5;
                fields[2 * at + 1] = condition.rightAttribute.equals("x") ? 4 : 5;
                offsets[at] = condition.offset;
                less[at] = condition.less;
            }
        }

        @Override
        public boolean filter(
                Tuple6<Long, Long, Integer, Long, Double, Double> event,
                Context<Tuple6<Long, Long, Integer, Long, Double, Double>> bound)
                throws Exception {
            if (event.f2 != type) {
                return false;
            }
            for (int at = 0; at < left.length; at++) {
                for (Tuple6<Long, Long, Integer, Long, Double, Double> before :
                        bound.getEventsForPattern("e" + left[at])) {
                    double limit = before.<Double>getField(fields[2 * at]) + offsets[at];
                    double value = event.<Double>getField(fields[2 * at + 1]);
                    if (less[at] ? value <= limit : value >= limit) {
                        return false;
                    }
                }
            }
            return true;
        }
    }

    static class Ids
            extends PatternProcessFunction<
                    Tuple6<Long, Long, Integer, Long, Double, Double>, Tuple4<Integer, Long, Long, Long>> {
        private final int query;

        Ids(int query) {
            this.query = query;
        }

        @Override
        public void processMatch(
                Map<String, List<Tuple6<Long, Long, Integer, Long, Double, Double>>> match,
                Context context,
                Collector<Tuple4<Integer, Long, Long, Long>> out) {
            out.collect(Tuple4.of(query, match.get("e0").get(0).f0, match.get("e1").get(0).f0, match.get("e2").get(0).f0));
        }
    }

    private static Fits fits(Query query, int place) {
        List<Condition> conditions = new ArrayList<>();
        for (Condition condition : query.conditions) {
            if (condition.right == place) {
                conditions.add(condition);
            }
        }
        return new Fits(query.types[place], place, conditions);
    }

    private static Pattern<Tuple6<Long, Long, Integer, Long, Double, Double>, ?> write(Query query) {
        Pattern<Tuple6<Long, Long, Integer, Long, Double, Double>, Tuple6<Long, Long, Integer, Long, Double, Double>>
                pattern = Pattern.<Tuple6<Long, Long, Integer, Long, Double, Double>>begin("e0").where(fits(query, 0));
        if (query.kind.equals("not")) {
            pattern = pattern.notFollowedBy("absent").where(new Fits(query.absent, 0, List.of()));
        }
        pattern = pattern.followedByAny("e1").where(fits(query, 1));
        if (query.kind.equals("kleene-any")) {
            pattern = pattern.oneOrMore().allowCombinations();
        }
        return pattern.followedByAny("e2").where(fits(query, 2)).within(Duration.ofMillis(query.within));
    }

    @Override
    void open(List<Query> queries) {
        this.queries = queries;
    }

    @Override
    void run(List<Event> events) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.getConfig().enableObjectReuse();
        List<Tuple6<Long, Long, Integer, Long, Double, Double>> rows = new ArrayList<>();
        for (Event event : events) {
            rows.add(Tuple6.of(
                    (Long) event.row[0], event.time, event.type, (Long) event.row[1], (Double) event.row[2], (Double) event.row[3]));
        }
        DataStream<Tuple6<Long, Long, Integer, Long, Double, Double>> stream = env.fromCollection(
                        rows, TypeInformation.of(new TypeHint<Tuple6<Long, Long, Integer, Long, Double, Double>>() {}))
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple6<Long, Long, Integer, Long, Double, Double>>forMonotonousTimestamps()
                                .withTimestampAssigner((event, at) -> event.f1));
        boolean keyed = queries.get(0).keyed;
        KeyedStream<Tuple6<Long, Long, Integer, Long, Double, Double>, Long> partitions =
                stream.keyBy(event -> keyed ? event.f3 : 0L);
        DataStream<Tuple4<Integer, Long, Long, Long>> all = null;
        for (Query query : queries) {
            DataStream<Tuple4<Integer, Long, Long, Long>> found =
                    CEP.pattern(partitions, write(query)).process(new Ids(query.number));
            all = all == null ? found : all.union(found);
        }
        try (CloseableIterator<Tuple4<Integer, Long, Long, Long>> found = all.executeAndCollect()) {
            while (found.hasNext()) {
                Tuple4<Integer, Long, Long, Long> match = found.next();
                add(match.f0, match.f1, match.f2, match.f3);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        main(args, FlinkDetection::new);
    }
}
