"""Failed log-ins: what one address may try, and who is not held up by it."""
import base64
import contextlib
import pathlib
import sys
import threading
import time

import pytest
from bson import Binary
from pymongo.errors import OperationFailure

from server import Locked
from wire import Wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"))

import treedb  # noqa: E402

# As in access/throttle.rs.
OF_ADDRESS, OF_USER = 100, 10


@pytest.fixture
def locked(tmp_path):
    server = Locked(tmp_path / "data", native=True)
    with server.as_user() as root:
        for name in ("app", "new"):
            root.admin.command("createUser", name, pwd="secret", roles=["readAnyDatabase"])
    yield server
    assert server.stop() == 0


def guess(wire, name):
    """Authenticates as `name` with a wrong password. Returns the error reply."""
    started = wire.command({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(f"n,,n={name},r=abc".encode()),
                            "$db": "admin"})
    if started["ok"] != 1.0:
        return started
    combined = started["payload"].split(b",")[0]
    proof = b"c=biws," + combined + b",p=" + base64.b64encode(bytes(32))
    return wire.command({"saslContinue": 1, "conversationId": started["conversationId"], "payload": Binary(proof), "$db": "admin"})


@contextlib.contextmanager
def guessing(server):
    """Four clients that fail to log in without pause, so that the address stays over its limit."""
    stop = threading.Event()

    def guesses(who):
        with Wire(server) as wire:
            n = 0
            while not stop.is_set():
                guess(wire, f"other{who}-{n}")
                n += 1

    threads = [threading.Thread(target=guesses, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def logs_in(server, name):
    with server.as_user(name, "secret") as client:
        try:
            client.admin.command("ping")
        except OperationFailure as error:
            assert error.code == 18 and "too many failed log-ins" in str(error), error
            return False
        return True


def test_who_guesses_with_many_names_waits_and_who_was_there_before_does_not(locked):
    assert logs_in(locked, "app")
    with Wire(locked) as wire:
        waits = []
        # Those of a second or more are forgotten meanwhile.
        for n in range(OF_ADDRESS * 2):
            refused = guess(wire, f"name{n}")
            assert refused["code"] == 18
            waits.append("too many failed log-ins" in refused["errmsg"])
        assert not any(waits[:OF_ADDRESS]) and waits.count(True) > OF_ADDRESS / 2, waits.count(True)
        # The address may fail again after a second, once.
        deadline = time.monotonic() + 10
        while "too many" in guess(wire, "patient")["errmsg"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "too many" in guess(wire, "another")["errmsg"]
    with guessing(locked):
        assert logs_in(locked, "app")
        assert not logs_in(locked, "new")
        # The protocols count together.
        host, port = locked.addresses["native"]
        with pytest.raises(treedb.ServerError, match="too many failed log-ins"):
            treedb.connect(f"{host}:{port}", user="new", password="secret")
        with treedb.connect(f"{host}:{port}", user="app", password="secret") as db:
            db.ping()
    # A user who has not logged in from there waits, but not for long.
    deadline = time.monotonic() + 10
    while not logs_in(locked, "new"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_one_client_with_a_wrong_password_holds_nobody_up(locked):
    with Wire(locked) as wire:
        began = time.monotonic()
        waits = ["too many" in guess(wire, "forgotten")["errmsg"] for _ in range(OF_ADDRESS * 2)]
        # Once in five seconds.
        assert waits[OF_USER:].count(False) <= 2 + (time.monotonic() - began) / 5 and not any(waits[:OF_USER])
        assert logs_in(locked, "app") and logs_in(locked, "new")


def test_what_is_no_log_in_is_not_held_against_the_address(locked):
    with Wire(locked) as wire:
        for n in range(OF_ADDRESS * 3):
            for payload in (b"nonsense", b"n,,n=" + b"x" * 2_000 + b",r=abc"):
                refused = wire.command({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(payload), "$db": f"db{n}"})
                assert refused["code"] == 18 and "too many" not in refused["errmsg"]
    assert logs_in(locked, "new")
