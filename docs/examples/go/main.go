// A shop: go run . seed | order CUSTOMER ITEM QUANTITY | report | watch
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const usage = "usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch"

type item struct {
	Name  string `bson:"_id"`
	Price int    `bson:"price"`
	Stock int    `bson:"stock"`
}

type order struct {
	Customer string    `bson:"customer"`
	Item     string    `bson:"item"`
	Quantity int       `bson:"quantity"`
	Price    int       `bson:"price"`
	At       time.Time `bson:"at"`
}

type shop struct {
	client        *mongo.Client
	items, orders *mongo.Collection
}

func (s shop) seed(ctx context.Context) error {
	for _, each := range []item{{"coffee", 7, 10}, {"tea", 4, 20}, {"sugar", 2, 5}} {
		insert := bson.M{"$setOnInsert": bson.M{"price": each.Price, "stock": each.Stock}}
		if _, err := s.items.UpdateByID(ctx, each.Name, insert, options.UpdateOne().SetUpsert(true)); err != nil {
			return err
		}
	}
	_, err := s.orders.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "item", Value: 1}, {Key: "at", Value: -1}}})
	if err != nil {
		return err
	}
	count, err := s.items.CountDocuments(ctx, bson.M{})
	if err == nil {
		fmt.Println(count, "items in stock")
	}
	return err
}

func (s shop) order(ctx context.Context, customer, name string, quantity int) error {
	session, err := s.client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	left, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		// The condition and the change are one operation; a transaction adds the order, or takes the change back.
		var taken item
		err := s.items.FindOneAndUpdate(ctx,
			bson.M{"_id": name, "stock": bson.M{"$gte": quantity}}, bson.M{"$inc": bson.M{"stock": -quantity}},
			options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&taken)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil, fmt.Errorf("not enough %s", name)
		} else if err != nil {
			return nil, err
		}
		_, err = s.orders.InsertOne(ctx, order{customer, name, quantity, quantity * taken.Price, time.Now()})
		return taken.Stock, err
	})
	if err == nil {
		fmt.Printf("%s ordered %d %s, %d left\n", customer, quantity, name, left)
	}
	return err
}

func (s shop) report(ctx context.Context) error {
	cursor, err := s.orders.Aggregate(ctx, bson.A{
		bson.M{"$group": bson.M{"_id": "$item", "quantity": bson.M{"$sum": "$quantity"}, "orders": bson.M{"$sum": 1},
			"price": bson.M{"$sum": "$price"}}},
		bson.M{"$sort": bson.D{{Key: "price", Value: -1}, {Key: "_id", Value: 1}}},
	})
	if err != nil {
		return err
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		var row struct {
			Item                    string `bson:"_id"`
			Quantity, Orders, Price int
		}
		if err := cursor.Decode(&row); err != nil {
			return err
		}
		fmt.Printf("%s: %d in %d orders, %d\n", row.Item, row.Quantity, row.Orders, row.Price)
	}
	return cursor.Err()
}

func (s shop) watch(ctx context.Context) error {
	changes, err := s.orders.Watch(ctx, bson.A{bson.M{"$match": bson.M{"operationType": "insert"}}})
	if err != nil {
		return err
	}
	defer changes.Close(ctx)
	fmt.Println("watching")
	for changes.Next(ctx) {
		var change struct {
			FullDocument order `bson:"fullDocument"`
		}
		if err := changes.Decode(&change); err != nil {
			return err
		}
		fmt.Printf("%s: %d %s\n", change.FullDocument.Customer, change.FullDocument.Quantity, change.FullDocument.Item)
	}
	return changes.Err()
}

func run(arguments []string) (bool, error) {
	uri := os.Getenv("SHOP_URI")
	if uri == "" {
		uri = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return true, err
	}
	ctx := context.Background()
	defer client.Disconnect(ctx)
	s := shop{client, client.Database("shop").Collection("items"), client.Database("shop").Collection("orders")}
	switch {
	case len(arguments) == 1 && arguments[0] == "seed":
		return true, s.seed(ctx)
	case len(arguments) == 4 && arguments[0] == "order":
		quantity, err := strconv.Atoi(arguments[3])
		if err != nil || quantity < 0 {
			return false, nil
		}
		return true, s.order(ctx, arguments[1], arguments[2], quantity)
	case len(arguments) == 1 && arguments[0] == "report":
		return true, s.report(ctx)
	case len(arguments) == 1 && arguments[0] == "watch":
		return true, s.watch(ctx)
	}
	return false, nil
}

func main() {
	understood, err := run(os.Args[1:])
	if !understood {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
