"""`$out` with `timeseries`."""
import datetime

import pytest
from pymongo.errors import OperationFailure

from failures import code

SERIES = {"timeField": "at", "metaField": "host"}


@pytest.fixture
def measured(db):
    begin = datetime.datetime(2026, 1, 1)
    db.raw.insert_many([{"_id": i, "at": begin + datetime.timedelta(minutes=i), "host": i % 3, "cpu": i} for i in range(60)])
    return db


def out(db, coll="series", **more):
    return list(db.raw.aggregate([{"$out": {"db": db.name, "coll": coll, **more}}]))


def test_out_creates_a_time_series_and_replaces_one_with_the_same_options(measured):
    db = measured
    assert out(db, timeseries=SERIES) == []
    options = db.series.options()
    assert options["timeseries"] == {**SERIES, "granularity": "seconds", "bucketMaxSpanSeconds": 3600}
    assert set(db.series.index_information()) == {"_id_", "host_1_at_1"}
    assert next(db.list_collections(filter={"name": "series"}))["type"] == "timeseries"
    db.series.create_index("cpu")
    db.command("collMod", "series", expireAfterSeconds=10**9)
    kept = db.series.options()
    # By the options as they were given, as they are listed, and by none.
    for given in ({"timeseries": SERIES}, {"timeseries": options["timeseries"]}, {"timeseries": {**SERIES, "bucketRoundingSeconds": 60, "granularity": "seconds"}}, {}, {"timeseries": None}):
        db.series.delete_many({"cpu": {"$lt": 50}})
        out(db, **given)
        assert db.series.count_documents({}) == 60, given
        assert db.series.options() == kept and "cpu_1" in db.series.index_information()
    # What is written must be of the series.
    assert code(lambda: list(db.raw.aggregate([{"$unset": "at"}, {"$out": {"db": db.name, "coll": "series", "timeseries": SERIES}}]))) == 2
    assert db.series.count_documents({}) == 60


def test_out_to_a_database_that_does_not_exist_creates_a_time_series(client, measured):
    other = client[measured.name + "_other"]
    client.drop_database(other.name)
    try:
        list(measured.raw.aggregate([{"$out": {"db": other.name, "coll": "series", "timeseries": {**SERIES, "granularity": "hours"}}}]))
        assert other.series.options()["timeseries"]["bucketMaxSpanSeconds"] == 2_592_000
        assert other.series.count_documents({}) == 60
    finally:
        client.drop_database(other.name)


@pytest.mark.parametrize("target, series, expected", [
    ("plain", {"timeField": "at"}, 7268700),
    ("capped", {"timeField": "at"}, 7268700),
    ("view", {"timeField": "at"}, 166),
    ("series", {"timeField": "other"}, 7406103),
    ("series", {"timeField": "at"}, 7406103),
    ("series", {"timeField": "at", "metaField": "cpu"}, 7406103),
    ("series", {**SERIES, "granularity": "minutes"}, 7406103),
    ("series", {**SERIES, "bucketMaxSpanSeconds": 330, "bucketRoundingSeconds": 330}, 7406103),
    ("new", {"timeField": "at", "nothing": 1}, 40415),
    ("new", {}, 40414),
    ("new", {"timeField": "at", "granularity": "years"}, 2),
    ("new", {"timeField": "at", "metaField": "at"}, 72),
    ("new", {"timeField": "a\0t"}, 2),
    ("new", 5, 14),
])
def test_out_refuses_what_is_not_such_a_time_series_before_it_reads(measured, target, series, expected):
    db = measured
    db.plain.insert_one({"_id": "kept"})
    db.create_collection("capped", capped=True, size=4096)
    db.create_collection("view", viewOn="plain", pipeline=[])
    db.create_collection("series", timeseries=SERIES)
    assert code(out, db, target, timeseries=series) == expected
    assert "new" not in db.list_collection_names()
    assert db.plain.find_one() == {"_id": "kept"} and db.series.count_documents({}) == 0


def test_the_explanation_of_out_has_the_series(measured):
    db = measured
    shown = db.command("explain", {"aggregate": "raw", "pipeline": [{"$out": {"db": db.name, "coll": "series", "timeseries": SERIES}}], "cursor": {}})
    assert shown["stages"][-1]["$out"]["timeseries"] == SERIES
    assert "series" not in db.list_collection_names()


@pytest.mark.parametrize("series, field", [({"timeField": "at", "granularity": "years"}, "granularity"), ({"timeField": "at", "nothing": 1}, "nothing"), ({}, "timeField")])
def test_errors_of_the_options_name_the_field_and_no_other_command(measured, series, field):
    with pytest.raises(OperationFailure) as refused:
        out(measured, "new", timeseries=series)
    assert f"'timeseries.{field}'" in str(refused.value)
