"""A run whose writers do not do what they are there for fails."""
import sys

import pytest

import retries


@pytest.fixture
def small_run(monkeypatch, capfd):
    def go():
        """The exit status of a run of one round, and what it says."""
        monkeypatch.setattr(sys, "argv", ["retries.py", "1"])
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
