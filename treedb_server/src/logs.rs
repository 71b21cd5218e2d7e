//! Log lines: `tracing` events to standard error, as text or as one JSON object a line.
//!
//! What users store never appears above the level `debug`: events carry namespaces, sizes, codes and addresses.

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;

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

/// Begins logging. Does nothing if a program that embeds the server has done so already.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_target(false)
        .with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
