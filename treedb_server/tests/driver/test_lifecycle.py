"""Starting, stopping, restarting; the admin port; limits."""
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from server import BIN, Server


def get(server, path):
    host, port = server.addresses["admin"]
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def run(*args):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean_and_everything_is_there_after_a_restart(tmp_path, sig):
    server = Server(tmp_path)
    with server.client() as client:
        client.db.c.insert_many([{"_id": i, "x": "y" * 50} for i in range(2000)])
        client.db.c.create_index("x")
        client.db.c.delete_many({"_id": {"$lt": 100}})
    assert server.stop(sig) == 0
    assert any("checkpoint" in line for line in server.log)
    server = Server(tmp_path)
    with server.client() as client:
        assert client.db.c.count_documents({}) == 1900
        assert client.db.c.find_one({"_id": 500})["x"] == "y" * 50
        assert len(list(client.db.c.list_indexes())) == 2
    assert server.stop() == 0


def test_the_command_shutdown_stops_the_server_cleanly(tmp_path):
    server = Server(tmp_path)
    with server.client() as client, server.client() as idle:
        idle.db.c.insert_one({"_id": 1})
        for refused in ({"timeoutSecs": -1}, {"force": "now"}):
            with pytest.raises(OperationFailure):
                client.admin.command("shutdown", **refused)
        with pytest.raises(OperationFailure, match="admin"):
            client.db.command("shutdown")
        assert client.admin.command("shutdown", force=True, timeoutSecs=5)["ok"] == 1
    assert server.process.wait(timeout=20) == 0
    server.stop()
    assert any("checkpoint" in line for line in server.log)
    server = Server(tmp_path)
    with server.client() as client:
        assert client.db.c.count_documents({}) == 1
    assert server.stop() == 0


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path):
    server = Server(tmp_path)
    with server.client() as client:
        for i in range(50):
            client.db.c.insert_one({"_id": i})
    assert server.stop(signal.SIGKILL) == -9
    server = Server(tmp_path)
    with server.client() as client:
        assert client.db.c.count_documents({}) == 50
    assert server.stop() == 0


def test_a_stop_lets_running_writes_finish(tmp_path):
    server = Server(tmp_path)
    acknowledged = []
    with server.client() as client:
        def write():
            try:
                for i in range(100_000):
                    client.db.c.insert_one({"_id": i})
                    acknowledged.append(i)
            except PyMongoError:
                pass
        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(0.5)
        assert server.stop() == 0
        writer.join()
    assert acknowledged
    server = Server(tmp_path)
    with server.client() as client:
        assert client.db.c.count_documents({"_id": {"$in": acknowledged}}) == len(acknowledged)
        # What was not acknowledged may be there, at most the one write that was on its way.
        assert client.db.c.count_documents({}) <= len(acknowledged) + 1
    assert server.stop() == 0


def test_a_second_server_on_the_directory_is_told_who_has_it(tmp_path):
    server = Server(tmp_path)
    code, out, err = run("serve", "--dir", str(tmp_path), "--mongo", "127.0.0.1:0")
    assert code != 0 and out == ""
    assert f"in use by process {server.process.pid}" in err
    with server.client() as client:
        assert client.admin.command("ping")["ok"] == 1
    assert server.stop() == 0


def test_an_address_that_is_taken_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code, _, err = run("serve", "--dir", str(tmp_path / "d"), "--mongo", address)
        assert code != 0 and address in err


def test_a_directory_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    code, _, err = run("serve", "--dir", str(tmp_path / "file" / "db"), "--mongo", "127.0.0.1:0")
    assert code != 0 and str(tmp_path / "file") in err


def test_every_listener_is_printed(tmp_path):
    server = Server(tmp_path, native=True, admin=True)
    assert set(server.addresses) == {"mongo", "native", "admin"}
    for address in server.addresses.values():
        socket.create_connection(address, timeout=5).close()
    assert server.stop() == 0


def test_the_admin_port_answers(tmp_path):
    server = Server(tmp_path, admin=True)
    assert get(server, "/livez") == (200, "ok\n")
    assert get(server, "/readyz") == (200, "ok\n")
    assert get(server, "/nothing")[0] == 404
    with server.client() as client:
        client.db.c.insert_many([{"_id": i} for i in range(10)])
        list(client.db.c.find())
        client.db.command("nonsense", check=False)
    status, text = get(server, "/metrics")
    assert status == 200
    assert 'treedb_command_duration_seconds_count{door="mongo",command="insert"} 1' in text
    assert 'treedb_commands_failed_total{door="mongo",command="unknown"} 1' in text
    assert "treedb_start_time_seconds" in text and "nonsense" not in text
    host, port = server.addresses["admin"]
    request = urllib.request.Request(f"http://{host}:{port}/metrics", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(request, timeout=5)
    assert failure.value.code == 405
    assert server.stop() == 0


def test_connections_over_the_limit_are_refused_and_room_is_found_again(tmp_path):
    server = Server(tmp_path, "--max-connections", "5")
    held = [socket.create_connection(server.addresses["mongo"], timeout=5) for _ in range(5)]
    time.sleep(0.2)
    with socket.create_connection(server.addresses["mongo"], timeout=5) as refused:
        assert refused.recv(1) == b""
    for connection in held:
        connection.close()
    with server.client() as client:
        deadline = time.monotonic() + 5
        while True:
            try:
                assert client.admin.command("ping")["ok"] == 1
                break
            except AutoReconnect:
                assert time.monotonic() < deadline
    assert server.stop() == 0


def test_many_threads_write_and_read(tmp_path):
    server = Server(tmp_path)
    with server.client(maxPoolSize=16) as client:
        def work(n):
            for i in range(50):
                client.db.c.insert_one({"_id": n * 1000 + i, "n": n})
                assert client.db.c.find_one({"_id": n * 1000 + i})["n"] == n
        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.db.c.count_documents({}) == 800
    assert server.stop() == 0


def test_log_lines_as_json_hold_no_documents(tmp_path):
    import json
    server = Server(tmp_path, "--log-format", "json", "--log-level", "info")
    with server.client() as client:
        client.db.c.insert_one({"_id": "top secret"})
        client.db.c.insert_one({"_id": "other secret"})
        client.db.c.create_index("field")
        with pytest.raises(PyMongoError):
            client.db.c.insert_one({"_id": "top secret"})
    assert server.stop() == 0
    assert server.log and "secret" not in "".join(server.log)
    for line in server.log:
        entry = json.loads(line)
        assert entry["level"] == "INFO" and "timestamp" in entry and "message" in entry


def test_help_and_bad_flags():
    code, out, _ = run("--help")
    assert code == 0 and "serve" in out and "import" in out and "export" in out
    code, out, _ = run("serve", "--help")
    assert code == 0
    for flag in ("--dir", "--mongo", "--native", "--admin", "--max-connections", "--log-format", "127.0.0.1:27017"):
        assert flag in out, flag
    code, _, err = run("serve", "--nonsense")
    assert code == 2 and "--nonsense" in err
    code, _, err = run("serve", "--dir", "x", "--max-inflight-bytes", "5")
    assert code == 2 and "48000000" in err
