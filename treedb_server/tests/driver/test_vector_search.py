"""Search indexes and $vectorSearch through the driver, as with MongoDB Atlas."""
import math
import random
import signal
import subprocess
import threading

import pytest
from bson.binary import Binary, BinaryVectorDtype
from bson.objectid import ObjectId
from pymongo.errors import ConnectionFailure, OperationFailure, WriteError
from pymongo.operations import SearchIndexModel

from server import BIN, Server

DIMENSIONS = 4


def definition(similarity="euclidean", dimensions=DIMENSIONS, **field):
    return {"fields": [
        {"type": "vector", "path": "v", "numDimensions": dimensions, "similarity": similarity, **field},
        {"type": "filter", "path": "part"},
    ]}


def model(name="near", **options):
    return SearchIndexModel(definition(**options), name=name, type="vectorSearch")


def vector(n):
    return [float(n), n / 2, 1.0, -float(n % 7)]


def search(at, limit=3, **operand):
    stage = {"index": "near", "path": "v", "queryVector": at, "numCandidates": 100, "limit": limit, **operand}
    return {"$vectorSearch": {name: value for name, value in stage.items() if value is not None}}


def distance(a, b):
    return math.dist(a, b)


@pytest.fixture
def things(db):
    db.things.insert_many([{"_id": n, "v": vector(n), "part": n % 10, "text": f"thing {n}"} for n in range(300)])
    assert db.things.create_search_index(model()) == "near"
    return db.things


def refused(code, call, *args, **options):
    with pytest.raises(OperationFailure) as error:
        result = call(*args, **options)
        list(result)
    assert error.value.code == code, error.value
    return error.value.details["errmsg"], error.value.details["codeName"]


def nearest(at, limit, keep=lambda n: True):
    return sorted(filter(keep, range(300)), key=lambda n: (distance(vector(n), at), n))[:limit]


def test_an_index_is_created_listed_updated_and_dropped(things):
    listed = list(things.list_search_indexes())
    assert len(listed) == 1
    index = listed[0]
    ObjectId(index["id"])
    assert (index["name"], index["type"], index["status"], index["queryable"]) == ("near", "vectorSearch", "READY", True)
    assert index["latestDefinition"]["fields"][0]["numDimensions"] == DIMENSIONS
    assert index["latestDefinition"]["fields"][1] == {"type": "filter", "path": "part"}
    assert list(things.list_search_indexes("near")) == listed
    assert list(things.list_search_indexes("far")) == []
    assert things.database.command("listSearchIndexes", "things")["cursor"]["firstBatch"] == listed
    assert things.database.command("listSearchIndexes", "things", id=index["id"])["cursor"]["firstBatch"] == listed
    # Indexes for queries are another list.
    assert [i["name"] for i in things.list_indexes()] == ["_id_"]

    things.update_search_index("near", definition("cosine", quantization="none"))
    updated = list(things.list_search_indexes())
    assert [i["id"] for i in updated] == [index["id"]]
    assert updated[0]["latestDefinition"]["fields"][0]["similarity"] == "cosine"
    assert updated[0]["latestDefinition"]["fields"][0]["quantization"] == "none"
    for quantization in ["binary", "bits2", "bits4"]:
        things.update_search_index("near", definition("cosine", quantization=quantization))
        assert [i["latestDefinition"]["fields"][0]["quantization"] for i in things.list_search_indexes()] == [quantization]

    things.drop_search_index("near")
    assert list(things.list_search_indexes()) == []
    assert things.create_search_indexes([model("a"), model("b")]) == ["a", "b"]
    by_id = {i["name"]: i["id"] for i in things.list_search_indexes()}
    things.database.command("dropSearchIndex", "things", id=by_id["a"])
    assert [i["name"] for i in things.list_search_indexes()] == ["b"]


