//! Progress of a command: a bar on a terminal, periodic lines otherwise.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines if there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// Progress of a command over documents or entries, on standard error.
pub(super) struct Progress {
    /// `imported`, `exported`.
    done: &'static str,
    /// What is counted: documents, entries.
    things: &'static str,
    /// The total, if it is known.
    total: Option<u64>,
    bytes: bool,
    bar: Option<ProgressBar>,
    started: Instant,
    reported: Instant,
}

impl Progress {
    /// Progress through `total` bytes.
    pub(super) fn of_bytes(done: &'static str, total: Option<u64>) -> Self {
        Self::new(done, "documents", total, true)
    }

    /// Progress through `total` documents.
    pub(super) fn of_documents(done: &'static str, total: u64) -> Self {
        Self::new(done, "documents", Some(total), false)
    }

    /// Progress through `total` entries of tables: documents and what is in indexes.
    pub(super) fn of_entries(done: &'static str, total: u64) -> Self {
        Self::new(done, "entries", Some(total), false)
    }

    /// Progress through `total` bytes of an oplog.
    pub(super) fn of_oplog(done: &'static str, total: Option<u64>) -> Self {
        Self::new(done, "entries", total, true)
    }

    /// The total is known by now.
    pub(super) fn of(&mut self, total: u64) {
        if self.total != Some(total) {
            self.total = Some(total);
            if let Some(bar) = &self.bar {
                bar.set_length(total);
            }
        }
    }

    fn new(done: &'static str, things: &'static str, total: Option<u64>, bytes: bool) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(total, target);
            let template = match (total.is_some(), bytes) {
                (true, true) => "{bar:40} {percent:>3} %  {bytes}/{total_bytes}  {binary_bytes_per_sec}  {msg}  {eta} left",
                (true, false) => "{bar:40} {percent:>3} %  {human_pos}/{human_len}  {per_sec}  {eta} left",
                (false, _) => "{spinner} {bytes}  {binary_bytes_per_sec}  {msg}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("##-"));
            }
            bar
        });
        Progress { done, things, total, bytes, bar, started: now, reported: now }
    }

    /// `position` of the total is done, with `documents` documents.
    pub(super) fn at(&mut self, position: u64, documents: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            if self.bytes {
                bar.set_message(format!("{} {}", HumanCount(documents), self.things));
            }
        } else if self.reported.elapsed() >= EVERY {
            self.reported = Instant::now();
            let part = match self.total {
                Some(total) if total > 0 => format!(", {} %", 100 * position.min(total) / total),
                _ if self.bytes => format!(", {}", HumanBytes(position)),
                _ => String::new(),
            };
            eprintln!("{} {} {}{part}", self.done, HumanCount(documents), self.things);
        }
    }

    /// Writes a line that stays.
    pub(super) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// Ends it with a line that says how many `documents` went `whither`, and how quickly.
    pub(super) fn finish(self, documents: u64, whither: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = if seconds > 0.0 { (documents as f64 / seconds) as u64 } else { 0 };
        eprintln!(
            "{} {} {} {whither} in {seconds:.2} s ({} a second)",
            self.done,
            HumanCount(documents),
            self.things,
            HumanCount(rate)
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // A command that fails must not leave half a bar in front of its message.
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
