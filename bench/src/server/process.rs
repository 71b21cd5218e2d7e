//! A server process: TreeDB's, or a peer's.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
#[cfg(feature = "mongo-driver")]
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bson::rawdoc;

#[cfg(feature = "mongo-driver")]
use super::driver::Driver;
use super::wire::Wire;
use crate::Result;
use crate::engines::DataDir;

/// What a server promises, and what it says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// A standalone server that flushes writes before it acknowledges them: TreeDB's default.
    Durable,
    /// The same, but writes are acknowledged before they are flushed.
    Relaxed,
    /// As [`Setup::Durable`], and the only member of a replica set: drivers number their writes, to retry them.
    ReplicaSet,
}

/// A running server, killed on drop.
pub(crate) struct Process {
    child: Child,
    /// Where drivers of MongoDB connect.
    pub(crate) mongo: String,
    /// Where clients of TreeDB's native protocol connect.
    native: Option<String>,
    /// Its certificate, if clients have to use TLS.
    certificate: Option<PathBuf>,
    #[cfg(feature = "mongo-driver")]
    driver: OnceLock<Driver>,
    _dir: DataDir,
}

/// The environment variable with the path of WiredTiger's server.
const WIRED_TIGER: &str = "BENCH_SECANTUSD";

/// The program that the environment variable `name` names.
fn program(name: &str) -> Result<Command> {
    let path =
        std::env::var_os(name).ok_or_else(|| format!("{name} is not set: run `make bench SUITE=server`"))?;
    Ok(Command::new(path))
}

/// Makes a certificate for `localhost` and its key, in two files.
fn certificate(dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .stderr(Stdio::null())
        .status()?;
    if made.success() { Ok((certificate, key)) } else { Err("openssl makes no certificate".into()) }
}

impl Process {
    /// TreeDB's server.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn treedb(setup: Setup) -> Result<Process> {
        Process::treedb_with(setup, false)
    }

    /// The same, set up as [`Setup::Durable`], for clients that use TLS.
    ///
    /// # Errors
    /// It does not start, or there is no `openssl` to make its certificate.
    pub(crate) fn encrypted_treedb() -> Result<Process> {
        Process::treedb_with(Setup::Durable, true)
    }

    fn treedb_with(setup: Setup, encrypted: bool) -> Result<Process> {
        let dir = DataDir::new("treedb-server")?;
        let mut command = program("BENCH_TREEDB")?;
        command
            .args(["serve", "--mongo", "127.0.0.1:0", "--native", "127.0.0.1:0", "--log-level", "error"])
            .args(["--max-connections", "4000", "--durability"])
            .arg(if setup == Setup::Relaxed { "relaxed" } else { "durable" });
        if setup == Setup::ReplicaSet {
            command.args(["--replica-set", "rs0"]);
        }
        let certificate = encrypted.then(|| certificate(dir.path())).transpose()?;
        if let Some((certificate, key)) = &certificate {
            command.arg("--tls-certificate").arg(certificate).arg("--tls-key").arg(key);
        }
        let mut child = command.arg("--dir").arg(dir.path().join("db")).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut address = |name: &str| -> Result<String> {
            let line = lines.next().ok_or("the server did not start")??;
            let found = line.strip_prefix(&format!("listening {name} "));
            Ok(found.ok_or_else(|| format!("unexpected: {line}"))?.to_owned())
        };
        let (mongo, native) = (address("mongo")?, Some(address("native")?));
        let mut process = Process::of(child, mongo, native, dir);
        process.certificate = certificate.map(|(certificate, _)| certificate);
        Ok(process)
    }

    /// WiredTiger behind MongoDB's protocol (`secantusd-rs`).
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn wired_tiger(setup: Setup) -> Result<Process> {
        let dir = DataDir::new("wiredtiger-server")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = program(WIRED_TIGER)?;
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--cache-size", "1G"]);
        if setup != Setup::Relaxed {
            command.arg("--sync-on-commit");
        }
        if setup != Setup::ReplicaSet {
            command.arg("--standalone");
        }
        let child = command
            .arg("--storage-path")
            .arg(dir.path().join("db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Process::of(child, format!("127.0.0.1:{port}"), None, dir);
        let until = Instant::now() + Duration::from_secs(30);
        while process.connect().is_err() {
            if Instant::now() > until {
                return Err("WiredTiger's server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    /// Name and version of that program.
    ///
    /// # Errors
    /// It does not say.
    pub(crate) fn wired_tiger_version() -> Result<String> {
        let said = program(WIRED_TIGER)?.arg("--version").output()?;
        let version = String::from_utf8(said.stdout)?.trim().to_owned();
        if said.status.success() && !version.is_empty() {
            Ok(version)
        } else {
            Err("WiredTiger's server does not say its version".into())
        }
    }

    fn of(child: Child, mongo: String, native: Option<String>, dir: DataDir) -> Process {
        Process {
            child,
            mongo,
            native,
            certificate: None,
            #[cfg(feature = "mongo-driver")]
            driver: OnceLock::new(),
            _dir: dir,
        }
    }

    /// Whether drivers see a member of a replica set.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn is_member(&self) -> Result<bool> {
        let hello = self.connect()?.command(&rawdoc! { "hello": 1_i32, "$db": "admin" })?;
        Ok(hello.get("setName")?.is_some())
    }

    /// Brings TreeDB's page file up to date, so that the next checkpoint is as far away as can be.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.connect()?.command(&rawdoc! { "fsync": 1_i32, "$db": "admin" }).map(drop)
    }

    /// A connection by MongoDB's protocol.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn connect(&self) -> Result<Wire> {
        Wire::connect_through(&self.mongo, self.certificate.as_deref())
    }

    /// Where clients of TreeDB's native protocol connect.
    ///
    /// # Errors
    /// It does not have that protocol.
    pub(crate) fn native(&self) -> Result<&str> {
        Ok(self.native.as_deref().ok_or("the server has no native protocol")?)
    }

    /// A client by MongoDB's driver for Rust, the same one whenever it is asked for.
    ///
    /// # Errors
    /// The driver's.
    #[cfg(feature = "mongo-driver")]
    pub(crate) fn driver(&self) -> Result<&Driver> {
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let driver = Driver::new(&self.mongo)?;
        Ok(self.driver.get_or_init(|| driver))
    }

    /// The processor time that it has used, in nanoseconds: user and system, in steps of 10 ms.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn cpu_nanos(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain anything.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).map_while(|n| n.parse::<u64>().ok()).sum();
        Ok(ticks * 10_000_000)
    }
}

impl Process {
    /// The memory that it occupies, in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
