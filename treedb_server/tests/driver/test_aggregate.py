"""The supported pipelines, and the errors of the others."""
import pytest
from pymongo.errors import OperationFailure


def failed_with(work):
    with pytest.raises(OperationFailure) as failure:
        work()
    return failure.value.code


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
    ({"$group": {"_id": "$year", "n": {"$nope": 1}}}, 15952, "$nope"),
    ({"$lookup": {"from": "x"}}, 9, "$lookup"),
    ({"$unwind": "cast"}, 28818, "$unwind"),
    ({"$geoNear": {}}, 16605, "$geoNear"),
    ({"$nonsense": 1}, 40324, "$nonsense"),
    ({"$project": {"a": {"$function": {}}}}, 238, "$function"),
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


@pytest.mark.parametrize("pipeline, expected", [
    ([{"$group": {"_id": None, "first": {"$min": "$year"}, "n": {"$sum": 1}}}, {"$project": {"_id": 0, "n": 1}}], [{"n": 12}]),
    ([{"$match": {"_id": 1}}, {"$addFields": {"next": {"$add": ["$_id", 1]}}}, {"$project": {"next": 1}}], [{"_id": 1, "next": 2}]),
    ([{"$match": {"_id": 1}}, {"$lookup": {"from": "films", "localField": "_id", "foreignField": "_id", "as": "same"}},
      {"$project": {"n": {"$size": "$same"}}}], [{"_id": 1, "n": 1}]),
    ([{"$facet": {"n": [{"$count": "n"}]}}], [{"n": [{"n": 12}]}]),
    ([{"$match": {"$expr": {"$eq": ["$_id", "$$wanted"]}}}, {"$project": {"_id": 1}}], [{"_id": 3}]),
    ([{"$limit": 1}, {"$project": {"_id": 0, "parts": {"$split": ["a-b", "-"]}}}, {"$unwind": "$parts"}], [{"parts": "a"}, {"parts": "b"}]),
    ([{"$sort": {"_id": 1}}, {"$limit": 1}, {"$replaceWith": {"k": "$_id"}}, {"$unionWith": {"coll": "films", "pipeline": [{"$count": "k"}]}}],
     [{"k": 0}, {"k": 12}]),
    ([{"$bucket": {"groupBy": "$_id", "boundaries": [0, 6, 100]}}], [{"_id": 0, "count": 6}, {"_id": 6, "count": 6}]),
])
def test_pipelines_of_every_kind(films, pipeline, expected):
    assert list(films.aggregate(pipeline, let={"wanted": 3})) == expected


def test_out_and_merge_fill_a_collection(films):
    years = films.database.years
    films.aggregate([{"$group": {"_id": "$year", "n": {"$sum": 1}}}, {"$out": "years"}])
    assert sum(year["n"] for year in years.find()) == 12
    films.aggregate([{"$match": {"_id": 1}}, {"$project": {"_id": "$year", "m": {"$literal": 1}}}, {"$merge": {"into": "years"}}])
    assert years.count_documents({"m": 1}) == 1


def test_out_and_merge_refuse_what_they_cannot_write_before_the_pipeline_runs(films):
    db = films.database
    db.create_collection("view", viewOn="films", pipeline=[])
    db.create_collection("log", capped=True, size=4096)
    db.log.insert_one({"_id": "kept"})
    db.create_collection("series", timeseries={"timeField": "at"})
    # The first of these fails as soon as it runs, the others have nothing to write.
    begins = [[{"$group": {"_id": {"$toInt": "$title"}}}], [{"$match": {"_id": -1}}], [{"$sort": {"year": 1}}, {"$limit": 1}, {"$match": {"_id": -1}}]]
    assert failed_with(lambda: films.aggregate(begins[0])) == 241
    for begin in begins:
        for stage, expected in [
            ({"$out": "view"}, 166), ({"$merge": "view"}, 166), ({"$out": "log"}, 17152), ({"$merge": {"into": "series"}}, 166),
            *[({"$out": {"db": name, "coll": "x"}}, 31321) for name in ("admin", "config", "local")],
            *[({"$merge": {"into": {"db": name, "coll": "x"}}}, 31320) for name in ("admin", "config", "local")],
            ({"$out": {"db": db.name.upper(), "coll": "x"}}, 13297), ({"$merge": {"into": {"db": db.name.upper(), "coll": "x"}}}, 13297),
            ({"$out": "system.x"}, 73), ({"$merge": "system.x"}, 73),
        ]:
            assert failed_with(lambda: films.aggregate(begin + [stage])) == expected, (begin, stage)
            explain = {"explain": {"aggregate": "films", "pipeline": begin + [stage], "cursor": {}}}
            assert failed_with(lambda: db.command(explain)) == expected, (begin, stage)
    assert list(db.log.find()) == [{"_id": "kept"}] and sorted(db.list_collection_names()) == ["films", "log", "series", "view"]
    # These they can write.
    films.aggregate([{"$limit": 1}, {"$merge": "log"}])
    films.aggregate([{"$project": {"at": {"$toDate": {"$toLong": "$_id"}}}}, {"$out": "series"}])
    assert db.log.count_documents({}) == 2 and db.series.count_documents({}) == 12


def test_documents_without_a_collection_and_explain(films):
    db = films.database
    assert list(db.aggregate([{"$documents": [{"a": 1}]}])) == [{"a": 1}]
    plan = db.command({"aggregate": "films", "pipeline": [{"$match": {"_id": 1}}], "cursor": {}, "explain": True})
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "IDHACK"


def test_explain_of_a_pipeline_shows_the_search_and_the_stages_behind_it(films):
    films.create_index("year")
    pipeline = [{"$set": {"v": 1}}, {"$match": {"year": 1991}}, {"$group": {"_id": "$v", "n": {"$sum": 1}}}]
    command = {"aggregate": "films", "pipeline": pipeline, "cursor": {}}
    plan = films.database.command({"explain": command, "verbosity": "executionStats"})
    search, shape, group = plan["stages"]
    assert search["$cursor"]["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "year_1"
    assert search["$cursor"]["executionStats"]["totalDocsExamined"] == 3
    assert shape == {"$set": {"v": 1}} and group == {"$group": pipeline[2]["$group"]}
    only = films.database.command({"explain": {**command, "pipeline": [{"$match": {"_id": 1}}, {"$limit": 3}]}, "verbosity": "queryPlanner"})
    plan = only["queryPlanner"]["winningPlan"]
    assert "stages" not in only and plan["stage"] == "LIMIT" and plan["inputStage"]["stage"] == "IDHACK"
    into = {**command, "pipeline": [{"$out": "copy"}]}
    assert "$out" in films.database.command({"explain": into})["stages"][-1]
    assert films.database.copy.count_documents({}) == 0
