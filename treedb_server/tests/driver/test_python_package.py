"""The Python client as a package: its types, and what pip makes of it."""
import email
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"
# What a type checker reads in somebody's program: the first is right, each of the others is an error.
PROGRAM = """
import treedb

with treedb.connect("127.0.0.1:27117", timeout=1) as db:
    films = db["shop.films"]
    year: int = films.count({"year": 1979})
    found: dict[str, object] | None = films.get(1)
    near: list[tuple[float, float, dict[str, object]]] = films.vector_search("near", [1.0], projection={"v": 0})
    films.update_search_index("near", {"fields": []})
    value: bytes = db.table("t")[b"key"]
"""
WRONG = ["films.count(1979)", "db.table('t')['key']", "text: str = films.count()", "films.get(1)['title']", "films.no_such_call()"]


def checked(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--python-version", "3.10", *arguments],
                          capture_output=True, text=True, timeout=600, **options)


def test_the_type_hints_hold(tmp_path):
    done = checked("--strict", "treedb", cwd=CLIENT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked_against_the_type_hints(tmp_path):
    environment = {**os.environ, "MYPYPATH": str(CLIENT)}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = checked("--strict", program, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text(PROGRAM + "".join(f"    {line}\n" for line in WRONG))
    done = checked("--strict", program, env=environment)
    first = PROGRAM.count("\n") + 1
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(first, first + len(WRONG))), done.stdout


def test_pip_installs_it_with_its_types(tmp_path):
    # The build leaves files beside what it reads.
    shutil.copytree(CLIENT, tmp_path / "source")
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    # Nothing is fetched: what builds it is pinned in scripts/requirements.txt.
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", tmp_path, tmp_path / "source"],
                   check=True, timeout=300)
    wheel, = tmp_path.glob("treedb-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, *pip, "install", "--no-deps", "--no-index", wheel], check=True, timeout=300)
    installed, = (tmp_path / "venv").glob("lib/python*/site-packages/treedb")
    assert {file.name for file in installed.glob("*.py")} == {file.name for file in (CLIENT / "treedb").glob("*.py")}
    assert (installed / "py.typed").exists()
    metadata, = installed.parent.glob("treedb-*.dist-info/METADATA")
    described = email.message_from_string(metadata.read_text())
    assert described["Name"] == "treedb" and described["Requires-Dist"].startswith("pymongo")
    assert "A Python client of TreeDB" in described.get_payload()
    # With PyMongo from where the tests have it.
    script = "import treedb; print(treedb.__file__, treedb.connect.__name__)"
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_paths()["purelib"]}
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path, timeout=60)
    assert done.stdout.split() == [str(installed / "__init__.py"), "connect"]