def test_an_index_without_a_name_is_the_default_one_and_one_that_exists_is_no_error(things):
    unnamed = SearchIndexModel(definition(), type="vectorSearch")
    assert things.create_search_index(unnamed) == "default"
    assert things.create_search_index(unnamed) == "default"
    reply = things.database.command("createSearchIndexes", "things", indexes=[model().document])
    assert [i["name"] for i in reply["indexesCreated"]] == ["near"] and ObjectId(reply["indexesCreated"][0]["id"])
    assert refused(68, things.create_search_index, model(dimensions=5))[1] == "IndexAlreadyExists"


def test_index_commands_that_cannot_be_done_are_refused_with_mongodbs_codes(things):
    message, _ = refused(238, things.create_search_index, {"definition": {"mappings": {"dynamic": True}}})
    assert '"search"' in message and "vectorSearch" in message
    text = SearchIndexModel({"mappings": {"dynamic": True}}, name="text", type="search")
    assert refused(238, things.create_search_index, text)[1] == "NotImplemented"
    assert refused(2, things.create_search_index, SearchIndexModel({}, type="wide"))[1] == "BadValue"
    for wrong in [definition("l3"), definition(dimensions=0), definition(quantization="some"), {}, {"fields": [{"type": "filter", "path": "a"}]}]:
        index = SearchIndexModel(wrong, name="wrong", type="vectorSearch")
        assert refused(67, things.create_search_index, index)[1] == "CannotCreateIndex"
    assert refused(27, things.update_search_index, "far", definition())[1] == "IndexNotFound"
    assert refused(27, things.drop_search_index, "far")[1] == "IndexNotFound"
    assert refused(27, things.drop_search_index, "_id_")[1] == "IndexNotFound"
    command = things.database.command
    assert refused(26, things.database.nothing.create_search_index, model())[1] == "NamespaceNotFound"
    assert refused(26, command, "updateSearchIndex", "nothing", name="near", definition=definition())
    assert refused(26, command, "dropSearchIndex", "nothing", name="near")
    # As in MongoDB, drivers take that for a success.
    things.database.nothing.drop_search_index("near")
    assert list(things.database.nothing.list_search_indexes()) == []
    assert refused(72, command, "dropSearchIndex", "things")
    assert refused(72, command, "dropSearchIndex", "things", name="near", id="0" * 24)
    assert refused(40414, command, "updateSearchIndex", "things", name="near")
    assert refused(40414, command, "createSearchIndexes", "things", indexes=[{"type": "vectorSearch"}])
    assert refused(40415, command, "createSearchIndexes", "things", indexes=[], nonsense=1)
    assert refused(2, command, "createSearchIndexes", "things", indexes=[])
    assert [i["name"] for i in things.list_search_indexes()] == ["near"]


@pytest.mark.parametrize("similarity", ["euclidean", "cosine", "dotProduct"])
@pytest.mark.parametrize("quantization", ["none", "scalar", "binary", "bits2", "bits4"])
def test_the_nearest_documents_are_found_with_their_scores(db, similarity, quantization):
    db.things.insert_many([{"_id": n, "v": vector(n + 1)} for n in range(100)])
    db.things.create_search_index(model(similarity=similarity, quantization=quantization))
    at = vector(40)

    def score(n):
        other = vector(n + 1)
        product = sum(a * b for a, b in zip(at, other))
        if similarity == "euclidean":
            return 1 / (1 + distance(at, other))
        if similarity == "dotProduct":
            return (1 + product) / 2
        return (1 + product / math.hypot(*at) / math.hypot(*other)) / 2

    found = list(db.things.aggregate([search(at, 5), {"$project": {"score": {"$meta": "vectorSearchScore"}}}]))
    best = sorted(range(100), key=score, reverse=True)[:5]
    assert [d["score"] for d in found] == pytest.approx([score(n) for n in best], rel=1e-5)
    exact = list(db.things.aggregate([search(at, 5, exact=True, numCandidates=None)]))
    assert [d["_id"] for d in exact] == [d["_id"] for d in found]


