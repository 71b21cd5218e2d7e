//! Reading LevelDB databases.

use std::fs;
use std::path::Path;

use rusty_leveldb::{DB, LdbIterator, Options};

use super::{MAIN, Sink};
use crate::cli::Failure;

pub(super) fn walk(path: &Path, sink: &mut dyn Sink) -> Result<(), Failure> {
    if !path.join("CURRENT").is_file() {
        return Err(Failure("holds no LevelDB database: there is no CURRENT".into()));
    }
    // Opening one writes to it: that is done to a copy, which has the tables' files in common with it.
    let copy = tempfile::tempdir()?;
    for file in fs::read_dir(path)? {
        let file = file?;
        let (from, to) = (file.path(), copy.path().join(file.file_name()));
        let never_changes = from.extension().is_some_and(|end| end == "ldb" || end == "sst");
        if file.file_type()?.is_file() && !(never_changes && fs::hard_link(&from, &to).is_ok()) {
            fs::copy(&from, &to)?;
        }
    }
    let options = Options { create_if_missing: false, ..Options::default() };
    let mut database = DB::open(copy.path(), options)?;
    let mut entries = database.new_iter()?;
    sink.table(MAIN, false)?;
    while entries.advance() {
        if let Some((key, value)) = entries.current() {
            sink.entry(&key, &value)?;
        }
    }
    Ok(())
}
