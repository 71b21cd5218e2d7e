"""PyMongo's asynchronous client."""
import asyncio
import os

import pytest
from gridfs import AsyncGridFSBucket
from pymongo import AsyncMongoClient, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure


async def fail_once(db, point, **data):
    await db.client.admin.command({"configureFailPoint": point, "mode": {"times": 1}, "data": data})


async def test_documents_are_created_read_updated_and_deleted(async_db):
    films = async_db.films
    await films.insert_many([{"title": "a", "year": 1990}, {"title": "b", "year": 1991, "cast": ["x", "y"]}])
    assert (await films.find_one({"cast": "y"}))["title"] == "b"
    assert (await films.update_many({}, {"$inc": {"year": 10}})).modified_count == 2
    assert (await films.find_one_and_update({"title": "c"}, {"$set": {"year": 1}}, upsert=True, return_document=True))["year"] == 1
    assert sorted(await films.distinct("title")) == ["a", "b", "c"]
    assert (await films.delete_many({"year": {"$gt": 1}})).deleted_count == 2
    assert await films.count_documents({}) == 1


async def test_indexes_and_batches_and_pipelines(async_db):
    items = async_db.items
    await items.insert_many([{"_id": i, "a": i % 10} for i in range(1000)])
    assert await items.create_index([("a", 1), ("_id", -1)], name="a") == "a"
    assert list(await items.index_information()) == ["_id_", "a"]
    assert [each["_id"] async for each in items.find({}, batch_size=99).sort("_id", 1)] == list(range(1000))
    rows = await (await items.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], batchSize=3)).to_list()
    assert rows == [{"_id": i, "n": 100} for i in range(10)]
    with pytest.raises(OperationFailure) as failure:
        await items.create_index([("b", 1)], name="a")
    assert failure.value.code == 86


async def test_many_clients_at_once_each_do_what_they_asked_for(async_db):
    await asyncio.gather(*(async_db.items.insert_one({"_id": i}) for i in range(200)))
    found = await asyncio.gather(*(async_db.items.find_one({"_id": i}) for i in range(200)))
    assert [each["_id"] for each in found] == list(range(200))


async def test_transactions_that_meet_are_tried_again_until_each_has_had_its_turn(async_db):
    await async_db.items.insert_one({"_id": 1, "n": 0})

    async def add(session):
        found = await async_db.items.find_one({"_id": 1}, session=session)
        await async_db.items.update_one({"_id": 1}, {"$set": {"n": found["n"] + 1}}, session=session)

    async def transaction():
        async with async_db.client.start_session() as session:
            await session.with_transaction(add)

    await asyncio.gather(*(transaction() for _ in range(8)))
    assert (await async_db.items.find_one())["n"] == 8


async def test_a_change_stream_shows_changes_and_resumes(async_db):
    async with await async_db.items.watch(full_document="updateLookup") as changes:
        await async_db.items.insert_one({"_id": 1})
        await async_db.items.update_one({"_id": 1}, {"$set": {"a": 5}})
        insert, update = [await changes.next() for _ in range(2)]
    assert insert["operationType"] == "insert" and update["fullDocument"] == {"_id": 1, "a": 5}
    async with await async_db.watch(resume_after=insert["_id"]) as changes:
        assert (await changes.next())["operationType"] == "update"


async def test_a_write_whose_connection_breaks_is_sent_again_and_done_once(async_db):
    await async_db.items.insert_one({"_id": 1, "n": 0})
    await fail_once(async_db, "failCommand", failCommands=["update"], closeConnection=True)
    await async_db.items.update_one({"_id": 1}, {"$inc": {"n": 1}})
    await fail_once(async_db, "onPrimaryTransactionalWrite", closeConnection=True)
    await async_db.items.update_one({"_id": 1}, {"$inc": {"n": 1}})
    await fail_once(async_db, "failCommand", failCommands=["find"], closeConnection=True)
    assert (await async_db.items.find_one())["n"] == 2


async def test_errors_have_the_codes_that_applications_look_for(async_db):
    await async_db.items.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError):
        await async_db.items.insert_one({"_id": 1})
    with pytest.raises(BulkWriteError) as failure:
        await async_db.items.bulk_write([InsertOne({"_id": 1}), UpdateOne({"_id": 1}, {"$set": {"a": 1}})], ordered=False)
    assert failure.value.details["nModified"] == 1 and failure.value.details["writeErrors"][0]["code"] == 11000
    with pytest.raises(OperationFailure) as refused:
        await async_db.command("nonsense")
    assert refused.value.code == 59
    async with AsyncMongoClient(os.environ["TREEDB_URI"], username="root", password="wrong") as wrong:
        with pytest.raises(OperationFailure) as refused:
            await wrong.x.items.find_one()
        assert refused.value.code == 18
    await async_db.command("ping")


async def test_a_file_of_gridfs_comes_back_whole(async_db):
    bucket = AsyncGridFSBucket(async_db, chunk_size_bytes=100_000)
    content = os.urandom(1_234_567)
    number = await bucket.upload_from_stream("photo", content, metadata={"by": "ann"})
    async with await bucket.open_download_stream(number) as stream:
        assert await stream.read() == content
    await bucket.rename(number, "picture")
    assert [each.filename async for each in bucket.find({"metadata.by": "ann"})] == ["picture"]
    await bucket.delete(number)
    assert await async_db["fs.chunks"].count_documents({}) == 0
