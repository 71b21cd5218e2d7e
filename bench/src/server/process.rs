//! A server process: TreeDB's, or a peer's.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
#[cfg(feature = "mongo-driver")]
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(feature = "mongo-driver")]
use super::driver::Driver;
use super::wire::Wire;
use crate::Result;
use crate::engines::DataDir;

/// A running server, killed on drop.
pub(crate) struct Process {
    child: Child,
    /// Where drivers of MongoDB connect.
    pub(crate) mongo: String,
    /// Where clients of TreeDB's native protocol connect.
    native: Option<String>,
    #[cfg(feature = "mongo-driver")]
    driver: OnceLock<Driver>,
    _dir: DataDir,
}

/// The program that the environment variable `name` names.
fn program(name: &str) -> Result<Command> {
    let path =
        std::env::var_os(name).ok_or_else(|| format!("{name} is not set: run `make bench SUITE=server`"))?;
    Ok(Command::new(path))
}

impl Process {
    /// TreeDB's server with its default, durable writes.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn treedb() -> Result<Process> {
        Process::treedb_with("durable")
    }

    /// The same with writes that are acknowledged before they are flushed.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn relaxed_treedb() -> Result<Process> {
        Process::treedb_with("relaxed")
    }

    fn treedb_with(durability: &str) -> Result<Process> {
        let dir = DataDir::new("treedb-server")?;
        let mut child = program("BENCH_TREEDB")?
            .args(["serve", "--mongo", "127.0.0.1:0", "--native", "127.0.0.1:0", "--log-level", "error"])
            .args(["--max-connections", "4000", "--durability", durability])
            .arg("--dir")
            .arg(dir.path().join("db"))
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut address = |name: &str| -> Result<String> {
            let line = lines.next().ok_or("the server did not start")??;
            let found = line.strip_prefix(&format!("listening {name} "));
            Ok(found.ok_or_else(|| format!("unexpected: {line}"))?.to_owned())
        };
        let (mongo, native) = (address("mongo")?, Some(address("native")?));
        Ok(Process::of(child, mongo, native, dir))
    }

    /// WiredTiger behind MongoDB's protocol (`secantusd-rs`), with writes that are flushed before they are acknowledged.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn wired_tiger() -> Result<Process> {
        let dir = DataDir::new("wiredtiger-server")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = program("BENCH_SECANTUSD")?
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--sync-on-commit",
                "--cache-size",
                "1G",
            ])
            .arg("--standalone")
            .arg("--storage-path")
            .arg(dir.path().join("db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Process::of(child, format!("127.0.0.1:{port}"), None, dir);
        let until = Instant::now() + Duration::from_secs(30);
        while Wire::connect(&process.mongo).is_err() {
            if Instant::now() > until {
                return Err("WiredTiger's server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    fn of(child: Child, mongo: String, native: Option<String>, dir: DataDir) -> Process {
        Process {
            child,
            mongo,
            native,
            #[cfg(feature = "mongo-driver")]
            driver: OnceLock::new(),
            _dir: dir,
        }
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
