//! `saslStart`, `saslContinue`, `authenticate` and `logout`; what `hello` says of authentication.

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use crate::access::identity::Step;
use crate::access::scram::Mechanism;
use crate::access::user::QualifiedName;
use crate::access::{EXTERNAL, X509};
use crate::mongo::args::{Arg, args};
use crate::mongo::error::CommandError;

/// The bytes of a message of the mechanism: drivers send binary, some shells a string.
fn payload<'a>(arg: &Arg<'a>) -> Result<&'a [u8]> {
    match arg.value() {
        RawBsonRef::Binary(binary) => Ok(binary.bytes),
        RawBsonRef::String(text) => Ok(text.as_bytes()),
        _ => {
            Err(CommandError::new(ErrorCode::TypeMismatch, "the payload of an authentication must be binary"))
        }
    }
}

fn missing(owner: &str, name: &str) -> CommandError {
    CommandError::missing(&format!("{owner}.{name}"))
}

fn reply(step: Step) -> RawDocumentBuf {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: step.payload };
    rawdoc! { "conversationId": step.id, "done": step.done, "payload": payload }
}

pub(super) fn start(request: &Request<'_>) -> Result {
    begin(request, "saslStart", request.body(), request.database)
}

/// Begins to authenticate by the arguments in `command`.
fn begin(request: &Request<'_>, owner: &str, command: &RawDocument, database: &str) -> Result {
    let (mut mechanism, mut message, mut skip_empty) = (None, None, false);
    for arg in args(owner, command).skip(1) {
        let arg = arg?;
        match arg.name {
            "mechanism" => mechanism = Some(arg.str()?),
            "payload" => message = Some(payload(&arg)?),
            "options" => {
                let options = arg.document()?;
                skip_empty =
                    options.get("skipEmptyExchange")?.is_some_and(|value| value.as_bool() == Some(true));
            }
            "autoAuthorize" | "db" => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mechanism = mechanism.ok_or_else(|| missing(owner, "mechanism"))?;
    let message = message.ok_or_else(|| missing(owner, "payload"))?;
    let (identity, access) = (&request.session.identity, &request.context.access);
    Ok(reply(identity.begin(access, database, mechanism, message, skip_empty)?))
}

pub(super) fn proceed(request: &Request<'_>) -> Result {
    let (mut id, mut message) = (None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "conversationId" => id = i32::try_from(arg.integer()?).ok(),
            "payload" => message = Some(payload(&arg)?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let id = id.ok_or_else(|| missing("saslContinue", "conversationId"))?;
    let message = message.ok_or_else(|| missing("saslContinue", "payload"))?;
    Ok(reply(request.session.identity.proceed(&request.context.access, id, message)?))
}

/// `authenticate`: by the certificate of the connection.
pub(super) fn authenticate(request: &Request<'_>) -> Result {
    by_certificate(request, request.body(), request.database)
}

/// Authenticates by the certificate of the connection, as the arguments in `command` say.
fn by_certificate(request: &Request<'_>, command: &RawDocument, database: &str) -> Result {
    let (mut mechanism, mut named) = (None, None);
    for arg in args("authenticate", command).skip(1) {
        let arg = arg?;
        match arg.name {
            "mechanism" => mechanism = Some(arg.str()?),
            "user" => named = Some(arg.str()?),
            "db" => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mechanism = mechanism.ok_or_else(|| missing("authenticate", "mechanism"))?;
    if mechanism != X509 {
        return Err(CommandError::new(
            ErrorCode::MechanismUnavailable,
            format!("authenticate is for {X509} only: {mechanism} begins by saslStart"),
        ));
    }
    if database != EXTERNAL {
        return Err(CommandError::new(
            ErrorCode::ProtocolError,
            format!("{X509} authentication must always use the {EXTERNAL} database."),
        ));
    }
    let user = request.session.identity.authenticate_by_certificate(&request.context.access, named)?;
    Ok(rawdoc! { "dbname": EXTERNAL, "user": user })
}

pub(super) fn log_out(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    request.session.identity.log_out();
    done()
}

/// Adds to the reply of `hello` the mechanisms of the user that it asks about, and the first answer to the authentication
/// that a driver has begun in it.
pub(super) fn append_to_hello(request: &Request<'_>, reply: &mut RawDocumentBuf) -> Result<()> {
    if let Some(user) = request.body().get("saslSupportedMechs")?.and_then(|value| value.as_str())
        && let Some((database, name)) = user.split_once('.')
    {
        let mut mechanisms = RawArrayBuf::new();
        match request.context.access.store.user(&QualifiedName::new(database, name))? {
            Some(user) => user.mechanisms().for_each(|mechanism| mechanisms.push(mechanism.name())),
            // As of most users, so that this does not say who there is.
            None => Mechanism::ALL.iter().for_each(|mechanism| mechanisms.push(mechanism.name())),
        }
        reply.append(cstr!("saslSupportedMechs"), mechanisms);
    }
    if let Some(command) =
        request.body().get("speculativeAuthenticate")?.and_then(|value| value.as_document())
    {
        let database = command.get("db")?.and_then(|value| value.as_str()).unwrap_or("admin");
        // A failure is not one of `hello`: the driver begins again by `saslStart`.
        let is_x509 = command.get_str("mechanism").is_ok_and(|mechanism| mechanism == X509);
        let answer = match is_x509 {
            true => by_certificate(request, command, database),
            false => begin(request, "saslStart", command, database),
        };
        if let Ok(answer) = answer {
            reply.append(cstr!("speculativeAuthenticate"), answer);
        }
    }
    Ok(())
}