def test_a_filter_is_any_filter_and_as_many_are_found_as_match(things):
    at = vector(100)
    for query, keep in [
        ({}, lambda n: True),
        ({"part": 3}, lambda n: n % 10 == 3),
        ({"$and": [{"part": {"$in": [1, 2]}}, {"_id": {"$lt": 20}}]}, lambda n: n % 10 in (1, 2) and n < 20),
        ({"text": {"$regex": "9$"}}, lambda n: n % 10 == 9),
        ({"$expr": {"$eq": ["$_id", {"$multiply": ["$part", 11]}]}}, lambda n: n == n % 10 * 11),
        ({"part": 77}, lambda n: False),
    ]:
        found = [d["_id"] for d in things.aggregate([search(at, 10, filter=query)])]
        assert found == nearest(at, 10, keep), query


def test_a_score_is_used_in_every_stage_that_can_use_it(things):
    score = {"$meta": "vectorSearchScore"}
    at = vector(50)
    ids = nearest(at, 5)
    for stages in [
        [{"$set": {"score": score}}],
        [{"$addFields": {"score": score}}],
        [{"$project": {"score": score}}],
        [{"$sort": {"_id": 1}}, {"$set": {"score": score}}, {"$sort": {"score": -1}}],
        [{"$sort": {"_id": 1}}, {"$sort": {"anything": score}}, {"$project": {"score": score}}],
        [{"$replaceWith": {"_id": "$_id", "score": score}}],
        [{"$match": {"$expr": {"$gte": [score, 0]}}}, {"$set": {"score": score}}],
        [{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"n": {"$documentNumber": {}}}}}, {"$set": {"score": score}}, {"$sort": {"score": -1}}],
        [{"$fill": {"sortBy": {"_id": 1}, "output": {"w": {"method": "locf"}}}}, {"$set": {"score": score}}, {"$sort": {"score": -1}}],
        [{"$unionWith": {"coll": "nothing"}}, {"$set": {"score": score}}],
        [{"$densify": {"field": "part", "range": {"step": 1, "bounds": [100, 100]}}}, {"$set": {"score": score}}, {"$sort": {"score": -1, "_id": 1}}],
    ]:
        found = list(things.aggregate([search(at, 5), *stages]))
        assert [d["_id"] for d in found] == ids, stages
        assert [d["score"] for d in found] == pytest.approx([1 / (1 + distance(at, vector(n))) for n in ids], rel=1e-5)
    group = {"$group": {"_id": None, "best": {"$max": score}, "docs": {"$push": "$$ROOT"}}}
    [grouped] = things.aggregate([search(at, 5), group])
    assert grouped["best"] == 1 and [set(d) for d in grouped["docs"]] == [{"_id", "v", "part", "text"}] * 5
    message, name = refused(40218, things.aggregate, [{"$set": {"score": score}}])
    assert name == "Location40218" and "vectorSearchScore" in message
    assert refused(40218, things.aggregate, [search(at), {"$group": {"_id": "$part"}}, {"$set": {"score": score}}])


def test_searches_stand_in_the_pipelines_of_other_stages(things):
    score = {"$set": {"score": {"$meta": "vectorSearchScore"}}}
    union = {"$unionWith": {"coll": "things", "pipeline": [search(vector(200), 1), score]}}
    found = list(things.aggregate([search(vector(100), 1), score, union]))
    assert [(d["_id"], d["score"]) for d in found] == [(100, 1), (200, 1)]
    lookup = {"$lookup": {"from": "things", "pipeline": [search(vector(200), 2)], "as": "others"}}
    [found] = things.aggregate([search(vector(100), 1), lookup])
    assert [d["_id"] for d in found["others"]] == nearest(vector(200), 2)
    message, _ = refused(40602, things.aggregate, [{"$match": {}}, search(vector(1))])
    assert message == "$vectorSearch is only valid as the first stage in a pipeline"
    assert refused(40600, things.aggregate, [{"$facet": {"a": [search(vector(1))]}}])


