"""Failures on request, and how drivers retry what fails; write concerns that cannot be satisfied; the Stable API; session ids."""
import time
import uuid

import bson
import pymongo
import pytest
from pymongo import monitoring
from pymongo.errors import AutoReconnect, ConnectionFailure, NotPrimaryError, OperationFailure, PyMongoError, WriteConcernError
from pymongo.server_api import ServerApi

from failures import code
from server import Server
from wire import Wire


class Commands(monitoring.CommandListener):
    """The names of the commands that were sent."""

    def __init__(self):
        self.sent = []

    def started(self, event):
        self.sent.append(event.command_name)

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("failing"), "--replica-set", "rs0", "--enable-test-commands")
    yield server
    assert server.stop() == 0


@pytest.fixture
def commands():
    return Commands()


@pytest.fixture
def member(failing, commands):
    host, port = failing.addresses["mongo"]
    with pymongo.MongoClient(f"mongodb://{host}:{port}/?replicaSet=rs0&appname=mine", event_listeners=[commands],
                             serverSelectionTimeoutMS=5_000, heartbeatFrequencyMS=500) as member:
        member.test.c.drop()
        member.test.c.insert_many([{"_id": i} for i in range(10)])
        commands.sent.clear()
        yield member
        for name in ("failCommand", "onPrimaryTransactionalWrite"):
            member.admin.command({"configureFailPoint": name, "mode": "off"})


def fail(client, mode=None, name="failCommand", **data):
    return client.admin.command({"configureFailPoint": name, "mode": mode or {"times": 1}, "data": data})


def sent(commands, name):
    return commands.sent.count(name)


@pytest.mark.parametrize("error", [11600, 10107, 13435, 189, 91, 7, 6, 89, 9001])
def test_a_read_and_a_write_are_retried_after_each_error_that_may_be(member, commands, error):
    fail(member, failCommands=["find"], errorCode=error)
    assert member.test.c.find_one({"_id": 1}) == {"_id": 1}
    assert sent(commands, "find") == 2
    fail(member, failCommands=["insert"], errorCode=error)
    member.test.c.insert_one({"_id": "once"})
    assert sent(commands, "insert") == 2
    assert member.test.c.count_documents({"_id": "once"}) == 1


@pytest.mark.parametrize("command, call", [
    ("find", lambda c: c.find_one()),
    ("aggregate", lambda c: c.aggregate([]).to_list()),
    ("distinct", lambda c: c.distinct("_id")),
    ("count", lambda c: c.estimated_document_count()),
    ("listIndexes", lambda c: c.list_indexes().to_list()),
    ("insert", lambda c: c.insert_one({})),
    ("update", lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}})),
    ("delete", lambda c: c.delete_one({"_id": 1})),
    ("findAndModify", lambda c: c.find_one_and_update({"_id": 2}, {"$inc": {"n": 1}})),
])
def test_a_closed_connection_is_survived_by_a_retry(member, commands, command, call):
    fail(member, failCommands=[command], closeConnection=True)
    call(member.test.c)
    assert sent(commands, command) == 2
    fail(member, failCommands=[command], closeConnection=True, mode={"times": 2})
    with pytest.raises(AutoReconnect):
        call(member.test.c)


def test_what_may_not_be_retried_is_not(member, commands):
    fail(member, failCommands=["update"], errorCode=10107)
    with pytest.raises(NotPrimaryError):
        member.test.c.update_many({}, {"$set": {"a": 1}})
    fail(member, failCommands=["find"], errorCode=8000)
    assert code(lambda: member.test.c.find_one()) == 8000
    assert (sent(commands, "update"), sent(commands, "find")) == (1, 1)
    assert member.test.c.count_documents({"a": 1}) == 0


def test_a_write_that_was_committed_before_its_connection_closed_is_applied_once(member, commands):
    fail(member, name="onPrimaryTransactionalWrite")
    member.test.c.update_one({"_id": 5}, {"$inc": {"n": 1}})
    assert sent(commands, "update") == 2
    assert member.test.c.find_one({"_id": 5})["n"] == 1
    fail(member, name="onPrimaryTransactionalWrite", failBeforeCommitExceptionCode=91, closeConnection=False)
    member.test.c.insert_one({"_id": "new"})
    assert sent(commands, "insert") == 2 and member.test.c.count_documents({"_id": "new"}) == 1


