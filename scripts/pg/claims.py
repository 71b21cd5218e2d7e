"""Tests of Postgres that are functions: each is named as a claim, gets a cluster, and raises what it finds."""
import sys
import time
import traceback

from cluster import Cluster

PAGE = 8192


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def same(left, right, what):
    check(left == right, f"{what}: {left} and {right}")


def same_lines(left, right, what):
    """Compares two sets of lines; what only one of them has is the message."""
    left, right = set(left), set(right)
    lines = [f"  only the first:  {line}" for line in sorted(left - right)]
    lines += [f"  only the second: {line}" for line in sorted(right - left)]
    check(not lines, "\n".join([what, *lines]))


def one(db, query, args=()):
    return db.execute(query, args).fetchone()[0]


def lines(db, query, args=()):
    """The rows of a query, each as one line of text."""
    return [" | ".join(str(value) for value in row) for row in db.execute(query, args)]


def index_only(db):
    """Leaves the planner nothing but walks of indexes."""
    for setting in ("seqscan", "bitmapscan", "sort"):
        db.execute(f"SET enable_{setting} = off")


def refused(db, statement, state, text=""):
    """The error of a statement that must be refused with this SQLSTATE."""
    try:
        db.execute(statement)
    except Exception as error:  # noqa: BLE001 - compared below
        check(getattr(error, "sqlstate", None) == state and text in str(error), f"{statement}: {type(error).__name__}: {error}")
        return error
    raise AssertionError(f"{statement}: no error, expected {state}")


def run(tests, settings=()):
    """Runs those of `tests` whose name has one of the words of the command line in it; the exit code."""
    chosen = [test for test in tests if not sys.argv[1:] or any(word in test.__name__ for word in sys.argv[1:])]
    passed = failed = 0
    cluster = Cluster(settings)
    try:
        cluster.create()
        for test in chosen:
            started = time.monotonic()
            try:
                told = test(cluster)
                passed += 1
                outcome = f"ok{f' ({told})' if told else ''}"
            except Exception:  # noqa: BLE001 - a finding
                failed += 1
                outcome = "FAILED\n" + traceback.format_exc(limit=-3)
            print(f"{test.__name__}: {outcome} {time.monotonic() - started:.1f} s", flush=True)
    finally:
        cluster.close(keep=bool(failed))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
