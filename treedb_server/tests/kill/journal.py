"""The acknowledgement file, and what it says must be in a database.

One JSON array a line, each written with one system call by the supervisor, which is never killed:

    ["try", 17, {"docs/w1-5": 8, "docs/w1-6": null}]   about to ask for this: all of it or nothing
    ["ack", 17, "durable"]                             the server said that it is done
    ["saw", "docs/w1-5", 8]                            what was there after a kill, for something tried and not acknowledged

A value is a version; null is "not there". The expectations are read back from the file and from nothing else.
"""
import itertools
import json
import os
import threading


class Journal:
    """Writes the file."""

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()

    def trying(self, changes):
        with self.lock:
            number = next(self.numbers)
        self._line(["try", number, changes])
        return number

    def acknowledged(self, number, how):
        self._line(["ack", number, how])

    def saw(self, key, version):
        self._line(["saw", key, version])

    def _line(self, entry):
        os.write(self.file, json.dumps(entry).encode() + b"\n")


class Expected:
    """What the file says so far."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.settled = {}  # key -> version that was acknowledged, or seen after a kill
        self.open = {}  # number -> changes that were tried and not acknowledged
        self.acknowledged = {"durable": 0, "relaxed": 0}

    def read(self):
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            for line in file:
                kind, *rest = json.loads(line)
                if kind == "try":
                    self.open[rest[0]] = rest[1]
                elif kind == "ack":
                    self.settled.update(self.open.pop(rest[0]))
                    self.acknowledged[rest[1]] += 1
                else:
                    self.settled[rest[0]] = rest[1]
            self.offset = file.tell()

    def compare(self, found, journal):
        """Compares with `found`: key -> version. Returns what is lost, and what is half there, in words.

        What was tried and not acknowledged may be there or not, but only as a whole; what of it is there is noted
        in the file, and expected from then on.
        """
        self.read()
        lost, half, tried = [], [], set()
        for number, changes in self.open.items():
            tried.update(changes)
            old = {key: self.settled.get(key) for key in changes}
            now = {key: found.get(key) for key in changes}
            if now not in (old, changes):
                lies_between = all(now[key] in (old[key], changes[key]) for key in changes)
                (half if lies_between else lost).append(f"try {number}: {old} -> {changes}, found {now}")
            for key, version in now.items():
                journal.saw(key, version)
        self.open.clear()
        for key, version in self.settled.items():
            if key not in tried and found.get(key) != version:
                lost.append(f"{key}: version {version} was acknowledged, found {found.get(key)}")
        half += [f"{key}: never written" for key in found if key not in self.settled and key not in tried]
        self.read()
        return lost, half
