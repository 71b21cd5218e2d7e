//! A server process on a directory of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use treedb_client::Client;
use treedb_protocol::Call;
use treedb_protocol::call::Hello;
use treedb_protocol::frame::{HEADER, Header};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; it is killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    dir: Option<TempDir>,
}

impl Server {
    /// A server on a new directory.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self::on(dir.path());
        server.dir = Some(dir);
        server
    }

    /// A server on `dir`.
    pub(crate) fn on(dir: &Path) -> Self {
        Self::with_flags(dir, &[])
    }

    /// A server on `dir`, with flags besides.
    pub(crate) fn with_flags(dir: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_treedb"))
            .args([
                "serve",
                "--mongo",
                "127.0.0.1:0",
                "--native",
                "127.0.0.1:0",
                "--log-level",
                "warn",
                "--dir",
            ])
            .arg(dir)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some(address) = line.strip_prefix("listening native ") {
                break address.parse().unwrap();
            }
        };
        Server { child, address, dir: None }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_timeout(self.address, PATIENCE).unwrap()
    }

    /// A bare socket that has greeted.
    pub(crate) fn socket(&self) -> Socket {
        greeted(self.address)
    }

    /// A bare socket that has not.
    pub(crate) fn silent_socket(&self) -> Socket {
        silent(self.address)
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) fn stop(self) -> ExitStatus {
        self.terminate();
        self.wait()
    }

    /// Waits until the process has stopped.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks the process to stop.
    pub(crate) fn terminate(&self) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A bare socket that has greeted.
pub(crate) fn greeted(address: SocketAddr) -> Socket {
    try_greeted(address).expect("a greeting")
}

/// The same; `None` if the server closes it.
pub(crate) fn try_greeted(address: SocketAddr) -> Option<Socket> {
    let mut socket = silent(address);
    let mut hello = Vec::new();
    Hello { oldest: 1, newest: 1 }.frame(1, &mut hello).unwrap();
    socket.send(&hello);
    assert_eq!(socket.frame()?.0.opcode, 0x8001);
    Some(socket)
}

/// A bare socket that has not.
pub(crate) fn silent(address: SocketAddr) -> Socket {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    Socket(stream)
}

/// A socket for frames that no client would send.
pub(crate) struct Socket(TcpStream);

impl Socket {
    /// Sends as much as the server takes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Sends a frame with this body.
    pub(crate) fn request(&mut self, opcode: u16, flags: u16, request: u64, body: &[u8]) {
        let header = Header { length: body.len() as u32, opcode, flags, request };
        self.send(&[&header.to_bytes()[..], body].concat());
    }

    /// Takes up to so many bytes, whatever they are.
    pub(crate) fn take(&mut self, most: usize) {
        let _ = self.0.read(&mut vec![0; most]);
    }

    /// Nothing more will be sent.
    pub(crate) fn end(&self) {
        self.0.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// The next frame; `None` if the server closed the connection.
    pub(crate) fn frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER];
        match self.0.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("no answer in {PATIENCE:?}")
            }
            Err(_) => return None,
        }
        let header = Header::from_bytes(&header);
        let mut body = vec![0; header.length as usize];
        self.0.read_exact(&mut body).ok()?;
        Some((header, body))
    }
}