def test_wrong_operands_are_refused_with_the_field_named(things):
    at = vector(1)
    for code, part, operand in [
        (2, "limit", {"limit": None}),
        (8575100, "limit", {"limit": "3"}),
        (7912700, "positive", {"limit": 0}),
        (2, "numCandidates", {"numCandidates": None}),
        (2, "numCandidates", {"numCandidates": 2}),
        (2, "omitted", {"exact": True}),
        (2, "dimensions", {"queryVector": at[1:]}),
        (2, "near", {"queryVector": [math.nan] * DIMENSIONS}),
        (2, "numbers", {"queryVector": ["a"] * DIMENSIONS}),
        (2, "queryVector", {"queryVector": None}),
        (27, "far", {"index": "far"}),
        (2, "index", {"index": None}),
        (2, "needs to be indexed", {"path": "w"}),
        (40415, "nonsense", {"nonsense": 1}),
    ]:
        message, _ = refused(code, things.aggregate, [search(at, **{"limit": 3, **operand})])
        assert part in message, message
    assert list(things.database.nothing.aggregate([search(at)])) == []


def test_binary_vectors_are_stored_searched_for_and_searched_with(things):
    floats = Binary.from_vector([1000.0, 0.5, 0, 0], BinaryVectorDtype.FLOAT32)
    small = Binary.from_vector([-100, 3, 0, 0], BinaryVectorDtype.INT8)
    things.insert_many([{"_id": "floats", "v": floats}, {"_id": "small", "v": small}])
    for wanted, at in [("floats", floats), ("floats", [1000, 0.5, 0, 0]), ("small", small), ("small", [-100, 3, 0, 0])]:
        assert [d["_id"] for d in things.aggregate([search(at, 1)])] == [wanted]
    assert things.find_one("floats")["v"] == floats
    # Bits, another number of dimensions, and damaged ones are stored, and no search finds them.
    bits = Binary.from_vector([255, 0, 255, 0], BinaryVectorDtype.PACKED_BIT)
    short = Binary.from_vector([1.0, 2.0], BinaryVectorDtype.FLOAT32)
    damaged = Binary(b"\x27\x00\x01\x02\x03", 9)
    things.insert_many([{"_id": "bits", "v": bits}, {"_id": "short", "v": short}, {"_id": "damaged", "v": damaged}])
    assert len(list(things.aggregate([search(vector(1), 1000, numCandidates=1000)]))) == 302
    assert things.count_documents({}) == 305
    message, _ = refused(2, things.aggregate, [search(bits)])
    assert "dimensions" in message
    message, _ = refused(2, things.aggregate, [search(damaged)])
    assert "damaged" in message


@pytest.mark.parametrize("similarity", ["euclidean", "cosine", "dotProduct"])
def test_whole_numbers_of_8_bits_are_found_by_their_exact_distances(db, similarity):
    rng = random.Random(5)
    numbers = [[rng.randrange(-128, 128) for _ in range(24)] for _ in range(300)]
    small = lambda vector: Binary.from_vector(vector, BinaryVectorDtype.INT8)
    db.things.insert_many([{"_id": n, "v": small(vector)} for n, vector in enumerate(numbers)])
    # What such an index cannot have is stored and not found.
    db.things.insert_many([{"_id": -1, "v": [0.5] * 24}, {"_id": -2, "v": [128] + [0] * 23}, {"_id": -3}])
    db.things.create_search_index(model(similarity=similarity, dimensions=24, elements="int8"))
    field = next(db.things.list_search_indexes("near"))["latestDefinition"]["fields"][0]
    assert (field["elements"], field["quantization"]) == ("int8", "none")
    at = [rng.randrange(-128, 128) for _ in range(24)]

    def score(vector):
        product = sum(a * b for a, b in zip(at, vector))
        if similarity == "euclidean":
            return 1 / (1 + distance(at, vector))
        if similarity == "dotProduct":
            return (1 + product) / 2
        return (1 + product / math.hypot(*at) / math.hypot(*vector)) / 2

    best = sorted(range(300), key=lambda n: score(numbers[n]), reverse=True)[:5]
    for query in [small(at), at, [float(x) for x in at]]:
        for options in [{}, {"exact": True, "numCandidates": None}]:
            stages = [search(query, 5, **options), {"$set": {"score": {"$meta": "vectorSearchScore"}}}]
            found = list(db.things.aggregate(stages))
            assert [d["_id"] for d in found] == best
            assert [d["score"] for d in found] == pytest.approx([score(numbers[n]) for n in best], rel=1e-5)
    assert len(list(db.things.aggregate([search(at, 1000, numCandidates=1000)]))) == 300
    for field in [
        {"elements": "int4"},
        {"elements": "int8", "quantization": "scalar"},
        {"elements": "int8", "quantization": "binary"},
        {"elements": 8},
    ]:
        wrong = SearchIndexModel(definition(similarity, 24, **field), name="wrong", type="vectorSearch")
        message, name = refused(67, db.things.create_search_index, wrong)
        assert name == "CannotCreateIndex" and "elements" in message


