#!/usr/bin/env python3
"""Writes what the fuzzer begins with into fuzz/corpus/TARGET: one valid message of each kind, so that it does not have
to guess lengths and checksums before it finds anything. Files that are there stay.

    scripts/fuzz_seeds.py
"""
import hashlib
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"

sys.path.insert(0, str(ROOT / "treedb_server" / "tests" / "driver"))
from crc import crc32c  # noqa: E402


def document(fields):
    out = b""
    for name, value in fields.items():
        name = name.encode() + b"\0"
        match value:
            case bool():
                out += b"\x08" + name + bytes([value])
            case int():
                out += b"\x10" + name + struct.pack("<i", value)
            case float():
                out += b"\x01" + name + struct.pack("<d", value)
            case str():
                text = value.encode() + b"\0"
                out += b"\x02" + name + struct.pack("<i", len(text)) + text
            case bytes():
                # Of the subtype of vectors.
                out += b"\x05" + name + struct.pack("<i", len(value)) + b"\x09" + value
            case None:
                out += b"\x0a" + name
            case dict():
                out += b"\x03" + name + document(value)
            case list():
                out += b"\x04" + name + document({str(i): item for i, item in enumerate(value)})
    return struct.pack("<i", len(out) + 5) + out + b"\0"


DOCUMENTS = [{"_id": 1, "a": {"b": [1, 2.5, "three"]}, "n": None}, {"_id": "two", "t": True}]
FILTER, UPDATE, SORT = {"a.b": {"$in": [1, None]}}, {"$set": {"a.c": 7}, "$inc": {"n": 1}}, {"_id": -1}


def op_msg(body, sequence=None, checksum=False):
    sections = b"\0" + document(body)
    if sequence:
        name, documents = sequence
        inner = name.encode() + b"\0" + b"".join(map(document, documents))
        sections += b"\1" + struct.pack("<i", len(inner) + 4) + inner
    length = 20 + len(sections) + (4 if checksum else 0)
    message = struct.pack("<iiiiI", length, 7, 0, 2013, int(checksum)) + sections
    return message + struct.pack("<I", crc32c(message)) if checksum else message


def op_query(body):
    rest = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + document(body)
    return struct.pack("<iiii", 16 + len(rest), 1, 0, 2004) + rest


def mongo():
    yield op_query({"isMaster": 1, "helloOk": True})
    yield op_msg({"ping": 1, "$db": "admin"})
    yield op_msg({"ping": 1, "$db": "admin"}, checksum=True)
    yield op_msg({"insert": "c", "$db": "d"}, ("documents", DOCUMENTS))
    yield op_msg({"find": "c", "filter": FILTER, "sort": SORT, "$db": "d"})
    yield op_msg({"update": "c", "$db": "d"}, ("updates", [{"q": FILTER, "u": UPDATE, "multi": True}]))


def text(value):
    return struct.pack("<H", len(value)) + value.encode()


def data(value):
    return struct.pack("<I", len(value)) + value


def frame(opcode, body, flags=0, request=7):
    return struct.pack("<IHHQ", len(body), opcode, flags, request) + body


