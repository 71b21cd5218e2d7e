//! What the page asks: who it is, logging in and out, and commands.
//!
//! | path | body | answer |
//! |---|---|---|
//! | `/api/session` | | `{authentication, user?, version, name}` |
//! | `/api/login` | `{user, password, database}` | the same, with a `secret` and a cookie |
//! | `/api/logout` | | |
//! | `/api/command` | `{database, command}` | the command's reply |
//! | `/api/statement` | `{database, text, explain?}`: a statement of `treedb shell`, which with `explain: true` is explained and not run | `{database, command, show, reply}`, or `{message, at}` |
//!
//! Who has logged in sends the cookie, and the secret in the header `TreeDB-Session`. Bodies and answers are relaxed extended JSON. Commands that fail are answered by their error with status 200, as they are on the wire.

use std::sync::Arc;
use std::time::Instant;

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{COOKIE, HOST, HeaderValue, SET_COOKIE};
use hyper::{Response, StatusCode};
use tokio::sync::Semaphore;
use treedb_query::doc::json::{from_json, to_json};

use super::guard::{header, split};
use super::{WebRequest, assets, logins};
use crate::access::identity::Identity;
use crate::context::{Context, Reserved};
use crate::mongo::commands;
use crate::mongo::connection::Session;
use crate::mongo::error::CommandError;
use crate::mongo::in_process;
use crate::statements::literal::Unreadable;
use crate::statements::methods::{self, Plan};
use crate::statements::statement::{Statement, parse};

/// The longest body.
const BODY_BYTES: usize = 1 << 20;
/// The longest body of who has not logged in.
const LOGIN_BYTES: usize = 8 << 10;
/// Documents in the first batch of a statement's result.
const BATCH: i32 = 100;

/// The header of what the page asks by itself, every other second.
const UNATTENDED: &str = "treedb-unattended";
/// The header with the secret of a log-in.
const SECRET: &str = "treedb-session";
/// Why nobody can log in.
const UNENCRYPTED: &str =
    "log-ins need TLS (--tls-certificate), or a tunnel: ssh -L 8080:127.0.0.1:PORT HOST";

type Reply = Response<Full<Bytes>>;

/// The name of the cookie: cookies are not told apart by ports, on which other servers of this machine may be.
fn cookie_name(request: &WebRequest) -> String {
    let (_, port) = split(header(request, HOST).unwrap_or_default());
    format!("treedb_{}", port.parse::<u16>().map_or_else(|_| String::new(), |port| port.to_string()))
}

/// The token that the request has.
fn token(request: &WebRequest) -> Option<&str> {
    let name = cookie_name(request);
    let cookies = request.http.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(found, value)| (found == name).then_some(value))
}