@pytest.mark.parametrize("elements", ["float16", "bfloat16"])
def test_elements_of_2_bytes_are_compared_as_they_are_rounded(db, elements):
    db.things.insert_many([{"_id": n, "v": [1 + n / 4096, 0, 0, 0]} for n in range(100)])
    db.things.create_search_index(model(elements=elements))
    bits = 10 if elements == "float16" else 7
    rounded = lambda n: round((1 + n / 4096) * 2**bits) / 2**bits
    found = list(db.things.aggregate([search([1, 0, 0, 0], 40), {"$set": {"score": {"$meta": "vectorSearchScore"}}}]))
    best = sorted(1 / (1 + rounded(n) - 1) for n in range(100))[:-41:-1]
    assert [d["score"] for d in found] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("similarity", ["hamming", "jaccard"])
def test_bits_are_found_by_distances_of_bits(db, similarity):
    rng = random.Random(3)
    numbers = [rng.getrandbits(64) for _ in range(200)]
    packed = lambda number: Binary.from_vector(list(number.to_bytes(8, "big")), BinaryVectorDtype.PACKED_BIT)
    db.things.insert_many([{"_id": n, "v": packed(number)} for n, number in enumerate(numbers)])
    db.things.create_search_index(model(similarity=similarity, dimensions=64))
    at = rng.getrandbits(64)

    def score(number):
        if similarity == "hamming":
            return 1 - (number ^ at).bit_count() / 64
        return (number & at).bit_count() / (number | at).bit_count()

    best = sorted(map(score, numbers), reverse=True)[:5]
    as_numbers = [float(digit) for digit in f"{at:064b}"]
    for query in [packed(at), as_numbers]:
        for options in [{}, {"exact": True, "numCandidates": None}]:
            stages = [search(query, 5, **options), {"$set": {"score": {"$meta": "vectorSearchScore"}}}]
            found = list(db.things.aggregate(stages))
            assert [d["score"] for d in found] == pytest.approx(best, rel=1e-5)
            assert [score(numbers[d["_id"]]) for d in found] == pytest.approx(best, rel=1e-5)
    wrong = SearchIndexModel(definition(similarity, quantization="scalar"), name="wrong", type="vectorSearch")
    assert refused(67, db.things.create_search_index, wrong)[1] == "CannotCreateIndex"


def test_a_document_with_several_vectors_is_found_once_by_the_nearest(db):
    chunks = lambda n: [{"text": "t", "v": vector(m)} for m in range(n, n + n % 4)]
    db.things.insert_many([{"_id": n, "chunks": chunks(n)} for n in range(100)])
    index = {"fields": [{"type": "vector", "path": "chunks.v", "numDimensions": DIMENSIONS, "similarity": "manhattan"}]}
    db.things.create_search_index(SearchIndexModel(index, name="near", type="vectorSearch"))
    at = vector(50.2)
    l1 = lambda n: min(sum(abs(a - b) for a, b in zip(c["v"], at)) for c in chunks(n))
    best = sorted((n for n in range(100) if n % 4), key=l1)[:8]
    found = list(db.things.aggregate([search(at, 8, path="chunks.v"), {"$set": {"score": {"$meta": "vectorSearchScore"}}}]))
    assert len({d["_id"] for d in found}) == 8
    assert [d["score"] for d in found] == pytest.approx([1 / (1 + l1(n)) for n in best], rel=1e-5)
    many = {"_id": "many", "chunks": [{"v": vector(n)} for n in range(1001)]}
    with pytest.raises(WriteError, match="more than 1000 vectors") as error:
        db.things.insert_one(many)
    assert error.value.code == 2
    db.things.update_one({"_id": 0}, {"$push": {"chunks": {"v": at}}})
    assert db.things.aggregate([search(at, 1, path="chunks.v")]).next()["_id"] == 0


