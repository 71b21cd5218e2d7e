//! The web page on the admin port: status, collections, indexes, slow operations and a query box.
//!
//! | module | what it is |
//! |---|---|
//! | [`guard`] | which requests are answered at all: hosts, origins, sizes |
//! | [`logins`] | who has logged in, by a token in a cookie and a secret in the page's storage |
//! | [`api`] | logging in and out, and running commands |
//! | [`patient`] | a limit of time for peers that do not read |
//! | [`assets`] | the files of the page, and the headers that all answers have |
//!
//! It has no answers of its own: the page's requests are commands of MongoDB's protocol as JSON, run by [`crate::mongo::in_process`] as
//! those of drivers are, with the permissions of the user that has logged in. On a server without authentication everybody on this
//! machine may open the page, and it only reads: other web sites that the browser shows must not be able to change anything even if
//! the checks of their origin failed.

mod api;
mod assets;
mod guard;
mod logins;
pub(crate) mod patient;

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::logins::Logins;
use crate::access::strangers::{Stranger, Strangers};
use crate::context::Context;

/// Connections that the admin port has at a time.
pub(crate) const MOST_CONNECTIONS: usize = 256;
/// Those of them that one address has at most: it shall not keep out who asks for the health of the server.
pub(crate) const MOST_OF_ADDRESS: usize = 64;
/// Commands of pages that run at a time; others wait.
const MOST_COMMANDS: usize = 32;
/// Those of them that one log-in has at most.
const MOST_OF_LOGIN: usize = 8;

/// What requests share.
#[derive(Debug)]
pub(crate) struct Web {
    logins: Logins,
    connections: Arc<Semaphore>,
    addresses: Arc<Strangers>,
    commands: Semaphore,
    /// Of all pages of a server without authentication together.
    without_login: Arc<Semaphore>,
    /// There is a page.
    pub(crate) enabled: bool,
    /// Other machines may use the page without a password, as its server without authentication.
    pub(crate) open_to_all: bool,
}

impl Default for Web {
    fn default() -> Self {
        Web {
            logins: Logins::default(),
            connections: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            addresses: Arc::default(),
            commands: Semaphore::new(MOST_COMMANDS),
            without_login: Arc::new(Semaphore::new(MOST_OF_LOGIN)),
            enabled: false,
            open_to_all: false,
        }
    }
}

impl Web {
    /// A permit for one more connection to the admin port, returned when dropped; `None` if there are too many.
    pub(crate) fn try_connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Counts a connection to the admin port until the result is dropped; `None` if its address has too many.
    pub(crate) fn admit(&self, peer: SocketAddr) -> Option<Stranger> {
        self.addresses.admit(peer, MOST_OF_ADDRESS)
    }
}

/// A request and where it came from.
pub(crate) struct WebRequest {
    pub(crate) http: Request<Incoming>,
    pub(crate) peer: SocketAddr,
    /// Through TLS.
    pub(crate) secure: bool,
}

/// Answers a request for the page or one of what it asks.
pub(crate) async fn answer(request: WebRequest, context: &Arc<Context>) -> Response<Full<Bytes>> {
    let mut response = match guard::refusal(&request, context) {
        Some(refused) => refused,
        None => match (request.http.method(), request.http.uri().path()) {
            (&Method::GET | &Method::HEAD, path) => match assets::find(path) {
                Some(asset) => asset.response(),
                None => assets::text(StatusCode::NOT_FOUND, "there are /, /livez, /readyz and /metrics\n"),
            },
            (&Method::POST, _) => api::answer(request, context).await,
            _ => assets::text(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST\n"),
        },
    };
    assets::secure(&mut response);
    response
}
