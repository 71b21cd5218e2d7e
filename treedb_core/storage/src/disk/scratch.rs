//! Unnamed temporary files, for data that does not fit in memory.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::{Error, Result};

/// A new file in `dir` that has no name and vanishes when it is closed, even if the process dies.
///
/// # Errors
/// `Error::Io`, `Error::DiskFull`.
pub fn scratch(dir: &Path) -> Result<File> {
    let nameless: std::result::Result<OwnedFd, _> =
        open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    if let Ok(file) = nameless {
        return Ok(File::from(file));
    }
    // Not every file system supports unnamed files: there it is unlinked at once.
    let number = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let path = dir.join(format!("scratch-{}-{number}", std::process::id()));
    let failed = |source| Error::Io { op: "create", path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(file)
}