def test_labels_are_those_that_were_asked_for_or_mongodbs(member):
    def labels(**data):
        fail(member, failCommands=["insert"], **data)
        with pymongo.MongoClient(member.address[0], member.address[1], retryWrites=False, directConnection=True) as plain:
            with plain.start_session() as session:
                reply = plain.test.command({"insert": "c", "documents": [{}], "txnNumber": bson.Int64(1)}, check=False,
                                           session=session)
        return reply.get("errorLabels")

    assert labels(errorCode=91) == ["RetryableWriteError"]
    assert labels(errorCode=91, errorLabels=["Mine", "Other"]) == ["Mine", "Other"]
    assert labels(errorCode=91, errorLabels=[]) is None
    assert labels(errorCode=2) is None
    assert labels(writeConcernError={"code": 91, "errmsg": "x"}) == ["RetryableWriteError"]


def test_a_write_concern_error_comes_after_the_write(member):
    fail(member, failCommands=["insert"], writeConcernError={"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "late"})
    with pytest.raises(WriteConcernError) as failure:
        member.test.c.insert_one({"_id": "late"})
    assert failure.value.code == 64
    assert member.test.c.count_documents({"_id": "late"}) == 1


def test_modes_names_and_namespaces_say_which_commands_fail(member, failing):
    fail(member, mode={"skip": 2}, failCommands=["ping"], errorCode=2)
    member.admin.command("ping")
    member.admin.command("ping")
    assert [code(lambda: member.admin.command("ping")) for _ in range(3)] == [2, 2, 2]
    assert fail(member, mode="off")["count"] == 3
    member.admin.command("ping")
    fail(member, mode="alwaysOn", failCommands=["ping"], errorCode=2, appName="mine")
    assert code(lambda: member.admin.command("ping")) == 2
    with failing.client(appname="other") as other:
        other.admin.command("ping")
    fail(member, mode="alwaysOn", failCommands=["count"], errorCode=2, namespace="test.c")
    assert code(lambda: member.test.command("count", "c")) == 2
    assert member.test.command("count", "d")["n"] == 0
    # It cannot lock itself out.
    fail(member, mode="alwaysOn", failCommands=["configureFailPoint"], errorCode=2)


def test_a_blocked_command_waits_and_is_not_lost(member):
    fail(member, failCommands=["insert"], blockConnection=True, blockTimeMS=300)
    began = time.monotonic()
    member.test.c.insert_one({"_id": "slow"})
    assert time.monotonic() - began >= 0.3
    fail(member, failCommands=["ping"], blockConnection=True, blockTimeMS=600)
    with pytest.raises(PyMongoError) as failure, pymongo.timeout(0.2):
        member.admin.command("ping")
    assert failure.value.timeout


def test_a_commit_is_retried(member, commands):
    for failure in ({"errorCode": 91}, {"closeConnection": True}):
        fail(member, failCommands=["commitTransaction"], **failure)
        with member.start_session() as session, session.start_transaction():
            member.test.c.update_one({"_id": 3}, {"$inc": {"n": 1}}, session=session)
    assert sent(commands, "commitTransaction") == 4
    assert member.test.c.find_one({"_id": 3})["n"] == 2


def runs_of_a_transaction(member):
    """Inserts a document with `with_transaction`. Returns how often the callback was run."""
    runs = []

    def work(session):
        runs.append(session)
        member.test.c.insert_one({"_id": "transaction"}, session=session)

    with member.start_session() as session:
        session.with_transaction(work)
    assert member.test.c.count_documents({"_id": "transaction"}) == 1
    return len(runs)


@pytest.mark.parametrize("error", [112, 24, 267, 239, 246, 251, 11600, 10107, 189, 91, 6, 9001])
def test_a_transaction_is_run_again_after_each_error_that_may_be_gone_then(member, commands, error):
    fail(member, failCommands=["insert"], errorCode=error)
    runs = runs_of_a_transaction(member)
    assert runs == sent(commands, "insert") == 2 and sent(commands, "commitTransaction") == 1


@pytest.mark.parametrize("error, whole", [(112, True), (24, True), (251, True), (239, True), (91, False), (10107, False)])
def test_a_commit_that_fails_is_sent_again_or_its_whole_transaction_is(member, commands, error, whole):
    fail(member, failCommands=["commitTransaction"], errorCode=error)
    assert runs_of_a_transaction(member) == (2 if whole else 1) and sent(commands, "commitTransaction") == 2


def test_other_errors_end_a_transaction(member, commands):
    def labels(command, **data):
        fail(member, failCommands=[command], **data)
        with member.start_session() as session, pytest.raises(PyMongoError) as failure:
            session.start_transaction()
            member.test.c.insert_one({"_id": 1}, session=session)
            session.commit_transaction()
        return [label for label in ("TransientTransactionError", "RetryableWriteError") if failure.value.has_error_label(label)]

    member.test.c.delete_many({})
    assert labels("insert", errorCode=8000) == labels("insert", errorCode=50) == []
    assert labels("insert", errorCode=262) == ["TransientTransactionError"]
    assert labels("insert", errorCode=262, errorLabels=[]) == labels("insert", errorCode=112, errorLabels=[]) == []
    assert labels("insert", errorCode=8000, errorLabels=["TransientTransactionError"]) == ["TransientTransactionError"]
    # What is wrong with the write concern is no reason to run the transaction again.
    assert labels("commitTransaction", writeConcernError={"code": 251, "errmsg": "x"}) == []


@pytest.mark.parametrize("command, expected", [
    ({"configureFailPoint": "nonsense", "mode": "off"}, 193),
    ({"configureFailPoint": "failCommand"}, 40414),
    ({"configureFailPoint": "failCommand", "mode": "sometimes"}, 2),
    ({"configureFailPoint": "failCommand", "mode": {}}, 2),
    ({"configureFailPoint": "failCommand", "mode": {"times": "x"}}, 14),
    ({"configureFailPoint": "failCommand", "mode": {"activationProbability": 1}}, 2),
    ({"configureFailPoint": "failCommand", "mode": 1}, 14),
    ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"nonsense": 1}}, 40415),
    ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": "find"}}, 14),
    ({"configureFailPoint": "onPrimaryTransactionalWrite", "mode": "alwaysOn", "data": {"errorCode": 1}}, 40415),
    ({"configureFailPoint": 1, "mode": "off"}, 14),
])
def test_bad_failpoints_are_refused(member, command, expected):
    assert code(lambda: member.admin.command(command)) == expected


