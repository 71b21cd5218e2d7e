"""The runner counts what the languages' tools say, and takes no tool that is too old."""
import pytest

import run

RUST = "test result: ok. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in 0.01s"


@pytest.mark.parametrize("text, counted", [
    (RUST.format(7, 0, 0), (7, 0)),
    (RUST.format(7, 0, 2), (7, 2)),
    (f"{RUST.format(7, 1, 2)}\n{RUST.format(3, 0, 1)}", (10, 4)),
    ("# pass 5\n# fail 1\n# cancelled 1\n# skipped 1\n# todo 1", (5, 4)),
    ("--- PASS: TestA (0.00s)\n    --- FAIL: TestB/c (0.00s)\n--- SKIP: TestD (0.00s)", (1, 2)),
    ("[         4 tests successful      ]\n[         1 tests skipped         ]", (4, 1)),
    ("4 passed, 1 skipped in 0.10s", (4, 1)),
    ("1 failed, 4 passed in 0.10s", (4, 1)),
])
def test_tests_that_are_left_out_count_as_failed(text, counted):
    assert run.count(text) == counted


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Makes programs that are the only ones on PATH, each of which prints a version."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(run, "by_pip", lambda language: tmp_path / "by-pip")

    def make(**versions):
        for name, told in versions.items():
            (tmp_path / name).write_text(f"#!/bin/sh\necho {told}\n")
            (tmp_path / name).chmod(0o755)
    return make


@pytest.mark.parametrize("told, taken", [
    ("v18.20.4", False), ("v20.18.0", False), ("v20.19.0", True), ("v21.7.3", False), ("v22.11.0", False), ("v22.12.0", True), ("v24.0.1", True),
    ("broken", False),
])
def test_node_is_taken_from_path_only_if_it_is_new_enough(path, told, taken):
    path(node=told, npm="10.0.0")
    assert (run.node_tool()[0] == "node") == taken


def test_node_without_npm_is_not_taken(path):
    path(node="v24.0.1")
    assert run.node_tool()[0] != "node"


@pytest.mark.parametrize("told, taken", [("go1.19.8", False), ("go1.24.9", False), ("go1.25.0", True), ("go1.26rc1", True), ("go2.0.1", True)])
def test_go_is_taken_from_path_only_if_it_is_new_enough(path, told, taken):
    path(go=f"go version {told} linux/amd64")
    assert (run.go_tool() == "go") == taken


def test_nothing_is_taken_from_a_path_without_the_tools(path):
    assert run.node_tool()[0] != "node" and run.go_tool() != "go"
