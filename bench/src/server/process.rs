//! A server process: TreeDB's, or a peer's.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{Client, Protocol};
use crate::Result;
use crate::engines::DataDir;

/// A running server, killed on drop.
pub(crate) struct Process {
    child: Child,
    /// Where drivers of MongoDB connect.
    pub(crate) mongo: String,
    /// Where clients of TreeDB's native protocol connect.
    pub(crate) native: Option<String>,
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
        let dir = DataDir::new("treedb-server")?;
        let mut child = program("BENCH_TREEDB")?
            .args(["serve", "--mongo", "127.0.0.1:0", "--native", "127.0.0.1:0", "--log-level", "error"])
            .args(["--max-connections", "4000"])
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
        Ok(Process { child, mongo, native, _dir: dir })
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
        let process = Process { child, mongo: format!("127.0.0.1:{port}"), native: None, _dir: dir };
        let until = Instant::now() + Duration::from_secs(30);
        while Client::connect(&process, Protocol::Mongo).is_err() {
            if Instant::now() > until {
                return Err("WiredTiger's server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
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
