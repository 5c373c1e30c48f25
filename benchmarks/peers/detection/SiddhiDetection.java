// Siddhi: every match of a sequence by nested `every`. Its `within` lets matches through that last longer.

import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.query.output.callback.QueryCallback;
import io.siddhi.core.stream.input.InputHandler;
import java.util.List;

public class SiddhiDetection extends Peer {
    private SiddhiManager manager;
    private SiddhiAppRuntime runtime;
    private final InputHandler[] inputs = new InputHandler[15];

    private static String event(Query query, int place) {
        String filter = query.filter(place, " and ");
        return "every e" + place + "=" + query.types[place] + (filter.isEmpty() ? "" : "[" + filter + "]");
    }

    @Override
    void open(List<Query> queries) throws Exception {
        StringBuilder app = new StringBuilder("@app:playback\n");
        for (int type = 0; type < 15; type++) {
            app.append("define stream T" + type + " (id long, k long, x double, y double);\n");
        }
        for (Query query : queries) {
            app.append("@info(name='q" + query.number + "') from " + event(query, 0) + " -> " + event(query, 1) + " -> "
                    + event(query, 2) + " within " + (query.within - 1) + " milliseconds "
                    + "select e0.id as a, e1.id as b, e2.id as c insert into Out" + query.number + ";\n");
        }
        manager = new SiddhiManager();
        runtime = manager.createSiddhiAppRuntime(app.toString());
        for (Query query : queries) {
            runtime.addCallback("q" + query.number, new QueryCallback() {
                @Override
                public void receive(long time, io.siddhi.core.event.Event[] found, io.siddhi.core.event.Event[] gone) {
                    for (io.siddhi.core.event.Event each : found) {
                        add(query.number, (Long) each.getData(0), (Long) each.getData(1), (Long) each.getData(2));
                    }
                }
            });
        }
        for (int type = 0; type < 15; type++) {
            inputs[type] = runtime.getInputHandler("T" + type);
        }
        runtime.start();
    }

    @Override
    void run(List<Event> events) throws Exception {
        for (Event event : events) {
            inputs[event.type].send(event.time, event.row);
        }
    }

    @Override
    void close() {
        runtime.shutdown();
        manager.shutdown();
    }

    public static void main(String[] args) throws Exception {
        main(args, SiddhiDetection::new);
    }
}
