"""docs/mongodb-compatibility.md: what its tables of filters, updates and stages name works, what they refuse is refused, and
everything that works here is named there. Its commands and ignored options are compared with the server's own tables elsewhere."""
import pathlib
import re

import pytest
from pymongo.errors import OperationFailure

PAGE = pathlib.Path(__file__).parents[3] / "docs/mongodb-compatibility.md"

#: A filter for each operator, which finds some of the documents and not all.
FILTERS = {
    "$eq": {"n": {"$eq": 1}}, "$ne": {"n": {"$ne": 1}}, "$gt": {"n": {"$gt": 1}}, "$gte": {"n": {"$gte": 1}}, "$lt": {"n": {"$lt": 1}},
    "$lte": {"n": {"$lte": 1}}, "$in": {"n": {"$in": [1]}}, "$nin": {"n": {"$nin": [1]}},
    "$and": {"$and": [{"n": 1}, {"s": "b"}]}, "$or": {"$or": [{"n": 1}, {"n": 2}]}, "$nor": {"$nor": [{"n": 1}]}, "$not": {"n": {"$not": {"$gt": 1}}},
    "$exists": {"only": {"$exists": True}}, "$type": {"s": {"$type": "string"}, "n": 1},
    "$all": {"list": {"$all": [1, 2]}}, "$elemMatch": {"list": {"$elemMatch": {"$gt": 2, "$lt": 4}}}, "$size": {"list": {"$size": 2}},
    "$mod": {"n": {"$mod": [3, 1]}}, "$bitsAllSet": {"n": {"$bitsAllSet": 1}}, "$bitsAllClear": {"n": {"$bitsAllClear": 1}},
    "$bitsAnySet": {"n": {"$bitsAnySet": 1}}, "$bitsAnyClear": {"n": {"$bitsAnyClear": 1}},
    "$regex": {"s": {"$regex": "^b"}}, "$expr": {"$expr": {"$eq": ["$n", 1]}}, "$jsonSchema": {"$jsonSchema": {"required": ["only"]}},
    "$geoWithin": {"place": {"$geoWithin": {"$center": [[1, 1], 1]}}},
    "$geoIntersects": {"place": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1], [2, 5]]}}}},
    "$near": {"place": {"$near": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}}, "$nearSphere": {"place": {"$nearSphere": [0, 0]}},
    "$sampleRate": {"$and": [{"n": 1}, {"$sampleRate": 1.0}]}, "$comment": {"n": 1, "$comment": "why"},
}
REFUSED_FILTERS = {"$where": {"$where": "1"}, "$text": {"$text": {"$search": "x"}}}

#: An update for each operator, which changes the document {_id: 1, n: 1, s: "b", list: [1, 2]}.
UPDATES = {
    "$set": {"$set": {"x": 1}}, "$unset": {"$unset": {"s": ""}}, "$rename": {"$rename": {"s": "t"}}, "$currentDate": {"$currentDate": {"at": True}},
    "$inc": {"$inc": {"n": 1}}, "$mul": {"$mul": {"n": 5}}, "$min": {"$min": {"n": 0}}, "$max": {"$max": {"n": 9}}, "$bit": {"$bit": {"n": {"or": 2}}},
    "$push": {"$push": {"list": 3}}, "$each": {"$push": {"list": {"$each": [3, 4]}}}, "$position": {"$push": {"list": {"$each": [3], "$position": 0}}},
    "$sort": {"$push": {"list": {"$each": [0], "$sort": 1}}}, "$slice": {"$push": {"list": {"$each": [], "$slice": 1}}},
    "$addToSet": {"$addToSet": {"list": 3}}, "$pop": {"$pop": {"list": 1}}, "$pull": {"$pull": {"list": 1}}, "$pullAll": {"$pullAll": {"list": [1, 2]}},
    "$addFields": [{"$addFields": {"x": 1}}], "$project": [{"$project": {"n": 1}}], "$replaceWith": [{"$replaceWith": {"x": 1}}],
    "$replaceRoot": [{"$replaceRoot": {"newRoot": {"x": 1}}}],
    # Of an upsert.
    "$setOnInsert": {"$setOnInsert": {"x": 1}},
}

