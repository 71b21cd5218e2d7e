"""The connection string of the server that run.py started, and a database for each test."""
import itertools
import os

import pymongo
import pytest

URI = os.environ["TREEDB_URI"]
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def client():
    with pymongo.MongoClient(URI, serverSelectionTimeoutMS=5000) as client:
        yield client


@pytest.fixture
def db(client):
    name = f"python{next(NUMBERS)}"
    yield client[name]
    client.drop_database(name)


@pytest.fixture
async def async_db(db):
    async with pymongo.AsyncMongoClient(URI, serverSelectionTimeoutMS=5000) as client:
        yield client[db.name]
