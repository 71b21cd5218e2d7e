"""A run whose clients do not do what they were asked for fails."""
import os
import sys

import pytest

import run


@pytest.fixture
def small_run(monkeypatch, capfd):
    def go():
        """The exit status of a small run, and what it says."""
        monkeypatch.setattr(sys, "argv", ["run.py", "1000"])
        with pytest.raises(SystemExit) as ended:
            run.main()
        return ended.value.code, capfd.readouterr().out
    return go


def raise_key_error(*_):
    raise KeyError("planted")


def die(*_):
    os._exit(3)


def test_a_run_in_which_all_is_well_passes(small_run):
    status, said = small_run()
    assert status == 0 and "1 passed, 0 failed" in said, said


@pytest.mark.parametrize("owner, name, plant, words", [
    (run.Worker, "read", raise_key_error, "KeyError: 'planted'"),
    (run.Worker, "run", lambda *_: None, "0 operations of 1000"),
    (run.Worker, "__init__", raise_key_error, "told nothing"),
    (run.Worker, "__init__", die, "the status is [3"),
    (run, "disturb", raise_key_error, "KeyError: 'planted'"),
    (run, "disturb", lambda *_: None, "no failure happened"),
])
def test_a_planted_error_fails_the_run(small_run, monkeypatch, owner, name, plant, words):
    monkeypatch.setattr(owner, name, plant)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    status, said = small_run()
    assert status == 1 and words in said and "0 passed, 1 failed" in said, said


def test_clients_that_hang_fail_the_run(small_run, monkeypatch):
    monkeypatch.setattr(run, "LIMIT", -1000 / 50)
    monkeypatch.setattr(run.Worker, "run", lambda *_: run.time.sleep(60))
    status, said = small_run()
    assert status == 1 and "told nothing" in said, said
