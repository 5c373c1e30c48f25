// Esper: every match of a sequence by nested `every`, delivered to a subscriber, its quickest way out.

import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.DeploymentOptions;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.util.List;

public class EsperDetection extends Peer {
    private static int opened = 0;
    private EPRuntime runtime;

    public class Subscriber {
        private final int query;

        Subscriber(int query) {
            this.query = query;
        }

        public void update(Long first, Long second, Long third) {
            add(query, first, second, third);
        }
    }

    private static String event(Query query, int place) {
        return "e" + place + "=" + query.types[place] + "(" + query.filter(place, ", ") + ")";
    }

    private static String write(Query query) {
        String second = "every " + event(query, 1);
        String third = "every " + event(query, 2);
        String ids = "e0.id, e1.id, e2.id";
        if (query.kind.equals("not")) {
            second = "(" + second + " and not " + query.absent + (query.keyed ? "(k = e0.k)" : "") + ")";
        }
        String rest = "(" + second + " -> " + third + ")";
        if (query.kind.equals("kleene")) { // all of the second type until the third; one that does not fit ends the run
            String key = query.keyed ? "k = e0.k" : "";
            String conditions = query.conditions(1, " and ");
            String more = "more=" + query.types[1] + "(" + key + ") until " + event(query, 2);
            rest = "(e1=" + query.types[1] + "(" + key + ") -> (" + more + "))";
            if (!conditions.isEmpty()) {
                String unfit = (key.isEmpty() ? "" : key + ", ") + "not (" + conditions + ")";
                rest = "(" + rest + " and not " + query.types[1] + "(" + unfit + "))";
            }
        }
        return "select " + ids + " from pattern [every " + event(query, 0) + " -> " + rest
                + " where timer:within(" + query.within + " milliseconds)]";
    }

    @Override
    void open(List<Query> queries) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCompiler().getByteCode().setAllowSubscriber(true);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        for (int type = 0; type < 15; type++) {
            configuration.getCommon().addEventType(
                    "T" + type, new String[] {"id", "k", "x", "y"}, new Object[] {long.class, long.class, double.class, double.class});
        }
        runtime = EPRuntimeProvider.getRuntime("r" + opened++, configuration);
        runtime.getEventService().advanceTime(0);
        for (Query query : queries) {
            EPCompiled compiled =
                    EPCompilerProvider.getCompiler().compile(write(query), new CompilerArguments(configuration));
            EPStatement[] statements =
                    runtime.getDeploymentService().deploy(compiled, new DeploymentOptions()).getStatements();
            statements[0].setSubscriber(new Subscriber(query.number));
        }
    }

    @Override
    void run(List<Event> events) {
        EPEventService service = runtime.getEventService();
        String[] names = new String[15];
        for (int type = 0; type < 15; type++) {
            names[type] = "T" + type;
        }
        for (Event event : events) {
            service.advanceTime(event.time);
            service.sendEventObjectArray(event.row, names[event.type]);
        }
    }

    @Override
    void close() {
        runtime.destroy();
    }

    public static void main(String[] args) throws Exception {
        main(args, EsperDetection::new);
    }
}
