"""A raw connection, for messages that no driver sends."""
import socket
import struct

import bson

OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG = 1, 2004, 2012, 2013
CHECKSUM, MORE_TO_COME = 1, 2


class Wire:
    """One raw connection."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.addresses["mongo"], timeout=10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def message(self, opcode, body, length=None, request=77):
        length = 16 + len(body) if length is None else length
        self.send(struct.pack("<iiii", length, request, 0, opcode) + body)

    def msg(self, sections, flags=0, **header):
        self.message(OP_MSG, struct.pack("<I", flags) + sections, **header)

    def command(self, command, **kind1):
        sections = body(command)
        for name, documents in kind1.items():
            sections += sequence(name, documents)
        self.msg(sections)
        return self.reply()

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def reply(self):
        length, _, to, opcode = struct.unpack("<iiii", self.read(16))
        rest = self.read(length - 16)
        assert to == 77
        return bson.decode(rest[5:] if opcode == OP_MSG else rest[20:])

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def body(command):
    return b"\0" + (command if isinstance(command, bytes) else bson.encode(command))


def sequence(name, documents):
    data = name.encode() + b"\0" + b"".join(d if isinstance(d, bytes) else bson.encode(d) for d in documents)
    return b"\1" + struct.pack("<i", 4 + len(data)) + data


PING = {"ping": 1, "$db": "admin"}
