//! A temporary Postgres server with the extension, release profile. Both sides of a comparison run in it.
//!
//! Work either runs and is timed in the server, by SQL functions, so that client and connection do not count, or it is
//! statements of one client, which are timed with their round trips.

use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;
use crate::comparison::Measurement;

use super::libpq::Connection;
use super::pg_session::{OneProcessor, STATEMENT, Session};

/// Executions that are not timed.
pub const WARM_UP: usize = 10;

/// Settings of the cluster, in addition to those of `scripts/pg_common.sh`, which they override.
const SETTINGS: &str = "shared_buffers = 512MB\nmax_wal_size = 4GB\ncheckpoint_timeout = 30min\nautovacuum = off\n\
    maintenance_work_mem = 256MB\nmax_parallel_workers_per_gather = 0\nmax_parallel_maintenance_workers = 0\n\
    wal_level = replica\njit = off\n";

/// A running cluster, stopped and removed on drop.
pub struct Postgres {
    dir: PathBuf,
    port: String,
    /// The `pg_config` of its installation.
    config: String,
}

/// Runs a shell script in the checkout.
fn shell(script: &str, args: &[&str], env: &[(&str, &str)]) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let done = Command::new("bash")
        .args(["-ec", script, "bench"])
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !done.status.success() {
        return Err(
            format!("starting or stopping Postgres: {}", String::from_utf8_lossy(&done.stdout)).into()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// The same with the functions of `scripts/pg_common.sh` for the Postgres of `config`.
fn pg_shell(config: &str, script: &str, args: &[&str]) -> Result<String> {
    shell(&format!(". scripts/pg_common.sh; {script}"), args, &[("PG_CONFIG", config)])
}

impl Postgres {
    /// Installs the extension into the Postgres of `PG_CONFIG` and starts a cluster.
    ///
    /// # Errors
    /// If Postgres 15 with its headers is not installed, or does not start.
    pub fn start() -> Result<Postgres> {
        let config = std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".into());
        Postgres::start_in(config, SETTINGS)
    }

    /// The same in the Postgres of a major version that `scripts/pg/server.sh` knows, with more settings.
    ///
    /// # Errors
    /// If it cannot be installed, or does not start.
    pub fn start_version(major: u32, settings: &str) -> Result<Postgres> {
        let config = shell("scripts/pg/server.sh \"$1\"", &[&major.to_string()], &[])?;
        Postgres::start_in(config, &format!("{SETTINGS}{settings}"))
    }

    fn start_in(config: String, settings: &str) -> Result<Postgres> {
        pg_shell(&config, "PROFILE=${PROFILE:-extension} install_dev >&2", &[])?;
        let dir = pg_shell(&config, "work_dir", &[])?;
        let port = pg_shell(&config, "free_port", &[])?;
        let pg = Postgres { dir: dir.into(), port, config };
        let path = pg.dir.to_string_lossy();
        pg_shell(
            &pg.config,
            r#"as_pg "$PG_BIN/initdb" -D "$1/data" -U postgres -A trust --no-sync --encoding=UTF8 --locale=C >"$1/initdb.log"
               { settings; echo "$3"; } | as_pg tee -a "$1/data/postgresql.conf" >/dev/null
               start_server "$1" "$2" >"$1/start.log" 2>&1"#,
            &[&path, &pg.port, settings],
        )?;
        pg.run("CREATE EXTENSION treedb")?;
        Ok(pg)
    }

    /// The path of a file that the server may write.
    pub fn file(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    /// A program of the server's, to connect to this cluster.
    fn client(&self, program: &str) -> Result<Command> {
        let bin = Command::new(&self.config).arg("--bindir").output()?.stdout;
        let mut client = Command::new(Path::new(String::from_utf8_lossy(&bin).trim()).join(program));
        client.args(["-U", "postgres", "-d", "postgres", "-p", &self.port, "-h"]).arg(&self.dir);
        Ok(client)
    }

    /// Executes a statement, prepared once, with each of `parameters`, with up to `workers` parallel workers, and returns how
    /// many nanoseconds that took without the connection and the first [`WARM_UP`] executions, when statements are planned.
    ///
    /// Without workers, client and server take turns on one processor: to wake another one up takes several times as long as a short
    /// statement where processors are virtual, and not always the same.
    ///
    /// # Errors
    /// An SQL error.
    pub fn execute(&self, statement: &str, parameters: &[Vec<CString>], workers: u32) -> Result<u64> {
        let connection = self.connect(workers)?;
        let processor = if workers == 0 { Some(OneProcessor::take()?) } else { None };
        if let Some(processor) = &processor {
            processor.share(connection.backend())?;
        }
        connection.prepare(STATEMENT, statement)?;
        let (first, others) = parameters.split_at(WARM_UP.min(parameters.len()));
        for parameters in first {
            connection.execute(STATEMENT, parameters)?;
        }
        let begin = Instant::now();
        for parameters in others {
            connection.execute(STATEMENT, parameters)?;
        }
        Ok(begin.elapsed().as_nanos() as u64)
    }

    /// Executes a statement with each of `parameters` by a connection of its own, and returns how many nanoseconds that took with the
    /// connection.
    ///
    /// # Errors
    /// An SQL error.
    pub fn execute_first(&self, statement: &str, parameters: &[Vec<CString>]) -> Result<u64> {
        let begin = Instant::now();
        for parameters in parameters {
            let connection = self.connect(0)?;
            connection.prepare(STATEMENT, statement)?;
            connection.execute(STATEMENT, parameters)?;
        }
        Ok(begin.elapsed().as_nanos() as u64)
    }

    /// A connection with one prepared statement, whose server process runs on the same processor as this thread.
    ///
    /// # Errors
    /// An SQL error.
    pub fn session(&self, processor: &OneProcessor, statement: &str) -> Result<Session> {
        Session::open(self.connect(0)?, processor, statement)
    }

    fn connect(&self, workers: u32) -> Result<Connection> {
        Connection::open(&format!(
            "host={} port={} user=postgres dbname=postgres options='-c max_parallel_workers_per_gather={workers}'",
            self.dir.display(),
            self.port
        ))
    }

    /// Runs statements and returns the rows they print, one per line.
    ///
    /// # Errors
    /// An SQL error.
    pub fn run(&self, sql: &str) -> Result<String> {
        Ok(self.psql(sql)?.0)
    }

    /// Runs statements; the rows they print, one per line, and the server's messages.
    fn psql(&self, sql: &str) -> Result<(String, String)> {
        let mut child = self
            .client("psql")?
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(sql.as_bytes())?;
        }
        let done = child.wait_with_output()?;
        let messages = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        if !done.status.success() {
            return Err(format!("{}: {messages}", sql.trim()).into());
        }
        Ok((String::from_utf8_lossy(&done.stdout).trim().to_owned(), messages))
    }

    /// Runs `sql`, whose last row must be `nanoseconds|checksum`, two integers.
    ///
    /// # Errors
    /// An SQL error, or another result.
    pub fn measure(&self, ops: u64, sql: &str) -> Result<Measurement> {
        Ok(self.measure_with_messages(ops, sql)?.0)
    }

    /// The same, and the server's messages.
    ///
    /// # Errors
    /// An SQL error, or another result.
    pub fn measure_with_messages(&self, ops: u64, sql: &str) -> Result<(Measurement, String)> {
        let (output, messages) = self.psql(sql)?;
        let line = output.lines().last().unwrap_or_default();
        let parts: Option<(u64, i64)> = line
            .split_once('|')
            .and_then(|(spent, checksum)| Some((spent.parse().ok()?, checksum.parse().ok()?)));
        let (spent, checksum) = parts.ok_or_else(|| format!("{sql} returned {line:?}"))?;
        Ok((Measurement { ops, spent, checksum: Some(checksum as u64) }, messages))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = pg_shell(
            &self.config,
            r#"stop_server "$1" immediate; rm -rf "$1""#,
            &[&self.dir.to_string_lossy()],
        );
    }
}
