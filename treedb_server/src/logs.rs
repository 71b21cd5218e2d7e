//! Log lines: `tracing` events to standard error, as text or as one JSON object a line.
//!
//! The last lines are also kept in memory, for the command `getLog`.
//!
//! What users store never appears above the level `debug`: events carry namespaces, sizes, codes and addresses.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bson::{Bson, DateTime, Document, doc};
use clap::ValueEnum;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, reload};

/// Lines that are kept.
const KEPT_LINES: usize = 1024;
/// Bytes of a kept value; the rest is cut off.
const KEPT_BYTES: usize = 512;

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Least severe lines that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Failures of the server
    Error,
    /// Also what looks wrong but is survived
    Warn,
    /// Also starts, stops and DDL
    Info,
    /// Also each connection and failed command; may show parts of documents
    Debug,
    /// Everything
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

/// The filter of the log, once logging has begun.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// The last lines.
static KEPT: Mutex<Lines> =
    Mutex::new(Lines { started: false, all: Ring::EMPTY, startup_warnings: Ring::EMPTY });

/// Begins logging. Does nothing if a program that embeds the server has done so already.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let (filter, handle) = reload::Layer::new(LevelFilter::from(level));
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
    let kept = tracing_subscriber::registry().with(filter).with(Keep);
    let begun = match format {
        LogFormat::Text => kept.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => kept.with(lines.json().flatten_event(true)).try_init(),
    };
    if begun.is_ok() {
        let _ = FILTER.set(handle);
    }
}

/// How much is logged, as MongoDB's `logLevel`: 0 for `info` and less, 1 for `debug`, 5 for everything.
pub(crate) fn verbosity() -> i32 {
    match FILTER.get().and_then(reload::Handle::clone_current) {
        Some(LevelFilter::DEBUG) => 1,
        Some(LevelFilter::TRACE) => 5,
        _ => 0,
    }
}

/// Sets that, from 0 to 5.
pub(crate) fn set_verbosity(level: i32) {
    let level = match level {
        0 => LevelFilter::INFO,
        1 | 2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    if let Some(filter) = FILTER.get() {
        let _ = filter.modify(|now| *now = level);
    }
}

/// Which lines are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    /// Warnings from before the server listened.
    StartupWarnings,
}

/// The last lines, the oldest first, and how many there have been.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ring {
    pub(crate) lines: VecDeque<String>,
    pub(crate) written: u64,
}

#[derive(Debug)]
struct Lines {
    started: bool,
    all: Ring,
    startup_warnings: Ring,
}

impl Ring {
    const EMPTY: Ring = Ring { lines: VecDeque::new(), written: 0 };

    fn push(&mut self, line: String) {
        if self.lines.len() >= KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        self.written += 1;
    }
}

fn locked() -> MutexGuard<'static, Lines> {
    // A panic elsewhere leaves whole lines.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines that are kept.
pub(crate) fn kept(which: Kept) -> Ring {
    let lines = locked();
    match which {
        Kept::All => lines.all.clone(),
        Kept::StartupWarnings => lines.startup_warnings.clone(),
    }
}

/// The server listens: later warnings are none of its start.
pub(crate) fn has_started() {
    locked().started = true;
}

/// Keeps each line.
struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let severity = match level {
            Level::ERROR => "E",
            Level::WARN => "W",
            Level::INFO => "I",
            Level::DEBUG => "D1",
            Level::TRACE => "D5",
        };
        let mut context = "treedb".to_owned();
        if let Some(Bson::Int64(connection)) = fields.others.get("connection") {
            context = format!("conn{connection}");
        }
        let mut line = doc! {
            "t": DateTime::now(), "s": severity, "c": "-", "id": 0, "ctx": context, "msg": fields.message,
        };
        if !fields.others.is_empty() {
            line.insert("attr", fields.others);
        }
        let line = Bson::Document(line).into_relaxed_extjson().to_string();
        let mut lines = locked();
        if level == Level::WARN && !lines.started {
            lines.startup_warnings.push(line.clone());
        }
        lines.all.push(line);
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Document,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Bson) {
        self.others.insert(field.name(), value);
    }

    fn text(&mut self, field: &Field, mut text: String) {
        if text.len() > KEPT_BYTES {
            text.truncate(text.floor_char_boundary(KEPT_BYTES));
            text.push_str("..");
        }
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, text.into()),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX).into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}
