"""The client: databases' collections, statements, and tables of keys and values."""
from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from bson import ObjectId

from .connection import Connection
from .errors import InsertError
from .messages import (
    DESCENDING, EXACT, MULTI, PATH, PROJECTED, UNORDERED, UPSERT, WITHIN, Ack, Document, Inserted, Op, Reader, Updated, blob, document, read_batch,
    read_found, read_inserted, read_updated, text, u32, u64, values,
)

A = TypeVar("A")
T = TypeVar("T")

#: Batches that the server may send ahead.
CREDIT = 4


def connect(
    address: str, *, user: str | None = None, password: str = "", auth_database: str = "admin", tls_ca: str | None = None,
    timeout: float | None = None, ack: Ack = Ack.SERVER,
) -> Client:
    """Connects to a server's native port, `HOST:PORT`. With `tls_ca`, a file of certificates (PEM), through TLS."""
    client = Client(Connection(address, timeout, tls_ca), ack)
    if user is not None:
        try:
            client.connection.authenticate(auth_database, user, password)
        except BaseException:
            client.close()
            raise
    return client


class Client:
    """A connection. It is closed when a `with` block ends."""

    def __init__(self, connection: Connection, ack: Ack) -> None:
        self.connection = connection
        #: When writes are acknowledged, from now on.
        self.ack = ack

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getitem__(self, namespace: str) -> Collection:
        """The collection `database.collection`."""
        return Collection(self, namespace)

    def table(self, name: str) -> Table:
        """A table of keys and values, which are bytes."""
        return Table(self, name)

    def ping(self) -> None:
        """Asks whether the server answers."""
        self.connection.ping()

    def close(self) -> None:
        self.connection.close()


class Statement(Generic[T]):
    """A prepared request. It is called with its values; what else it takes depends on what it does."""

    def __init__(self, client: Client, opcode: Op, namespace: str, shape: bytes, run: Callable[..., T]) -> None:
        def prepared(body: Reader) -> tuple[int, int]:
            return body.number("I"), body.number("H")

        self.client = client
        #: How many values it takes.
        self.parameters: int
        self.number, self.parameters = client.connection.call(
            Op.PREPARE, struct.pack("<H", opcode) + text(namespace) + shape, prepared)
        self.run = run

    def __call__(self, *parameters: Any, **options: Any) -> T:
        return self.run(self, *parameters, **options)

    def execute(self, body: bytes, read: Callable[[Reader], A], flags: int = 0) -> A:
        return self.client.connection.call(Op.EXECUTE, u32(self.number) + body, read, flags)

    def forget(self) -> bool:
        """Frees its place among the statements of the connection."""
        return self.client.connection.call(Op.FORGET, u32(self.number), Reader.flag)


