/* Objects, a few threads and a collection. javac Small.java; java Small */
import java.util.ArrayList;
import java.util.TreeMap;

class Small {
    public static void main(String[] arguments) throws Exception {
        long[] sums = new long[2];
        ArrayList<Thread> threads = new ArrayList<>();
        for (int part = 0; part < sums.length; part++) {
            int mine = part;
            threads.add(new Thread(() -> {
                TreeMap<Integer, String> map = new TreeMap<>();
                for (int n = 0; n < 5000; n++) map.put(n * 7919 % 5003, "value " + n);
                for (String text : map.values()) sums[mine] += text.hashCode();
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        System.gc();
        System.out.println(sums[0] + " " + sums[1]);
        System.exit(5);
    }
}
