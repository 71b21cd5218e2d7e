//! Connections that have not authenticated, by address: one address gets at most so many of them, so that it cannot take the
//! connections of all others without a password.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::network;

/// The connections that have not authenticated.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// By [`network`] of their address. There is no entry without a connection.
    connections: Mutex<HashMap<IpAddr, HashSet<SocketAddr>>>,
}

/// A connection that is counted until it authenticates, or until this is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    peer: SocketAddr,
}

impl Strangers {
    /// Counts a new connection; `None` if its address has `most` already.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr, most: usize) -> Option<Stranger> {
        let mut connections = self.lock();
        let of_address = connections.entry(network(peer.ip())).or_default();
        if of_address.len() >= most.max(1) {
            return None;
        }
        of_address.insert(peer);
        drop(connections);
        Some(Stranger { strangers: Arc::clone(self), peer })
    }

    /// No longer counts a connection: it has authenticated, or ended.
    pub(super) fn forget(&self, peer: SocketAddr) {
        let mut connections = self.lock();
        let network = network(peer.ip());
        if let Some(of_address) = connections.get_mut(&network) {
            of_address.remove(&peer);
            if of_address.is_empty() {
                connections.remove(&network);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, HashSet<SocketAddr>>> {
        // Nothing panics while it is held.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.forget(self.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn an_address_gets_so_many_connections_until_they_authenticate_or_end() {
        let strangers = Arc::new(Strangers::default());
        let first = strangers.admit(peer("10.0.0.1:1"), 2).unwrap();
        let _second = strangers.admit(peer("[::ffff:10.0.0.1]:2"), 2).unwrap();
        assert!(strangers.admit(peer("10.0.0.1:3"), 2).is_none());
        let _other = strangers.admit(peer("10.0.0.2:3"), 2).unwrap();
        strangers.forget(peer("[::ffff:10.0.0.1]:2"));
        let third = strangers.admit(peer("10.0.0.1:3"), 2).unwrap();
        assert!(strangers.admit(peer("10.0.0.1:4"), 2).is_none());
        drop((first, third));
        assert_eq!(strangers.lock().len(), 1, "only 10.0.0.2 has one");
    }

    #[test]
    fn a_network_of_version_6_counts_as_one_address() {
        let strangers = Arc::new(Strangers::default());
        let _first = strangers.admit(peer("[2001:db8::1]:1"), 1).unwrap();
        assert!(strangers.admit(peer("[2001:db8::2]:1"), 1).is_none());
        let _other = strangers.admit(peer("[2001:db8:0:1::1]:1"), 1).unwrap();
    }
}
