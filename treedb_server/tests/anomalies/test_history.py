"""The check finds what it is there to find."""
import pytest

from history import Check, Transaction

DONE = "committed"


def wrong(history, final, registers=None):
    """What is wrong; registers that are not given have the values that were written last."""
    if registers is None:
        written = [operation for _, _, how, operations in history if how != "aborted" for operation in operations]
        registers = {key: value for kind, key, value in written if kind == "write"}
    return " ".join(Check([Transaction(*each) for each in history], final, registers).wrong)


def test_a_serial_history_is_right():
    assert not wrong([(0, 1, DONE, [("append", "a", 1)]), (2, 3, DONE, [("read", "a", (1,)), ("append", "a", 2), ("read", "a", (1, 2))]),
                      (4, 5, DONE, [("get", "r", None), ("write", "r", 5)]), (6, 7, DONE, [("get", "r", 5), ("read", "a", (1, 2))])],
                     {"a": [1, 2]})


def test_write_skew_is_permitted():
    assert not wrong([(0, 9, DONE, [("read", "a", ()), ("append", "b", 1)]), (0, 9, DONE, [("read", "b", ()), ("append", "a", 2)])],
                     {"a": [2], "b": [1]})


@pytest.mark.parametrize("history, final, words", [
    ([(0, 1, DONE, [("append", "a", 1)])], {"a": []}, "lost"),
    ([(0, 1, DONE, [("append", "a", 1)])], {"a": [1, 1]}, "twice"),
    ([(0, 1, "aborted", [("append", "a", 1)])], {"a": [1]}, "aborted"),
    ([], {"a": [1]}, "never written"),
    ([(0, 9, DONE, [("get", "r", None), ("write", "r", 1)]), (0, 9, DONE, [("get", "r", None), ("write", "r", 2)])], {}, "lost update"),
    ([(0, 1, "aborted", [("get", "r", None), ("write", "r", 1)]), (2, 3, DONE, [("get", "r", 1)])], {}, "never committed"),
    ([(0, 9, DONE, [("append", "a", 1), ("append", "a", 2)]), (0, 9, DONE, [("read", "a", (1,))])], {"a": [1, 2]}, "appended next"),
    ([(0, 9, DONE, [("append", "a", 1)]), (0, 9, DONE, [("append", "a", 2)]), (0, 9, DONE, [("read", "a", (2,))])],
     {"a": [1, 2]}, "not how the list begins"),
    ([(0, 9, DONE, [("append", "a", 1)]), (0, 9, DONE, [("read", "a", ()), ("read", "a", (1,))])], {"a": [1]}, "two different lists"),
    ([(0, 9, DONE, [("append", "a", 1), ("read", "a", ())])], {"a": [1]}, "after appending"),
    # Read skew: one half of another's writes.
    ([(0, 9, DONE, [("append", "a", 1), ("append", "b", 2)]), (0, 9, DONE, [("read", "a", (1,)), ("read", "b", ())])],
     {"a": [1], "b": [2]}, "misses what it depends on"),
    # Each sees the other's.
    ([(0, 9, DONE, [("append", "a", 1), ("read", "b", (2,))]), (0, 9, DONE, [("append", "b", 2), ("read", "a", (1,))])],
     {"a": [1], "b": [2]}, "a cycle of 2"),
    # Opposite orders of the same two writers.
    ([(0, 9, DONE, [("append", "a", 1), ("append", "b", 1)]), (0, 9, DONE, [("append", "a", 2), ("append", "b", 2)])],
     {"a": [1, 2], "b": [2, 1]}, "a cycle of 2"),
    # A long fork: two readers see two writes in opposite orders.
    ([(0, 9, DONE, [("append", "a", 1)]), (0, 9, DONE, [("append", "b", 2)]), (0, 9, DONE, [("read", "a", (1,)), ("read", "b", ())]),
      (0, 9, DONE, [("read", "a", ()), ("read", "b", (2,))])], {"a": [1], "b": [2]}, "a cycle"),
    # A stale read: it began after the other had been acknowledged. The order in time is the other part of the cycle.
    ([(0, 1, DONE, [("append", "a", 1)]), (2, 3, DONE, [("read", "a", ())])], {"a": [1]}, "a cycle of 1"),
])
def test_what_snapshot_isolation_forbids_is_found(history, final, words):
    assert words in wrong(history, final)


def test_a_commit_without_an_answer_may_have_happened_or_not():
    for final, read in [([1], (1,)), ([], ())]:
        assert not wrong([(0, 1, "unknown", [("append", "a", 1)]), (2, 3, DONE, [("read", "a", read)])], {"a": final})


WRITES = [(0, 1, DONE, [("get", "r", None), ("write", "r", 1)]), (2, 3, DONE, [("get", "r", 1), ("write", "r", 2), ("write", "r", 3)])]


@pytest.mark.parametrize("more, registers, words", [
    ([], {"r": 3}, ""),
    ([], {}, "3 was committed last, and None is there"),
    ([], {"r": 1}, "3 was committed last, and 1 is there"),
    ([], {"r": 3, "s": 9}, "s: 9 was never written"),
    ([(4, 5, "aborted", [("get", "r", 3), ("write", "r", 4)])], {"r": 4}, "4 is of a transaction that was aborted"),
    # Of one without an answer either.
    ([(4, 5, "unknown", [("get", "r", 3), ("write", "r", 4)])], {"r": 4}, ""),
    ([(4, 5, "unknown", [("get", "r", 3), ("write", "r", 4)])], {"r": 3}, ""),
    ([(4, 5, "unknown", [("get", "r", 1), ("write", "r", 4)])], {"r": 4}, "a lost update"),
])
def test_a_register_has_what_was_committed_last(more, registers, words):
    found = wrong(WRITES + more, {}, registers)
    assert words in found and bool(words) == bool(found), found
