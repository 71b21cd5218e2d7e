//! Tells the service manager how far the server is: systemd with `Type=notify`, through the datagram socket that the environment names
//! in `NOTIFY_SOCKET`. Where there is none, nothing is told.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The environment variable.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The server serves; what it listens on is shown by `systemctl status`.
pub(crate) fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={status}\nMAINPID={}", std::process::id()));
}

/// The server stops: it still has a checkpoint to make.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping: commands finish, and a checkpoint is made");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "the service manager cannot be told: see NOTIFY_SOCKET");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    // `@` stands for the zero with which names begin that are no paths.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_at_sockets_with_paths_and_at_abstract_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("treedb-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        for (receiver, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}").into()),
        ] {
            send(&socket, "READY=1").unwrap();
            let mut bytes = [0; 100];
            let read = receiver.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..read], b"READY=1");
        }
        assert!(send(OsStr::new("/no/such/socket"), "READY=1").is_err());
    }
}
