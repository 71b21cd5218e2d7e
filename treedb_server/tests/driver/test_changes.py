"""Change streams, as PyMongo's watch() uses them."""
import signal
import threading
import time

import bson
import pytest
from pymongo.errors import OperationFailure

from server import Server


def drain(stream, count, seconds=20):
    """The next `count` events, without what differs from run to run."""
    events, until = [], time.monotonic() + seconds
    while len(events) < count and time.monotonic() < until:
        event = stream.try_next()
        if event is not None:
            events.append(event)
    assert len(events) == count, events
    return events


def kinds(events):
    return [event["operationType"] for event in events]


def test_watch_sees_inserts_updates_replacements_deletes_and_the_drop(db):
    with db.films.watch(max_await_time_ms=200) as stream:
        assert stream.try_next() is None
        db.films.insert_many([{"_id": i, "n": i} for i in range(3)])
        db.films.update_one({"_id": 1}, {"$set": {"n": 10, "a.b": 1}})
        db.films.replace_one({"_id": 2}, {"x": 1})
        db.films.delete_one({"_id": 0})
        db.other.insert_one({"_id": 1})
        db.films.drop()
        events = drain(stream, 8)
        assert kinds(events) == ["insert"] * 3 + ["update", "replace", "delete", "drop", "invalidate"]
        assert events[0]["fullDocument"] == {"_id": 0, "n": 0}
        assert events[0]["ns"] == {"db": db.name, "coll": "films"}
        assert events[3]["updateDescription"] == {
            "updatedFields": {"n": 10, "a": {"b": 1}}, "removedFields": [], "truncatedArrays": []}
        assert events[4]["fullDocument"] == {"_id": 2, "x": 1}
        assert events[5]["documentKey"] == {"_id": 0}
        assert not stream.alive


def test_watch_waits_for_what_is_not_there_yet(db):
    db.films.insert_one({"_id": 0})
    with db.watch(max_await_time_ms=5000) as stream:
        threading.Timer(0.3, lambda: db.films.insert_one({"_id": 1})).start()
        begun = time.monotonic()
        assert stream.next()["documentKey"] == {"_id": 1}
        assert time.monotonic() - begun < 4


def test_the_databases_of_the_server_are_not_watched(client):
    for name in ["admin", "config", "local"]:
        for watched in [client[name], client[name].c]:
            with pytest.raises(OperationFailure) as failure:
                watched.watch()
            assert failure.value.code == 73, watched
    with pytest.raises(OperationFailure) as failure:
        client.admin.c.aggregate([{"$changeStream": {"allChangesForCluster": True}}])
    assert failure.value.code == 72


def test_watch_takes_stages_and_a_whole_cluster(db, client):
    stages = [{"$match": {"operationType": "insert", "ns.db": db.name}}, {"$project": {"n": "$fullDocument.n"}}]
    with client.watch(stages, max_await_time_ms=200) as stream:
        db.a.insert_one({"n": 1})
        db.a.delete_many({})
        db.b.insert_one({"n": 2})
        assert [event["n"] for event in drain(stream, 2)] == [1, 2]
    with pytest.raises(OperationFailure) as refused:
        db.a.watch([{"$group": {"_id": 1}}])
    assert refused.value.code == 20


def test_documents_before_and_behind_an_update_come_if_they_are_enabled(db):
    db.create_collection("films", changeStreamPreAndPostImages={"enabled": True})
    db.films.insert_one({"_id": 1, "n": 1})
    with db.films.watch(full_document="required", full_document_before_change="required",
                        max_await_time_ms=200) as stream:
        db.films.update_one({"_id": 1}, {"$inc": {"n": 1}})
        db.films.update_one({"_id": 1}, {"$inc": {"n": 1}})
        pairs = [(event["fullDocumentBeforeChange"]["n"], event["fullDocument"]["n"]) for event in drain(stream, 2)]
        assert pairs == [(1, 2), (2, 3)]
    db.command("collMod", "films", changeStreamPreAndPostImages={"enabled": False})
    with db.films.watch(full_document="required", max_await_time_ms=200) as stream:
        db.films.update_one({"_id": 1}, {"$inc": {"n": 1}})
        with pytest.raises(OperationFailure) as refused:
            drain(stream, 1)
        assert refused.value.code == 47


def test_a_stream_is_resumed_after_a_kill(tmp_path):
    server = Server(tmp_path)
    with server.client() as client:
        with client.db.c.watch(max_await_time_ms=200) as stream:
            client.db.c.insert_many([{"_id": i} for i in range(10)])
            token = drain(stream, 4)[-1]["_id"]
            end = None
            drain(stream, 6)
            stream.try_next()
            end = stream.resume_token
    server.stop(signal.SIGKILL)
    server = Server(tmp_path)
    with server.client() as client:
        client.db.c.insert_one({"_id": 10})
        for start, first in ((token, 4), (end, 10)):
            with client.db.c.watch(resume_after=start, max_await_time_ms=200) as stream:
                events = drain(stream, 11 - first)
                assert [event["documentKey"]["_id"] for event in events] == list(range(first, 11))
        at = events[0]["clusterTime"]
        with client.db.c.watch(start_at_operation_time=at, max_await_time_ms=200) as stream:
            assert drain(stream, 1)[0]["documentKey"]["_id"] == 10
    assert server.stop() == 0


def test_a_server_that_records_no_changes_says_so(tmp_path):
    server = Server(tmp_path, "--change-log", "off")
    with server.client() as client, pytest.raises(OperationFailure) as refused:
        client.db.c.watch()
    assert refused.value.code == 40573 and "--change-log" in str(refused.value)
    assert server.stop() == 0
    # The choice stays with the database.
    server = Server(tmp_path)
    with server.client() as client, pytest.raises(OperationFailure):
        client.db.c.watch()
    assert server.stop() == 0


LABELS = {"NonResumableChangeStreamError", "ResumableChangeStreamError"}


def test_an_error_after_which_a_stream_cannot_go_on_says_so(db):
    with db.films.watch([{"$project": {"_id": 0}}], max_await_time_ms=200) as stream:
        db.films.insert_one({"_id": 1})
        with pytest.raises(OperationFailure) as fatal:
            drain(stream, 1)
    assert fatal.value.code == 280 and fatal.value.has_error_label("NonResumableChangeStreamError")
    # Before the log was switched on.
    with pytest.raises(OperationFailure) as lost:
        db.films.watch(start_at_operation_time=bson.Timestamp(1, 1))
    assert lost.value.code == 286 and lost.value.has_error_label("NonResumableChangeStreamError")
    # Errors of other kinds have no label.
    for stages in [[{"$changeStream": {"nonsense": 1}}], [{"$nonsense": {}}]]:
        reply = db.command({"aggregate": "films", "pipeline": stages, "cursor": {}}, check=False)
        assert reply["ok"] == 0 and not LABELS & set(reply.get("errorLabels", [])), stages
