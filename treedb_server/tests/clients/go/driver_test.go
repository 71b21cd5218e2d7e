// The Go driver against treedb serve: scripts/client_tests.sh go
package driver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var client *mongo.Client

func TestMain(m *testing.M) {
	uri := os.Getenv("TREEDB_URI")
	if uri == "" {
		fmt.Fprintln(os.Stderr, "TREEDB_URI is not set: run scripts/client_tests.sh go")
		os.Exit(2)
	}
	var err error
	client, err = mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(5 * time.Second))
	if err != nil {
		panic(err)
	}
	status := m.Run()
	_ = client.Disconnect(context.Background())
	os.Exit(status)
}

// collection returns an empty collection, whose database is dropped after the test.
func collection(t *testing.T) (context.Context, *mongo.Collection) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	db := client.Database(strings.ToLower(t.Name()))
	must(t, db.Drop(ctx))
	t.Cleanup(func() {
		_ = db.Drop(context.Background())
		cancel()
	})
	return ctx, db.Collection("items")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

func equal[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

func hasCode(t *testing.T, err error, code int) {
	t.Helper()
	var failure mongo.ServerError
	if !errors.As(err, &failure) || !failure.HasErrorCode(code) {
		t.Fatalf("wanted the code %d, got %v", code, err)
	}
}

func failPoint(t *testing.T, command bson.D) {
	t.Helper()
	must(t, client.Database("admin").RunCommand(context.Background(), command).Err())
}

type film struct {
	ID     bson.ObjectID `bson:"_id,omitempty"`
	Title  string        `bson:"title"`
	Year   int           `bson:"year"`
	Cast   []string      `bson:"cast,omitempty"`
	Seen   *time.Time    `bson:"seen,omitempty"`
	Rating struct {
		Stars float64 `bson:"stars"`
	} `bson:"rating"`
}

func TestDocumentsAreCreatedReadUpdatedAndDeleted(t *testing.T) {
	ctx, films := collection(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	first := film{Title: "a", Year: 1990, Cast: []string{"x", "y"}, Seen: &now}
	first.Rating.Stars = 4.5
	inserted := get(films.InsertMany(ctx, []any{first, film{Title: "b", Year: 1991}}))(t)
	equal(t, len(inserted.InsertedIDs), 2)
	var found film
	must(t, films.FindOne(ctx, bson.D{{"cast", "y"}}).Decode(&found))
	equal(t, found.ID, inserted.InsertedIDs[0].(bson.ObjectID))
	equal(t, *found.Seen, now)
	equal(t, found.Rating.Stars, 4.5)
	updated := get(films.UpdateMany(ctx, bson.D{}, bson.D{{"$inc", bson.D{{"year", 10}}}}))(t)
	equal(t, updated.ModifiedCount, 2)
	upserted := get(films.UpdateOne(ctx, bson.D{{"title", "c"}}, bson.D{{"$set", bson.D{{"year", 1}}}}, options.UpdateOne().SetUpsert(true)))(t)
	equal(t, upserted.UpsertedCount, 1)
	must(t, films.FindOneAndUpdate(ctx, bson.D{{"title", "b"}}, bson.A{bson.D{{"$set", bson.D{{"year", bson.D{{"$add", bson.A{"$year", 1}}}}}}}},
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&found))
	equal(t, found.Year, 2002)
	equal(t, get(films.DeleteMany(ctx, bson.D{{"year", bson.D{{"$gt", 1}}}}))(t).DeletedCount, 2)
	equal(t, get(films.CountDocuments(ctx, bson.D{}))(t), 1)
	if err := films.FindOne(ctx, bson.D{{"title", "z"}}).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Fatal(err)
	}
}

func TestIndexesAreMadeListedUsedAndDropped(t *testing.T) {
	ctx, items := collection(t)
	names := get(items.Indexes().CreateMany(ctx, []mongo.IndexModel{
		{Keys: bson.D{{"a", 1}, {"b", -1}}},
		{Keys: bson.D{{"u", 1}}, Options: options.Index().SetUnique(true).SetSparse(true).SetName("unique")},
	}))(t)
	equal(t, strings.Join(names, " "), "a_1_b_-1 unique")
	_, err := items.InsertMany(ctx, []any{bson.D{{"u", 1}}, bson.D{{"u", 1}}})
	equal(t, mongo.IsDuplicateKeyError(err), true)
	specifications := get(items.Indexes().ListSpecifications(ctx))(t)
	equal(t, len(specifications), 3)
	equal(t, *specifications[2].Unique, true)
	must(t, items.Indexes().DropOne(ctx, "unique"))
	_, err = items.Find(ctx, bson.D{}, options.Find().SetHint("unique"))
	hasCode(t, err, 2)
	must(t, items.Indexes().DropAll(ctx))
	equal(t, len(get(items.Indexes().ListSpecifications(ctx))(t)), 1)
}

func TestAnAggregationRunsOverSeveralBatches(t *testing.T) {
	ctx, items := collection(t)
	var documents []any
	for i := range 400 {
		documents = append(documents, bson.D{{"_id", i}, {"group", i % 40}, {"n", i}})
	}
	get(items.InsertMany(ctx, documents))(t)
	cursor := get(items.Aggregate(ctx, mongo.Pipeline{
		{{"$group", bson.D{{"_id", "$group"}, {"sum", bson.D{{"$sum", "$n"}}}}}},
		{{"$sort", bson.D{{"_id", 1}}}},
	}, options.Aggregate().SetBatchSize(7)))(t)
	var rows []struct {
		Group int `bson:"_id"`
		Sum   int
	}
	must(t, cursor.All(ctx, &rows))
	equal(t, len(rows), 40)
	equal(t, rows[39].Sum, 39*10+40*45)
}

func TestACursorGoesBeyondOneBatch(t *testing.T) {
	ctx, items := collection(t)
	var documents []any
	for i := range 1000 {
		documents = append(documents, bson.D{{"_id", i}})
	}
	get(items.InsertMany(ctx, documents))(t)
	cursor := get(items.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{"_id", 1}}).SetBatchSize(99)))(t)
	seen := 0
	for cursor.Next(ctx) {
		equal(t, cursor.Current.Lookup("_id").AsInt64(), int64(seen))
		seen++
	}
	must(t, cursor.Err())
	equal(t, seen, 1000)
	cursor = get(items.Find(ctx, bson.D{}, options.Find().SetBatchSize(10)))(t)
	id := cursor.ID()
	must(t, cursor.Close(ctx))
	hasCode(t, items.Database().RunCommand(ctx, bson.D{{"getMore", id}, {"collection", "items"}}).Err(), 43)
}