class Collection:
    """A collection of documents."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def _call(self, opcode: Op, body: bytes, read: Callable[[Reader], T], flags: int = 0) -> T:
        return self.client.connection.call(opcode, text(self.namespace) + body, read, flags)

    def insert_one(self, new: Document) -> Any:
        """Inserts a document and returns its `_id`."""
        return self.insert_many([new])[0]

    def insert_many(self, new: Iterable[Document], *, ordered: bool = True) -> list[Any]:
        """Inserts documents in one transaction and returns their `_id`s. Those without get an ObjectId here.

        Raises `InsertError` if documents were refused: ordered, the first of them ends the insert; those before it stay.
        """
        documents = [each if "_id" in each else {"_id": ObjectId(), **each} for each in new]
        body = u32(len(documents)) + b"".join(map(document, documents))
        done = self._call(Op.INSERT, body, read_inserted, self.client.ack | (0 if ordered else UNORDERED))
        return _all_inserted(done, [each["_id"] for each in documents])

    def get(self, id: Any) -> dict[str, Any] | None:
        """The document with this `_id`."""
        return self._call(Op.GET, document({"_id": id}), read_found)

    def find(
        self, filter: Document | None = None, *, sort: Document | None = None, projection: Document | None = None, skip: int = 0,
        limit: int = 0, batch: int = 0, stream: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """The documents that match, all of one snapshot, which is taken with the first. Each batch is asked for when the one before it
        has been iterated.

        With `stream` the server sends batches ahead, which is faster for many documents. They have to be taken: who makes the server wait
        for half a minute loses the connection. An iterator that is closed or forgotten ends the stream: what the server has sent ahead,
        four batches at most, is read and thrown away."""
        which, parts = _optional(sort, projection)
        body = struct.pack("<IQQB", batch, skip, limit, which) + document(filter) + parts
        yield from self._documents(self._call(Op.FIND, body, read_batch), batch, stream)

    def find_one(self, filter: Document | None = None, **options: Any) -> dict[str, Any] | None:
        """The first document that matches."""
        return next(iter(self.find(filter, limit=1, **options)), None)

    def _documents(
        self, first: tuple[int, list[dict[str, Any]]], batch: int, stream: bool,
    ) -> Iterator[dict[str, Any]]:
        """The documents of a first batch, and those after it."""
        if stream:
            yield from self._stream(first, batch)
            return
        connection, (cursor, documents) = self.client.connection, first
        try:
            yield from documents
            while cursor:
                # If this fails, there is nothing to close.
                asked, cursor = cursor, 0
                cursor, documents = connection.call(Op.NEXT, u64(asked) + u32(batch), read_batch)
                yield from documents
        finally:
            if cursor:
                connection.abandon(cursor)

    def _stream(self, first: tuple[int, list[dict[str, Any]]], batch: int) -> Iterator[dict[str, Any]]:
        """The documents of a first batch, then those that the server sends."""
        connection, (cursor, documents) = self.client.connection, first
        if cursor == 0:
            yield from documents
            return
        request = connection.send(Op.PULL, struct.pack("<QII", cursor, batch, CREDIT))
        more, taken = True, 0
        try:
            yield from documents
            while more:
                # If this fails, there is nothing to close.
                more = False
                more, body = connection.wait(request, Op.PULL)
                _, documents = read_batch(body)
                taken += 1
                if more and taken % (CREDIT // 2) == 0:
                    connection.send(Op.CREDIT, struct.pack("<QI", cursor, CREDIT // 2), wanted=False)
                yield from documents
        finally:
            if more:
                connection.abandon(cursor, request)

    def update_one(self, filter: Document, update: Document, *, upsert: bool = False) -> Updated:
        """Changes the first document that matches: with operators (`{"$set": {..}}`), or as a replacement."""
        return self._update(filter, update, UPSERT if upsert else 0)

    def update_many(self, filter: Document, update: Document, *, upsert: bool = False) -> Updated:
        """Changes every document that matches."""
        return self._update(filter, update, MULTI | (UPSERT if upsert else 0))

    def _update(self, filter: Document, update: Document, flags: int) -> Updated:
        return self._call(Op.UPDATE, document(filter) + document(update), read_updated, self.client.ack | flags)

    def delete(self, filter: Document, *, limit: int = 0) -> int:
        """Deletes the documents that match, `limit` of them at most (0: all), and returns how many they were."""
        return self._call(Op.DELETE, u64(limit) + document(filter), Reader.long, self.client.ack)

    def count(self, filter: Document | None = None, *, skip: int = 0, limit: int = 0) -> int:
        """How many documents match."""
        return self._call(Op.COUNT, u64(skip) + u64(limit) + document(filter), Reader.long)

    def vector_search(
        self, index: str, vector: Iterable[float], *, limit: int = 10, candidates: int = 0, exact: bool = False,
        filter: Document | None = None, projection: Document | None = None, within: float | None = None,
        path: str | None = None,
    ) -> list[tuple[float, float, dict[str, Any]]]:
        """Distance, score and document of those whose vectors are nearest, by a search index; the nearest first. A projection that leaves the
        vectors out, such as `{"embedding": 0}`, saves most of the answer. `within` is the greatest distance, and `path` the
        field, which an index of several needs."""
        numbers = list(vector)
        body = text(index) + u32(limit) + u32(candidates) + u32(len(numbers)) + struct.pack(f"<{len(numbers)}f", *numbers)

        def read(answer: Reader) -> list[tuple[float, float, dict[str, Any]]]:
            return [(answer.number("f"), answer.number("d"), answer.document()) for _ in range(answer.number("I"))]

        body += document(filter)
        flags = EXACT if exact else 0
        if projection is not None:
            body, flags = body + document(projection), flags | PROJECTED
        if within is not None:
            body, flags = body + struct.pack("<f", within), flags | WITHIN
        if path is not None:
            body, flags = body + text(path), flags | PATH
        return self._call(Op.VECTOR_SEARCH, body, read, flags)

    def create_index(self, specification: Document) -> str:
        """Creates an index, waits until it is ready, and returns its name: `{"key": {"year": 1}}`, or that of a search index."""
        return self._call(Op.CREATE_INDEX, document(specification), Reader.string)

    def indexes(self) -> list[dict[str, Any]]:
        """The indexes, then the search indexes, unless the user may not list these."""
        return self._call(Op.LIST_INDEXES, b"", lambda body: [body.document() for _ in range(body.number("I"))])

    def drop_index(self, name: str) -> None:
        """Drops an index of any kind."""
        self._call(Op.DROP_INDEX, text(name), lambda _: None)

    def update_search_index(self, name: str, definition: Document) -> None:
        """Gives a search index another definition, `{"fields": [..]}`, and waits until it is ready: until then searches use it as it was."""
        self._call(Op.UPDATE_SEARCH_INDEX, text(name) + document(definition), lambda _: None)

    def prepare_get(self) -> Statement[dict[str, Any] | None]:
        """A statement that gets a document by its `_id`: `get(7)`."""

        def run(self: Statement[Any], id: Any) -> dict[str, Any] | None:
            return self.execute(values([id]), read_found)

        return Statement(self.client, Op.GET, self.namespace, document({"_id": {"$param": 0}}), run)

    def prepare_find(
        self, filter: Document, *, sort: Document | None = None, projection: Document | None = None,
    ) -> Statement[Iterator[dict[str, Any]]]:
        """A statement that finds documents: `find(1980, 1990, limit=10)`. `Param(n)` in the filter stands for value n."""
        which, parts = _optional(sort, projection)
        collection = self

        def run(
            self: Statement[Any], *parameters: Any, skip: int = 0, limit: int = 0, batch: int = 0, stream: bool = False,
        ) -> Iterator[dict[str, Any]]:
            body = struct.pack("<IQQ", batch, skip, limit) + values(parameters)
            yield from collection._documents(self.execute(body, read_batch), batch, stream)

        return Statement(self.client, Op.FIND, self.namespace, bytes([which]) + document(filter) + parts, run)

    def prepare_insert(self, shape: Document) -> Statement[int]:
        """A statement that inserts documents of one shape, whose names are sent once: `insert([(1, "a"), (2, "b")])`. Returns how many."""

        def run(self: Statement[Any], rows: Iterable[Iterable[Any]], ordered: bool = True) -> int:
            bodies = [values(row) for row in rows]
            flags = self.client.ack | (0 if ordered else UNORDERED)
            done = self.execute(u32(len(bodies)) + b"".join(bodies), read_inserted, flags)
            return len(_all_inserted(done, range(len(bodies))))

        return Statement(self.client, Op.INSERT, self.namespace, document(shape), run)

    def prepare_update(self, filter: Document, update: Document) -> Statement[Updated]:
        """A statement that changes documents: `update(7, "new", many=False, upsert=False)`."""

        def run(self: Statement[Any], *parameters: Any, many: bool = False, upsert: bool = False) -> Updated:
            flags = self.client.ack | (MULTI if many else 0) | (UPSERT if upsert else 0)
            return self.execute(values(parameters), read_updated, flags)

        return Statement(self.client, Op.UPDATE, self.namespace, document(filter) + document(update), run)

    def prepare_delete(self, filter: Document) -> Statement[int]:
        """A statement that deletes documents: `delete(7, limit=1)`."""

        def run(self: Statement[Any], *parameters: Any, limit: int = 0) -> int:
            return self.execute(u64(limit) + values(parameters), Reader.long, self.client.ack)

        return Statement(self.client, Op.DELETE, self.namespace, document(filter), run)

    def prepare_count(self, filter: Document) -> Statement[int]:
        """A statement that counts documents: `count(1980)`."""

        def run(self: Statement[Any], *parameters: Any, skip: int = 0, limit: int = 0) -> int:
            return self.execute(u64(skip) + u64(limit) + values(parameters), Reader.long)

        return Statement(self.client, Op.COUNT, self.namespace, document(filter), run)


def _all_inserted(done: Inserted, ids: A) -> A:
    if done.errors:
        raise InsertError(done.count, done.errors)
    return ids


def _optional(sort: Document | None, projection: Document | None) -> tuple[int, bytes]:
    which = (1 if sort else 0) | (2 if projection else 0)
    return which, b"".join(document(part) for part in (sort, projection) if part)


class Table(MutableMapping[bytes, bytes]):
    """A table of keys and values, ordered by the keys."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def _call(self, opcode: Op, body: bytes, read: Callable[[Reader], T], flags: int = 0) -> T:
        return self.client.connection.call(opcode, text(self.name) + body, read, flags)

    def __getitem__(self, key: bytes) -> bytes:
        value = self._call(Op.KV_GET, blob(key), lambda body: body.data() if body.flag() else None)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._call(Op.KV_PUT, blob(key) + blob(value), lambda _: None, self.client.ack)

    def __delitem__(self, key: bytes) -> None:
        if not self._call(Op.KV_DELETE, blob(key), Reader.flag, self.client.ack):
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.range())

    def __len__(self) -> int:
        """Reads the whole table."""
        return sum(1 for _ in self.range())

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, descending: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys from `low` on and below `high`, with their values. Each batch is of the newest state."""
        start = b"\0" if low is None else b"\1" + blob(low)
        end = b"\0" if high is None else b"\2" + blob(high)
        more = True

        def read(body: Reader) -> tuple[bool, list[tuple[bytes, bytes]]]:
            return body.flag(), [(body.data(), body.data()) for _ in range(body.number("I"))]

        while more:
            more, entries = self._call(Op.KV_RANGE, start + end + u32(0) + u32(0), read, DESCENDING if descending else 0)
            yield from entries
            if more and descending:
                end = b"\2" + blob(entries[-1][0])
            elif more:
                start = b"\2" + blob(entries[-1][0])

    def items(self) -> Any:
        """As of a dictionary; the values are read with the keys."""
        return self.range()

    def write(self, put: dict[bytes, bytes] | None = None, delete: Iterable[bytes] = ()) -> None:
        """Puts and deletes, all or nothing."""
        operations = [b"\1" + blob(key) + blob(value) for key, value in (put or {}).items()]
        operations += [b"\0" + blob(key) for key in delete]
        self._call(Op.KV_BATCH, u32(len(operations)) + b"".join(operations), lambda _: None, self.client.ack)
