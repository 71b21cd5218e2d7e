//! The line editor: completion, statements of several lines, and a history in a file that only its owner can read.

use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::cli::Failure;
use crate::statements::literal::Unreadable;
use crate::statements::methods::{ON_COLLECTION, ON_CURSOR, ON_DATABASE};
use crate::statements::statement::parse;

/// Statements that are kept.
const KEPT: usize = 1_000;

/// Names that are completed.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) databases: Vec<String>,
    /// Of the database in use.
    pub(super) collections: Vec<String>,
}

impl Names {
    /// Only names that are completed to themselves: what anybody may call a collection is neither run nor an order to the terminal.
    fn plain(mut self) -> Names {
        let is_plain =
            |name: &String| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.'));
        self.databases.retain(is_plain);
        self.collections.retain(is_plain);
        self
    }
}

/// Where the word at the end of a text begins, and what it may become.
fn candidates(names: &Names, before: &str) -> (usize, Vec<String>) {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '\\');
    let start = before
        .rfind(|c| !is_of_word(c))
        .map_or(0, |at| at + before.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let (context, word) = before.split_at_checked(start).unwrap_or((before, ""));
    let methods = |table: &[(&str, &str)]| -> Vec<String> {
        table.iter().map(|(name, _)| format!("{name}(")).collect()
    };
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
    // Only what the last statement of the line has to do with it.
    let statement = context.rsplit([';', '\n']).next().unwrap_or(context).trim_start();
    let all = if statement.is_empty() {
        texts(&["db", "exit", "help", "it", "show", "use"])
    } else if statement == "show " {
        texts(&["collections", "dbs", "profile", "roles", "users"])
    } else if statement == "use " {
        names.databases.clone()
    } else if statement == "help " {
        texts(&["collection", "cursor", "database"])
    } else if statement == "db." {
        let mut all = names.collections.clone();
        all.extend(methods(ON_DATABASE));
        all
    } else if statement.ends_with(").") {
        methods(ON_CURSOR)
    } else if let Some(path) = statement.strip_prefix("db.").and_then(|path| path.strip_suffix('.')) {
        // After a collection; or after the first part of the names of some.
        let prefix = format!("{path}.");
        let longer = names.collections.iter().filter_map(|name| name.strip_prefix(&prefix));
        let mut all: Vec<String> = longer.map(str::to_owned).collect();
        if path.chars().all(|c| is_of_word(c) || c == '.') {
            all.extend(methods(ON_COLLECTION));
        }
        all
    } else {
        Vec::new()
    };
    (start, all.into_iter().filter(|candidate| candidate.starts_with(word)).collect())
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, all) = candidates(self, line.get(..at).unwrap_or(line));
        let pair = |candidate: String| Pair { display: candidate.clone(), replacement: candidate };
        Ok((start, all.into_iter().map(pair).collect()))
    }
}

impl Validator for Names {
    /// A statement that is not complete goes on in the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let mut rest = context.input();
        loop {
            match parse(rest, &|| Ok(String::new())) {
                Ok(Some((_, after))) => rest = after,
                Err(Unreadable::Incomplete(_)) => return Ok(ValidationResult::Incomplete),
                // Wrong ones are told when they are run.
                Ok(None) | Err(Unreadable::Wrong(..)) => return Ok(ValidationResult::Valid(None)),
            }
        }
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}
impl Helper for Names {}

/// Whether a statement may have a password in it.
fn is_secret(statement: &str) -> bool {
    // Blanks may stand anywhere: auth ('u', 'p').
    let text: String = statement.to_lowercase().split_whitespace().collect();
    let secrets = ["pwd", "password", "auth(", "createuser", "updateuser", "sasl", "mongodb://"];
    secrets.iter().any(|secret| text.contains(secret))
}

/// The editor, with the history of earlier times.
pub(super) struct Lines {
    editor: Editor<Names, FileHistory>,
    file: Option<PathBuf>,
}

impl Lines {
    /// The history is in `TREEDB_SHELL_HISTORY`, or in the home directory; with an empty variable, nowhere.
    pub(super) fn open() -> Result<Lines, Failure> {
        let config = Config::builder()
            .max_history_size(KEPT)?
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::<Names, FileHistory>::with_config(config)?;
        editor.set_helper(Some(Names::default()));
        let file = match std::env::var_os("TREEDB_SHELL_HISTORY") {
            Some(named) => Some(PathBuf::from(named)).filter(|file| !file.as_os_str().is_empty()),
            None => std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".treedb_history")),
        };
        if let Some(file) = &file {
            // The first time there is none.
            let _ = editor.load_history(file);
        }
        Ok(Lines { editor, file })
    }

    /// Sets what is completed.
    pub(super) fn know(&mut self, names: Names) {
        self.editor.set_helper(Some(names.plain()));
    }

    /// Reads a statement, and keeps it unless it may have a password in it.
    pub(super) fn read(&mut self, prompt: &str) -> rustyline::Result<String> {
        let statement = self.editor.readline(prompt)?;
        if !statement.trim().is_empty() && !is_secret(&statement) {
            self.editor.add_history_entry(&statement)?;
            self.save();
        }
        Ok(statement)
    }

    /// Keeps the history, after each statement: a terminal may be closed at any time.
    fn save(&mut self) {
        if let Some(file) = &self.file
            && let Err(error) = self.editor.append_history(file)
        {
            eprintln!("treedb: the history cannot be kept in {}: {error}", file.display());
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_methods_are_completed_where_they_fit() {
        let names = Names {
            databases: vec!["shop".into(), "admin".into()],
            collections: vec!["films".into(), "fs.files".into(), "fs.chunks".into()],
        };
        let complete = |text: &str| candidates(&names, text);
        assert_eq!(complete("sh"), (0, vec!["show".into()]));
        assert_eq!(complete("show col"), (5, vec!["collections".into()]));
        assert_eq!(complete("use s"), (4, vec!["shop".into()]));
        assert_eq!(complete("db.fil"), (3, vec!["films".into()]));
        assert_eq!(complete("db.runC"), (3, vec!["runCommand(".into()]));
        assert_eq!(complete("db.films.findOneAndU"), (9, vec!["findOneAndUpdate(".into()]));
        assert_eq!(complete("db.fs.f").1[0], "files");
        assert_eq!(complete("db.films.find({a: 1}).so"), (22, vec!["sort(".into()]));
        assert_eq!(complete("use shop; db.fil"), (13, vec!["films".into()]));
        assert_eq!(complete("db.films.find({é").1, Vec::<String>::new());
    }

    #[test]
    fn names_that_are_more_than_names_are_not_completed() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let collections = names(&["films", "films.drop()", "a\u{1b}[2J", "fs.files", "a b", "x;exit"]);
        let names = Names { databases: names(&["shop", "a\u{9b}m"]), collections }.plain();
        assert_eq!(names.collections, ["films", "fs.files"]);
        assert_eq!(names.databases, ["shop"]);
    }

    #[test]
    fn statements_with_passwords_are_known() {
        for secret in [
            "db.createUser({user: 'a', pwd: 'b'})",
            "db.auth('a', 'b')",
            "db.auth\n ('a', 'b')",
            "db.changeUserPassword('a', 'b')",
            "db.runCommand({updateUser: 'a', PWD: 'b'})",
            "db.adminCommand({saslStart: 1})",
            "mongodb://a:b@c",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        assert!(!is_secret("db.films.find({author: 'x'})"));
    }
}
