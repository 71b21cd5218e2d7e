"""`treedb shell`: scripts through pipes, and conversations through a pseudo-terminal, with a server that wants a password."""
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time

import pytest

from server import BIN, PASSWORD, ROOT, Locked, Server

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("shell") / "data")
    with server.as_user() as client:
        client.shop.films.insert_many([{"_id": i, "title": f"film {i:02}", "year": 1990 + i % 5} for i in range(50)])
        client.shop.nested.insert_one({"_id": 1, "rating": {"stars": 4, "votes": [1, 2]}, "text": "x" * 80})
        client.admin.command("createUser", "ann", pwd="secret", roles=[{"role": "read", "db": "shop"}])
    yield server
    assert server.stop() == 0


def uri(server, database="shop"):
    host, port = server.addresses["mongo"]
    return f"mongodb://{host}:{port}/{database}"


def login(server):
    return ["--user", ROOT, "--password-file", str(server.password_file)]


def script(server, text, *flags, stdin=True, **options):
    """Runs statements without a terminal. Returns status, standard output and standard error."""
    args = [BIN, "shell", uri(server), *login(server), *flags, *([] if stdin else ["--eval", text])]
    done = subprocess.run(args, input=text if stdin else "", capture_output=True, text=True, timeout=60, **options)
    return done.returncode, done.stdout, done.stderr


class Terminal:
    """A shell in a terminal of 100 columns."""

    def __init__(self, args, history):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", TREEDB_SHELL_HISTORY=str(history), COLUMNS="100")
            os.execv(BIN, [BIN, "shell", *args])
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.seen = ""

    def read_until(self, pattern, timeout=30):
        """What is written until `pattern` is, that included."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += ESCAPES.sub("", os.read(self.fd, 65536).decode(errors="replace"))
                except OSError:
                    self.seen += "<closed>"
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, statement, answer):
        self.type(statement + "\r")
        return self.read_until(answer)

    def wait(self):
        """The exit status."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"the shell did not end: {self.seen!r}")