def test_a_search_ends_when_its_time_is_up(db):
    db.things.insert_many([{"_id": n, "v": vector(n), "other": "x" * 200} for n in range(5000)])
    db.things.create_search_index(model())
    slow = {"$expr": {"$gt": [{"$strLenCP": {"$reduce": {"input": {"$range": [0, 50]}, "initialValue": "", "in": {"$concat": ["$$value", "a"]}}}}, 60]}}
    stages = [search(vector(1), 5, exact=True, numCandidates=None, filter=slow)]
    assert refused(50, db.things.aggregate, stages, maxTimeMS=10)[1] == "MaxTimeMSExpired"


def test_a_transaction_finds_its_own_changes_and_others_do_not(things):
    client = things.database.client
    at = [5000.0, 0, 0, 0]
    with client.start_session() as session, session.start_transaction():
        things.insert_one({"_id": "new", "v": at}, session=session)
        inside = things.aggregate([search(at, 1), {"$set": {"s": {"$meta": "vectorSearchScore"}}}], session=session)
        assert [(d["_id"], d["s"]) for d in inside] == [("new", 1)]
        assert [d["_id"] for d in things.aggregate([search(at, 1)])] == [299]
        things.delete_one({"_id": 299}, session=session)
        assert [d["_id"] for d in things.aggregate([search(at, 2)], session=session)] == ["new", 298]
    assert [d["_id"] for d in things.aggregate([search(at, 2)])] == ["new", 298]


def test_changes_are_found_at_once_and_an_index_follows_them(things):
    at = [5000.0, 0, 0, 0]
    things.insert_one({"_id": "new", "v": at})
    assert things.aggregate([search(at, 1)]).next()["_id"] == "new"
    things.update_one({"_id": "new"}, {"$unset": {"v": 1}})
    assert things.aggregate([search(at, 1)]).next()["_id"] == 299
    things.update_one({"_id": 5}, {"$set": {"v": at}})
    assert things.aggregate([search(at, 1)]).next()["_id"] == 5
    things.delete_one({"_id": 5})
    assert things.aggregate([search(at, 1)]).next()["_id"] == 299


def test_explain_shows_the_search_and_the_stages_after_it(things):
    stages = [search(vector(3), 2), {"$set": {"score": {"$meta": "vectorSearchScore"}}}]
    shown = things.database.command("aggregate", "things", pipeline=stages, cursor={}, explain=True)["stages"]
    assert shown[0]["$vectorSearch"]["index"] == "near" and "$set" in shown[1]
    command = {"aggregate": "things", "pipeline": stages, "cursor": {}}
    assert things.database.command("explain", command, verbosity="queryPlanner")["stages"][0] == shown[0]


def test_explain_tells_what_a_search_did_when_it_was_run(things):
    command = {"aggregate": "things", "pipeline": [search(vector(3), 2)], "cursor": {}}
    stage = things.database.command("explain", command, verbosity="executionStats")["stages"][0]
    stats = stage["executionStats"]
    assert stage["$vectorSearch"]["limit"] == 2 and stats["nReturned"] == 2
    did = stats["executionStages"]
    assert (did["stage"], did["path"], did["end"]) == ("VECTOR_SEARCH", "graph", "limit")
    assert did["vectorsCompared"] > 2 and did["documentsExamined"] == 0


def test_large_answers_come_in_batches(things):
    found = list(things.aggregate([search(vector(0), 250, numCandidates=300)], batchSize=40))
    assert len(found) == 250 and len({d["_id"] for d in found}) == 250


