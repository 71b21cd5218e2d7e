"""One server for most tests; each test gets a database of its own."""
import itertools

import pytest

from server import Server

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that must live through everything that is thrown at it, and stop cleanly."""
    server = Server(tmp_path_factory.mktemp("shared"), admin=True)
    yield server
    assert server.stop() == 0, "".join(server.log[-20:])
    panics = [line for line in server.log if "panic" in line]
    assert not panics


@pytest.fixture(scope="session")
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture
def db(client):
    name = f"test{next(NUMBERS)}"
    yield client[name]
    client.drop_database(name)


@pytest.fixture
def films(db):
    """A collection of a dozen films."""
    db.films.insert_many(
        [{"_id": i, "title": f"film {i:02}", "year": 1990 + i % 5, "cast": [f"p{i}", f"p{i + 1}"],
          "rating": {"stars": i % 4, "votes": i * 10}} for i in range(12)])
    return db.films
