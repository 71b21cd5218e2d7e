// The Java driver against treedb serve: scripts/client_tests.sh java

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gt;
import static com.mongodb.client.model.Filters.in;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.push;
import static com.mongodb.client.model.Updates.set;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.mongodb.ConnectionString;
import com.mongodb.ErrorCategory;
import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoCredential;
import com.mongodb.MongoException;
import com.mongodb.MongoSecurityException;
import com.mongodb.MongoWriteException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.gridfs.model.GridFSUploadOptions;
import com.mongodb.client.model.Accumulators;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.BulkWriteOptions;
import com.mongodb.client.model.CreateCollectionOptions;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.InsertOneModel;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import com.mongodb.client.model.changestream.FullDocument;
import com.mongodb.client.model.changestream.OperationType;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.bson.BsonDocument;
import org.bson.BsonRegularExpression;
import org.bson.BsonTimestamp;
import org.bson.Document;
import org.bson.types.Binary;
import org.bson.types.Decimal128;
import org.bson.types.ObjectId;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class DriverTest {
    static final ConnectionString URI = new ConnectionString(System.getenv("TREEDB_URI"));
    static MongoClient client;
    static MongoDatabase db;
    MongoCollection<Document> items;

    static MongoClientSettings.Builder settings() {
        return MongoClientSettings.builder().applyConnectionString(URI)
            .applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(5, TimeUnit.SECONDS));
    }

    @BeforeAll
    static void connect() {
        client = MongoClients.create(settings().build());
        db = client.getDatabase("java_driver");
    }

    @AfterAll
    static void close() {
        db.drop();
        client.close();
    }

    @BeforeEach
    void empty() {
        db.drop();
        items = db.getCollection("items");
    }

    static Document doc(Object... fields) {
        Document document = new Document();
        for (int i = 0; i < fields.length; i += 2) document.append((String) fields[i], fields[i + 1]);
        return document;
    }

    static void failPoint(String name, Document data) {
        client.getDatabase("admin").runCommand(doc("configureFailPoint", name, "mode", doc("times", 1), "data", data));
    }

    static void refused(int code, Executable run) {
        assertEquals(code, assertThrows(MongoException.class, run).getCode());
    }

    @Test
    void documentsAreCreatedReadUpdatedAndDeleted() {
        items.insertMany(List.of(doc("title", "a", "year", 1990), doc("title", "b", "year", 1991, "cast", List.of("x", "y"))));
        assertEquals("b", items.find(eq("cast", "y")).first().getString("title"));
        assertEquals(2, items.updateMany(gt("year", 0), combine(inc("year", 10), push("cast", "z"))).getModifiedCount());
        assertNotNull(items.updateOne(eq("title", "c"), set("year", 1), new UpdateOptions().upsert(true)).getUpsertedId());
        Document after = items.findOneAndUpdate(eq("title", "c"), set("seen", true),
            new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
        assertTrue(after.getBoolean("seen"));
        assertEquals(Set.of("x", "y", "z"), items.distinct("cast", String.class).into(new HashSet<>()));
        assertEquals(2, items.deleteMany(in("title", "a", "c")).getDeletedCount());
        assertEquals(1, items.countDocuments());
        assertEquals(1, items.estimatedDocumentCount());
        assertNull(items.find(eq("title", "z")).first());
    }

    @Test
    void everyTypeComesBackAsItWasSent() {
        Document sent = doc("_id", new ObjectId(), "int", 5, "long", 1L << 60, "double", 1.5,
            "decimal", new Decimal128(new BigDecimal("1.10")), "date", new Date(0), "binary", new Binary((byte) 5, new byte[] {0, -1}),
            "regex", new BsonRegularExpression("a+", "i"), "timestamp", new BsonTimestamp(5, 6), "nothing", null,
            "list", List.of(1, List.of(2)), "nested", doc("a", doc("b", true)));
        items.insertOne(sent);
        MongoCollection<BsonDocument> raw = items.withDocumentClass(BsonDocument.class);
        assertEquals(sent.toBsonDocument(BsonDocument.class, MongoClientSettings.getDefaultCodecRegistry()), raw.find().first());
    }

    @Test
    void indexesAreMadeListedUsedAndDropped() {
        items.insertMany(IntStream.range(0, 200).mapToObj(i -> doc("a", i % 10, "b", i)).toList());
        assertEquals("a_1_b_-1", items.createIndex(Indexes.compoundIndex(Indexes.ascending("a"), Indexes.descending("b"))));
        items.createIndex(Indexes.ascending("b"), new IndexOptions().unique(true).partialFilterExpression(gt("b", 5)));
        assertEquals(3, items.listIndexes().into(new ArrayList<>()).size());
        Document plan = items.find(eq("a", 3)).sort(Sorts.descending("b")).explain().get("executionStats", Document.class);
        assertEquals(20, ((Number) plan.get("totalDocsExamined")).intValue());
        refused(11000, () -> items.insertOne(doc("b", 150)));
        refused(86, () -> items.createIndex(Indexes.descending("a"), new IndexOptions().name("a_1_b_-1")));
        items.dropIndex("a_1_b_-1");
        assertEquals(2, items.listIndexes().into(new ArrayList<>()).size());
    }

    @Test
    void anAggregationRunsOverSeveralBatchesAndCollections() {
        items.insertMany(IntStream.range(0, 500).mapToObj(i -> doc("_id", i, "customer", i % 50)).toList());
        db.getCollection("customers").insertMany(IntStream.range(0, 50).mapToObj(i -> doc("_id", i, "name", "c" + i)).toList());
        List<Document> rows = items.aggregate(List.of(
            Aggregates.group("$customer", Accumulators.sum("n", 1)), Aggregates.sort(Sorts.ascending("_id")),
            Aggregates.lookup("customers", "_id", "_id", "found"))).batchSize(7).into(new ArrayList<>());
        assertEquals(50, rows.size());
        assertEquals(doc("_id", 49, "n", 10, "found", List.of(doc("_id", 49, "name", "c49"))), rows.get(49));
    }

    @Test
    void aCursorGoesBeyondOneBatch() {
        items.insertMany(IntStream.range(0, 1000).mapToObj(i -> doc("_id", i)).toList());
        int seen = 0;
        for (Document each : items.find().sort(Sorts.ascending("_id")).batchSize(99)) assertEquals(seen++, each.getInteger("_id"));
        assertEquals(1000, seen);
        MongoCursor<Document> cursor = items.find().batchSize(10).cursor();
        cursor.next();
        long id = cursor.getServerCursor().getId();
        cursor.close();
        refused(43, () -> db.runCommand(doc("getMore", id, "collection", "items")));
    }

    @Test
    void transactionsThatMeetAreTriedAgainUntilEachHasHadItsTurn() throws Exception {
        items.insertOne(doc("_id", 1, "n", 0));
        Callable<Integer> add = () -> {
            try (ClientSession session = client.startSession()) {
                return session.withTransaction(() -> {
                    int n = items.find(session, eq("_id", 1)).first().getInteger("n");
                    items.updateOne(session, eq("_id", 1), set("n", n + 1));
                    return n;
                });
            }
        };
        var threads = Executors.newFixedThreadPool(8);
        for (Future<Integer> each : threads.invokeAll(Collections.nCopies(8, add))) each.get();
        threads.shutdown();
        assertEquals(8, items.find().first().getInteger("n"));
    }

    @Test
    void anAbortedTransactionLeavesNothing() {
        items.insertOne(doc("_id", 0));
        try (ClientSession session = client.startSession()) {
            session.startTransaction();
            items.insertOne(session, doc("_id", 1));
            assertEquals(2, items.countDocuments(session));
            assertEquals(1, items.countDocuments());
            session.abortTransaction();
        }
        assertEquals(1, items.countDocuments());
    }

    @Test
    void aChangeStreamShowsChangesAndResumes() {
        items.insertOne(doc("_id", 0));
        ChangeStreamDocument<Document> insert;
        try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> stream =
                 items.watch().fullDocument(FullDocument.UPDATE_LOOKUP).cursor()) {
            items.insertOne(doc("_id", 1));
            items.updateOne(eq("_id", 1), set("a", 5));
            insert = stream.next();
            assertEquals(OperationType.INSERT, insert.getOperationType());
            assertEquals(5, stream.next().getFullDocument().getInteger("a"));
        }
        try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> stream = db.watch().resumeAfter(insert.getResumeToken()).cursor()) {
            assertEquals(OperationType.UPDATE, stream.next().getOperationType());
        }
    }

    @Test
    void aWriteWhoseConnectionBreaksIsSentAgainAndDoneOnce() {
        items.insertOne(doc("_id", 1, "n", 0));
        failPoint("failCommand", doc("failCommands", List.of("update"), "closeConnection", true));
        items.updateOne(eq("_id", 1), inc("n", 1));
        failPoint("onPrimaryTransactionalWrite", doc("closeConnection", true));
        items.updateOne(eq("_id", 1), inc("n", 1));
        failPoint("failCommand", doc("failCommands", List.of("find"), "closeConnection", true));
        assertEquals(2, items.find().first().getInteger("n"));
    }

    @Test
    void aBulkWriteReportsWhatFailed() {
        MongoBulkWriteException failed = assertThrows(MongoBulkWriteException.class, () -> items.bulkWrite(List.of(
            new InsertOneModel<>(doc("_id", 1)), new InsertOneModel<>(doc("_id", 1)),
            new UpdateOneModel<>(eq("_id", 1), set("a", 1))), new BulkWriteOptions().ordered(false)));
        assertEquals(1, failed.getWriteErrors().size());
        assertEquals(1, failed.getWriteErrors().get(0).getIndex());
        assertEquals(1, failed.getWriteResult().getModifiedCount());
    }

    @Test
    void errorsHaveTheCodesThatApplicationsLookFor() {
        items.insertOne(doc("_id", 1));
        MongoWriteException twice = assertThrows(MongoWriteException.class, () -> items.insertOne(doc("_id", 1)));
        assertEquals(ErrorCategory.DUPLICATE_KEY, twice.getError().getCategory());
        refused(2, () -> items.find(doc("$bad", 1)).first());
        refused(66, () -> items.updateOne(eq("_id", 1), set("_id", 2)));
        refused(40324, () -> items.aggregate(List.of(doc("$nonsense", 1))).first());
        MongoCommandException unknown = assertThrows(MongoCommandException.class, () -> db.runCommand(doc("nonsense", 1)));
        assertEquals("CommandNotFound", unknown.getErrorCodeName());
        refused(48, () -> db.createCollection("items", new CreateCollectionOptions().capped(true).sizeInBytes(1000)));
    }

    @Test
    void aWrongPasswordIsRefused() {
        var wrong = settings().credential(MongoCredential.createCredential("root", "admin", "wrong".toCharArray())).build();
        try (MongoClient other = MongoClients.create(wrong)) {
            assertThrows(MongoSecurityException.class, () -> other.getDatabase("x").listCollectionNames().first());
        }
        db.runCommand(doc("ping", 1));
    }

    @Test
    void aFileOfGridFSComesBackWhole() {
        byte[] content = new byte[1_234_567];
        new Random(5).nextBytes(content);
        var bucket = GridFSBuckets.create(db);
        ObjectId id = bucket.uploadFromStream("photo", new ByteArrayInputStream(content), new GridFSUploadOptions().chunkSizeBytes(100_000));
        var found = new ByteArrayOutputStream();
        bucket.downloadToStream("photo", found);
        assertArrayEquals(content, found.toByteArray());
        bucket.delete(id);
        assertEquals(0, db.getCollection("fs.chunks").countDocuments());
    }
}
