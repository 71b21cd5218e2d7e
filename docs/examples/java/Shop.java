// A shop: java -cp 'jars/*' Shop.java seed | order CUSTOMER ITEM QUANTITY | report | watch

import static com.mongodb.client.model.Filters.and;
import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.setOnInsert;

import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Accumulators;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.UpdateOptions;
import java.util.Date;
import java.util.List;
import org.bson.Document;

public final class Shop {
    static final String USAGE = "usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch";

    record Item(String name, int price, int stock) {}

    static final List<Item> STOCK = List.of(new Item("coffee", 7, 10), new Item("tea", 4, 20), new Item("sugar", 2, 5));

    static final class NotEnough extends RuntimeException {
        private static final long serialVersionUID = 1;

        NotEnough(String item) {
            super("not enough " + item);
        }
    }

    final MongoClient client;
    final MongoCollection<Document> items, orders;

    Shop(MongoClient client) {
        this.client = client;
        items = client.getDatabase("shop").getCollection("items");
        orders = client.getDatabase("shop").getCollection("orders");
    }

    void seed() {
        for (Item item : STOCK) {
            items.updateOne(eq("_id", item.name()), combine(setOnInsert("price", item.price()), setOnInsert("stock", item.stock())),
                new UpdateOptions().upsert(true));
        }
        orders.createIndex(Indexes.compoundIndex(Indexes.ascending("item"), Indexes.descending("at")));
        System.out.println(items.countDocuments() + " items in stock");
    }

    void order(String customer, String name, int quantity) {
        try (ClientSession session = client.startSession()) {
            int left = session.withTransaction(() -> {
                // The condition and the change are one operation; a transaction adds the order, or takes the change back.
                Document item = items.findOneAndUpdate(session, and(eq("_id", name), gte("stock", quantity)), inc("stock", -quantity),
                    new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
                if (item == null) throw new NotEnough(name);
                orders.insertOne(session, new Document("customer", customer).append("item", name).append("quantity", quantity)
                    .append("price", quantity * item.getInteger("price")).append("at", new Date()));
                return item.getInteger("stock");
            });
            System.out.println(customer + " ordered " + quantity + " " + name + ", " + left + " left");
        }
    }

    void report() {
        for (Document row : orders.aggregate(List.of(
                Aggregates.group("$item", Accumulators.sum("quantity", "$quantity"), Accumulators.sum("orders", 1),
                    Accumulators.sum("price", "$price")),
                Aggregates.sort(Sorts.orderBy(Sorts.descending("price"), Sorts.ascending("_id")))))) {
            System.out.println(row.get("_id") + ": " + row.get("quantity") + " in " + row.get("orders") + " orders, " + row.get("price"));
        }
    }

    void watch() {
        try (var changes = orders.watch(List.of(Aggregates.match(Filters.eq("operationType", "insert")))).cursor()) {
            System.out.println("watching");
            while (changes.hasNext()) {
                Document order = changes.next().getFullDocument();
                System.out.println(order.get("customer") + ": " + order.get("quantity") + " " + order.get("item"));
            }
        }
    }

    static boolean run(Shop shop, String... arguments) {
        String command = arguments.length == 0 ? "" : arguments[0];
        if (command.equals("seed") && arguments.length == 1) shop.seed();
        else if (command.equals("order") && arguments.length == 4 && arguments[3].matches("\\d{1,9}"))
            shop.order(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        else if (command.equals("report") && arguments.length == 1) shop.report();
        else if (command.equals("watch") && arguments.length == 1) shop.watch();
        else return false;
        return true;
    }

    public static void main(String[] arguments) {
        String uri = System.getenv().getOrDefault("SHOP_URI", "mongodb://127.0.0.1:27017/?replicaSet=rs0");
        int status = 0;
        try (MongoClient client = MongoClients.create(uri)) {
            if (!run(new Shop(client), arguments)) {
                System.err.println(USAGE);
                status = 2;
            }
        } catch (NotEnough error) {
            System.err.println(error.getMessage());
            status = 1;
        }
        System.exit(status);
    }
}