def test_an_index_that_is_updated_is_used_as_it_was_and_ready_after_a_kill(tmp_path):
    server = Server(tmp_path / "killed")
    rng = random.Random(1)
    at = search([0.5] * 32, 5)
    with server.client() as client:
        things = client.shop.things
        things.insert_many([{"_id": n, "v": [rng.random() for _ in range(32)]} for n in range(6000)])
        things.create_search_index(model(similarity="cosine", dimensions=32))
        before = list(things.aggregate([at]))

        def update():
            with pytest.raises(ConnectionFailure):
                things.update_search_index("near", definition("euclidean", dimensions=32))

        updating = threading.Thread(target=update)
        updating.start()
        while (index := things.list_search_indexes("near").next())["status"] == "READY":
            pass
        assert (index["status"], index["queryable"]) == ("BUILDING", True)
        assert index["latestDefinition"]["fields"][0]["similarity"] == "euclidean"
        assert list(things.aggregate([at])) == before
        server.stop(signal.SIGKILL)
        updating.join()
    server = Server(tmp_path / "killed")
    with server.client() as client:
        things = client.shop.things
        [again] = things.list_search_indexes()
        assert (again["id"], again["status"]) == (index["id"], "READY")
        assert again["latestDefinition"]["fields"][0]["similarity"] == "euclidean"
        score = {"$project": {"v": 1, "score": {"$meta": "vectorSearchScore"}}}
        for found in things.aggregate([at, score]):
            assert found["score"] == pytest.approx(1 / (1 + distance([0.5] * 32, found["v"])), rel=1e-5)
    assert server.stop() == 0


def test_validate_measures_recall_on_a_running_server(things):
    db, client = things.database, things.database.client
    report = db.command("validate", "things", recall=50)
    [measured] = report["recall"]
    assert report["valid"] and report["keysPerIndex"]["near"]
    assert (measured["index"], measured["path"], measured["searches"]) == ("near", "v", 50)
    assert 0.95 < measured["recall"] <= 1 and measured["numCandidates"] == 110
    # Alone, and by default.
    report = db.command("validate", "things", metadata=True, recall=True)
    assert "nrecords" not in report and report["recall"][0]["searches"] == 100
    assert "recall" not in db.command("validate", "things") and "recall" not in db.command("validate", "things", recall=False)
    for wrong in (0, -1, 10_001):
        assert "1 to 10000" in refused(2, db.command, "validate", "things", recall=wrong)[0]
    db.empty.insert_one({"v": "no vector"})
    assert db.command("validate", "empty", recall=5)["recall"] == []
    # It ends when its time is up, and when it is killed.
    db.large.insert_many([{"_id": n, "v": [math.sin(n * i) for i in range(64)]} for n in range(6000)])
    db.large.create_search_index(model(dimensions=64))
    refused(50, db.command, "validate", "large", metadata=True, recall=10_000, maxTimeMS=50)
    killed = []

    def measure():
        killed.append(refused(11601, db.command, "validate", "large", metadata=True, recall=10_000))

    measuring = threading.Thread(target=measure)
    measuring.start()
    while measuring.is_alive():
        for op in client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.validate": "large"}}]):
            client.admin.command("killOp", op=op["opid"])
    measuring.join()
    assert len(killed) == 1


def test_a_check_of_a_running_server_reports_its_collections_and_their_recall(tmp_path):
    server = Server(tmp_path / "data")
    with server.client() as client:
        client.shop.things.insert_many([{"_id": n, "v": vector(n)} for n in range(1200)])
        client.shop.things.create_search_index(model())
        client.shop.create_collection("seen", viewOn="things")
        client.other.plain.insert_one({"_id": 1})

        def check(*flags):
            return subprocess.run([BIN, "check", "--uri", server.uri, *flags], capture_output=True, text=True, timeout=60)

        done = check("--recall=20")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert "collection shop.things: 1,200 documents" in lines and "collection other.plain: 1 documents" in lines
        assert "  index _id_: 1,200 entries, each agrees with its document" in lines
        [measured] = [line for line in lines if "recall@10" in line]
        assert measured.startswith("  index near of v: recall@10 ") and measured.endswith("with ef 110, 20 searches")
        assert "no damage in the collections" in lines[-1] and "seen" not in done.stdout
        assert "recall" not in check().stdout
        assert check("--threads", "2").returncode == 2
    server.stop()


