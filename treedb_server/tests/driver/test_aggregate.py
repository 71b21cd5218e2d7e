"""The pipelines that are supported, and the words for those that are not."""
import pytest
from pymongo.errors import OperationFailure


def test_stages_that_are_a_find(films):
    pipeline = [{"$match": {"year": 1991}}, {"$match": {"_id": {"$gt": 1}}}, {"$sort": {"_id": -1}}, {"$skip": 1},
                {"$limit": 5}, {"$project": {"title": 1}}]
    assert list(films.aggregate(pipeline)) == [{"_id": 6, "title": "film 06"}]
    assert len(list(films.aggregate([]))) == 12


def test_stages_in_any_order(films):
    pipeline = [{"$limit": 8}, {"$match": {"year": 1991}}, {"$skip": 1}, {"$project": {"_id": 1}}]
    assert list(films.aggregate([{"$sort": {"_id": 1}}, *pipeline])) == [{"_id": 6}]
    assert list(films.aggregate([{"$limit": 5}, {"$limit": 3}, {"$count": "n"}])) == [{"n": 3}]


def test_counting_pipelines(films):
    group = {"$group": {"_id": 1, "n": {"$sum": 1}}}
    assert list(films.aggregate([{"$match": {"year": 1991}}, group])) == [{"_id": 1, "n": 3}]
    assert list(films.aggregate([{"$match": {"year": 3000}}, group])) == []
    assert list(films.aggregate([{"$match": {}}, {"$skip": 10}, {"$limit": 9}, group])) == [{"_id": 1, "n": 2}]
    assert list(films.aggregate([{"$match": {"year": 1991}}, {"$count": "many"}])) == [{"many": 3}]
    assert list(films.aggregate([{"$sort": {"_id": 1}}, {"$limit": 4}, {"$match": {"year": 1991}}, group])) == [{"_id": 1, "n": 1}]


def test_batches(db):
    db.c.insert_many([{"_id": i} for i in range(500)])
    assert len(list(db.c.aggregate([{"$match": {}}], batchSize=7))) == 500
    assert len(list(db.c.aggregate([{"$skip": 10}, {"$match": {}}], batchSize=0))) == 490


@pytest.mark.parametrize("stage, code, word", [
    ({"$group": {"_id": "$year", "n": {"$sum": 1}}}, 238, "$group"),
    ({"$lookup": {"from": "x"}}, 238, "$lookup"),
    ({"$unwind": "$cast"}, 238, "$unwind"),
    ({"$out": "x"}, 238, "$out"),
    ({"$nonsense": 1}, 40324, "$nonsense"),
    ({"$project": {"a": "$b"}}, 238, "'a'"),
    ({"$limit": 0}, 15958, "limit"),
    ({}, 40323, "one field"),
])
def test_other_stages_are_refused_by_name(films, stage, code, word):
    with pytest.raises(OperationFailure) as failure:
        list(films.aggregate([stage]))
    assert failure.value.code == code and word in failure.value.details["errmsg"]


def test_arguments(films):
    db = films.database
    assert db.command({"aggregate": "films"}, check=False)["code"] == 40414
    assert db.command({"aggregate": 1, "pipeline": [], "cursor": {}}, check=False)["code"] == 73
    assert db.command({"aggregate": "films", "pipeline": [1], "cursor": {}}, check=False)["code"] == 14
    assert db.command({"aggregate": "nothing", "pipeline": [], "cursor": {}})["cursor"]["firstBatch"] == []
