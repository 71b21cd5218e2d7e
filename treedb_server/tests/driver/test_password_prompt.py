"""Asking for a password on a terminal: a real one, of which this test has the other end."""
import fcntl
import os
import resource
import select
import shlex
import signal
import subprocess
import termios
import time

import pytest

from server import BIN, PASSWORD, ROOT, Locked


class Prompt:
    """`treedb`, or another program that starts it, with a terminal of its own, at the password prompt."""

    def __init__(self, *args, program=BIN):
        self.own, self.terminal = os.openpty()
        self.before = termios.tcgetattr(self.terminal)

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # Who runs the tests in the background of a script has these ignored, and would have children ignore them.
            for ignored in (signal.SIGINT, signal.SIGQUIT):
                signal.signal(ignored, signal.SIG_DFL)

        self.process = subprocess.Popen(
            [program, *map(str, args)], stdin=self.terminal, stdout=self.terminal, stderr=self.terminal, start_new_session=True,
            preexec_fn=own_terminal, env={**os.environ, "TERM": "xterm"})
        self.shown = ""
        self.wait_for("password: ")

    def wait_for(self, text):
        deadline = time.monotonic() + 20
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.own], [], [], 0.1)[0]:
                self.shown += os.read(self.own, 1000).decode(errors="replace")

    def enter(self, keys):
        self.shown = ""
        os.write(self.own, keys)

    def echoes(self):
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)

    def ends(self):
        """The exit status, or the signal as a negative number. The terminal is as it was."""
        status = self.process.wait(timeout=20)
        assert termios.tcgetattr(self.terminal) == self.before
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.own)
        os.close(self.terminal)


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("locked") / "data")
    with server.as_user() as client:
        client.shop.films.insert_one({"_id": 7})
    yield server
    server.stop()


def prompt(server):
    return Prompt("export", "shop.films", "--uri", server.uri, "--user", ROOT)


@pytest.mark.parametrize("key, sent", [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_terminal_shows_what_is_entered_again_after_the_prompt_was_interrupted(locked, key, sent):
    with prompt(locked) as asked:
        assert not asked.echoes()
        asked.enter(b"half of it" + key)
        assert asked.ends() == -sent


@pytest.mark.parametrize("key, sent", [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_at_the_prompt_ends_the_script_that_asks_too(locked, key, sent):
    command = shlex.join(map(str, [BIN, "export", "shop.films", "--uri", locked.uri, "--user", ROOT]))
    with Prompt("-c", f"{command}; echo went on; sleep 20", program="/bin/sh") as asked:
        asked.enter(key)
        assert asked.ends() == -sent
        assert "went on" not in asked.shown


def test_a_script_of_the_shell_whose_prompt_is_interrupted_has_the_status_of_that(locked):
    with Prompt("shell", locked.uri, "--user", ROOT, "--eval", 'db.changeUserPassword("nobody", passwordPrompt())') as asked:
        asked.enter(PASSWORD.encode() + b"\n")
        asked.wait_for("password: ")
        asked.enter(b"\x03")
        assert asked.ends() == 130


def test_a_password_is_not_shown_and_keys_that_erase_do_so(locked):
    with prompt(locked) as asked:
        asked.enter(b"wrong" + b"\x15" + PASSWORD.encode() + b"x\x7f\n")
        asked.wait_for('{"_id":7}')
        assert PASSWORD not in asked.shown and "wrong" not in asked.shown
        assert asked.ends() == 0


def test_after_it_was_suspended_the_password_is_asked_for_again(locked):
    # Nobody could let the leader of a session go on, so that the system does not stop it.
    with prompt(locked) as asked:
        asked.enter(b"half of it\x1a")
        asked.wait_for("password: ")
        assert not asked.echoes()
        asked.enter(PASSWORD.encode() + b"\n")
        asked.wait_for('{"_id":7}')
        assert asked.ends() == 0


def test_an_interrupted_prompt_of_the_shell_gives_up_the_statement_only(locked):
    with Prompt("shell", locked.uri, "--user", ROOT) as asked:
        asked.enter(PASSWORD.encode() + b"\n")
        asked.wait_for("> ")
        asked.enter(b'db.changeUserPassword("nobody", passwordPrompt())\r')
        asked.wait_for("password: ")
        assert not asked.echoes()
        asked.enter(b"\x03")
        asked.wait_for("interrupted")
        asked.wait_for("> ")
        asked.enter(b"exit\r")
        assert asked.ends() == 0
