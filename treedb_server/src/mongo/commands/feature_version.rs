//! `setFeatureCompatibilityVersion`, which upgrade scripts send: the version of MongoDB that the server follows is set already, and there is no
//! other one whose files it could write.

use super::Result;
use super::request::{Request, done};
use super::writes::write_concern;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

/// The version of MongoDB whose features there are.
pub(super) const FEATURE_VERSION: &str = "8.0";

/// Those that MongoDB could be set to.
const KNOWN: [&str; 3] = ["7.0", "7.3", FEATURE_VERSION];

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut is_confirmed = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "confirm" => is_confirmed = arg.bool()?,
            "writeConcern" => drop(write_concern(arg.document()?)?),
            "downgradeOnDiskChanges" | "fromConfigServer" | "phase" | "timestamp" | "changeTimestamp" => {
                arg.unsupported()?;
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    let version = request.subject_name()?;
    if !KNOWN.contains(&version) {
        let [one, two, three] = KNOWN;
        return Err(CommandError::new(
            ProtocolCode::Location4926900,
            format!(
                "Invalid feature compatibility version value '{version}'; expected '{one}' or '{two}' or '{three}'."
            ),
        ));
    }
    if !is_confirmed {
        return Err(CommandError::new(
            ProtocolCode::Location7369100,
            "Once you have downgraded the FCV, if you choose to downgrade the binary version, it will require support \
             assistance. Please re-run this command with 'confirm: true' to acknowledge this and continue with the FCV downgrade.",
        ));
    }
    if version != FEATURE_VERSION {
        return Err(CommandError::new(
            ProtocolCode::Location5147403,
            format!(
                "cannot set featureCompatibilityVersion to '{version}' while featureCompatibilityVersion is '{FEATURE_VERSION}'"
            ),
        ));
    }
    done()
}
