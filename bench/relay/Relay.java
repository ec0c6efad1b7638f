import java.lang.management.ManagementFactory;
import java.util.PriorityQueue;
import java.util.Scanner;

/** In the manner of PeerSim: a heap of events, and one method that processes them. */
public class Relay {
    record Event(long timeUs, long serial, int at, Object message) implements Comparable<Event> {
        public int compareTo(Event other) {
            return timeUs != other.timeUs ? Long.compare(timeUs, other.timeUs) : Long.compare(serial, other.serial);
        }
    }

    record Message(int left) {}

    private final PriorityQueue<Event> agenda = new PriorityQueue<>();
    private final int[] onward, delayUs;
    private long nowUs, serial;

    Relay(int peers, Scanner lists) {
        onward = new int[peers];
        delayUs = new int[peers];
        for (int i = 0; i < peers; i++) { onward[i] = lists.nextInt(); delayUs[i] = lists.nextInt(); }
    }

    void send(int from, Object message) {
        agenda.add(new Event(nowUs + delayUs[from], ++serial, onward[from], message));
    }

    void processEvent(int at, Object message) {
        if (message instanceof Message relay && relay.left() > 0) send(at, new Message(relay.left() - 1));
    }

    public static void main(String[] words) {
        int peers = Integer.parseInt(words[0]), inFlight = Integer.parseInt(words[1]), hops = Integer.parseInt(words[2]);
        Relay world = new Relay(peers, new Scanner(System.in));
        var clock = ManagementFactory.getThreadMXBean();
        long begun = clock.getCurrentThreadCpuTime();
        for (int i = 0; i < inFlight; i++) world.send(i, new Message(hops - 1));
        while (!world.agenda.isEmpty()) {
            Event event = world.agenda.poll();
            world.nowUs = event.timeUs();
            world.processEvent(event.at(), event.message());
        }
        System.out.println((clock.getCurrentThreadCpuTime() - begun) / 1e9);
    }
}
