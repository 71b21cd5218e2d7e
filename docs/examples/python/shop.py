"""A shop: python shop.py seed | order CUSTOMER ITEM QUANTITY | report | watch"""
import os
import sys
from datetime import datetime, timezone

from pymongo import ASCENDING, DESCENDING, MongoClient, ReturnDocument

USAGE = "usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch"
STOCK = [("coffee", 7, 10), ("tea", 4, 20), ("sugar", 2, 5)]


class NotEnough(Exception):
    """There is less in stock than was ordered."""


def seed(shop):
    for name, price, stock in STOCK:
        shop.items.update_one({"_id": name}, {"$setOnInsert": {"price": price, "stock": stock}}, upsert=True)
    shop.orders.create_index([("item", ASCENDING), ("at", DESCENDING)])
    print(f"{shop.items.count_documents({})} items in stock")


def order(shop, customer, name, quantity):
    def take(session):
        # The condition and the change are one operation; a transaction adds the order, or takes the change back.
        item = shop.items.find_one_and_update(
            {"_id": name, "stock": {"$gte": quantity}}, {"$inc": {"stock": -quantity}},
            return_document=ReturnDocument.AFTER, session=session)
        if item is None:
            raise NotEnough(f"not enough {name}")
        shop.orders.insert_one(
            {"customer": customer, "item": name, "quantity": quantity, "price": quantity * item["price"],
             "at": datetime.now(timezone.utc)}, session=session)
        return item["stock"]

    with shop.client.start_session() as session:
        left = session.with_transaction(take)
    print(f"{customer} ordered {quantity} {name}, {left} left")


def report(shop):
    for row in shop.orders.aggregate([
        {"$group": {"_id": "$item", "quantity": {"$sum": "$quantity"}, "orders": {"$sum": 1}, "price": {"$sum": "$price"}}},
        {"$sort": {"price": -1, "_id": 1}},
    ]):
        print(f"{row['_id']}: {row['quantity']} in {row['orders']} orders, {row['price']}")


def watch(shop):
    with shop.orders.watch([{"$match": {"operationType": "insert"}}]) as changes:
        print("watching", flush=True)
        for change in changes:
            order = change["fullDocument"]
            print(f"{order['customer']}: {order['quantity']} {order['item']}", flush=True)


def main(arguments):
    with MongoClient(os.environ.get("SHOP_URI", "mongodb://127.0.0.1:27017/?replicaSet=rs0")) as client:
        match arguments:
            case ["seed"]:
                seed(client.shop)
            case ["order", customer, item, quantity] if quantity.isdecimal():
                order(client.shop, customer, item, int(quantity))
            case ["report"]:
                report(client.shop)
            case ["watch"]:
                watch(client.shop)
            case _:
                print(USAGE, file=sys.stderr)
                return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NotEnough as error:
        sys.exit(str(error))
