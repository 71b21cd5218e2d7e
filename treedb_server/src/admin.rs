//! HTTP for operators: `/livez`, `/readyz`, `/metrics`, and everything else is the web page's ([`crate::web`]).
//!
//! `livez` succeeds while the process accepts connections, and fails during shutdown; `readyz` succeeds while the database
//! answers reads and accepts writes; `metrics` is Prometheus text.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::context::Context;
use crate::shutdown::Shutdown;
use crate::stream::Stream;
use crate::web::patient::Patient;
use crate::web::{self, WebRequest};

/// Time limit of the read that `/readyz` performs.
const READY: Duration = Duration::from_secs(2);

/// Answers one HTTP connection.
pub(crate) async fn connection(
    stream: Stream,
    peer: SocketAddr,
    context: Arc<Context>,
    mut shutdown: Shutdown,
) {
    let state = shutdown.clone();
    let secure = stream.is_tls();
    let service = service_fn(|http: Request<Incoming>| {
        let (context, state) = (&context, &state);
        async move { Ok::<_, Infallible>(answer(WebRequest { http, peer, secure }, context, state).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.limits.stall)
        .max_buf_size(16 * 1024)
        // Bodies are written from where they are: a copy would be made without the budget that they hold.
        .writev(true)
        .serve_connection(TokioIo::new(Patient::new(stream, context.limits.stall)), service);
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = shutdown.requested() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(door = "admin", %peer, %error, "connection ended");
    }
}

async fn answer(request: WebRequest, context: &Arc<Context>, shutdown: &Shutdown) -> Response<Full<Bytes>> {
    let path = request.http.uri().path();
    let reads = matches!(*request.http.method(), Method::GET | Method::HEAD);
    if !reads && matches!(path, "/livez" | "/readyz" | "/metrics") {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match path {
        "/livez" | "/readyz" if shutdown.is_shutting_down() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
        }
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match ready(context).await {
            Ok(()) => text(StatusCode::OK, "ok\n"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        },
        "/metrics" => {
            // It reads the catalog.
            let reader = Arc::clone(context);
            let scraped = tokio::task::spawn_blocking(move || crate::scrape::text(&reader)).await;
            let Ok(scraped) = scraped else {
                return text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be read\n");
            };
            let mut response = text(StatusCode::OK, scraped);
            response.headers_mut().insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
            );
            response
        }
        _ if !context.web.enabled && !reads => text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
        _ if !context.web.enabled => text(
            StatusCode::NOT_FOUND,
            "there are /livez, /readyz and /metrics; the web page needs --auth, or --web-page on\n",
        ),
        _ => web::answer(request, context).await,
    }
}

/// Performs a read on the threads that commands use: a database without a free one is not ready.
async fn ready(context: &Arc<Context>) -> Result<(), String> {
    let reader = Arc::clone(context);
    let read = tokio::task::spawn_blocking(move || reader.ready());
    match tokio::time::timeout(READY, read).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(error.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer from the database within {READY:?}")),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