func TestTransactionsThatMeetAreTriedAgainUntilEachHasHadItsTurn(t *testing.T) {
	ctx, items := collection(t)
	get(items.InsertOne(ctx, bson.D{{"_id", 1}, {"n", 0}}))(t)
	var group sync.WaitGroup
	failures := make(chan error, 8)
	for range 8 {
		group.Go(func() {
			failures <- client.UseSession(ctx, func(ctx context.Context) error {
				_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
					var found struct{ N int }
					if err := items.FindOne(ctx, bson.D{{"_id", 1}}).Decode(&found); err != nil {
						return nil, err
					}
					return items.UpdateOne(ctx, bson.D{{"_id", 1}}, bson.D{{"$set", bson.D{{"n", found.N + 1}}}})
				})
				return err
			})
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		must(t, err)
	}
	var found struct{ N int }
	must(t, items.FindOne(ctx, bson.D{}).Decode(&found))
	equal(t, found.N, 8)
}

func TestAnAbortedTransactionLeavesNothing(t *testing.T) {
	ctx, items := collection(t)
	stop := errors.New("changed my mind")
	err := client.UseSession(ctx, func(ctx context.Context) error {
		_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
			if _, err := items.InsertOne(ctx, bson.D{{"_id", 1}}); err != nil {
				return nil, err
			}
			equal(t, get(items.CountDocuments(ctx, bson.D{}))(t), 1)
			return nil, stop
		})
		return err
	})
	equal(t, errors.Is(err, stop), true)
	equal(t, get(items.CountDocuments(ctx, bson.D{}))(t), 0)
}