def test_without_the_flag_there_are_none(client):
    assert code(lambda: client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})) == 59
    assert client.admin.command("getParameter", "*")["enableTestCommands"] is False
    assert "setParameter" not in client.admin.command("getCmdLineOpts")["parsed"]
    assert "configureFailPoint" not in client.admin.command("listCommands")["commands"]


def test_the_suites_of_drivers_find_out_that_test_commands_are_enabled(member):
    assert member.admin.command("getParameter", "*")["enableTestCommands"] is True
    assert member.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"] is True
    assert member.admin.command("getCmdLineOpts")["parsed"]["setParameter"] == {"enableTestCommands": "1"}


@pytest.mark.parametrize("w, expected", [(2, 100), (5, 100), ("dc1", 79)])
def test_a_write_concern_that_cannot_be_satisfied_is_reported_after_the_write(member, client, db, w, expected):
    c = member.test.get_collection("c", write_concern=pymongo.WriteConcern(w=w))
    with pytest.raises(WriteConcernError) as failure:
        c.insert_one({"_id": f"w{w}"})
    assert failure.value.code == expected
    assert member.test.c.count_documents({"_id": f"w{w}"}) == 1
    reply = member.test.command({"create": f"made{w}", "writeConcern": {"w": w}}, check=False)
    assert reply["ok"] == 1 and reply["writeConcernError"]["code"] == expected
    assert f"made{w}" in member.test.list_collection_names()
    # A standalone has nobody to wait for, and says so before.
    with pytest.raises(OperationFailure) as failure:
        db.get_collection("c", write_concern=pymongo.WriteConcern(w=w)).insert_one({"_id": 1})
    assert failure.value.code == 2
    assert db.c.count_documents({}) == 0
    assert code(lambda: db.command({"insert": "c", "documents": [{}], "writeConcern": {"w": 51}})) in (2, 9)


