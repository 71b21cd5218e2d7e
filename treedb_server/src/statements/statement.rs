//! Statements: `show dbs`, `use shop`, `it`, and calls: `db.films.find({year: 1999}).sort({title: 1})`.

use bson::Bson;

use super::literal::{Scanner, Unreadable};

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement {
    Help(Option<String>),
    Exit,
    /// The next documents of the last result.
    More,
    Use(String),
    Show(String),
    /// Another form of results.
    Format(Format),
    /// `db`, or what is called on it.
    Calls(Calls),
}

/// Which form of results is turned on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `\x`: documents with their fields on lines of their own, even if a table would do.
    Expanded,
    /// `\json`: a document a line.
    Lines,
}

/// Methods called one on the result of the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Calls {
    /// By `getSiblingDB`.
    pub(crate) database: Option<String>,
    pub(crate) collection: Option<String>,
    pub(crate) calls: Vec<Call>,
}

/// A method with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Bson>,
}

/// Asks for a password that is not shown: `passwordPrompt()`.
pub(crate) type AskPassword<'a> = &'a dyn Fn() -> Result<String, String>;

/// Reads the first statement of a text; what follows it is the second value. `None` if there is none.
///
/// # Errors
/// The text is not complete, or wrong.
pub(crate) fn parse<'t>(
    text: &'t str,
    password: AskPassword<'_>,
) -> Result<Option<(Statement, &'t str)>, Unreadable> {
    let mut scanner = Scanner::new(text);
    loop {
        scanner.skip()?;
        if !scanner.accept(";") {
            break;
        }
    }
    let mut words = scanner.clone();
    let word = words.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '?' | '\\'));
    if word == "db" {
        let calls = calls(&mut scanner, password)?;
        return Ok(Some((Statement::Calls(calls), end(&mut scanner)?)));
    }
    let rest = words.take_while(|c| c != ';' && c != '\n').trim();
    let rest = rest.strip_prefix("()").unwrap_or(rest).trim();
    let name = (!rest.is_empty()).then(|| rest.to_owned());
    let statement = match (word, name) {
        ("", None) if words.rest().is_empty() => return Ok(None),
        ("help" | "?", topic) => Statement::Help(topic),
        ("exit" | "quit", None) => Statement::Exit,
        ("it", None) => Statement::More,
        ("use", Some(name)) => Statement::Use(name.trim_matches(['"', '\'']).to_owned()),
        ("show", Some(what)) => Statement::Show(what),
        ("\\x", None) => Statement::Format(Format::Expanded),
        ("\\json", None) => Statement::Format(Format::Lines),
        ("use", None) => return scanner.wrong("use DATABASE"),
        ("show", None) => return scanner.wrong(SHOW),
        _ => {
            return scanner.wrong(format!(
                "{} is no statement: they begin with db, show, use, it, help or exit",
                if word.is_empty() { rest } else { word }
            ));
        }
    };
    Ok(Some((statement, words.rest())))
}

/// What can be shown.
pub(crate) const SHOW: &str = "show dbs, show collections, show users, show roles or show profile";

/// After a statement: a semicolon, a line break, or nothing.
fn end<'t>(scanner: &mut Scanner<'t>) -> Result<&'t str, Unreadable> {
    scanner.take_while(|c| c.is_whitespace() && c != '\n');
    match scanner.peek() {
        None => Ok(""),
        Some(';' | '\n') => Ok(scanner.rest()),
        Some('/') if scanner.rest().starts_with("//") => Ok(scanner.rest()),
        Some(c) => scanner.wrong(format!("expected the end of the statement and found {c}")),
    }
}

