//! `treedb shell`: statements from a terminal with an editor, from a pipe, or from `--eval`.
//!
//! | module | what it is |
//! |---|---|
//! | [`crate::statements`] | what can be entered |
//! | [`runner`] | running statements and showing what comes back |
//! | [`backend`] | what runs the commands: a server or a directory |
//! | [`notation`], [`table`] | values and tables as they are shown |
//! | [`editor`] | completion, statements of several lines, the history file |
//! | [`help`] | what `help` says |

mod backend;
mod editor;
mod help;
mod notation;
mod runner;
mod table;

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use rustyline::error::ReadlineError;
use tokio::signal::unix::{SignalKind, signal};

use self::backend::{Backend, Stop};
use self::editor::{Lines, Names};
use self::runner::{Form, Next, Problem, Runner};
use super::Failure;
use super::key::KeyArgs;
use super::mongo_client::Uri;
use super::target::must_exist;
use super::terminal::{self, NoPassword};
use super::user::UserArgs;

/// The exit status of a shell that Ctrl-C ended, as of all programs that do so.
const INTERRUPTED: u8 = 130;

/// Query and change a database interactively, or by a script
#[derive(Debug, Args)]
#[command(after_help = "\
The statements are those of mongosh, without JavaScript: show dbs, use shop, db.films.find({year: {$gt: 1990}}).sort({year: -1}),
insertOne, updateMany, aggregate, createIndex, runCommand: `help` lists them. Documents that are flat are shown as tables.

Without a terminal, statements are read from standard input. The first one that fails ends the shell with status 1.

Statements are kept in ~/.treedb_history (or the file that TREEDB_SHELL_HISTORY names), those with passwords are not.

Examples:
  treedb shell
  treedb shell mongodb://db.example.org/shop?tlsCAFile=ca.pem --user ann
  treedb shell --dir ./data --eval 'show dbs'
  treedb shell --json --eval 'db.films.find()' | jq .title")]
pub(super) struct Shell {
    /// The server whose drivers' port this is, and the database to begin with
    #[arg(value_name = "mongodb://HOST:PORT/DATABASE", default_value = "mongodb://127.0.0.1:27017")]
    uri: Uri,
    /// Open this directory, which no server may have open, instead of connecting to a server
    #[arg(long, value_name = "DIR", conflicts_with = "uri")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    user: UserArgs,
    /// The database to begin with [default: the one of the URI, or test]
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Run these statements and exit
    #[arg(long, value_name = "STATEMENTS")]
    eval: Option<String>,
    /// Print documents as JSON, one a line
    #[arg(long)]
    json: bool,
}

impl Shell {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let interactive = self.eval.is_none() && std::io::stdin().is_terminal();
        let database = self.database.clone().or_else(|| self.uri.database().map(str::to_owned));
        let backend = match &self.dir {
            Some(dir) => {
                must_exist(dir)?;
                Backend::open(dir, self.key.options()?)?
            }
            None => Backend::connect(self.user.of(&self.uri)?)?,
        };
        let (stop, interrupted) = (Arc::<Stop>::default(), Arc::<AtomicBool>::default());
        watch(Arc::clone(&stop), Arc::clone(&interrupted), interactive)?;
        let form = if self.json { Form::Lines } else { Form::Table };
        let database = database.unwrap_or_else(|| "test".to_owned());
        let mut runner = Runner::new(backend, stop, Arc::clone(&interrupted), database, form, interactive);
        let status = match (self.eval, interactive) {
            (None, true) => conversation(&mut runner, &interrupted)?,
            (Some(text), _) => script(&mut runner, &text, &interrupted),
            (None, false) => {
                let mut text = String::new();
                std::io::stdin().lock().read_to_string(&mut text)?;
                script(&mut runner, &text, &interrupted)
            }
        };
        runner.close()?;
        Ok(status)
    }
}

/// Stops what runs when Ctrl-C is pressed; in a conversation the shell goes on.
fn watch(stop: Arc<Stop>, interrupted: Arc<AtomicBool>, interactive: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut pressed = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    let watcher = move || {
        while runtime.block_on(pressed.recv()).is_some() {
            interrupted.store(true, Ordering::Relaxed);
            if !stop.stop() && !interactive {
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("interrupts".to_owned()).spawn(watcher)?;
    Ok(())
}

/// Asks for a password. That a key has interrupted it is known at once, and not only when its signal has arrived.
fn ask_password(interrupted: &AtomicBool) -> Result<String, String> {
    terminal::ask_password().map_err(|why| {
        if matches!(why, NoPassword::Interrupted) {
            interrupted.store(true, Ordering::Relaxed);
        }
        why.to_string()
    })
}

/// Runs a text; the first statement that fails ends it.
fn script(runner: &mut Runner, text: &str, interrupted: &AtomicBool) -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let done = runner.run_all(text, &|| ask_password(interrupted), &mut out);
    let done = done.and_then(|next| Ok(out.flush().map(|()| next)?));
    match done {
        Ok(_) | Err(Problem::Closed) => ExitCode::SUCCESS,
        Err(problem) => {
            // What was shown before it comes first.
            let _ = out.flush();
            eprintln!("treedb: {problem}");
            if interrupted.load(Ordering::Relaxed) { INTERRUPTED.into() } else { ExitCode::FAILURE }
        }
    }
}

/// Reads statements from a terminal and runs them, until the user leaves.
fn conversation(runner: &mut Runner, interrupted: &AtomicBool) -> Result<ExitCode, Failure> {
    let mut lines = Lines::open()?;
    println!("treedb {}: {}", env!("CARGO_PKG_VERSION"), runner.place());
    println!("help lists what can be entered, exit or Ctrl-D leaves");
    loop {
        // The prompt does not wait for a server that cannot be reached; the next statement tells that it cannot.
        if runner.is_connected() {
            lines.know(Names { databases: runner.database_names(), collections: runner.collection_names() });
        }
        let statement = match lines.read(&format!("{}> ", runner.database())) {
            Ok(statement) => statement,
            // Ctrl-C gives up the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error.into()),
        };
        let mut out = std::io::stdout().lock();
        match runner.run_all(&statement, &|| ask_password(interrupted), &mut out) {
            Ok(Next::Continue) => {}
            Ok(Next::Exit) => return Ok(ExitCode::SUCCESS),
            Err(Problem::Closed) => return Ok(ExitCode::FAILURE),
            Err(problem) => println!("{problem}"),
        }
    }
}