func TestAChangeStreamShowsChangesAndResumes(t *testing.T) {
	ctx, items := collection(t)
	get(items.InsertOne(ctx, bson.D{{"_id", 0}}))(t)
	stream := get(items.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetFullDocument(options.UpdateLookup)))(t)
	get(items.InsertOne(ctx, bson.D{{"_id", 1}}))(t)
	get(items.UpdateByID(ctx, 1, bson.D{{"$set", bson.D{{"a", 5}}}}))(t)
	var event struct {
		OperationType string
		FullDocument  bson.M
	}
	equal(t, stream.Next(ctx), true)
	must(t, stream.Decode(&event))
	equal(t, event.OperationType, "insert")
	token := stream.ResumeToken()
	must(t, stream.Close(ctx))
	stream = get(client.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(token).SetFullDocument(options.UpdateLookup)))(t)
	equal(t, stream.Next(ctx), true)
	must(t, stream.Decode(&event))
	equal(t, event.OperationType, "update")
	equal(t, event.FullDocument["a"].(int32), 5)
	must(t, stream.Close(ctx))
}

func TestAWriteWhoseConnectionBreaksIsSentAgainAndDoneOnce(t *testing.T) {
	ctx, items := collection(t)
	get(items.InsertOne(ctx, bson.D{{"_id", 1}, {"n", 0}}))(t)
	add := func() { get(items.UpdateByID(ctx, 1, bson.D{{"$inc", bson.D{{"n", 1}}}}))(t) }
	failPoint(t, bson.D{{"configureFailPoint", "failCommand"}, {"mode", bson.D{{"times", 1}}},
		{"data", bson.D{{"failCommands", bson.A{"update"}}, {"closeConnection", true}}}})
	add()
	failPoint(t, bson.D{{"configureFailPoint", "onPrimaryTransactionalWrite"}, {"mode", bson.D{{"times", 1}}},
		{"data", bson.D{{"closeConnection", true}}}})
	add()
	failPoint(t, bson.D{{"configureFailPoint", "failCommand"}, {"mode", bson.D{{"times", 1}}},
		{"data", bson.D{{"failCommands", bson.A{"find"}}, {"closeConnection", true}}}})
	var found struct{ N int }
	must(t, items.FindOne(ctx, bson.D{}).Decode(&found))
	equal(t, found.N, 2)
}

func TestABulkWriteReportsWhatFailed(t *testing.T) {
	ctx, items := collection(t)
	_, err := items.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.D{{"_id", 1}}),
		mongo.NewInsertOneModel().SetDocument(bson.D{{"_id", 1}}),
		mongo.NewUpdateOneModel().SetFilter(bson.D{{"_id", 1}}).SetUpdate(bson.D{{"$set", bson.D{{"a", 1}}}}),
	}, options.BulkWrite().SetOrdered(false))
	var failed mongo.BulkWriteException
	equal(t, errors.As(err, &failed), true)
	equal(t, len(failed.WriteErrors), 1)
	equal(t, failed.WriteErrors[0].Index, 1)
	equal(t, failed.WriteErrors[0].Code, 11000)
	equal(t, get(items.CountDocuments(ctx, bson.D{{"a", 1}}))(t), 1)
}

