//! Users as raw BSON, for the engines that store BSON.

use bench_common::User;
use bson::raw::{RawDocument, RawDocumentBuf, cstr};

use crate::Result;

/// Encodes a user, `_id` first.
pub(super) fn encode(user: &User) -> RawDocumentBuf {
    let mut doc = RawDocumentBuf::new();
    doc.append(cstr!("_id"), user.id.as_str());
    doc.append(cstr!("name"), user.name.as_str());
    doc.append(cstr!("email"), user.email.as_str());
    doc.append(cstr!("city"), user.city.as_str());
    doc.append(cstr!("pad"), user.pad.as_str());
    doc
}

/// Decodes a user. Fails if a field is missing, unknown or not a string.
pub(super) fn decode(doc: &RawDocument) -> Result<User> {
    let mut user = User {
        id: String::new(),
        name: String::new(),
        email: String::new(),
        city: String::new(),
        pad: String::new(),
    };
    let mut fields = 0;
    for field in doc {
        let (key, value) = field?;
        let target = match key.as_str() {
            "_id" => &mut user.id,
            "name" => &mut user.name,
            "email" => &mut user.email,
            "city" => &mut user.city,
            "pad" => &mut user.pad,
            other => return Err(format!("unexpected field {other}").into()),
        };
        target.push_str(value.as_str().ok_or("a field is not a string")?);
        fields += 1;
    }
    if fields == 5 { Ok(user) } else { Err(format!("{fields} fields instead of 5").into()) }
}

#[cfg(test)]
mod tests {
    use bench_common::IdPattern;

    use super::*;

    #[test]
    fn a_user_survives_bson() {
        for user in [IdPattern::Sequential, IdPattern::Random].map(|ids| ids.user(123)) {
            assert_eq!(decode(&encode(&user)).unwrap(), user);
        }
    }
}