FIELDS = {
    "title": {"type": "vector", "path": "title", "numDimensions": 4, "similarity": "euclidean"},
    "picture.codes": {"type": "vector", "path": "picture.codes", "numDimensions": 3, "similarity": "cosine", "quantization": "none"},
    "sound": {"type": "vector", "path": "sound", "numDimensions": 64, "similarity": "dotProduct", "quantization": "binary"},
}


def fields(*paths):
    return {"fields": [*(FIELDS[path] for path in paths), {"type": "filter", "path": "part"}]}


def test_an_index_of_several_fields_is_searched_by_path_and_managed_as_one(db):
    rng = random.Random(5)
    db.films.insert_many([{"_id": n, "title": vector(n), "part": n % 10, "picture": {"codes": [1.0, n / 10, 2.0]},
                           "sound": [rng.gauss(0, 1) for _ in range(64)]} for n in range(300)])
    films = db.films
    films.create_search_index(SearchIndexModel(fields("title", "picture.codes"), name="near", type="vectorSearch"))

    def listed():
        [index] = films.list_search_indexes("near")
        assert index["status"] == "READY" and index["queryable"]
        return index["id"], [field["path"] for field in index["latestDefinition"]["fields"]]

    id, paths = listed()
    assert paths == ["title", "picture.codes", "part"]
    [definition] = [index["latestDefinition"]["fields"] for index in films.list_search_indexes()]
    assert [(f.get("quantization"), f.get("similarity")) for f in definition[:2]] == [("scalar", "euclidean"), ("none", "cosine")]

    def ids(path, at, **operand):
        return [d["_id"] for d in films.aggregate([search(at, path=path, **operand)])]

    assert ids("title", vector(40)) == nearest(vector(40), 3)
    assert ids("title", vector(40), filter={"part": 3}) == nearest(vector(40), 3, lambda n: n % 10 == 3)
    assert ids("picture.codes", [1.0, 7.0, 2.0]) == ids("picture.codes", [1.0, 7.0, 2.0], exact=True, numCandidates=None)
    assert ids("picture.codes", [1.0, 7.0, 2.0])[0] == 70
    for path in ("part", "picture", "sound"):
        message, _ = refused(2, films.aggregate, [search(vector(1), path=path)])
        assert f"Path '{path}' needs to be indexed as vector" in message
    # One field more, one less, and one alone.
    films.update_search_index("near", fields("sound", "title", "picture.codes"))
    assert listed() == (id, ["sound", "title", "picture.codes", "part"])
    sound = films.find_one(9)["sound"]
    assert ids("sound", sound)[0] == 9
    assert ids("title", vector(40)) == nearest(vector(40), 3)
    films.update_search_index("near", fields("sound", "picture.codes"))
    assert listed() == (id, ["sound", "picture.codes", "part"])
    assert "indexed as vector" in refused(2, films.aggregate, [search(vector(1), path="title")])[0]
    twice = SearchIndexModel(fields("title", "title"), name="twice", type="vectorSearch")
    assert "'title'" in refused(67, films.create_search_index, twice)[0]
    assert len(list(films.list_search_indexes())) == 1
    # Counted as one.
    report = db.command("validate", "films")
    assert report["valid"] and sorted(report["keysPerIndex"]) == ["_id_", "near"]
    stats = db.command("collStats", "films")
    assert sorted(stats["indexSizes"]) == ["_id_", "near"] and stats["nindexes"] == 2
    films.drop_search_index("near")
    assert list(films.list_search_indexes()) == []
    assert refused(27, films.aggregate, [search(sound, path="sound")])
