//! Names of files that outlive a crash of the machine: a file that has been created, renamed or removed is so on disk once
//! its folder has been synced.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::Failure;

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

/// The folder that a file or folder is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that the names of files in a folder are on disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Failure> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(folder, &error))
}

/// Makes sure that the name of a file or folder is on disk.
pub(super) fn sync_name(path: &Path) -> Result<(), Failure> {
    sync_folder(folder_of(path))
}

/// Creates a folder and those above it, as far as they are missing; their names are on disk then.
pub(super) fn create_folder(folder: &Path) -> Result<(), Failure> {
    if folder.is_dir() {
        return Ok(());
    }
    create_folder(folder_of(folder))?;
    match fs::create_dir(folder) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        Err(error) => return Err(failed(folder, &error)),
        Ok(()) => {}
    }
    sync_name(folder)
}
