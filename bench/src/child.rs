//! Work that needs a process of its own: one that is killed, or that has little memory.
//!
//! The program starts itself again with [`COMMAND`] and the words of a [`Work`]; the child prints one line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::Result;
use crate::contest::Turn;
use crate::people::Random;
use crate::sides::{CACHE, Class, Form, KeyForm, Peer};

/// The first argument of a child.
pub const COMMAND: &str = "child";

/// Keys and values of a child's tables: long enough that four times the memory is soon full.
pub const LARGE: Form = Form { keys: KeyForm::Spread, value: 1000 };
/// Those of small commands.
pub const SMALL: Form = Form { keys: KeyForm::Spread, value: 100 };

fn argument<T: FromStr>(words: &[String], at: usize) -> Result<T> {
    words.get(at).and_then(|word| word.parse().ok()).ok_or_else(|| "a child's words are wrong".into())
}

/// Puts the calling process into a control group.
fn enter(group: &str) -> Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    Ok(std::fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string())?)
}

/// A child's side of the work.
///
/// # Errors
/// From the side and the file system, or for words that a parent does not give.
pub fn run(words: &[String]) -> Result<()> {
    let what: String = argument(words, 0)?;
    let peer = Peer::named(&argument::<String>(words, 1)?).ok_or("no such peer")?;
    let dir: PathBuf = argument(words, 2)?;
    let count: u64 = argument(words, 3)?;
    match what.as_str() {
        // Fills a store with entries of the large form, in order, and closes it.
        "fill" => {
            let side = peer.open(Class::Relaxed, LARGE, &dir, CACHE)?;
            side.put(&LARGE.sorted(count), 10_000, 0)?;
            side.settle()
        }
        // Fills a store with small commands, and dies.
        "die" => {
            let side = peer.open_logging(SMALL, &dir)?;
            side.put(&(0..count).collect::<Vec<u64>>(), 100, 0)?;
            println!("done");
            std::process::abort()
        }
        // Random gets in a control group, after as many that warm the caches.
        "gets" => {
            let (size, seed, cache) = (argument(words, 4)?, argument(words, 5)?, argument(words, 6)?);
            enter(&argument::<String>(words, 7)?)?;
            let side = peer.open(Class::Relaxed, LARGE, &dir, cache)?;
            let mut numbers = Random::new(seed, size);
            let mut some = || numbers.by_ref().take(count as usize).collect::<Vec<u64>>();
            let (warm, timed) = (some(), some());
            side.get(&warm, 1000)?;
            let turn = Turn::timed(count, || side.get(&timed, 1000))?;
            println!("{} {}", turn.spent, turn.answer.unwrap_or_default());
            Ok(())
        }
        _ => Err("a child's words are wrong".into()),
    }
}

/// Starts a child and returns what it printed.
///
/// # Errors
/// From the system, or if the child failed (but not if it died as it was told to).
pub fn start(words: &[&str]) -> Result<String> {
    let out = Command::new(std::env::current_exe()?).arg(COMMAND).args(words).output()?;
    let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    if !out.status.success() && said != "done" {
        return Err(format!("child {words:?}: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
    }
    Ok(said)
}