fn calls(scanner: &mut Scanner<'_>, password: AskPassword<'_>) -> Result<Calls, Unreadable> {
    scanner.name();
    let mut found = Calls::default();
    // The parts of a collection's name: it may have dots.
    let mut names: Vec<String> = Vec::new();
    loop {
        // A chain may go on in the next line.
        let mut ahead = scanner.clone();
        ahead.skip()?;
        if !ahead.accept(".") && !ahead.accept("[") {
            break;
        }
        scanner.skip()?;
        if scanner.accept("[") {
            scanner.skip()?;
            if !matches!(scanner.peek(), Some('"' | '\'')) || !found.calls.is_empty() {
                return scanner.wrong("expected the name of a collection in quotation marks");
            }
            names.push(scanner.text()?);
            scanner.skip()?;
            if !scanner.accept("]") {
                return match scanner.peek() {
                    None => Err(Unreadable::Incomplete("a bracket is not closed")),
                    Some(c) => scanner.wrong(format!("expected ] and found {c}")),
                };
            }
            continue;
        }
        scanner.accept(".");
        scanner.skip()?;
        let before = scanner.clone();
        let name = match names.is_empty() || !found.calls.is_empty() {
            true => scanner.name(),
            // Collections may be called shop.2024-01.
            false => scanner.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-')),
        };
        if name.is_empty() {
            return match scanner.peek() {
                None => Err(Unreadable::Incomplete("a name is missing after the dot")),
                Some(c) => scanner.wrong(format!("expected a name after the dot and found {c}")),
            };
        }
        if !scanner.accept("(") {
            if !found.calls.is_empty() {
                return before.wrong(format!("{name} has to be called: {name}()"));
            }
            names.push(name.to_owned());
            continue;
        }
        let arguments = scanner.arguments(password)?;
        let on_database = names.is_empty() && found.calls.is_empty();
        match (name, &arguments[..]) {
            ("getSiblingDB", [Bson::String(database)]) if on_database => {
                found.database = Some(database.clone());
            }
            ("getCollection", [Bson::String(collection)]) if on_database => names.push(collection.clone()),
            _ => found.calls.push(Call { name: name.to_owned(), arguments }),
        }
    }
    found.collection = (!names.is_empty()).then(|| names.join("."));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    fn all(text: &str) -> Result<Vec<Statement>, Unreadable> {
        let (mut rest, mut found) = (text, Vec::new());
        while let Some((statement, after)) = parse(rest, &|| Ok("secret".to_owned()))? {
            found.push(statement);
            rest = after;
        }
        Ok(found)
    }

    fn one(text: &str) -> Calls {
        match all(text).unwrap().remove(0) {
            Statement::Calls(calls) => calls,
            other => panic!("{other:?}"),
        }
    }

    fn call(name: &str, arguments: &[Bson]) -> Call {
        Call { name: name.to_owned(), arguments: arguments.to_vec() }
    }

    #[test]
    fn calls_are_read_with_their_collection_and_chain() {
        let calls = one(
            "db.films.find({year: {$gt: 1990}}, {title: 1})\n  .sort({year: -1})\n  // newest first\n  .limit(5);",
        );
        assert_eq!(calls.collection.as_deref(), Some("films"));
        assert_eq!(
            calls.calls,
            [
                call("find", &[bson!({"year": {"$gt": 1990}}), bson!({"title": 1})]),
                call("sort", &[bson!({"year": -1})]),
                call("limit", &[bson!(5)]),
            ]
        );
        for (text, database, collection) in [
            ("db.a.b.find()", None, Some("a.b")),
            ("db['a b'].find()", None, Some("a b")),
            ("db.logs.2024-01.find()", None, Some("logs.2024-01")),
            ("db.getCollection('x-y').find()", None, Some("x-y")),
            ("db.getSiblingDB('other').films.find()", Some("other"), Some("films")),
            ("db.runCommand({ping: 1})", None, None),
            ("db.getSiblingDB(\"admin\").runCommand({ping: 1})", Some("admin"), None),
        ] {
            let calls = one(text);
            assert_eq!(
                (calls.database.as_deref(), calls.collection.as_deref()),
                (database, collection),
                "{text}"
            );
            assert_eq!(calls.calls.len(), 1, "{text}");
        }
        assert_eq!(one("db"), Calls::default());
        assert_eq!(one("db.films").collection.as_deref(), Some("films"));
    }

    #[test]
    fn a_script_has_many_statements() {
        let found = all("use shop; show dbs\n// a comment\ndb.a.drop(); it\n;;\\x\nhelp find\nexit").unwrap();
        assert_eq!(found.len(), 7);
        assert_eq!(found[0], Statement::Use("shop".into()));
        assert_eq!(found[1], Statement::Show("dbs".into()));
        assert_eq!(found[3], Statement::More);
        assert_eq!(found[4], Statement::Format(Format::Expanded));
        assert_eq!(found[5], Statement::Help(Some("find".into())));
        assert_eq!(found[6], Statement::Exit);
        assert_eq!(all("  \n// nothing").unwrap(), []);
        assert_eq!(all("exit()").unwrap(), [Statement::Exit]);
    }

    #[test]
    fn wrong_statements_say_what_is_expected() {
        for (text, what) in [
            ("find x", "they begin with"),
            ("var x = 1", "they begin with"),
            ("use", "use DATABASE"),
            ("show", "show dbs"),
            ("db.films.find() 5", "end of the statement"),
            ("db.films.find().sort", "has to be called"),
            ("db.films..find()", "after the dot"),
            ("db[films].find()", "quotation marks"),
            ("db.films.find({a: 1}}", "expected , or )"),
        ] {
            match all(text) {
                Err(Unreadable::Wrong(_, message)) => assert!(message.contains(what), "{text}: {message}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in ["db.films.find({", "db.films.", "db['a'", "db.a.insertOne({a: 'x"] {
            assert!(matches!(all(text), Err(Unreadable::Incomplete(_))), "{text}");
        }
    }
}