def test_the_stable_api_is_checked(server, db):
    with server.client(server_api=ServerApi("1", strict=True)) as strict:
        c = strict[db.name].c
        c.insert_one({"_id": 1})
        assert c.find_one() == {"_id": 1} and c.aggregate([{"$count": "n"}]).to_list() == [{"n": 1}]
        assert code(lambda: c.distinct("_id")) == 323
        assert code(lambda: strict.admin.command("serverStatus")) == 323
        stats = {"$indexStats": {}}
        for pipeline in [[stats], [{"$facet": {"a": [{"$match": {}}, stats]}}], [{"$unionWith": {"coll": "c", "pipeline": [stats]}}],
                         [{"$lookup": {"from": "c", "as": "a", "pipeline": [{"$unionWith": {"coll": "c", "pipeline": [stats]}}]}}],
                         [{"$collStats": {"storageStats": {}}}], [{"$collStats": {"count": {}, "latencyStats": {}}}]]:
            assert code(lambda: list(c.aggregate(pipeline))) == 323, pipeline
            assert code(lambda: strict[db.name].command({"explain": {"aggregate": "c", "pipeline": pipeline, "cursor": {}}})) == 323
        assert c.aggregate([{"$collStats": {"count": {}}}]).to_list()[0]["count"] == 1
        assert c.aggregate([{"$facet": {"indexStats": [{"$count": "n"}]}}]).to_list() == [{"indexStats": [{"n": 1}]}]
    with server.client(server_api=ServerApi("1", deprecation_errors=True)) as client:
        assert client[db.name].c.distinct("_id") == [1]
    for arguments, expected in [({"apiVersion": "2"}, 322), ({"apiStrict": True}, 4886600), ({"apiDeprecationErrors": True}, 4886600),
                                ({"apiVersion": 1}, 14), ({"apiVersion": "1", "apiStrict": "x"}, 14)]:
        assert code(lambda: db.command({"ping": 1, **arguments})) == expected


@pytest.mark.parametrize("lsid, expected", [
    (1, 14),
    ("x", 14),
    ({}, 40414),
    ({"id": 1}, 14),
    ({"id": bson.Binary(b"short", 4)}, 207),
    ({"id": bson.Binary(bytes(16), 0)}, 14),
    ({"id": bson.Binary.from_uuid(uuid.uuid4()), "more": 1}, 40415),
])
def test_odd_session_ids_are_refused_also_where_they_have_no_number(server, db, lsid, expected):
    with Wire(server) as wire:
        for command in ({"ping": 1}, {"find": "c"}, {"insert": "c", "documents": [{}]}):
            assert wire.command({**command, "lsid": lsid, "$db": db.name})["code"] == expected, command
    assert db.c.count_documents({}) == 0


