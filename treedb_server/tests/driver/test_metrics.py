"""`/metrics`, read by Prometheus' own parser, and the dashboard that shows it."""
import collections
import json
import pathlib
import re
import sys
import time
import urllib.request

import pymongo
import pymongo.errors
import pytest
from prometheus_client.openmetrics import parser

from server import Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def scrape(server):
    """The families by name. Prometheus' parser refuses what is not OpenMetrics."""
    host, port = server.addresses["admin"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        families = list(parser.text_string_to_metric_families(response.read().decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    return {family.name: family for family in families}


def value(families, name, **labels):
    """The sum of the samples of this name that have these labels."""
    found = [sample.value for family in families.values() for sample in family.samples
             if sample.name == name and labels.items() <= sample.labels.items()]
    assert found, f"{name}{labels}"
    return sum(found)


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server with authentication and a page cache that has done a bit of everything."""
    directory = tmp_path_factory.mktemp("busy")
    (directory / "password").write_text("secret\n")
    server = Server(directory / "data", "--auth", "--root-user", "root", "--root-password-file", str(directory / "password"),
                    "--replica-set", "rs", "--cache-bytes", "1MiB", "--vector-memory", "70KiB",
                    "--vector-build-threads", "1", "--slow-millis", "0", "--cursor-seconds", "1",
                    native=True, admin=True)
    login = {"username": "root", "password": "secret"}
    with server.client(**login) as client:
        films = client.shop.films
        films.insert_many([{"_id": i, "year": 1990 + i % 5, "text": "x" * 500} for i in range(3000)])
        films.create_index("year")
        films.create_index("text", name="unused")
        assert films.count_documents({"year": 1991}) == 600
        films.update_many({"year": 1991}, {"$set": {"seen": True}})
        films.delete_many({"year": 1992})
        films.insert_one({"_id": "large", "large": b"x" * 200_000})
        assert films.find_one({"_id": 5})
        with client.start_session() as session:
            with session.start_transaction():
                films.insert_one({"_id": "committed"}, session=session)
            session.start_transaction()
            films.insert_one({"_id": "aborted"}, session=session)
            session.abort_transaction()
        cursor = films.find({}, batch_size=10)
        next(cursor)
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            films.insert_one({"_id": 5})
        with server.client(username="root", password="wrong") as stranger, pytest.raises(pymongo.errors.OperationFailure):
            stranger.admin.command("ping")
        # The second copy does not fit beside the first.
        for name in ("near", "far"):
            field = {"type": "vector", "path": "v", "numDimensions": 32, "similarity": "euclidean"}
            vectors = client.shop[name]
            vectors.insert_many([{"_id": i, "v": [(i * j) % 7 + j / 100 for j in range(32)]} for i in range(100)])
            vectors.create_search_index({"name": "v", "type": "vectorSearch", "definition": {"fields": [field]}})
            search = {"index": "v", "path": "v", "queryVector": [1.0] * 32, "numCandidates": 100, "limit": 3}
            for _ in range(3):
                assert len(list(vectors.aggregate([{"$vectorSearch": search}]))) == 3
        client.admin.command("fsync")
        deadline = time.monotonic() + 30
        while value(scrape(server), "treedb_cursors_timed_out_total") < 1:
            assert time.monotonic() < deadline
            time.sleep(0.3)
        yield server
    assert server.stop() == 0


def test_everything_that_happened_is_counted(busy):
    families = scrape(busy)
    for kind, least in {"insert": 3003, "update": 1, "delete": 1, "query": 2, "command": 5}.items():
        assert value(families, "treedb_operations_total", kind=kind) >= least, kind
    for kind, n in {"updated": 600, "deleted": 600}.items():
        assert value(families, "treedb_documents_total", kind=kind) == n
    assert value(families, "treedb_documents_total", kind="inserted") >= 3001
    assert value(families, "treedb_command_duration_seconds_count", door="mongo", command="insert") >= 4
    assert 0 < value(families, "treedb_command_duration_seconds_sum", command="insert") < 600
    assert value(families, "treedb_slow_operations_total") > 5
    assert value(families, "treedb_transactions_begun_total") == 2
    assert value(families, "treedb_transactions_committed_total") == 1
    assert value(families, "treedb_transactions_aborted_total") == 1
    assert value(families, "treedb_transactions_timed_out_total") == 0
    assert value(families, "treedb_transactions") == 0
    assert value(families, "treedb_cursors_opened_total") >= 1
    assert value(families, "treedb_authentications_total") >= 1
    assert value(families, "treedb_authentication_failures_total") >= 1
    assert value(families, "treedb_connections", door="mongo") >= 1
    assert value(families, "treedb_connections_accepted_total", door="mongo") >= 2
    assert value(families, "treedb_connections_limit") == 1000
    assert value(families, "treedb_received_bytes_total", door="mongo") > 1_500_000
    index = {"database": "shop", "collection": "films"}
    assert value(families, "treedb_index_uses_total", index="year_1", **index) >= 1
    assert value(families, "treedb_index_uses_total", index="unused", **index) == 0


def test_what_native_clients_have_open_and_were_sent_is_counted(tmp_path):
    server = Server(tmp_path / "data", native=True, admin=True)
    host, port = server.addresses["native"]
    native = {"door": "native"}
    counted = lambda name, **labels: value(scrape(server), name, **labels)  # noqa: E731
    returned = lambda: counted("treedb_documents_total", kind="returned")  # noqa: E731
    with treedb.connect(f"{host}:{port}") as db:
        films = db["shop.films"]
        films.insert_many([{"_id": i, "v": [i, 0]} for i in range(1000)])
        films.create_index({"name": "near", "type": "vectorSearch", "definition": {"fields": [
            {"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}})
        read = films.find(batch=10)
        next(read)
        assert (counted("treedb_cursors", **native), counted("treedb_cursors", door="mongo")) == (1, 0)
        assert counted("treedb_storage_snapshots") >= 1
        assert returned() == 10
        get = films.prepare_get()
        assert counted("treedb_statements") == 1
        assert get(5) and films.get(6) and films.get("none") is None
        assert returned() == 12
        assert len(films.vector_search("near", [1, 0], limit=3)) == 3
        assert returned() == 15
        streamed = films.find(batch=10, stream=True)
        next(streamed)
        # The request has been sent, but nothing waits for an answer.
        deadline = time.monotonic() + 20
        while counted("treedb_pulls") == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (counted("treedb_cursors", **native), counted("treedb_pulls")) == (2, 1)
        read.close()
        assert get.forget()
        assert (counted("treedb_cursors", **native), counted("treedb_statements")) == (1, 0)
        assert len(list(streamed)) == 999
        assert (counted("treedb_cursors", **native), counted("treedb_pulls")) == (0, 0)
        assert returned() == 1015
        open_still, statement = films.find(batch=10), films.prepare_get()
        next(open_still)
        assert (counted("treedb_statements"), counted("treedb_cursors")) == (1, 1)
        with server.client() as client:
            status = client.admin.command("serverStatus")["metrics"]
            assert (status["cursor"]["open"]["total"], status["document"]["returned"]) == (1, 1025)
        assert statement(1)
    # With their connection they go.
    deadline = time.monotonic() + 20
    while counted("treedb_statements") + counted("treedb_cursors") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert counted("treedb_cursors_opened_total", **native) == 3
    assert server.stop() == 0


def test_a_native_cursor_that_nobody_uses_is_counted_when_it_is_closed(busy):
    host, port = busy.addresses["native"]
    before = value(scrape(busy), "treedb_cursors_timed_out_total", door="native")
    with treedb.connect(f"{host}:{port}", user="root", password="secret") as db:
        forgotten = db["shop.films"].find(batch=10)
        next(forgotten)
        deadline = time.monotonic() + 30
        while value(scrape(busy), "treedb_cursors_timed_out_total", door="native") == before:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert value(scrape(busy), "treedb_cursors", door="native") == 0


def test_storage_log_checkpoints_stalls_and_cache_are_measured(busy):
    families = scrape(busy)
    assert value(families, "treedb_storage_page_file_bytes") > 1_000_000
    assert value(families, "treedb_storage_pages", state="live") > 100
    assert value(families, "treedb_storage_value_log_live_bytes") >= 200_000
    assert value(families, "treedb_storage_commits_total") > 5
    assert value(families, "treedb_log_flushes_total") >= 1
    assert 0 < value(families, "treedb_log_flush_seconds_total") < 600
    assert value(families, "treedb_checkpoints_total") >= 1
    assert value(families, "treedb_checkpoint_longest_seconds") <= value(families, "treedb_checkpoint_seconds_total")
    assert value(families, "treedb_write_stalls_total") >= 1
    assert value(families, "treedb_cache_pages") <= value(families, "treedb_cache_pages_limit") * 1.2
    assert value(families, "treedb_cache_misses_total") >= 1
    assert value(families, "process_resident_memory_bytes") > 1_000_000
    assert value(families, "process_open_fds") < value(families, "process_max_fds")


def test_what_vector_indexes_take_in_memory_is_measured_and_limited(busy):
    families = scrape(busy)
    assert value(families, "treedb_vector_memory_limit_bytes") == 70 << 10
    assert 100 * 32 * 4 < value(families, "treedb_vector_memory_bytes") <= 70 << 10
    assert value(families, "treedb_vector_indexes_in_memory") == 1
    assert value(families, "treedb_vector_indexes_not_in_memory") == 1
    assert value(families, "treedb_vector_builds_bytes") == 0
    with busy.client(username="root", password="secret") as client:
        memory = client.admin.command("serverStatus")["treedb"]["vectorMemory"]
    assert (memory["limitBytes"], memory["indexes"], memory["indexesNotInMemory"]) == (70 << 10, 1, 1)
    assert memory["bytes"] == value(families, "treedb_vector_memory_bytes") and memory["buildingBytes"] == 0


def test_names_and_units_are_those_of_prometheus(busy):
    for family in scrape(busy).values():
        assert re.fullmatch(r"(treedb|process)_[a-z][a-z0-9_]*", family.name), family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert family.documentation, family.name
        for unit in ("seconds", "bytes"):
            assert (family.unit == unit) == family.name.endswith(unit), (family.name, family.unit)
        assert not re.search(r"_(ms|millis|kb|mb|count|total)$", family.name), family.name
        for sample in family.samples:
            assert family.type != "counter" or sample.name.endswith("_total") and sample.value >= 0


def test_counters_do_not_fall(busy):
    before, after = scrape(busy), scrape(busy)
    for family in before.values():
        if family.type == "counter":
            for sample in family.samples:
                assert value(after, sample.name, **sample.labels) >= sample.value, sample


def test_the_dashboard_asks_only_for_what_the_server_has(busy):
    families = scrape(busy)
    samples = collections.defaultdict(set)
    for family in families.values():
        for sample in family.samples:
            samples[sample.name] |= set(sample.labels)
    dashboard = json.loads((ROOT / "packaging/grafana/treedb.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    shown = set()
    for panel in panels:
        assert panel["title"] and panel["targets"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in panel["targets"]:
            query = target["expr"]
            assert query.count("(") == query.count(")") and query.count("{") == query.count("}"), query
            names = set(re.findall(r"\b(?:treedb|process)_\w+", query))
            assert names and names <= set(samples), (query, names - set(samples))
            shown |= names
            # Labels that it selects by, groups by or shows are labels of what it reads.
            selected = [label for body in re.findall(r"\{([^}]*)\}", query) for label in re.findall(r"(\w+)\s*[=!]~?", body)]
            grouped = [label.strip() for body in re.findall(r"\bby \(([^)]*)\)", query) for label in body.split(",")]
            legend = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            known = set.union(*(samples[name] for name in names)) | {"instance", "le"}
            assert set(selected + grouped + legend) <= known, (query, legend)
            for name in names:
                counter = name.endswith(("_total", "_bucket", "_count"))
                assert not counter or f"rate({name}" in query or "== 0" in query, query
    # Each family of ours is on it somewhere.
    left = {family.name for family in families.values() if family.name.startswith("treedb")
            if not any(name.startswith(family.name) for name in shown)}
    assert left <= {"treedb_build_info", "treedb_sessions", "treedb_backups", "treedb_index_builds", "treedb_log_segments",
                    "treedb_log_unflushed_frames", "treedb_checkpoint_age_commits", "treedb_write_stalls",
                    "treedb_write_stall_longest_seconds"}, left


def test_the_alerts_ask_only_for_what_the_server_has(busy):
    rules = (ROOT / "packaging/prometheus/treedb.rules.yml").read_text()
    names = {sample.name for family in scrape(busy).values() for sample in family.samples}
    queries = re.findall(r"^        expr: (.+)$", rules, re.M)
    assert len(queries) == len(re.findall(r"- alert: TreeDB\w+$", rules, re.M)) > 0
    for query in queries:
        asked = set(re.findall(r"\btreedb_\w+", query))
        assert asked and asked <= names, (query, asked - names)
        assert query.count("(") == query.count(")"), query