GROUPS = {
    "$sum": 1, "$avg": "$n", "$min": "$n", "$max": "$n", "$first": "$n", "$last": "$n", "$push": "$n", "$addToSet": "$n", "$count": {}, "$mergeObjects": "$$ROOT",
    "$stdDevPop": "$n", "$stdDevSamp": "$n", "$top": {"sortBy": {"n": 1}, "output": "$n"}, "$topN": {"n": 2, "sortBy": {"n": 1}, "output": "$n"},
    "$bottom": {"sortBy": {"n": 1}, "output": "$n"}, "$bottomN": {"n": 2, "sortBy": {"n": 1}, "output": "$n"}, "$firstN": {"n": 2, "input": "$n"},
    "$lastN": {"n": 2, "input": "$n"}, "$maxN": {"n": 2, "input": "$n"}, "$minN": {"n": 2, "input": "$n"},
    "$percentile": {"input": "$n", "p": [0.5], "method": "approximate"}, "$median": {"input": "$n", "method": "approximate"},
}

#: A pipeline for each stage, and on what it runs: the collection, the database, or `admin`.
STAGES = {
    "$match": [{"$match": {"n": 1}}], "$sort": [{"$sort": {"n": 1}}], "$skip": [{"$skip": 1}], "$limit": [{"$limit": 1}], "$project": [{"$project": {"n": 1}}],
    "$addFields": [{"$addFields": {"x": 1}}], "$set": [{"$set": {"x": 1}}], "$unset": [{"$unset": "n"}], "$replaceRoot": [{"$replaceRoot": {"newRoot": {"a": 1}}}],
    "$replaceWith": [{"$replaceWith": {"a": 1}}], "$redact": [{"$redact": "$$KEEP"}], "$group": [{"$group": {"_id": "$n"}}], "$count": [{"$count": "n"}],
    "$sortByCount": [{"$sortByCount": "$n"}], "$bucket": [{"$bucket": {"groupBy": "$n", "boundaries": [0, 2, 9]}}],
    "$bucketAuto": [{"$bucketAuto": {"groupBy": "$n", "buckets": 2}}], "$facet": [{"$facet": {"a": [{"$limit": 1}]}}], "$sample": [{"$sample": {"size": 1}}],
    "$unwind": [{"$unwind": "$list"}], "$lookup": [{"$lookup": {"from": "c", "localField": "n", "foreignField": "n", "as": "x"}}],
    "$graphLookup": [{"$graphLookup": {"from": "c", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "x"}}],
    "$unionWith": [{"$unionWith": "c"}], "$setWindowFields": [{"$setWindowFields": {"sortBy": {"n": 1}, "output": {"x": {"$sum": "$n"}}}}],
    "$densify": [{"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}}], "$fill": [{"$fill": {"output": {"only": {"value": 0}}}}],
    "$listSearchIndexes": [{"$listSearchIndexes": {}}, {"$count": "n"}], "$documents": [{"$documents": [{"a": 1}]}], "$collStats": [{"$collStats": {"count": {}}}],
    "$indexStats": [{"$indexStats": {}}], "$currentOp": [{"$currentOp": {}}], "$listLocalSessions": [{"$listLocalSessions": {}}, {"$count": "n"}],
    "$listSessions": [{"$listSessions": {}}, {"$count": "n"}], "$out": [{"$out": "copy"}], "$merge": [{"$merge": "copy"}],
    "$geoNear": [{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "far"}}],
    "$vectorSearch": [{"$vectorSearch": {"index": "v", "path": "v", "queryVector": [1.0, 0.0], "limit": 1, "numCandidates": 5}}],
}
NOT_OF_THE_COLLECTION = {"$documents": "database", "$currentOp": "admin", "$listLocalSessions": "database", "$listSessions": "config"}
NOTHING_TO_RETURN = {"$listSearchIndexes", "$listLocalSessions", "$listSessions", "$out", "$merge"}


def rows(section):
    """The rows of the tables of a section: their first cell, and the rest."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[1]
    return [(first.strip(), rest) for first, rest in re.findall(r"^\| ([^|]+?) \|(.*)\|$", text, re.M)]


def operators(text):
    return set(re.findall(r"(?<![.\w])\$[a-zA-Z]+", " ".join(re.findall(r"`([^`]+)`", text))))


@pytest.fixture
def some(db):
    db.c.insert_many([{"_id": 1, "n": 1, "s": "b", "list": [1, 2], "v": [1.0, 0.0], "place": [1, 1]}, {"_id": 2, "n": 2, "s": "a", "list": [3], "only": True, "place": [50, 50]},
                      {"_id": 3, "n": 0, "list": []}])
    db.c.create_index([("place", "2dsphere")])
    return db.c


def test_the_page_names_the_operators_of_filters_that_there_are():
    named = {first: operators(rest) for first, rest in rows("Filters")}
    refused = set().union(*(names for first, names in named.items() if first.startswith("refused")))
    assert refused == set(REFUSED_FILTERS)
    assert set().union(*named.values()) - refused == set(FILTERS)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_of_the_page_works(some, name):
    assert 0 < len(list(some.find(FILTERS[name]))) < 3


@pytest.mark.parametrize("name", REFUSED_FILTERS)
def test_a_filter_that_the_page_says_is_refused_is(some, name):
    with pytest.raises(OperationFailure, match=re.escape(name)):
        list(some.find(REFUSED_FILTERS[name]))


def test_the_page_names_the_operators_of_updates_that_there_are():
    assert set().union(*(operators(rest) for _, rest in rows("Updates"))) == set(UPDATES)


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_of_the_page_works(some, name):
    before = some.find_one({"_id": 1})
    target = {"_id": 9 if name == "$setOnInsert" else 1}
    result = some.update_one(target, UPDATES[name], upsert=True)
    assert result.modified_count == 1 or result.upserted_id == 9
    assert some.find_one(target) != before


@pytest.mark.parametrize("path, filters, changed", [
    ("list.0", None, [7, 2]), ("list.$", None, [1, 7]), ("list.$[]", None, [7, 7]), ("list.$[id]", [{"id": 2}], [1, 7])])
def test_an_element_is_updated_in_each_way_of_the_page(some, path, filters, changed):
    assert f"`{path.replace('list', 'a')}`" in dict(rows("Updates"))["elements"]
    some.update_one({"_id": 1, "list": 2}, {"$set": {path: 7}}, array_filters=filters)
    assert some.find_one({"_id": 1})["list"] == changed


def test_the_page_names_the_stages_and_accumulators_that_there_are():
    table = rows("Aggregation")
    assert set().union(*(operators(first) for first, _ in table)) == set(STAGES)
    assert operators(dict(table)["`$group`"]) == set(GROUPS)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_of_the_page_works(client, some, name):
    if name == "$vectorSearch":
        some.database.command("createSearchIndexes", "c", indexes=[{"name": "v", "type": "vectorSearch", "definition": {
            "fields": [{"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}]}}])
    whose = NOT_OF_THE_COLLECTION.get(name)
    on = {None: some, "database": some.database, "admin": client.admin, "config": client.config["system.sessions"]}[whose]
    found = list(on.aggregate(STAGES[name]))
    assert found or name in NOTHING_TO_RETURN
    if name in ("$out", "$merge"):
        assert some.database["copy"].count_documents({}) == 3


@pytest.mark.parametrize("name", GROUPS)
def test_an_accumulator_of_the_page_works(some, name):
    found, = some.aggregate([{"$group": {"_id": None, "x": {name: GROUPS[name]}}}])
    assert found["x"] is not None


@pytest.mark.parametrize("stage", ["$search", "$searchMeta", "$listSampledQueries", "$planCacheStats", "$querySettings",
                                   "$shardedDataDistribution"])
def test_other_stages_are_refused_by_name(some, stage):
    with pytest.raises(OperationFailure, match=re.escape(stage)):
        list(some.aggregate([{stage: {}}]))


def test_kinds_of_collections_of_the_page_can_be_created(db):
    made = {
        "views": {"viewOn": "c", "pipeline": []}, "capped": {"capped": True, "size": 4096},
        "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, "time series": {"timeseries": {"timeField": "at"}},
    }
    assert [first for first, _ in rows("Kinds of collections") if first != "---"] == list(made)
    for name, options in made.items():
        db.command({"create": name.replace(" ", ""), **options})
    assert {each["type"] for each in db.list_collections()} >= {"view", "collection", "timeseries"}
