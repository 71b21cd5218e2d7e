"""Frames of both protocols with something wrong in them that a parser has to notice: lengths that lie, sections that are
missing or doubled, BSON whose parts do not fit, compressed messages that are not what they say.

A frame is bytes, and whether its length is true: after one that is, the connection goes on.
"""
import struct
import sys
import pathlib
import zlib

import bson
import snappy
from backports import zstd

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "driver"))

from seeds import commands, native_requests  # noqa: E402
from test_fuzz import Mutator, encode  # noqa: E402
from wire import OP_COMPRESSED, OP_MSG, OP_QUERY, PING, body, sequence  # noqa: E402

#: By their numbers in OP_COMPRESSED.
COMPRESS = {0: lambda plain: plain, 1: snappy.compress, 2: zlib.compress, 3: zstd.compress}
NUMBERS = [0, 1, 4, 5, 15, 16, 17, 255, 0x7FFF, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 48_000_000, 48_000_001]
REQUEST = 77
#: Opcodes of the native protocol whose first field is the number of a cursor.
CURSORS = (0x13, 0x14, 0x1D, 0x1E)

NATIVE_GREETING = struct.pack("<IHHQ", 12, 1, 0, 1) + b"TREEDB\r\n" + struct.pack("<HH", 1, 1)


class Frames:
    """Makes frames, the same ones from the same seed."""

    def __init__(self, seed):
        self.mutator = Mutator(seed)
        self.rng = self.mutator.rng
        self.commands = list(commands("fuzz"))
        self.native = list(native_requests())

    def number(self, near):
        """A number for a length: one beside the true one, or one that is hard."""
        rng = self.rng
        if rng.random() < 0.5:
            return (near + rng.choice([-16, -5, -4, -1, 1, 4, 5, 16])) & 0xFFFFFFFF
        return rng.choice(NUMBERS)

    def document(self, data, depth=0):
        """The bytes of a document with one of its parts wrong, which may be one of a document inside."""
        rng = self.rng
        data = bytearray(data)
        if len(data) < 6 or rng.random() < 0.1:
            data[0:4] = struct.pack("<I", self.number(len(data)))
            return bytes(data)
        elements = list(self.elements(data))
        if not elements:
            return bytes(data)
        at, value, end = rng.choice(elements)
        kind = data[at]
        inner = kind in (3, 4) and depth < 20
        match rng.randrange(9):
            case 0:
                data[at] = rng.choice([*range(0x15), 0x7F, 0xFF, 0x80])
            case 1 if inner:
                data[value:end] = self.document(data[value:end], depth + 1)
            case 2 if kind in (2, 13, 14, 5, 15, 3, 4):
                data[value:value + 4] = struct.pack("<I", self.number(struct.unpack_from("<I", data, value)[0]))
            case 3 if value - 1 > at:
                data[value - 1] = rng.choice([0x41, 0xFF, 0xC3])
            case 4:
                del data[rng.randrange(at, end):end]
            case 5:
                data[end:end] = data[at:end] * rng.choice([1, 1, 5])
            case 6:
                # As deep as a document of this many bytes can be.
                levels = rng.choice([50, 99, 100, 101, 200, 2000])
                nested = b"\x05\0\0\0\0"
                for _ in range(levels):
                    nested = struct.pack("<I", len(nested) + 8) + b"\x03a\0" + nested + b"\0"
                data[at:end] = b"\x03" + b"n\0" + nested
            case 7:
                data[value:end] = rng.randbytes(rng.randrange(0, 20))
            case _:
                data[-1] = rng.choice([1, 0xFF])
        if rng.random() < 0.7:
            data[0:4] = struct.pack("<I", len(data))
        return bytes(data)

    @staticmethod
    def elements(data):
        """Of a valid document: where each element begins, where its value does, and where it ends."""
        at = 4
        while at < len(data) - 1:
            value = data.index(0, at + 1) + 1
            size = {1: 8, 6: 0, 7: 12, 8: 1, 9: 8, 10: 0, 16: 4, 17: 8, 18: 8, 19: 16, 0xFF: 0, 0x7F: 0}.get(data[at])
            if data[at] in (2, 13, 14):
                size = 4 + struct.unpack_from("<I", data, value)[0]
            elif data[at] in (3, 4, 15):
                size = struct.unpack_from("<I", data, value)[0]
            elif data[at] == 5:
                size = 5 + struct.unpack_from("<I", data, value)[0]
            elif data[at] == 11:
                size = data.index(0, data.index(0, value) + 1) + 1 - value
            elif size is None:
                return
            yield at, value, value + size
            at = value + size

    def sections(self):
        """The sections of a command with something wrong in them: in its meaning, in its documents, or between them."""
        rng = self.rng
        command, sequences = rng.choice(self.commands)
        how = rng.random()
        if how >= 0.3:
            command = self.mutator.session.numbered(command)
        else:
            command, sequences = self.mutator.command(command, sequences, rng.choice([0.02, 0.1, 0.3]))
        data = encode(command, sequences)
        if data is None:
            return body(PING)
        if how < 0.3:
            return data
        if how < 0.65:
            # One of the documents.
            documents = [bson.encode(command)] + [bson.encode(d) for list_ in sequences.values() for d in list_ if isinstance(d, dict)]
            chosen = rng.randrange(len(documents))
            documents[chosen] = self.document(documents[chosen])
            data = body(documents[0])
            for name in sequences:
                data += sequence(name, documents[1:])
            return data
        first = body(command)
        rest = data[len(first):]
        match rng.randrange(8):
            case 0:
                return rest + first
            case 1:
                return first + first + rest
            case 2:
                return rest
            case 3:
                return first + rest + rest
            case 4:
                return bytes([rng.choice([2, 3, 255])]) + data[1:]
            case 5 if rest:
                return first + rest[:1] + struct.pack("<I", self.number(struct.unpack_from("<I", rest, 1)[0])) + rest[5:]
            case 6:
                return data[:rng.randrange(len(data))]
            case _:
                return self.mutator.bytes(bytes(16) + data)[16:]

    def mongo(self):
        """A frame for MongoDB's protocol."""
        rng = self.rng
        flags = rng.choice([0] * 12 + [1, 2, 3, 1 << 16, 1 << 15, 1 << 5, 0xFFFFFFFF])
        opcode, content = OP_MSG, struct.pack("<I", flags) + self.sections()
        if flags & 1:
            content += rng.randbytes(4)
        if rng.random() < 0.1:
            opcode = OP_QUERY
            content = (struct.pack("<I", flags) + rng.choice([b"admin.$cmd\0", b"x\0", b"", b"a.b", b"\xff\0"]) + struct.pack("<II", 0, self.number(1))
                       + self.document(bson.encode({"hello": 1, "client": {"application": {"name": "x"}}})))
        if rng.random() < 0.3:
            content = self.compressed(opcode, content)
            opcode = OP_COMPRESSED
        if rng.random() < 0.02:
            opcode = rng.choice([0, 1, 1000, 2001, 2002, 2005, 2006, 2007, 2010, 2011, -1, 2**31 - 1])
        truth = 16 + len(content)
        length = self.number(truth) if rng.random() < 0.05 else truth
        return struct.pack("<Iiii", length, REQUEST, rng.choice([0, 1, -1]), opcode) + content, length == truth

    def compressed(self, opcode, plain):
        """A compressed message, of which something may be wrong."""
        rng = self.rng
        number = rng.choice([0, 1, 2, 3])
        data, size = COMPRESS[number](plain), len(plain)
        match rng.randrange(12):
            case 0:
                size = self.number(size)
            case 1:
                number = rng.choice([0, 1, 2, 3, 4, 7, 255])
            case 2:
                data = data[:rng.randrange(len(data) + 1)]
            case 3:
                data = self.mutator.bytes(bytes(16) + data)[16:]
            case 4:
                data += rng.randbytes(rng.randrange(1, 50))
            case 5:
                opcode = rng.choice([0, 1, OP_COMPRESSED, 2005, -1])
            case 6:
                # A bomb: small, and says so, or not.
                plain = plain + bytes(rng.choice([1 << 16, 1 << 20]))
                data = COMPRESS[number](plain)
                size = rng.choice([size, len(plain), 48_000_000, 0x7FFFFFFF])
            case 7:
                # A message in a message.
                inner = struct.pack("<iIB", opcode, size, number) + data
                opcode, number, size, data = OP_COMPRESSED, 2, len(inner), zlib.compress(inner)
        return struct.pack("<iIB", opcode, size, number) + data

    def native_frame(self):
        """A frame for the native protocol."""
        rng = self.rng
        opcode, flags, content = rng.choice(self.native)
        # So that there are statements to execute, cursors to read, and exchanges to end, on most connections.
        first = {0x04: 0x03, 0x06: 0x05, 0x13: 0x12, 0x1D: 0x12, 0x1E: 0x12}.get(opcode)
        before = b""
        if first is not None:
            _, _, needed = rng.choice([request for request in self.native if request[0] == first])
            before = struct.pack("<IHHQ", len(needed), first, 0, 3) + needed
        # Cursors and exchanges are numbered on each connection.
        if opcode in CURSORS:
            content = struct.pack("<Q", rng.choice([1, 1, 2, 3, 4, 5, 6, 8])) + content[8:]
        elif opcode == 0x04:
            content = struct.pack("<I", rng.choice([1, 1, 2, 3, 4, 5])) + content[4:]
        match rng.randrange(6):
            case 0:
                content = self.mutator.bytes(bytes(16) + content)[16:] if content else b"\xff"
            case 1:
                content = content[:rng.randrange(len(content) + 1)]
            case 2:
                content += rng.randbytes(rng.randrange(1, 30))
            case 3:
                opcode = rng.randrange(0x40) if rng.random() < 0.8 else rng.randrange(1 << 16)
            case 4 if len(content) >= 4:
                at = rng.randrange(len(content) - 3)
                content = content[:at] + struct.pack("<I", self.number(len(content) - at)) + content[at + 4:]
            case _:
                if b"fuzz.f" in content[:8] and len(content) > 13:
                    content = content[:8] + self.document(content[8:]) if opcode in (0x11, 0x15, 0x17, 0x19) else content
                elif opcode == 0x05 and content[:2] != b"\x12\0":
                    content = content[:10] + self.document(content[10:])
                elif opcode == 0x06:
                    # The values of a get or an update, or what is read as some.
                    content = content[:4] + self.document(content[4:])
        length = self.number(len(content)) if rng.random() < 0.05 else len(content)
        if rng.random() < 0.3:
            flags = rng.choice([0, 1, 2, 4, 8, 12, 0xFFFF])
        return before + struct.pack("<IHHQ", length, opcode, flags, 2) + content, length == len(content)
