"""A temporary Postgres cluster for tests that stop it, damage it or start it again.

The shell functions of scripts/pg_common.sh do the work: they know how to run Postgres when the tests run as root.
"""
import os
import pathlib
import shutil
import subprocess

import psycopg

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def shell(script, *args, timeout=180, check=True, pg_config=None):
    """Runs a piece of shell with the functions of pg_common.sh, for the server of PG_CONFIG or of `pg_config`; its output."""
    env = dict(os.environ, PG_CONFIG=pg_config) if pg_config else None
    done = subprocess.run(["bash", "-ec", '. scripts/pg_common.sh; ' + script, "pg", *map(str, args)], cwd=ROOT, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          timeout=timeout, start_new_session=True)
    if check and done.returncode:
        raise RuntimeError(f"{script}: status {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


class Cluster:
    """One cluster: a directory, a port, running or not."""

    def __init__(self, settings=(), pg_config=None):
        self.pg_config = pg_config
        self.dir = pathlib.Path(shell("work_dir"))
        self.port = shell("free_port")
        self.data = self.dir / "data"
        self.running = False
        self.extra = list(settings)

    def shell(self, script, *args, **more):
        """[`shell`] for this cluster's server."""
        return shell(script, *args, pg_config=self.pg_config, **more)

    def initialize(self):
        """initdb."""
        # Without checksums of pages, which 18 has by default: damage is what the extension is to find.
        self.shell('plain=; if "$PG_BIN/initdb" --help | grep -q no-data-checksums; then plain=--no-data-checksums; fi;'
                   ' as_pg "$PG_BIN/initdb" -D "$1/data" -U postgres -A trust --no-sync --encoding=UTF8 --locale=C $plain'
                   ' >"$1/initdb.log"; settings | as_pg tee -a "$1/data/postgresql.conf" >/dev/null', self.dir)
        self.set(*self.extra)

    def create(self):
        """initdb, start, CREATE EXTENSION, and the collations that a server without ICU lacks."""
        self.initialize()
        self.start()
        with self.connect() as db:
            db.execute("CREATE EXTENSION treedb")
            db.execute((ROOT / "treedb_pg" / "sql" / "collations.sql").read_text())
        return self

    def set(self, *lines):
        """Appends settings, which count from the next start on."""
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(line + "\n" for line in lines)

    def start(self):
        # The server keeps the output it inherits: it must not be the pipe that `shell` waits for.
        self.shell('start_server "$1" "$2" >"$1/start.log" 2>&1 || { cat "$1/start.log"; tail -n 30 "$1/server.log"; exit 1; }',
                   self.dir, self.port)
        self.running = True

    def stop(self, mode="fast"):
        self.running = False
        self.shell('stop_server "$1" "$2"', self.dir, mode)

    def connect(self, **more):
        """A connection in autocommit mode."""
        return psycopg.connect(host=str(self.dir), port=self.port, user="postgres", dbname="postgres",
                               autocommit=True, connect_timeout=20, **more)

    def program(self, name, *args, timeout=120, check=True):
        """Runs one of Postgres' programs (pg_dump, psql ..) against this cluster."""
        return self.shell('program=$1; dir=$2; port=$3; shift 3; export PGHOST=$dir PGPORT=$port PGUSER=postgres;'
                          ' as_pg "$PG_BIN/$program" "$@"', name, self.dir, self.port, *args, timeout=timeout, check=check)

    def log(self):
        """What the server has logged."""
        path = self.dir / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self, keep=False):
        """Stops it, and removes it unless `keep`."""
        if self.running:
            try:
                self.stop("immediate")
            except (RuntimeError, subprocess.TimeoutExpired):
                pass
        if keep:
            print(f"kept: {self.dir}")
        elif os.path.isdir(self.dir):
            shutil.rmtree(self.dir, ignore_errors=True)
