//! The servers, as processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::bytes::{Protocol, insert};
use crate::{Result, ask, echo};

/// A server that runs until this is dropped.
pub(crate) struct Server {
    process: Child,
    /// Where clients of each protocol connect, unless it does nothing.
    treedb: Option<(String, String)>,
    address: String,
    /// Removed after the process has ended.
    _dir: Option<TempDir>,
}

impl Server {
    /// Starts a process that prints where it listens, so many times.
    fn start(command: &mut Command, count: usize, dir: Option<TempDir>) -> Result<(Server, Vec<String>)> {
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        // From here on the process ends with this, whatever fails.
        let mut server = Server { process, treedb: None, address: String::new(), _dir: dir };
        let lines = BufReader::new(server.process.stdout.take().ok_or("no output")?).lines();
        let listening: Vec<String> = lines.take(count).collect::<std::io::Result<_>>()?;
        let address = |line: &String| line.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok((server, listening.iter().map(address).collect()))
    }

    /// TreeDB, which the variable `BENCH_TREEDB` names, with records.
    pub(crate) fn treedb(records: u64) -> Result<Server> {
        let program = std::env::var_os("BENCH_TREEDB").ok_or("BENCH_TREEDB must name the program treedb")?;
        let dir = TempDir::with_prefix("treedb-floor-")?;
        let mut command = Command::new(program);
        command.args(["serve", "--mongo", "127.0.0.1:0", "--native", "127.0.0.1:0", "--log-level", "error"]);
        command.args(["--max-connections", "4000"]);
        command.arg("--dir").arg(dir.path());
        let (mut server, listening) = Server::start(&mut command, 2, Some(dir))?;
        let [mongo, native] = <[String; 2]>::try_from(listening).map_err(|_| "the server did not start")?;
        server.address.clone_from(&mongo);
        server.treedb = Some((mongo, native));
        let (mut stream, _) = server.connect(Protocol::Mongo)?;
        ask(&mut stream, &insert(records), Protocol::Mongo, &mut [0; 4096])?;
        Ok(server)
    }

    /// One that does nothing.
    pub(crate) fn echo(protocol: Protocol, request: usize, reply: usize) -> Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([echo::COMMAND, protocol.name(), &request.to_string(), &reply.to_string()]);
        let (mut server, listening) = Server::start(&mut command, 1, None)?;
        server.address = listening.into_iter().next().ok_or("the echo did not start")?;
        Ok(server)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// A connection, and the number of the statement that it has prepared.
    pub(crate) fn connect(&self, protocol: Protocol) -> Result<(TcpStream, u32)> {
        let address = match &self.treedb {
            Some((_, native)) if protocol == Protocol::Native => native,
            _ => &self.address,
        };
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut statement = 0;
        if self.treedb.is_some() {
            let mut reply = [0; 4096];
            for greeting in protocol.greetings() {
                ask(&mut stream, &greeting, protocol, &mut reply)?;
                statement =
                    reply.get(16..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes);
            }
        }
        stream.flush()?;
        Ok((stream, statement))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The processor time that a process has used, in microseconds: user and system, in steps of 10 ms.
pub(crate) fn cpu_micros(process: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may contain anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map_while(|n| n.parse::<u64>().ok()).sum();
    Ok(ticks * 10_000)
}
