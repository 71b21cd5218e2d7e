"""Starting and stopping the real `treedb serve`, for tests."""
import os
import pathlib
import signal
import subprocess
import threading
from urllib.parse import quote

import pymongo

BIN = os.environ.get("TREEDB_BIN", str(pathlib.Path(__file__).parents[3] / "target/debug/treedb"))


# The user whom a server that authenticates is started with. The password has what a URI must escape.
ROOT, PASSWORD = "root", "correct horse: battery, =staple%"


class Server:
    """A server on a directory, on ports of the system's choice."""

    def __init__(self, directory, *flags, native=False, admin=False, command=None):
        self.directory = directory
        args = [*(command or [BIN]), "serve", "--dir", str(directory), "--mongo", "127.0.0.1:0", "--log-level", "debug", *flags]
        expected = 1
        if native:
            args += ["--native", "127.0.0.1:0"]
            expected += 1
        if admin:
            args += ["--admin", admin if isinstance(admin, str) else "127.0.0.1:0"]
            expected += 1
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.addresses = {}
        for _ in range(expected):
            line = self.process.stdout.readline()
            if not line:
                self.process.wait()
                self.reader.join()
                raise RuntimeError(f"the server did not start: {''.join(self.log)}")
            word, name, address = line.split()
            assert word == "listening"
            host, port = address.rsplit(":", 1)
            self.addresses[name] = (host, int(port))

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    @property
    def uri(self):
        host, port = self.addresses["mongo"]
        return f"mongodb://{host}:{port}/?directConnection=true"

    def client(self, **options):
        # A command that hangs is a failure of one test and not of the whole run.
        return pymongo.MongoClient(self.uri, **{"serverSelectionTimeoutMS": 5000, "socketTimeoutMS": 30000, **options})

    def stop(self, sig=signal.SIGTERM, timeout=20):
        """Sends a signal and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(timeout=timeout)
        self.reader.join(timeout=5)
        self.process.stdout.close()
        return status


class Locked(Server):
    """A server that lets nobody in without a password."""

    def __init__(self, directory, *flags, **options):
        directory.mkdir(exist_ok=True)
        password = directory.parent / f"{directory.name}.password"
        password.write_text(PASSWORD + "\n")
        super().__init__(directory, "--auth", "--root-user", ROOT, "--root-password-file", str(password),
                         *flags, **options)
        self.password_file = password

    def as_user(self, name=ROOT, password=PASSWORD, database="admin", **options):
        return self.client(username=name, password=password, authSource=database, **options)

    def uri_of_set(self, name):
        """The connection string of an application, for a server that was started with `--replica-set`."""
        host, port = self.addresses["mongo"]
        return f"mongodb://{ROOT}:{quote(PASSWORD, safe='')}@{host}:{port}/?replicaSet={name}&authSource=admin"
