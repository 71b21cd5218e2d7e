//! Damages the files of a crash image, for tests, and judges how a store reacts.

#![allow(clippy::unwrap_used, reason = "only tests call this, and a test fails by panicking")]

use std::path::{Path, PathBuf};

use crate::Error;
use crate::disk::crash::Crash;
use crate::disk::{Disk, SimDisk};

/// What is done to each byte that matters most: its lowest bit, its highest, all of them.
const PATTERNS: [u8; 3] = [0x01, 0x80, 0xff];

/// How many flips were tried and how many of them were found; the others were harmless.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flips {
    /// Flips tried.
    pub tried: u64,
    /// Flips that were reported as damage.
    pub found: u64,
}

/// The files of a database in `dir`.
pub fn files(disk: &SimDisk, dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for sub in ["", "log", "values"] {
        let dir = dir.join(sub);
        let paths = disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name));
        files.extend(paths.filter(|path| disk.contents(path).is_some()));
    }
    assert!(files.len() > 2, "{files:?}");
    files
}

/// Flips each byte that `header` names (by file and offset) in three ways, and `random` bits wherever they are, one at
/// a time. `below` draws a number below its argument. `judge` opens the disk, and returns true if it was told of the damage.
pub fn flip(
    image: &SimDisk,
    files: &[PathBuf],
    header: impl Fn(&Path, usize) -> bool,
    random: usize,
    below: &mut dyn FnMut(usize) -> usize,
    mut judge: impl FnMut(&SimDisk, &Path, &str) -> bool,
) -> Flips {
    let whole: Vec<Vec<u8>> = files.iter().map(|path| image.contents(path).unwrap()).collect();
    let mut flips = Flips::default();
    let mut flip = |file: usize, at: usize, pattern: u8| {
        let path = &files[file];
        let mut bytes = whole[file].clone();
        bytes[at] ^= pattern;
        let disk = image.crash(Crash::Everything);
        disk.overwrite(path, bytes);
        flips.tried += 1;
        let what = format!("{} byte {at} xor {pattern:#04x}", path.display());
        flips.found += u64::from(judge(&disk, path, &what));
    };
    for (file, bytes) in whole.iter().enumerate() {
        for at in (0..bytes.len()).filter(|&at| header(&files[file], at)) {
            PATTERNS.into_iter().for_each(|pattern| flip(file, at, pattern));
        }
    }
    // Each file as often as any other, so that short ones get their share.
    for i in 0..random {
        let file = i % files.len();
        flip(file, below(whole[file].len()), 1 << below(8));
    }
    flips
}

/// Cuts each file at `times` places, nothing at all among them, and hands the disks to `judge`.
pub fn cut(
    image: &SimDisk,
    files: &[PathBuf],
    times: usize,
    below: &mut dyn FnMut(usize) -> usize,
    mut judge: impl FnMut(&SimDisk, &Path, &str),
) {
    for path in files {
        let whole = image.contents(path).unwrap();
        for i in 0..times {
            let len = if i == 0 { 0 } else { below(whole.len()) };
            let disk = image.crash(Crash::Everything);
            disk.overwrite(path, whole[..len].to_vec());
            judge(&disk, path, &format!("{} cut to {len} bytes", path.display()));
        }
    }
}

/// Whether a state is correct: the newest, or, if the log was damaged, the one before. Damage to the log's last frame
/// cannot be distinguished from a commit that a power cut interrupted.
pub fn is_right<S: PartialEq>(state: &S, states: &[S], damaged: &Path) -> bool {
    let in_log = damaged.parent().is_some_and(|dir| dir.ends_with("log"));
    let newest = states.iter().rev();
    newest.take(if in_log { 2 } else { 1 }).any(|right| right == state)
}

/// Whether an error names the damaged file and what was expected and found. For a missing file, only its folder may be
/// known.
pub fn is_reported(error: &Error, damaged: &Path) -> bool {
    match error {
        Error::Corrupt(damage) => {
            let named = damage.file == damaged || damaged.parent() == Some(&damage.file);
            named && !damage.expected.is_empty() && !damage.found.is_empty()
        }
        Error::Format { path, .. } => path == damaged,
        _ => false,
    }
}