def test_writes_and_distinct_are_explained_and_not_executed(db, films):
    films.create_index("year")

    def explain(command, verbosity="executionStats"):
        return db.command({"explain": command, "verbosity": verbosity})

    found = explain({"update": "films", "updates": [{"q": {"year": 1991}, "u": {"$set": {"x": 1}}, "multi": True}]})
    plan, stats = found["queryPlanner"]["winningPlan"], found["executionStats"]["executionStages"]
    assert plan["stage"] == "UPDATE" and plan["inputStage"]["inputStage"]["indexName"] == "year_1"
    assert (stats["stage"], stats["nMatched"], stats["nWouldModify"], stats["nWouldUpsert"]) == ("UPDATE", 3, 3, 0)
    assert found["command"]["update"] == "films"
    one = explain({"update": "films", "updates": [{"q": {"year": 1991}, "u": {"$set": {"x": 1}}}]})
    assert one["executionStats"]["executionStages"]["nMatched"] == 1
    none = explain({"update": "films", "updates": [{"q": {"_id": -1}, "u": {"$set": {"x": 1}}, "upsert": True}]})
    assert none["executionStats"]["executionStages"]["nWouldUpsert"] == 1
    same = explain({"update": "films", "updates": [{"q": {"year": 1991}, "u": {"$set": {"year": 1991}}, "multi": True, "upsert": True}]})
    stats = same["executionStats"]["executionStages"]
    assert (stats["nMatched"], stats["nWouldModify"], stats["nWouldUpsert"]) == (3, 0, 0)
    assert "nWouldModify" not in same["queryPlanner"]["winningPlan"]
    piped = explain({"update": "films", "updates": [{"q": {"year": 1991}, "u": [{"$set": {"x": "$year"}}], "multi": True}]})
    assert piped["executionStats"]["executionStages"]["nWouldModify"] == 3
    absent = explain({"update": "absent", "updates": [{"q": {"a": 1}, "u": {"$set": {"x": 1}}, "upsert": True}]})
    assert absent["executionStats"]["executionStages"]["nWouldUpsert"] == 1
    replaced = explain({"findAndModify": "films", "query": {"year": 1991}, "update": {"$inc": {"year": 1}}, "new": True})
    assert replaced["executionStats"]["executionStages"]["nWouldModify"] == 1
    assert code(lambda: explain({"update": "films", "updates": [{"q": {}, "u": {"$inc": {"title": 1}}, "multi": True}]})) == 14
    assert code(lambda: explain({"findAndModify": "films", "remove": True, "update": {"$set": {"x": 1}}})) == 9
    db.create_collection("view", viewOn="films", pipeline=[])
    assert code(lambda: explain({"update": "view", "updates": [{"q": {}, "u": {"$set": {"x": 1}}}]})) == 166
    assert db.films.count_documents({"x": 1}) == 0 and "absent" not in db.list_collection_names()
    gone = explain({"delete": "films", "deletes": [{"q": {"year": 1992}, "limit": 0}]})
    assert gone["executionStats"]["executionStages"]["nWouldDelete"] == 2
    modified = explain({"findAndModify": "films", "query": {"year": 1990}, "sort": {"title": -1}, "remove": True})
    assert modified["queryPlanner"]["winningPlan"]["stage"] == "DELETE"
    distinct = explain({"distinct": "films", "key": "title", "query": {"year": 1990}}, "queryPlanner")
    assert distinct["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "year_1" and "executionStats" not in distinct
    # Without a filter, a walk from one value of an index to the next.
    distinct = explain({"distinct": "films", "key": "year"})
    plan, stats = distinct["queryPlanner"]["winningPlan"], distinct["executionStats"]
    assert (plan["stage"], plan["inputStage"]["stage"], plan["inputStage"]["indexName"]) == ("PROJECTION_COVERED", "DISTINCT_SCAN", "year_1")
    assert (stats["nReturned"], stats["totalDocsExamined"]) == (len(films.distinct("year")), 0)
    distinct = explain({"distinct": "films", "key": "title"}, "queryPlanner")
    assert distinct["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert films.count_documents({}) == 12 and films.count_documents({"x": 1}) == 0
    for command, expected in [
        ({"update": "films", "updates": []}, 16),
        ({"update": "films", "updates": [{"q": {}, "u": {}}, {"q": {}, "u": {}}]}, 16),
        ({"update": "films"}, 40414),
        ({"delete": "films", "deletes": [{"q": {}}]}, 40414),
        ({"findAndModify": "films"}, 9),
        ({"distinct": "films"}, 40414),
        ({"distinct": "films", "key": 1}, 14),
        ({"insert": "films", "documents": [{}]}, 20),
        ({"ping": 1}, 20),
        ({"nonsense": "films"}, 59),
        ({"update": "films", "updates": [{"q": {"$bad": 1}, "u": {"$set": {"a": 1}}}]}, 2),
    ]:
        assert code(lambda: explain(command)) == expected, command
