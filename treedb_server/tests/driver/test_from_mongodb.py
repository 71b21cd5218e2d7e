"""docs/from-mongodb.md: its commands are run from the first to the last, against real servers. The statements for mongosh are run by
`treedb shell` here, and by mongosh in tests/clients/node."""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.request

import pytest

from server import BIN, Server

PAGE = pathlib.Path(__file__).parents[3] / "docs/from-mongodb.md"


def blocks():
    """The examples in their order: the language, and the text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


class Reader:
    """Somebody who enters what the page says, in a directory of their own; ports are those that the system has chosen."""

    def __init__(self, directory):
        self.directory, self.server, self.shell, self.shown = directory, None, None, []

    def placed(self, text):
        for name, port in (("mongo", 27017), ("admin", 8080)):
            text = text.replace(f"127.0.0.1:{port}", "{}:{}".format(*self.server.addresses[name]))
        return text

    def run(self, *command, text=None):
        done = subprocess.run(command, cwd=self.directory, input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, text, done.stdout, done.stderr)
        return done.stdout

    def serve(self, flags):
        flags = [str(self.directory / flag) if flag.endswith((".password", ".pem", ".key")) else flag for flag in flags]
        directory = self.directory / flags[flags.index("--dir") + 1]
        for name in ("--dir", "--admin"):
            at = flags.index(name)
            del flags[at:at + 2]
        if self.server:
            assert self.server.stop() == 0
        self.server = Server(directory, *flags, admin=True)

    def sh(self, line):
        if line.startswith(("(umask ", "openssl ")):
            self.run("bash", "-c", line)
        elif line.startswith("treedb serve "):
            self.serve(shlex.split(line)[2:])
        elif line.startswith("mongosh "):
            self.shell = line.removeprefix("mongosh ")
        elif line.startswith("treedb shell ") and "--eval" not in line:
            assert self.shell == line.removeprefix("treedb shell "), "both shells take the same"
        else:
            assert line.startswith("treedb "), line
            self.shown.append(self.run(BIN, *shlex.split(self.placed(line))[1:]))

    def js(self, text):
        self.shown.append(self.run(BIN, "shell", *shlex.split(self.placed(self.shell)), text=text))

    def python(self, text):
        self.shown.append(self.run(sys.executable, "-c", self.placed(text)))


@pytest.fixture
def reader(tmp_path):
    reader = Reader(tmp_path)
    yield reader
    if reader.server:
        reader.server.stop()


def test_what_the_page_says_works_from_the_first_command_to_the_last(tmp_path, reader):
    # What somebody has from MongoDB.
    old = Server(tmp_path / "old")
    with old.client() as client:
        client.shop.orders.insert_many([{"_id": i, "total": i * 3} for i in range(50)])
        client.shop.orders.create_index("total")
    subprocess.run([BIN, "dump", str(tmp_path / "dump"), "--uri", old.uri], check=True, capture_output=True, timeout=60)
    assert old.stop() == 0
    for language, text in blocks():
        if language == "sh":
            for line in text.splitlines():
                reader.sh(line)
        else:
            getattr(reader, language)(text)
    shown = "\n".join(reader.shown)
    for expected in ("ann", "IXSCAN", "totalKeysExamined", "Aliens", "score", "orders"):
        assert expected in shown, (expected, shown)
    # Alien, Aliens and Brazil.
    assert "\n3\n" in shown, shown


def test_a_user_who_belongs_to_a_database_connects_as_the_page_says(tmp_path):
    (tmp_path / "password").write_text("a long password\n")
    server = Server(tmp_path / "data", "--auth", "--root-user", "root", "--root-password-file", str(tmp_path / "password"), admin=True)
    text = PAGE.read_text()
    create, = [line for line in text.splitlines() if line.startswith("db.createUser(")]
    host, port = server.addresses["mongo"]
    root = f"mongodb://root:a%20long%20password@{host}:{port}/shop?authSource=admin"
    subprocess.run([BIN, "shell", root, "--eval", create], check=True, capture_output=True, timeout=30)
    ann = re.search(r"`(mongodb://ann:\S+)`", text)[1].replace("127.0.0.1:27017", f"{host}:{port}")
    done = subprocess.run([BIN, "shell", ann, "--json", "--eval", "db.films.insertOne({_id: 1}); db.films.find()"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1]) == {"_id": 1}, done
    with urllib.request.urlopen("http://{}:{}/".format(*server.addresses["admin"])) as page:
        assert b"TreeDB" in page.read()
    assert server.stop() == 0


def test_certificate_and_key_may_be_in_one_file(tmp_path):
    openssl, = [line for line in PAGE.read_text().splitlines() if line.startswith("openssl ")]
    subprocess.run(["bash", "-c", openssl], cwd=tmp_path, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "server.key").read_text() + (tmp_path / "server.pem").read_text())
    server = Server(tmp_path / "data", "--tls-certificate", str(both), "--tls-key", str(both))
    with server.client(tls=True, tlsCAFile=str(tmp_path / "server.pem")) as client:
        assert client.admin.command("ping")["ok"] == 1
    assert server.stop() == 0
