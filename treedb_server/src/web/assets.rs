//! The files of the page, and headers.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// A file of the page.
pub(super) struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = &[
    Asset { path: "/", kind: HTML, text: include_str!("page/index.html") },
    Asset { path: "/style.css", kind: "text/css; charset=utf-8", text: include_str!("page/style.css") },
    Asset { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("page/icon.svg") },
    Asset { path: "/app.js", kind: SCRIPT, text: include_str!("page/app.js") },
    Asset { path: "/dom.js", kind: SCRIPT, text: include_str!("page/dom.js") },
    Asset { path: "/chart.js", kind: SCRIPT, text: include_str!("page/chart.js") },
    Asset { path: "/plan.js", kind: SCRIPT, text: include_str!("page/plan.js") },
    Asset { path: "/results.js", kind: SCRIPT, text: include_str!("page/results.js") },
];

/// Nothing is loaded from elsewhere, and nothing in the page's own text is run: what a document holds is never taken for a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The file at a path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(self.text.as_bytes())));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        response
    }
}

/// Sets the headers that tell browsers to be careful.
pub(super) fn secure(response: &mut Response<Full<Bytes>>) {
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // Of a server of another version, or another user, nothing may be shown again.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = text(status, body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_only_files_that_there_are() {
        for asset in ASSETS {
            let quoted = asset.text.split(['"', '\'']);
            let named = quoted.filter(|name| name.starts_with("./") || name.starts_with('/'));
            for name in
                named.filter(|name| name.ends_with(".js") || name.ends_with(".css") || name.ends_with(".svg"))
            {
                let path = format!("/{}", name.trim_start_matches(['.', '/']));
                assert!(find(&path).is_some(), "{} names {name}", asset.path);
            }
            // Of the policy nothing else would be run or shown.
            for inline in ["style=", "onclick=", "<style", "javascript:", "innerHTML", "eval("] {
                assert!(!asset.text.contains(inline), "{} has {inline}", asset.path);
            }
            assert!(
                !asset.text.replace("http://www.w3.org/", "").contains("://"),
                "{} names another site",
                asset.path
            );
        }
    }
}
