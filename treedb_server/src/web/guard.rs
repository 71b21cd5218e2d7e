//! Which requests are answered at all. The dangers are other web sites in the same browser:
//!
//! * A site whose name its owner lets point to this machine (DNS rebinding) would be same-origin with the page. So the host that the
//!   browser believes to talk to has to be an address, `localhost` or this machine's name; through TLS the certificate sees to that.
//! * A site that sends requests without being able to read the answers (CSRF). So requests that do something are POSTs of
//!   `application/json`, which browsers send to other sites only after asking for permission, which is never given; their origin has
//!   to be the page's own; and the cookie is not sent with requests of other sites (`SameSite=Strict`).
//! * A server on another port of this host, which browsers take for the same site and send the cookie to. So the cookie is of no use
//!   without the secret in the page's storage (`logins`).

use std::net::IpAddr;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, ORIGIN};
use hyper::{Method, Response, StatusCode};

use super::{WebRequest, assets};
use crate::context::Context;
use crate::mongo::commands;

/// A header that is there once, and is text.
pub(super) fn header(request: &WebRequest, name: impl hyper::header::AsHeaderName) -> Option<&str> {
    let mut values = request.http.headers().get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The name of a host without its port, which is the second value.
pub(super) fn split(host: &str) -> (&str, &str) {
    match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((name, port)) => (name, port),
        None => (host, ""),
    }
}

/// Whether no other site can have this host.
fn is_own(host: &str, machine: &str) -> bool {
    let (name, port) = split(host);
    if !port.is_empty() && port.parse::<u16>().is_err() {
        return false;
    }
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || !machine.is_empty() && name.eq_ignore_ascii_case(machine)
}

/// The answer to a request that is refused; `None` if it may be answered.
pub(super) fn refusal(request: &WebRequest, context: &Context) -> Option<Response<Full<Bytes>>> {
    let refused = |status, why: &'static str| Some(assets::text(status, why));
    if !context.access.is_required()
        && !request.peer.ip().to_canonical().is_loopback()
        && !context.web.open_to_all
    {
        return refused(
            StatusCode::FORBIDDEN,
            "without authentication the page is for this machine only: start the server with --auth\n",
        );
    }
    let Some(host) = header(request, HOST) else {
        return refused(StatusCode::BAD_REQUEST, "the request does not say to which host it goes\n");
    };
    if !request.secure && !is_own(host, &commands::hostname()) {
        return refused(
            StatusCode::MISDIRECTED_REQUEST,
            "open the page by the address of this machine: by other names, other web sites could reach it\n",
        );
    }
    if request.http.method() != Method::POST {
        return None;
    }
    let scheme = if request.secure { "https" } else { "http" };
    let is_here = |origin: &str| {
        origin
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"))
            .is_some_and(|from| from.eq_ignore_ascii_case(host))
    };
    let headers = request.http.headers();
    // Programs that are no browsers send no origin.
    if headers.contains_key(ORIGIN) && !header(request, ORIGIN).is_some_and(is_here) {
        return refused(StatusCode::FORBIDDEN, "the request comes from another web site\n");
    }
    if headers.contains_key("sec-fetch-site") && header(request, "sec-fetch-site") != Some("same-origin") {
        return refused(StatusCode::FORBIDDEN, "the request comes from another web site\n");
    }
    let kind = header(request, CONTENT_TYPE).and_then(|kind| kind.split(';').next()).map(str::trim);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json\n");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names_of_this_machine() {
        for own in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:80",
            "[::1]",
            "localhost:5",
            "LOCALHOST",
            "box:1",
            "10.1.2.3:9",
        ] {
            assert!(is_own(own, "box"), "{own}");
        }
        for other in [
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            ":80",
            "127.0.0.1:80:80",
            "a@127.0.0.1",
            "box.evil",
        ] {
            assert!(!is_own(other, "box"), "{other}");
        }
        assert!(!is_own("", ""));
    }
}
