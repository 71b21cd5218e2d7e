"""The Python client of the native protocol (treedb_server/clients/python) against the real server."""
import gc
import pathlib
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from test_tls import Certificates

from server import PASSWORD, ROOT, Locked, Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402
from treedb import Ack, ConnectionLost, InsertError, Param, ProtocolError, ServerError, TreeDBError  # noqa: E402
from treedb.messages import ANSWER, HEADER, MAGIC, Op, Reader, blob, text  # noqa: E402


def address(server):
    host, port = server.addresses["native"]
    return f"{host}:{port}"


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("native-client"), native=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture
def db(native):
    with treedb.connect(address(native), timeout=30) as db:
        yield db


@pytest.fixture
def films(db, request):
    return db[f"shop.{request.node.name}"[:100]]


def test_documents_are_inserted_found_changed_counted_and_deleted(films):
    assert films.get(1) is None
    assert films.insert_one({"_id": 1, "title": "Alien", "year": 1979}) == 1
    ids = films.insert_many({"year": year} for year in range(1980, 1990))
    assert films.get(ids[3])["year"] == 1983
    assert films.count() == 11 and films.count({"year": {"$gte": 1985}}) == 5
    found = films.find({"year": {"$gte": 1985}}, sort={"year": -1}, projection={"_id": 0, "year": 1}, skip=1, limit=2)
    assert list(found) == [{"year": 1988}, {"year": 1987}]
    assert films.find_one({"year": 1979})["title"] == "Alien"
    assert films.find_one({"year": 1}) is None
    assert films.update_one({"year": {"$gte": 1985}}, {"$set": {"seen": True}}).modified == 1
    assert films.update_many({"year": {"$gte": 1985}}, {"$set": {"seen": True}}).modified == 4
    assert films.update_one({"_id": "new"}, {"$set": {"a": 1}}, upsert=True).upserted_id == "new"
    assert films.delete({"seen": True}, limit=2) == 2 and films.delete({"seen": True}) == 3


def test_refused_documents_raise_with_index_and_code(films):
    with pytest.raises(InsertError) as refused:
        films.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}], ordered=False)
    assert refused.value.inserted == 2
    assert [(each.index, each.error.code) for each in refused.value.errors] == [(1, 11000)]
    with pytest.raises(ServerError) as wrong:
        films.count({"$nonsense": 1})
    assert wrong.value.code == 2 and wrong.value.code_name == "BadValue"
    assert films.count() == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_find_is_iterated_and_other_requests_come_between(films, stream):
    films.insert_many({"_id": n, "text": "x" * 100} for n in range(5_000))
    seen = []
    for film in films.find(sort={"_id": 1}, batch=100, stream=stream):
        seen.append(film["_id"])
        if film["_id"] % 1_000 == 0:
            assert films.get(film["_id"]) == film
    assert seen == list(range(5_000))
    # More streams than a connection may have cursors, none of them read to its end.
    for _ in range(100):
        found = films.find(batch=10, stream=stream)
        assert next(found)["_id"] == 0
        found.close()
    assert films.count() == 5_000


def test_the_server_sends_nothing_ahead_unless_it_is_asked_to(db, films):
    films.insert_many({"_id": n} for n in range(100))
    for stream in [False, True]:
        found = films.find(batch=10, stream=stream)
        assert next(found)["_id"] == 0
        readable, _, _ = select.select([db.connection.socket], [], [], 0.3 if not stream else 10)
        assert bool(readable) == stream
        found.close()


def test_a_stream_that_is_closed_has_taken_what_was_sent_ahead(db, films):
    # More than sockets hold: a server that cannot send ends the connection after a while.
    for n in range(6):
        films.insert_one({"_id": n, "text": "x" * 8_000_000})
    found = films.find(batch=1, stream=True)
    assert next(found)["_id"] == 0
    found.close()
    readable, _, _ = select.select([db.connection.socket], [], [], 0.5)
    assert not readable and not db.connection.received and not db.connection.unwanted


