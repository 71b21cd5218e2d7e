"""A server with a `readWriteAnyDatabase` user, and an embedding function without a model: texts that share words have similar vectors."""
import hashlib
import itertools
import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "driver"))

from server import Locked  # noqa: E402

DIMENSIONS = 64
NUMBERS = itertools.count()
# Who the stores are: no administrator.
USER, SECRET = "stores", "of texts"


def embed(text):
    """Each word adds 1 or -1 at a few places that its hash tells; the length is 1."""
    sums = [0.0] * DIMENSIONS
    for word in text.lower().split():
        for at in range(0, 12, 2):
            digest = hashlib.sha256(word.encode()).digest()
            sums[digest[at] % DIMENSIONS] += 1 if digest[at + 1] % 2 else -1
    length = math.hypot(*sums) or 1.0
    return [value / length for value in sums]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("shared") / "data")
    with server.as_user() as root:
        root.admin.command("createUser", USER, pwd=SECRET, roles=["readWriteAnyDatabase"])
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="session")
def client(server):
    with server.as_user(USER, SECRET) as client:
        yield client


@pytest.fixture
def collection(server, client):
    name = f"stores{next(NUMBERS)}"
    yield client[name].texts
    with server.as_user() as root:
        root.drop_database(name)