func TestABulkWriteOfTheClientWritesToSeveralCollections(t *testing.T) {
	ctx, items := collection(t)
	db := items.Database()
	to := func(collection string, model mongo.ClientWriteModel) mongo.ClientBulkWrite {
		return mongo.ClientBulkWrite{Database: db.Name(), Collection: collection, Model: model}
	}
	insert := func(collection string, id int) mongo.ClientBulkWrite {
		return to(collection, mongo.NewClientInsertOneModel().SetDocument(bson.D{{"_id", id}}))
	}
	done := get(client.BulkWrite(ctx, []mongo.ClientBulkWrite{
		insert("a", 1), insert("b", 1),
		to("a", mongo.NewClientUpdateOneModel().SetFilter(bson.D{{"_id", 2}}).SetUpdate(bson.D{{"$set", bson.D{{"n", 1}}}}).SetUpsert(true)),
		to("a", mongo.NewClientUpdateManyModel().SetFilter(bson.D{}).SetUpdate(bson.D{{"$set", bson.D{{"x", 1}}}})),
		to("b", mongo.NewClientDeleteOneModel().SetFilter(bson.D{{"_id", 1}})),
	}, options.ClientBulkWrite().SetVerboseResults(true)))(t)
	equal(t, fmt.Sprint(done.InsertedCount, done.UpsertedCount, done.MatchedCount, done.ModifiedCount, done.DeletedCount), "2 1 2 2 1")
	equal(t, done.UpdateResults[2].UpsertedID.(int32), 2)
	equal(t, done.UpdateResults[3].ModifiedCount, 2)
	equal(t, done.DeleteResults[4].DeletedCount, 1)
	_, err := client.BulkWrite(ctx, []mongo.ClientBulkWrite{insert("a", 3), insert("a", 1), insert("b", 3)}, options.ClientBulkWrite().SetOrdered(false))
	var failed mongo.ClientBulkWriteException
	equal(t, errors.As(err, &failed), true)
	equal(t, len(failed.WriteErrors), 1)
	equal(t, failed.WriteErrors[1].Code, 11000)
	equal(t, failed.PartialResult.InsertedCount, 2)
}

func TestErrorsHaveTheCodesThatApplicationsLookFor(t *testing.T) {
	ctx, items := collection(t)
	get(items.InsertOne(ctx, bson.D{{"_id", 1}}))(t)
	_, err := items.Find(ctx, bson.D{{"$bad", 1}})
	hasCode(t, err, 2)
	_, err = items.UpdateByID(ctx, 1, bson.D{{"$set", bson.D{{"_id", 2}}}})
	hasCode(t, err, 66)
	_, err = items.Aggregate(ctx, mongo.Pipeline{{{"$nonsense", 1}}})
	hasCode(t, err, 40324)
	hasCode(t, items.Database().RunCommand(ctx, bson.D{{"nonsense", 1}}).Err(), 59)
	hasCode(t, items.Database().CreateCollection(ctx, "items", options.CreateCollection().SetCapped(true).SetSizeInBytes(1000)), 48)
	wrong, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("TREEDB_URI")).
		SetAuth(options.Credential{Username: "root", Password: "wrong"}).SetServerSelectionTimeout(5 * time.Second))
	must(t, err)
	err = wrong.Ping(ctx, nil)
	if err != nil {
		equal(t, strings.Contains(err.Error(), "AuthenticationFailed"), true)
	} else {
		t.Fatal("a wrong password was accepted")
	}
	_ = wrong.Disconnect(ctx)
	must(t, client.Ping(ctx, nil))
}

func TestAFileOfGridFSComesBackWhole(t *testing.T) {
	ctx, items := collection(t)
	bucket := items.Database().GridFSBucket(options.GridFSBucket().SetChunkSizeBytes(100_000))
	content := make([]byte, 1_234_567)
	_, _ = rand.Read(content)
	id := get(bucket.UploadFromStream(ctx, "photo", bytes.NewReader(content)))(t)
	stream := get(bucket.OpenDownloadStream(ctx, id))(t)
	equal(t, bytes.Equal(get(io.ReadAll(stream))(t), content), true)
	must(t, bucket.Delete(ctx, id))
	equal(t, get(items.Database().Collection("fs.chunks").CountDocuments(ctx, bson.D{}))(t), 0)
}
