"""The application of docs/examples, which does the same in every language: TREEDB_EXAMPLE has the command, TREEDB_URI the
server."""
import os
import signal
import subprocess
import threading

import pymongo
import pytest

COMMAND = os.environ["TREEDB_EXAMPLE"].split("\n")
URI = os.environ["TREEDB_URI"]


def shop(*arguments):
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SHOP_URI": URI})
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture
def database():
    with pymongo.MongoClient(URI, serverSelectionTimeoutMS=5000) as client:
        client.drop_database("shop")
        yield client.shop
        client.drop_database("shop")


def test_the_stock_is_filled_once(database):
    for _ in range(2):
        status, lines, error = shop("seed")
        assert (status, lines) == (0, ["3 items in stock"]), error
    assert {item["_id"]: item["stock"] for item in database.items.find()} == {"coffee": 10, "tea": 20, "sugar": 5}
    assert "item_1_at_-1" in database.orders.index_information()


def test_an_order_takes_from_the_stock_or_nothing_happens(database):
    shop("seed")
    assert shop("order", "ann", "tea", "3")[:2] == (0, ["ann ordered 3 tea, 17 left"])
    status, lines, error = shop("order", "bob", "tea", "18")
    assert status == 1 and not lines and "not enough tea" in error
    status, lines, error = shop("order", "bob", "gold", "1")
    assert status == 1 and not lines and "not enough gold" in error
    assert database.items.find_one({"_id": "tea"})["stock"] == 17
    order, = database.orders.find()
    assert (order["customer"], order["item"], order["quantity"], order["price"]) == ("ann", "tea", 3, 12)


def test_the_report_adds_up_what_was_ordered(database):
    shop("seed")
    for customer, item, quantity in [("ann", "tea", "3"), ("bob", "tea", "2"), ("ann", "coffee", "1")]:
        assert shop("order", customer, item, quantity)[0] == 0
    assert shop("report")[:2] == (0, ["tea: 5 in 2 orders, 20", "coffee: 1 in 1 orders, 7"])


def test_a_watcher_sees_orders_as_they_come(database):
    shop("seed")
    watcher = subprocess.Popen([*COMMAND, "watch"], stdout=subprocess.PIPE, text=True, env={**os.environ, "SHOP_URI": URI})
    timer = threading.Timer(60, watcher.kill)
    timer.start()
    try:
        assert watcher.stdout.readline() == "watching\n"
        shop("order", "ann", "tea", "1")
        shop("order", "bob", "sugar", "2")
        assert [watcher.stdout.readline() for _ in range(2)] == ["ann: 1 tea\n", "bob: 2 sugar\n"]
    finally:
        timer.cancel()
        watcher.send_signal(signal.SIGTERM)
        watcher.wait(10)
        watcher.stdout.close()


def test_a_wrong_use_is_explained(database):
    for arguments in [(), ("sell",), ("order", "ann")]:
        status, lines, error = shop(*arguments)
        assert status == 2 and not lines and "usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch" in error