fn set_cookie(request: &WebRequest, response: &mut Reply, token: &str, seconds: u32) {
    let secure = if request.secure { "; Secure" } else { "" };
    let name = cookie_name(request);
    let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    // Names and tokens are digits and letters.
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Who asks, and their turns to run commands; `None` if they have to log in first.
fn identity(request: &WebRequest, context: &Context) -> Option<(Identity, Arc<Semaphore>)> {
    if context.access.is_required() {
        // What the page asks by itself does not keep a log-in alive of which nobody makes use.
        let used = !request.http.headers().contains_key(UNATTENDED);
        let keys = (token(request)?, header(request, SECRET)?);
        return context.web.logins.find(keys, request.peer, &context.access, used, Instant::now());
    }
    let reader = Identity::reader(request.peer, &context.access, "the web page").ok()?;
    Some((reader, Arc::clone(&context.web.without_login)))
}

/// Whether a password that this connection carries cannot be read on its way.
fn may_carry_passwords(request: &WebRequest) -> bool {
    request.secure || request.peer.ip().to_canonical().is_loopback()
}

fn of(document: &RawDocument) -> Reply {
    assets::json(StatusCode::OK, to_json(document))
}

/// A text that has its share of the budget until it has been sent.
struct Accounted {
    text: String,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// An answer that may be long: it is made where threads may compute, and counts as a request until it has been sent.
async fn long(document: RawDocumentBuf, context: &Arc<Context>) -> Reply {
    let Ok(text) = tokio::task::spawn_blocking(move || to_json(&document)).await else {
        return assets::text(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written\n");
    };
    let reserved = context.reserve(text.len()).await;
    assets::json(StatusCode::OK, Bytes::from_owner(Accounted { text, _reserved: reserved }))
}

fn not_logged_in() -> Reply {
    assets::json(StatusCode::UNAUTHORIZED, "{\"message\":\"log in first\"}")
}

fn wrong(message: &str) -> Reply {
    assets::json(StatusCode::BAD_REQUEST, to_json(&rawdoc! { "message": message }))
}

/// Answers a POST.
pub(super) async fn answer(mut request: WebRequest, context: &Arc<Context>) -> Reply {
    // The body of who has to log in first is not even read.
    let path = request.http.uri().path().to_owned();
    let identity = match path.as_str() {
        "/api/session" | "/api/login" | "/api/logout" => identity(&request, context),
        "/api/command" | "/api/statement" => match identity(&request, context) {
            None => return not_logged_in(),
            found => found,
        },
        _ => return assets::text(StatusCode::NOT_FOUND, "there is nothing of that name\n"),
    };
    if path == "/api/login" && !may_carry_passwords(&request) {
        return assets::json(StatusCode::FORBIDDEN, to_json(&rawdoc! { "message": UNENCRYPTED }));
    }
    // Who has not logged in has nothing long to say.
    let longest = if identity.is_some() { BODY_BYTES } else { LOGIN_BYTES };
    let body = match body(&mut request, longest, context).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    if path == "/api/login" {
        return log_in(&request, &body, context).await;
    }
    let (identity, turns) = match (path.as_str(), identity) {
        ("/api/session", identity) => {
            return of(&session(&request, identity.as_ref().map(|(own, _)| own), context).await);
        }
        ("/api/logout", identity) => {
            if let (Some(token), Some(_)) = (token(&request), identity) {
                context.web.logins.forget(token);
            }
            let mut response = assets::json(StatusCode::OK, "{}");
            set_cookie(&request, &mut response, "", 0);
            return response;
        }
        (_, Some(found)) => found,
        (_, None) => return not_logged_in(),
    };
    // Its own turn first: who waits for that takes none of the others'.
    let (Ok(_own), Ok(_turn)) = (turns.acquire().await, context.web.commands.acquire().await) else {
        return assets::text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    };
    match path.as_str() {
        "/api/command" => command(identity, &body, context).await,
        _ => statement(identity, &body, context).await,
    }
}

/// The body, which is a document; an empty one is one without fields.
async fn body(request: &mut WebRequest, longest: usize, context: &Context) -> Result<RawDocumentBuf, Reply> {
    let too_long = || assets::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or was not sent\n");
    // As far as the request says it, before anything is read.
    if request.http.body().size_hint().lower() > longest as u64 {
        return Err(too_long());
    }
    let whole = Limited::new(request.http.body_mut(), longest).collect();
    let bytes = match tokio::time::timeout(context.limits.stall, whole).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return Err(too_long()),
        Err(_) => return Err(assets::text(StatusCode::REQUEST_TIMEOUT, "the body did not arrive\n")),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong("the body is not UTF-8"))?;
    if text.is_empty() {
        return Ok(RawDocumentBuf::new());
    }
    from_json(text).map_err(|error| wrong(&error.message))
}

/// Who the page is used by, and what server it is of.
async fn session(
    request: &WebRequest,
    identity: Option<&Identity>,
    context: &Arc<Context>,
) -> RawDocumentBuf {
    let mut found = rawdoc! {
        "authentication": context.access.is_required(),
        "version": env!("CARGO_PKG_VERSION"),
        "name": commands::hostname(),
    };
    if context.access.is_required() && !may_carry_passwords(request) {
        found.append(bson::raw::cstr!("message"), UNENCRYPTED);
    }
    if let Some(identity) = identity {
        let status = rawdoc! { "connectionStatus": 1, "$db": "admin" };
        let session = open(identity.at(identity.peer()), context);
        let _listed = context.operations.list(&session);
        let reply = in_process::run(&status, context, &session, None).await;
        if let Ok(info) = reply.get_document("authInfo") {
            found.append(bson::raw::cstr!("user"), info.to_owned());
        }
    }
    found
}

async fn log_in(request: &WebRequest, body: &RawDocument, context: &Arc<Context>) -> Reply {
    if !context.access.is_required() {
        return wrong("this server has no authentication");
    }
    let (Ok(name), Ok(password)) = (body.get_str("user"), body.get_str("password")) else {
        return wrong("a user and a password are needed");
    };
    let database = body.get_str("database").unwrap_or("admin");
    // Both sides of the exchange are computed here, for any name: so an address has to wait whatever names it tries.
    let refused = |error: CommandError| {
        let body = rawdoc! { "message": error.message.as_str() };
        assets::json(StatusCode::UNAUTHORIZED, to_json(&body))
    };
    let (logins, address) = (&context.web.logins, request.peer.ip());
    if let Err(error) = logins.check(address, Instant::now()) {
        return refused(error);
    }
    let Ok(_attempt) = logins.attempts.acquire().await else { return not_logged_in() };
    // It may have failed often enough while this one waited.
    if let Err(error) = logins.check(address, Instant::now()) {
        return refused(error);
    }
    let (name, password, database) = (name.to_owned(), password.to_owned(), database.to_owned());
    let (own, peer) = (Arc::clone(context), request.peer);
    let checked = tokio::task::spawn_blocking(move || {
        logins::authenticate(&own.access, peer, &database, &name, &password)
    });
    let (identity, proof) = match checked.await {
        Ok(Ok(found)) => {
            logins.succeeded(address, Instant::now());
            found
        }
        Ok(Err(error)) => {
            logins.failed(address, Instant::now());
            return refused(error);
        }
        Err(_) => return assets::text(StatusCode::INTERNAL_SERVER_ERROR, "the log-in failed\n"),
    };
    let own = identity.at(peer);
    match logins.keep(identity, proof, Instant::now()) {
        Ok(keys) => {
            let mut answer = session(request, Some(&own), context).await;
            answer.append(bson::raw::cstr!("secret"), keys.secret);
            let mut response = of(&answer);
            set_cookie(request, &mut response, &keys.token, 12 * 3600);
            response
        }
        Err(_) => assets::text(StatusCode::INTERNAL_SERVER_ERROR, "the system has no random numbers\n"),
    }
}

/// A connection of its own for a request, as drivers have: it is listed as long as it runs.
fn open(identity: Identity, context: &Context) -> Arc<Session> {
    let session = Session::of(context.next_connection(), identity);
    session.introduce(&rawdoc! { "application": { "name": "TreeDB web page" } });
    Arc::new(session)
}

/// Runs a command in a database.
async fn run(
    identity: Identity,
    database: &str,
    command: &RawDocument,
    context: &Arc<Context>,
) -> RawDocumentBuf {
    let mut own = RawDocumentBuf::new();
    for (name, value) in command.iter().flatten() {
        // Sessions and transactions would outlive the request.
        if !matches!(name.as_str(), "$db" | "lsid" | "txnNumber" | "autocommit" | "startTransaction") {
            own.append(name, value);
        }
    }
    own.append(bson::raw::cstr!("$db"), database);
    let session = open(identity, context);
    let _listed = context.operations.list(&session);
    let reserved = context.reserve(own.as_bytes().len()).await;
    in_process::run(&own, context, &session, Some(reserved)).await
}

async fn command(identity: Identity, body: &RawDocument, context: &Arc<Context>) -> Reply {
    let (Ok(database), Ok(command)) = (body.get_str("database"), body.get_document("command")) else {
        return wrong("a database and a command are needed");
    };
    long(run(identity, database, command, context).await, context).await
}

async fn statement(identity: Identity, body: &RawDocument, context: &Arc<Context>) -> Reply {
    let (Ok(database), Ok(text)) = (body.get_str("database"), body.get_str("text")) else {
        return wrong("a database and a text are needed");
    };
    let mut plan = match planned(text, database) {
        Ok(plan) => plan,
        Err((message, at)) => {
            let mut refused = rawdoc! { "message": message };
            if let Some(at) = at {
                let at = text.get(..at).map_or(0, |before| before.encode_utf16().count());
                refused.append(bson::raw::cstr!("at"), i32::try_from(at).unwrap_or(i32::MAX));
            }
            return of(&refused);
        }
    };
    match body.get("explain") {
        Ok(None) => {}
        Ok(Some(RawBsonRef::Boolean(wanted))) => {
            if wanted {
                plan = plan.explained("executionStats");
            }
        }
        // Not taken for false, which would run it.
        _ => return wrong("explain is true or false"),
    }
    plan.limit_batch(BATCH);
    let Ok(command) = RawDocumentBuf::try_from(&plan.command) else {
        return wrong("the command is too long");
    };
    let reply = run(identity, &plan.database, &command, context).await;
    let show = plan.show.name();
    let answer = rawdoc! { "database": plan.database, "command": command, "show": show, "reply": reply };
    long(answer, context).await
}

/// The command that a text stands for: a statement, or a command as it is.
fn planned(text: &str, database: &str) -> Result<Plan, (String, Option<usize>)> {
    let no_terminal = || Err("write the password as a text".to_owned());
    let plain = |message: String| (message, None);
    if text.trim_start().starts_with('{') {
        let command: Document = from_json(text)
            .ok()
            .and_then(|raw| Document::try_from(&*raw).ok())
            .ok_or_else(|| plain("this is no command: write db.runCommand({..}), or JSON".to_owned()))?;
        return Ok(Plan { database: database.to_owned(), command, show: methods::Show::Reply });
    }
    match parse(text, &no_terminal) {
        Ok(None) => Err(plain("write a statement: db.films.find({})".to_owned())),
        Ok(Some((_, rest))) if !matches!(parse(rest, &no_terminal), Ok(None)) => {
            Err(plain("one statement at a time, please".to_owned()))
        }
        Ok(Some((Statement::Show(what), _))) => {
            methods::show(&what, database).ok_or_else(|| plain(format!("there is no show {what}")))
        }
        Ok(Some((Statement::Calls(calls), _))) => match Plan::of(&calls, database) {
            Ok(Some(plan)) => Ok(plan),
            Ok(None) => Err(plain("call a method: db.films.find({})".to_owned())),
            Err(message) => Err(plain(message)),
        },
        Ok(Some(_)) => Err(plain("here only db.. and show are understood".to_owned())),
        Err(Unreadable::Incomplete(what)) => Err((what.to_owned(), Some(text.len()))),
        Err(Unreadable::Wrong(at, message)) => Err((message, Some(at))),
    }
}