class Collecting:
    """A socket that sends a little at a time, and in between runs what the garbage collector may run anywhere."""

    def __init__(self, socket, between):
        self.socket, self.between = socket, between

    def __getattr__(self, name):
        return getattr(self.socket, name)

    def sendall(self, data):
        while data:
            data = data[self.send(data):]

    def send(self, data):
        sent = self.socket.send(data[:len(data) // 2 + 1])
        self.between()
        return sent


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("busy", [False, True])
def test_an_iterator_that_is_forgotten_in_the_middle_of_a_request_is_closed_after_it(db, films, stream, busy):
    films.insert_many({"_id": n, "text": "x" * 100} for n in range(1_000))
    plain = db.connection.socket
    db.connection.socket = Collecting(plain, gc.collect)
    gc.disable()
    # What is there already need not be looked through each time.
    gc.freeze()
    try:
        # More than a connection may have cursors.
        for n in range(100):
            cycle = [films.find(batch=10, stream=stream)]
            cycle.append(cycle)
            assert next(cycle[0])["_id"] == 0
            other = films.find(batch=10, stream=True) if busy else iter([{"_id": 0}])
            assert next(other)["_id"] == 0
            del cycle
            assert films.insert_one({"_id": 1_000 + n, "text": "y" * 1_000}) == 1_000 + n
            assert films.get(1_000 + n)["text"] == "y" * 1_000
            assert not db.connection.abandoned
            if busy:
                other.close()
    finally:
        gc.unfreeze()
        gc.enable()
        db.connection.socket = plain
    assert films.count() == 1_100


def test_a_finalizer_that_makes_a_request_in_the_middle_of_another_one_is_refused(db, films):
    refused = []

    def ask():
        try:
            db.ping()
        except TreeDBError as error:
            refused.append(str(error))

    plain = db.connection.socket
    db.connection.socket = Collecting(plain, ask)
    try:
        assert films.insert_one({"_id": 1, "text": "x" * 100_000}) == 1
    finally:
        db.connection.socket = plain
    assert refused and "finalizer" in refused[0]
    assert films.count() == 1


def beside_a_stream(films):
    """Sends more than sockets hold while the server cannot send either."""
    for first in range(0, 9, 3):
        films.insert_many({"_id": n, "text": "x" * 15_000_000} for n in range(first, first + 3))
    films.client.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    found = films.find(batch=1, stream=True)
    assert [next(found)["_id"] for _ in range(2)] == [0, 1]
    # By now the sockets are full. With the third batch more is granted, and the answer to that is behind the batches.
    time.sleep(1)
    assert next(found)["_id"] == 2
    assert films.insert_many({"_id": n, "text": "y" * 15_000_000} for n in range(10, 13)) == [10, 11, 12]
    assert [each["_id"] for each in found] == list(range(3, 9))


def test_a_large_insert_beside_a_stream_that_is_not_read_does_not_block(films):
    beside_a_stream(films)


class Valve:
    """Passes the bytes of one connection on, and of what the server sends only so many from some time on."""

    def __init__(self, server):
        self.listener, self.upstream, self.left = socket.create_server(("127.0.0.1", 0)), server.addresses["native"], None
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(self.upstream)
        to = {client: server, server: client}
        with self.listener, client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    part = source.recv(65536)
                    if not part:
                        return
                    if source is server and self.left is not None:
                        part, self.left = part[:self.left], max(0, self.left - len(part))
                    to[source].sendall(part)


class Interruption(BaseException):
    pass


@pytest.mark.parametrize("arrived", [7, 20])
def test_an_interrupted_request_ends_the_connection(native, arrived):
    def interrupt(*_):
        raise Interruption

    valve = Valve(native)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with treedb.connect(valve.address, timeout=10) as db:
            db["shop.interrupted"].count()
            valve.left = arrived
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Interruption):
                db["shop.interrupted"].count()
            # It was in the middle of a frame.
            valve.left = None
            with pytest.raises(ConnectionLost, match="Interruption.*connect again"):
                db.ping()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        valve.thread.join()


def test_statements_take_values_and_nothing_else(films):
    insert = films.prepare_insert({"_id": Param(0), "about": {"year": Param(0), "tags": ["film", Param(1)]}})
    assert insert.parameters == 2
    assert insert([(year, f"of {year}") for year in range(1980, 1990)]) == 10
    with pytest.raises(InsertError):
        insert([(1980, "again")])
    assert films.get(1985) == {"_id": 1985, "about": {"year": 1985, "tags": ["film", "of 1985"]}}
    get = films.prepare_get()
    assert get(1985) == films.get(1985) and get({"$gt": 0}) is None
    find = films.prepare_find({"about.year": {"$gte": Param(0), "$lt": Param(1)}}, sort={"_id": -1}, projection={"_id": 1})
    assert [film["_id"] for film in find(1983, 1986)] == [1985, 1984, 1983]
    assert [film["_id"] for film in find(1980, 1990, skip=1, limit=7, batch=2)] == list(range(1988, 1981, -1))
    count = films.prepare_count({"about.tags": Param(0)})
    assert count("film") == 10 and count({"$ne": ""}) == 0
    update = films.prepare_update({"_id": Param(0)}, {"$set": {"seen": Param(1)}})
    assert update(1985, {"$inc": 1}).modified == 1 and films.get(1985)["seen"] == {"$inc": 1}
    assert update("new", 1, upsert=True).upserted_id == "new"
    delete = films.prepare_delete({"about.year": {"$lt": Param(0)}})
    assert delete(1985, limit=2) == 2 and delete(1985) == 3
    with pytest.raises(ServerError, match="takes 1 values, not 2"):
        count(1, 2)
    with pytest.raises(ServerError, match="cannot be here"):
        films.prepare_count({"$expr": {"$eq": ["$a", Param(0)]}})
    assert count.forget() and not count.forget()
    with pytest.raises(ServerError, match="does not exist"):
        count("film")


def test_statements_outlive_their_collection_and_see_its_indexes(native, films):
    database, name = films.namespace.split(".", 1)
    insert = films.prepare_insert({"_id": Param(0), "year": Param(1)})
    find = films.prepare_find({"year": {"$gte": Param(0)}}, sort={"year": -1})
    update = films.prepare_update({"year": Param(0)}, {"$set": {"seen": True}})
    get = films.prepare_get()
    years = [(n, 1900 + n) for n in range(100)]

    def last(**options):
        return [film["_id"] for film in find(1990, **options)]

    assert insert(years) == 100 and last(limit=3) == [99, 98, 97]
    films.create_index({"key": {"year": 1}, "name": "by_year", "unique": True})
    assert last(limit=3) == [99, 98, 97] and last(batch=2) == list(range(99, 89, -1))
    with pytest.raises(InsertError):
        insert([(100, 1950)])
    films.drop_index("by_year")
    assert insert([(100, 1999)]) == 1 and sorted(last(limit=2)) == [99, 100]
    with native.client() as mongo:
        mongo[database].drop_collection(name)
        assert last() == [] and get(1) is None and update(1950).matched == 0
        # Made again, by somebody else and with other documents, and then by the statement.
        mongo[database][name].insert_one({"_id": "new", "year": 1999})
        assert last() == ["new"] and get("new") == {"_id": "new", "year": 1999} and get(1) is None
        assert update(1999).modified == 1
        mongo[database].drop_collection(name)
    assert insert(years[:2]) == 2 and get(1) == {"_id": 1, "year": 1901}


def test_a_statement_is_refused_to_somebody_who_may_no_longer_do_it(tmp_path):
    server = Locked(tmp_path / "data", native=True)
    with server.as_user() as root:
        root.admin.command("createUser", "ann", pwd=PASSWORD, roles=[{"role": "readWrite", "db": "shop"}])
        changes = [{"resource": {"db": "shop", "collection": ""}, "actions": ["find", "update"]}]
        root.admin.command("createRole", "changes", privileges=changes, roles=[])
        root.admin.command("createUser", "bob", pwd=PASSWORD, roles=["changes"])
        with treedb.connect(address(server), user="ann", password=PASSWORD) as ann, \
                treedb.connect(address(server), user="bob", password=PASSWORD) as bob:
            films = ann["shop.films"]
            statements = [
                (films.prepare_get(), [1]), (films.prepare_insert({"_id": Param(0)}), [[[1]]]),
                (films.prepare_find({"_id": Param(0)}), [1]), (films.prepare_count({"_id": Param(0)}), [1]),
                (films.prepare_update({"_id": Param(0)}, {"$set": {"a": 1}}), [1]), (films.prepare_delete({"_id": Param(0)}), [1]),
            ]

            def codes():
                for statement, parameters in statements:
                    try:
                        answer = statement(*parameters)
                        if isinstance(answer, Iterator):
                            list(answer)
                        yield None
                    except ServerError as error:
                        yield error.code

            assert list(codes()) == [None] * 6
            root.admin.command("revokeRolesFromUser", "ann", roles=[{"role": "readWrite", "db": "shop"}])
            assert list(codes()) == [13] * 6
            # Who may update may not insert, with the flag that only the execution has.
            update = bob["shop.films"].prepare_update({"_id": Param(0)}, {"$set": {"a": 1}})
            assert update(2).matched == 0
            with pytest.raises(ServerError) as refused:
                update(2, upsert=True)
            assert refused.value.code == 13
    assert server.stop() == 0


@pytest.mark.parametrize("credit", [4, 1 << 20])
def test_a_stream_is_not_sent_to_somebody_who_has_been_dropped_since(tmp_path, monkeypatch, credit):
    monkeypatch.setattr(treedb.client, "CREDIT", credit)
    server = Locked(tmp_path / "data", native=True)
    with server.as_user() as root:
        root.admin.command("createUser", "ann", pwd=PASSWORD, roles=[{"role": "readWrite", "db": "shop"}])
        with treedb.connect(address(server), user="ann", password=PASSWORD, timeout=30) as ann:
            films = ann["shop.films"]
            for first in range(0, 400, 50):
                films.insert_many({"_id": n, "text": "x" * 100_000} for n in range(first, first + 50))
            found = films.find(batch=1, stream=True)
            assert next(found)["_id"] == 0
            root.admin.command("dropUser", "ann")
            seen = []
            with pytest.raises(ServerError) as refused:
                seen.extend(film["_id"] for film in found)
            # What had been sent by then; with much credit, as much as sockets hold.
            assert refused.value.code == 13 and len(seen) < (10 if credit == 4 else 380)
    assert server.stop() == 0


def test_a_table_is_a_mapping_in_the_order_of_its_keys(db):
    table = db.table("settings")
    db.ack = Ack.RELAXED
    assert b"k" not in table and table.get(b"k") is None
    table[b"k"] = b"v"
    assert table[b"k"] == b"v" and list(table) == [b"k"]
    del table[b"k"]
    with pytest.raises(KeyError):
        del table[b"k"]
    entries = {struct.pack(">I", n): b"x" * 100 for n in range(10_000)}
    table.write(entries)
    assert len(table) == 10_000 and dict(table.items()) == entries
    low, high = struct.pack(">I", 10), struct.pack(">I", 20)
    assert [key for key, _ in table.range(low, high)] == sorted(entries)[10:20]
    assert [key for key, _ in table.range(descending=True)] == sorted(entries, reverse=True)
    table.write({b"new": b""}, delete=entries)
    assert dict(table.items()) == {b"new": b""}


def test_indexes_and_nearest_vectors(films):
    films.insert_many({"_id": n, "v": [float(n), 1.0], "even": n % 2 == 0} for n in range(20))
    assert films.create_index({"key": {"even": 1}, "name": "by_even"}) == "by_even"
    vectors = {"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}
    films.create_index({"name": "near", "type": "vectorSearch", "definition": vectors})
    assert [index["name"] for index in films.indexes()] == ["_id_", "by_even", "near"]
    found = films.vector_search("near", [5.0, 1.0], limit=3, exact=True)
    assert found[0][2]["_id"] == 5 and {each[2]["_id"] for each in found} == {4, 5, 6}
    assert {each[2]["_id"] for each in films.vector_search("near", [5.0, 1.0], limit=20, within=2.0)} == {3, 4, 5, 6, 7}
    assert films.vector_search("near", [5.0, 4.0], within=2.5) == []
    assert films.vector_search("near", [5.0, 1.0], limit=1, projection={"v": 0}) == [(0.0, 1.0, {"_id": 5, "even": False})]
    projected = films.vector_search("near", [5.0, 1.0], limit=2, exact=True, filter={"even": True}, projection={"_id": 1})
    assert [each[2] for each in projected] in ([{"_id": 4}, {"_id": 6}], [{"_id": 6}, {"_id": 4}])
    # Nothing is asked to be left out.
    assert films.vector_search("near", [5.0, 1.0], limit=1, projection={})[0][2] == {"_id": 5, "v": [5.0, 1.0], "even": False}
    films.update_search_index("near", {"fields": [{**vectors["fields"][0], "similarity": "cosine"}]})
    near = films.indexes()[-1]
    assert near["name"] == "near" and near["latestDefinition"]["fields"][0]["similarity"] == "cosine"
    assert films.vector_search("near", [19.0, 1.0], limit=1)[0][2]["_id"] == 19
    # An index of several fields needs the field of each search.
    other = {"type": "vector", "path": "w", "numDimensions": 3, "similarity": "euclidean"}
    films.insert_many([{"_id": "w", "w": [1.0, 2.0, 3.0]}])
    films.update_search_index("near", {"fields": [*vectors["fields"], other]})
    assert films.vector_search("near", [1.0, 2.0, 3.0], limit=1, path="w")[0][2]["_id"] == "w"
    assert films.vector_search("near", [5.0, 1.0], limit=1, path="v", within=2.0)[0][2]["_id"] == 5
    for wrong in ({}, {"path": "even"}):
        with pytest.raises(ServerError) as refused:
            films.vector_search("near", [5.0, 1.0], **wrong)
        assert refused.value.code == 2
    with pytest.raises(ServerError) as refused:
        films.update_search_index("missing", vectors)
    assert refused.value.code == 27
    films.drop_index("by_even")
    with pytest.raises(ServerError):
        films.drop_index("by_even")


def test_a_name_is_not_prepared_and_a_password_is(tmp_path):
    """SASLprep would make IX of the name. Of the password, two spellings are the same."""
    server = Locked(tmp_path / "data", native=True)
    with server.as_user() as root:
        root.admin.command("createUser", "\u2168", pwd="\u2168", roles=["root"])
    for password in ("\u2168", "IX"):
        with treedb.connect(address(server), user="\u2168", password=password) as db:
            db["shop.films"].count()
    with pytest.raises(ServerError):
        treedb.connect(address(server), user="IX", password="IX")
    assert server.stop() == 0


def test_a_server_with_users_wants_the_password(tmp_path):
    server = Locked(tmp_path / "data", native=True)
    with treedb.connect(address(server), user=ROOT, password=PASSWORD) as db:
        db["shop.films"].insert_one({"_id": 1})
    with pytest.raises(ServerError) as refused:
        treedb.connect(address(server), user=ROOT, password="wrong")
    assert refused.value.code == 18
    with treedb.connect(address(server)) as db, pytest.raises(ServerError) as refused:
        db["shop.films"].get(1)
    assert refused.value.code == 13
    assert server.stop() == 0


@pytest.mark.parametrize("fields", ["i=4095", "i=10000001", "i=-1", "i=", "j=4096"])
def test_a_server_that_asks_for_too_little_or_too_much_work_gets_no_proof(fields):
    """The server here is a script."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        stream, _ = listener.accept()
        with stream, stream.makefile("rb") as requests:
            def request():
                length, opcode, _, number = HEADER.unpack(requests.read(HEADER.size))
                asked.append(opcode)
                return Reader(requests.read(length)), opcode, number

            def answer(opcode, number, body):
                stream.sendall(HEADER.pack(len(body), opcode | ANSWER, 0, number) + body)

            _, opcode, number = request()
            answer(opcode, number, MAGIC + struct.pack("<HII", 1, 1_000_000, 64) + text("test"))
            body, opcode, number = request()
            assert [body.string(), body.string()] == ["admin", "SCRAM-SHA-256"]
            nonce = body.data().decode().rsplit("r=", 1)[1]
            answer(opcode, number, struct.pack("<i", 1) + blob(f"r={nonce}more,s=c2FsdA==,{fields}".encode()))
            # Nothing more comes.
            if requests.read(1):
                asked.append("more")

    thread = threading.Thread(target=serve)
    thread.start()
    began = time.monotonic()
    with pytest.raises(ProtocolError, match="iterations|challenge"):
        treedb.connect(f"127.0.0.1:{listener.getsockname()[1]}", user="ann", password="secret", timeout=5)
    thread.join()
    listener.close()
    assert asked == [Op.HELLO, Op.AUTHENTICATE] and time.monotonic() - began < 5


def test_through_tls_only_a_certified_server_is_trusted(tmp_path):
    certificates = Certificates(tmp_path)
    server = Server(tmp_path / "data", *certificates.flags, native=True)
    with treedb.connect(address(server), tls_ca=certificates.ca) as db:
        db["a.b"].insert_many({"_id": n, "text": "x" * 1_000_000} for n in range(20))
        assert [found["_id"] for found in db["a.b"].find(batch=1, stream=True)] == list(range(20))
        beside_a_stream(db["a.large"])
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ConnectionLost, match="certificate"):
        treedb.connect(address(server), tls_ca=Certificates(other).ca)
    with pytest.raises(ConnectionLost):
        treedb.connect(address(server), timeout=5)
    assert server.stop() == 0


def test_what_is_no_server_is_told_apart(tmp_path):
    with pytest.raises(ConnectionLost):
        treedb.connect("127.0.0.1:1")
    listener = socket.create_server(("127.0.0.1", 0))

    def nonsense():
        accepted, _ = listener.accept()
        accepted.recv(100)
        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        accepted.close()

    thread = threading.Thread(target=nonsense)
    thread.start()
    with pytest.raises(ConnectionLost):
        treedb.connect(f"127.0.0.1:{listener.getsockname()[1]}", timeout=5)
    thread.join()
    listener.close()


def test_a_client_of_a_server_that_stops_says_why(tmp_path):
    server = Server(tmp_path / "data", native=True)
    with treedb.connect(address(server)) as db:
        db.ping()
        assert server.stop() == 0
        with pytest.raises(ConnectionLost):
            db.ping()
        with pytest.raises(ConnectionLost, match="connect again"):
            db.ping()