def native():
    c, t = text("d.c"), text("t")
    documents = [document(d) for d in DOCUMENTS]
    insert = frame(0x10, c + struct.pack("<I", 2) + b"".join(documents))
    put = frame(0x21, t + data(b"k") + data(b"v"))
    search = struct.pack("<IQQB", 1, 0, 0, 3) + document(FILTER) + document(SORT) + document({"a": 1})
    yield frame(0x02, b"are you there")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-1"):
        yield (frame(0x03, text("admin") + text(mechanism) + data(b"n,,n=ann,r=abcdefgh"))
               + frame(0x04, struct.pack("<I", 1) + data(b"c=biws,r=abcdefgh,p=" + b"A" * 43 + b"=")))
    yield insert + frame(0x11, c + document({"_id": 1}))
    yield insert + frame(0x12, c + search) + frame(0x13, struct.pack("<QI", 1, 1)) + frame(0x14, struct.pack("<Q", 1))
    yield insert + frame(0x12, c + search) + frame(0x1E, struct.pack("<QI", 1, 2)) + frame(0x1D, struct.pack("<QII", 1, 1, 4))
    yield insert + frame(0x15, c + document(FILTER) + document(UPDATE), flags=12)
    yield insert + frame(0x16, c + struct.pack("<Q", 1) + document({})) + frame(0x17, c + bytes(16) + document({}))
    # Statements: the shape, then values for it.
    param, one, two = {"$param": 0}, document({"": 1}), document({"": 1, "b": [2]})
    for opcode, shape, values, flags in [
        (0x11, document({"_id": param}), one, 0),
        (0x10, document({"_id": param, "a": [{"b": {"$param": 1}}]}), struct.pack("<I", 2) + two + two, 4),
        (0x12, b"\3" + document({"a": param}) + document(SORT) + document({"a": 1}), struct.pack("<IQQ", 1, 0, 5) + one, 0),
        (0x15, document({"a": param}) + document({"$set": {"x": {"$param": 1}}}), two, 12),
        (0x16, document({"$and": [{"a": param}]}), struct.pack("<Q", 1) + one, 0),
        (0x17, document({"a": {"b": [param]}}), bytes(16) + one, 0),
    ]:
        prepared = frame(0x05, struct.pack("<H", opcode) + c + shape)
        yield insert + prepared + frame(0x06, struct.pack("<I", 1) + values, flags) + frame(0x07, struct.pack("<I", 1))
    vectors = frame(0x10, c + struct.pack("<I", 2) + b"".join(document({"_id": i, "a": i, "v": [1.0, float(i)]}) for i in (1, 2)))
    near = {"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}, {"type": "filter", "path": "a"}]}
    near = vectors + frame(0x19, c + document({"name": "near", "type": "vectorSearch", "definition": near}))
    asked = c + text("near") + struct.pack("<IIIff", 2, 10, 2, 1.0, 0.5) + document({"a": {"$gt": 0}})
    yield near + frame(0x18, asked) + frame(0x18, asked + document({"a": 1}), flags=12)
    yield near + frame(0x1C, c + text("near") + document({"fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}))
    yield insert + frame(0x19, c + document({"key": {"n": 1}})) + frame(0x1A, c) + frame(0x1B, c + text("n_1")) + near + frame(0x1B, c + text("near"))
    yield put + frame(0x20, t + data(b"k")) + frame(0x22, t + data(b"k"))
    yield put + frame(0x23, t + b"\1" + data(b"a") + b"\2" + data(b"z") + struct.pack("<II", 10, 100), flags=4)
    yield frame(0x24, t + struct.pack("<I", 2) + b"\1" + data(b"k") + data(b"v") + b"\0" + data(b"k"))


def queries():
    # The first byte is the length of the first document; 0 is for JSON.
    yield b'\0{"_id": {"$oid": "0123456789abcdef01234567"}, "a": [1, 2.5, {"$date": "2020-01-01T00:00:00Z"}, null]}'
    for asked in [FILTER, UPDATE, SORT, {"a": 1, "_id": 0}, {"$or": [{"a": {"$exists": True}}, {"n": {"$gt": 1}}]}]:
        asked = document(asked)
        yield bytes([len(asked)]) + asked + document(DOCUMENTS[0])
    vectors = [[1.0, 2.5], b"\x27\0" + struct.pack("<ff", 1, 2.5), b"\x03\0\x01\xff", b"\x10\x06\x80"]
    for more in [{"similarity": "cosine"}, {"similarity": "hamming"}, {"similarity": "euclidean", "elements": "int8"}]:
        field = {"type": "vector", "path": "v", "numDimensions": 2, **more}
        asked = document({"type": "vectorSearch", "definition": {"fields": [field]}})
        for about in [{"v": vectors}, *({"v": vector} for vector in vectors)]:
            yield bytes([len(asked)]) + asked + document(about)


def hostile_pages():
    # Kind of tree, entries, what is asked; then changes: page, offset of two bytes, byte.
    for kind in range(2):
        for how in range(4):
            yield bytes([kind, 40 + 50 * how, how * 41]) + bytes([how, 0, 6, 200, 2, 1, 40, 7])


def main():
    for make in [mongo, native, queries, hostile_pages]:
        name = make.__name__ + ("_frames" if make in (mongo, native) else "")
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed in make():
            # Seeds that come later do not take the places of those that are there.
            path = folder / f"seed-{hashlib.sha256(seed).hexdigest()[:16]}"
            if not path.exists():
                path.write_bytes(seed)


if __name__ == "__main__":
    main()
