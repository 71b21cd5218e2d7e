"""A run whose writers do not do what they are there for fails."""
import sys

import pytest

import retries


@pytest.fixture
def small_run(monkeypatch, capfd):
    def go(rounds=1):
        """The exit status of a run of few rounds, and what it says."""
        monkeypatch.setattr(sys, "argv", ["retries.py", str(rounds)])
        with pytest.raises(SystemExit) as ended:
            retries.main()
        return ended.value.code, capfd.readouterr().out
    return go


def raise_type_error(*_):
    raise TypeError("planted")


def test_a_run_in_which_all_is_well_passes(small_run):
    status, said = small_run()
    assert status == 0 and "1 passed, 0 failed" in said and " 1 checks" in said, said


@pytest.mark.parametrize("owner, name, plant, words", [
    (retries.Writer, "insert", raise_type_error, "TypeError: planted"),
    (retries.Writer, "run", lambda *_: None, "no write was acknowledged"),
    (retries, "check", lambda _: ["treedb check: planted"], "treedb check: planted"),
])
def test_a_planted_error_fails_the_run(small_run, monkeypatch, owner, name, plant, words):
    monkeypatch.setattr(owner, name, plant)
    status, said = small_run()
    assert status == 1 and words in said and "0 passed, 1 failed" in said, said


def test_a_directory_that_is_damaged_does_not_pass_the_check(tmp_path):
    (tmp_path / "db").write_text("not a directory")
    assert retries.check(tmp_path / "db")


def lose(lists):
    """Takes the last number out of a list."""
    each = lists.find_one({"seen.0": {"$exists": True}})
    lists.update_one({"_id": each["_id"]}, {"$pop": {"seen": 1}, "$inc": {"n": -1}})


def test_a_write_of_an_earlier_round_that_is_lost_later_is_found(small_run, monkeypatch):
    run = retries.Writer.run

    def run_and_lose(writer, stop):
        if writer.name == "w0" and writer.round == 1:
            lose(writer.lists)
        run(writer, stop)

    monkeypatch.setattr(retries.Writer, "run", run_and_lose)
    status, said = small_run(2)
    assert status == 1 and "acknowledged, and not in it" in said and "1 passed, 1 failed" in said, said


def test_a_write_that_is_lost_after_the_last_round_is_found(small_run, monkeypatch):
    def check_and_lose(data):
        server = retries.Server(data, "--log-level", "warn")
        with server.client() as client:
            lose(client.retries.lists)
        assert server.stop() == 0
        return []

    monkeypatch.setattr(retries, "check", check_and_lose)
    status, said = small_run()
    assert status == 1 and "after the last stop: " in said and "acknowledged, and not in it" in said, said


@pytest.mark.parametrize("name", sorted(set(retries.WRITES)))
def test_each_kind_of_write_is_acknowledged(small_run, monkeypatch, name):
    """One that always fails, or does nothing, would not be seen among the others."""
    monkeypatch.setattr(retries, "WRITES", [name] if name != "delete" else ["insert", "delete"])
    status, said = small_run()
    assert status == 0, said
