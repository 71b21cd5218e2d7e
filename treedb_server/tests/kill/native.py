"""As much of a native client as the kill rounds need (docs/native-protocol.md)."""
import socket
import struct

import bson

HELLO, INSERT, UPDATE, DELETE = 0x01, 0x10, 0x15, 0x16
KV_PUT, KV_DELETE, KV_RANGE, KV_BATCH = 0x21, 0x22, 0x23, 0x24
ERROR = 0xFFFF
DEFAULT, DURABLE, RELAXED = 0, 1, 2
MULTI = 1 << 2


class NativeError(Exception):
    """An error frame: the server understood and refused."""


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def blob(value):
    return struct.pack("<I", len(value)) + value


class Native:
    """One connection. Requests may be sent ahead of the answers to earlier ones."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        self.number = 0
        self.send(HELLO, b"TREEDB\r\n" + struct.pack("<HH", 1, 1))
        self.answer()

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, opcode, body, flags=0):
        self.number += 1
        self.socket.sendall(struct.pack("<IHHQ", len(body), opcode, flags, self.number) + body)
        return self.number

    def answer(self):
        """The next answer: the request's number and the body."""
        length, opcode, _, number = struct.unpack("<IHHQ", self._read(16))
        body = self._read(length)
        if opcode == ERROR:
            code, size = struct.unpack_from("<iH", body)
            name = body[6:6 + size].decode()
            raise NativeError(f"{code} {name}: {body[10 + size:].decode()}")
        return number, body

    def _read(self, count):
        data = self.stream.read(count)
        if len(data) < count:
            raise ConnectionError("closed by the server")
        return data

    def insert(self, namespace, documents, flags):
        return self.send(INSERT, text(namespace) + struct.pack("<I", len(documents))
                         + b"".join(map(bson.encode, documents)), flags)

    def update(self, namespace, query, update, flags):
        return self.send(UPDATE, text(namespace) + bson.encode(query) + bson.encode(update), flags)

    def delete(self, namespace, query, flags):
        return self.send(DELETE, text(namespace) + struct.pack("<Q", 0) + bson.encode(query), flags)

    def kv_batch(self, table, changes, flags):
        parts = [b"\0" + blob(key) if value is None else b"\1" + blob(key) + blob(value) for key, value in changes.items()]
        return self.send(KV_BATCH, text(table) + struct.pack("<I", len(parts)) + b"".join(parts), flags)

    def kv_put(self, table, key, value, flags):
        return self.send(KV_PUT, text(table) + blob(key) + blob(value), flags)

    def kv_delete(self, table, key, flags):
        return self.send(KV_DELETE, text(table) + blob(key), flags)

    def kv_all(self, table):
        """Every entry of a table."""
        low = b"\0"
        while True:
            self.send(KV_RANGE, text(table) + low + b"\0" + struct.pack("<II", 0, 0))
            _, body = self.answer()
            more, count = struct.unpack_from("<?I", body)
            at = 5
            for _ in range(count):
                fields = []
                for _ in range(2):
                    size, = struct.unpack_from("<I", body, at)
                    fields.append(body[at + 4:at + 4 + size])
                    at += 4 + size
                yield tuple(fields)
                low = b"\2" + blob(fields[0])
            if not more:
                return
