"""The fields of frames: what `docs/native-protocol.md` specifies."""
from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import bson

from .errors import DocumentError, ProtocolError, ServerError

HEADER = struct.Struct("<IHHQ")
MAGIC = b"TREEDB\r\n"
VERSION = 1
ANSWER, ERROR = 0x8000, 0xFFFF
#: Flag of an error frame: the last one. Flag of a frame of a pull's answer: another follows.
CLOSING, MORE = 1, 1

Document = Mapping[str, Any]


class Op(enum.IntEnum):
    """Opcodes."""

    HELLO, PING, AUTHENTICATE, PROVE, PREPARE, EXECUTE, FORGET = range(0x01, 0x08)
    INSERT, GET, FIND, NEXT, CLOSE, UPDATE, DELETE, COUNT, VECTOR_SEARCH = range(0x10, 0x19)
    CREATE_INDEX, LIST_INDEXES, DROP_INDEX, UPDATE_SEARCH_INDEX, PULL, CREDIT = range(0x19, 0x1F)
    KV_GET, KV_PUT, KV_DELETE, KV_RANGE, KV_BATCH = range(0x20, 0x25)


class Ack(enum.IntEnum):
    """When a write is acknowledged."""

    #: As the server is configured.
    SERVER = 0
    #: When it is on disk.
    DURABLE = 1
    #: When the operating system has it.
    RELAXED = 2
    #: When it is visible to others.
    NONE = 3


#: Flags of an insert, of an update, of a range, and of a search for vectors.
UNORDERED, MULTI, UPSERT, DESCENDING, EXACT, PROJECTED, WITHIN, PATH = 4, 4, 8, 4, 4, 8, 16, 32


class Param(dict[str, int]):
    """Stands for the value with this number in a statement."""

    def __init__(self, number: int) -> None:
        super().__init__({"$param": number})


@dataclass(frozen=True)
class Inserted:
    """The outcome of an insert."""

    count: int
    errors: list[DocumentError]


@dataclass(frozen=True)
class Updated:
    """The outcome of an update."""

    matched: int
    modified: int
    #: The `_id` of the document that was inserted, if one was.
    upserted_id: Any = None


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def blob(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def document(value: Document | None) -> bytes:
    return bson.encode(value or {})


def values(all: Iterable[Any]) -> bytes:
    """Values of a statement: a document whose names do not count."""
    return bson.encode({str(number): value for number, value in enumerate(all)})


class Reader:
    """Takes fields off the front of a body."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, length: int) -> bytes:
        part = self.body[self.at:self.at + length]
        if len(part) != length:
            raise ProtocolError(f"byte {self.at} of an answer: needs {length} bytes, {len(part)} are left")
        self.at += length
        return part

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def flag(self) -> bool:
        return bool(self.number("B") == 1)

    def long(self) -> int:
        return int(self.number("Q"))

    def string(self) -> str:
        return self.take(self.number("H")).decode()

    def data(self) -> bytes:
        return self.take(self.number("I"))

    def document(self) -> dict[str, Any]:
        length = struct.unpack("<i", self.take(4))[0]
        self.at -= 4
        if length < 5:
            raise ProtocolError(f"byte {self.at} of an answer: a document of {length} bytes")
        return bson.decode(self.take(length))

    def error(self) -> ServerError:
        return ServerError(self.number("i"), self.string(), self.data().decode(errors="replace"))

    def finish(self) -> None:
        if self.at != len(self.body):
            raise ProtocolError(f"{len(self.body) - self.at} bytes too many in an answer")


def read_batch(body: Reader) -> tuple[int, list[dict[str, Any]]]:
    """The cursor (0: that was all) and the documents."""
    cursor, count = body.number("Q"), body.number("I")
    return cursor, [body.document() for _ in range(count)]


def read_found(body: Reader) -> dict[str, Any] | None:
    return body.document() if body.flag() else None


def read_inserted(body: Reader) -> Inserted:
    count, errors = body.number("I"), body.number("I")
    return Inserted(count, [DocumentError(body.number("I"), body.error()) for _ in range(errors)])


def read_updated(body: Reader) -> Updated:
    matched, modified, upserted = body.number("Q"), body.number("Q"), read_found(body)
    return Updated(matched, modified, None if upserted is None else upserted["_id"])