@pytest.fixture
def terminal(locked, tmp_path):
    history = tmp_path / "history"
    shell = Terminal([uri(locked), *login(locked)], history)
    shell.history = history
    shell.read_until("shop> ")
    yield shell
    try:
        os.kill(shell.pid, signal.SIGKILL)
        os.waitpid(shell.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def test_a_script_prints_tables_and_ends_with_status_0(locked):
    status, out, err = script(locked, "show collections\ndb.films.find({year: 1991}, {title: 1})\n  .sort({_id: -1})\n  .limit(2);\ndb.films.countDocuments()")
    assert (status, err) == (0, "")
    assert out == "films\nnested\n_id  title\n---  -------\n 46  film 46\n 41  film 41\n50\n"


def test_a_script_gets_all_documents_and_json_that_other_programs_read(locked):
    status, out, _ = script(locked, "db.films.find().sort({_id: 1}).batchSize(7)", "--json", stdin=False)
    documents = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [document["_id"] for document in documents] == list(range(50))


def test_nested_documents_are_shown_as_they_can_be_entered_again(locked):
    status, out, _ = script(locked, "db.nested.find()")
    assert status == 0 and out.startswith("{\n  _id: 1,\n  rating: { stars: 4, votes: [1, 2] },\n  text: \"xxx"), out
    status, again, _ = script(locked, f"db.nested.countDocuments({out})")
    assert (status, again) == (0, "1\n")


def test_the_first_error_ends_a_script_with_code_and_name(locked):
    for text, message in [
        ("db.films.insertOne({_id: 1}); show dbs", "error 11000 (DuplicateKey): E11000"),
        ("db.films.find({$x: 1}); show dbs", "error 2 (BadValue): unknown top level operator: $x"),
        ("db.films.find({year: 1991 title: 2})", "expected , or } and found t\n"),
        ("db.films.fnd()", "did you mean find?"),
        ("db.films.find({", "a bracket is not closed"),
        ("db.runCommand({nothing: 1})", "error 59 (CommandNotFound)"),
    ]:
        status, out, err = script(locked, text)
        assert status == 1 and message in err and err.startswith("treedb: "), (text, err)
        assert out == "", text


def test_what_a_user_may_not_do_is_refused_by_name(locked, tmp_path):
    (tmp_path / "password").write_text("secret\n")
    args = [BIN, "shell", uri(locked), "--user", "ann", "--password-file", str(tmp_path / "password")]
    done = subprocess.run([*args, "--eval", "db.films.findOne({_id: 1})"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, '{ _id: 1, title: "film 01", year: 1991 }\n')
    done = subprocess.run([*args, "--eval", "db.films.drop()"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "error 13 (Unauthorized)" in done.stderr
    (tmp_path / "password").write_text("wrong\n")
    done = subprocess.run([*args, "--eval", "1"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "Authentication failed" in done.stderr


def test_a_closed_pipe_is_no_error(locked):
    args = [BIN, "shell", uri(locked), *login(locked), "--json", "--eval", "db.films.find(); db.films.find()"]
    shell = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shell.stdout.close()
    assert shell.wait(timeout=30) == 0 and shell.stderr.read() == b""
    shell.stderr.close()


def test_a_directory_is_opened_without_a_server(tmp_path):
    server = Server(tmp_path / "data")
    args = [BIN, "shell", "--dir", str(tmp_path / "data"), "--eval", "use shop; db.a.insertOne({_id: 1}); db.a.find()"]
    refused = subprocess.run(args, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1 and "treedb: " in refused.stderr, refused.stderr
    assert server.stop() == 0
    done = subprocess.run(args, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "{ acknowledged: true, insertedId: 1 }\n_id\n---\n  1\n"), done.stderr
    missing = subprocess.run([BIN, "shell", "--dir", str(tmp_path / "none")], input="", capture_output=True, text=True, timeout=30)
    assert missing.returncode == 1 and "contains no database" in missing.stderr
    server = Server(tmp_path / "data")
    with server.client() as client:
        assert client.shop.a.find_one() == {"_id": 1}
    assert server.stop() == 0


def test_a_conversation_has_pages_and_forms_and_ends_by_exit(terminal):
    first = terminal.ask("db.films.find().sort({_id: 1})", 'type "it" for more')
    assert "_id  title    year" in first and "film 19" in first and "film 20" not in first
    second = terminal.ask("it", 'type "it" for more')
    assert "film 20" in second and "film 39" in second
    terminal.ask("it", "film 49")
    terminal.ask("it", "there are no more documents")
    expanded = terminal.ask("\\x", "a line for each field")
    expanded = terminal.ask("db.films.find({_id: 3})", "}\n")
    terminal.read_until("shop> ")
    assert '{\n  _id: 3,\n  title: "film 03",\n  year: 1993\n}' in expanded
    terminal.ask("use other", "switched to other")
    terminal.read_until("other> ")
    terminal.ask("db.a.find()", "no documents")
    terminal.ask("help cursor", "toArray")
    terminal.ask("db.a.find({a b})", r"expected : after a and found b\n  db.a.find\({a b}\)\n +\^")
    terminal.read_until("other> ")
    terminal.type("exit\r")
    assert terminal.wait() == 0


def test_a_statement_goes_on_until_its_brackets_are_closed(terminal):
    terminal.type("db.films.find({\r")
    terminal.type("  _id: {$in: [1,\r")
    terminal.type("2]}}, {year: 0})\r")
    found = terminal.read_until("2  film 02")
    assert "1  film 01" in found


def test_names_and_methods_are_completed(terminal):
    terminal.type("db.fil\t.findO\t\t")
    terminal.read_until(r"findOneAndUpdate\(")
    terminal.type("({_id: 5})\r")
    terminal.read_until('title: "film 05"')


def test_ctrl_c_gives_up_a_line_and_stops_a_command_but_not_the_shell(terminal, locked):
    terminal.type("db.films.find({")
    terminal.read_until(re.escape("find({"))
    terminal.type("\x03")
    terminal.read_until("shop> ")
    slow = "db.films.aggregate([" + ", ".join(
        f"{{$lookup: {{from: 'films', pipeline: [], as: 'x{n}'}}}}, {{$unwind: '$x{n}'}}" for n in range(4)) + ", {$count: 'n'}])"
    terminal.type(slow + "\r")
    with locked.as_user() as client:
        deadline = time.monotonic() + 20
        while not (running := list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.aggregate": "films"}}]))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert running[0]["appName"] == "treedb shell"
        began = time.monotonic()
        terminal.type("\x03")
        terminal.read_until(r"error 11601 \(Interrupted\)")
        assert time.monotonic() - began < 10
        assert not list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.aggregate": "films"}}]))
    terminal.read_until("shop> ")
    terminal.ask("db.films.countDocuments()", r"\n50\n")
    terminal.read_until("shop> ")
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_a_script_that_is_interrupted_stops_its_command_and_ends_with_130(locked):
    slow = "db.films.aggregate([" + ", ".join(
        f"{{$lookup: {{from: 'films', pipeline: [], as: 'x{n}'}}}}, {{$unwind: '$x{n}'}}" for n in range(4)) + ", {$count: 'n'}])"
    args = [BIN, "shell", uri(locked), *login(locked), "--eval", slow]
    shell = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wanted = [{"$currentOp": {}}, {"$match": {"command.aggregate": "films"}}]
    with locked.as_user() as client:
        deadline = time.monotonic() + 20
        while not list(client.admin.aggregate(wanted)):
            assert time.monotonic() < deadline and shell.poll() is None
            time.sleep(0.05)
        shell.send_signal(signal.SIGINT)
        _, err = shell.communicate(timeout=20)
        assert shell.returncode == 130 and "Interrupted" in err
        assert not list(client.admin.aggregate(wanted))


def test_the_history_is_private_and_has_no_passwords(terminal, locked, tmp_path):
    terminal.ask("db.films.find({_id: 7})", "film 07")
    terminal.ask("db.createUser({user: 'eve', pwd: 'hunter2', roles: []})", "ok\n")
    terminal.read_until("shop> ")
    terminal.type("db.changeUserPassword('eve', passwordPrompt())\r")
    terminal.read_until("password: ")
    time.sleep(0.2)
    terminal.type("hunter3\r")
    shown = terminal.read_until("shop> ")
    assert "ok" in shown and "hunter3" not in shown
    assert "authenticated as eve" in terminal.ask("db.auth('eve', 'hunter3')", "authenticated as eve")
    terminal.ask("db.films.find()", r"error 13 \(Unauthorized\)")
    terminal.read_until("shop> ")
    terminal.type("exit\r")
    assert terminal.wait() == 0
    kept = terminal.history.read_text()
    assert "db.films.find({_id: 7})" in kept
    assert "hunter" not in kept and "eve" not in kept
    assert stat.S_IMODE(terminal.history.stat().st_mode) == 0o600
    # The next shell has it.
    again = Terminal([uri(locked), *login(locked)], terminal.history)
    again.read_until("shop> ")
    again.type("\x1b[A\x1b[A\r")
    again.read_until("film 07")
    again.read_until("shop> ")
    again.type("\x04")
    assert again.wait() == 0


def test_a_password_is_asked_for_and_not_shown(locked, tmp_path):
    shell = Terminal([uri(locked), "--user", ROOT], tmp_path / "history")
    shell.read_until("password: ")
    time.sleep(0.2)
    shell.type(PASSWORD + "\r")
    assert "horse" not in shell.read_until("shop> ")
    shell.type("\x04")
    assert shell.wait() == 0


def test_a_server_that_was_started_again_is_connected_to_again(tmp_path):
    server = Server(tmp_path / "data")
    host, port = server.addresses["mongo"]
    shell = Terminal([f"mongodb://{host}:{port}/shop"], tmp_path / "history")
    shell.read_until("shop> ")
    shell.ask("db.a.insertOne({_id: 1})", "insertedId: 1")
    shell.read_until("shop> ")
    assert server.stop() == 0
    shell.ask("db.a.find()", f"{host}:{port}: ")
    shell.read_until("shop> ")
    server = Server(tmp_path / "data", "--mongo", f"{host}:{port}")
    shell.ask("db.a.countDocuments()", r"\n1\n")
    shell.read_until("shop> ")
    shell.type("\x04")
    assert shell.wait() == 0
    assert server.stop() == 0


def test_who_has_not_logged_in_is_told_how(locked, tmp_path):
    done = subprocess.run([BIN, "shell", uri(locked), "--eval", "db.films.find()"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "requires authentication: log in with db.auth(" in done.stderr, done
    done = subprocess.run([BIN, "dump", "--uri", uri(locked), str(tmp_path / "dump")], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "requires authentication: say who you are with --user and --password-file" in done.stderr, done


def test_commands_take_a_user_whose_password_is_in_a_file(locked, tmp_path):
    def run(*args):
        done = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done
    as_root = ["--uri", uri(locked), *login(locked)]
    run("dump", tmp_path / "dump", "--only", "shop.films", *as_root)
    run("restore", tmp_path / "dump", "--drop", *as_root)
    run("archive", tmp_path / "archive", *as_root)
    run("backup", tmp_path / "backup", *as_root)
    assert run("find", "shop.films", "--limit", "1", "--dir", tmp_path / "backup").stdout
    refused = subprocess.run([BIN, "dump", str(tmp_path / "dump"), "--dir", str(tmp_path / "backup"), *login(locked)],
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "cannot be used with" in refused.stderr, refused


def test_writes_are_locked_out_and_let_in_again_in_any_database(locked):
    status, out, err = script(locked, "db.fsyncLock()\ndb.fsyncUnlock()\ndb.films.insertOne({_id: 'unlocked'})\ndb.films.deleteOne({_id: 'unlocked'})\ndb.hostInfo()")
    assert status == 0 and "lockCount" in out and "numCores" in out, (out, err)
