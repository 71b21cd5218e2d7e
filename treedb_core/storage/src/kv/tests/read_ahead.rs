//! Checks in the operating system's list of mappings whether read-ahead is on.

use super::*;

/// The flags of each mapping of a file below `dir`, by the file's name.
fn mapped(dir: &Path) -> Vec<(String, String)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = Vec::new();
    let mut file = None;
    for line in maps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(file.take().map(|name| (name, format!("{flags} "))));
        } else if let Some(at) = line.find(dir.to_str().unwrap()) {
            let name = line[at..].rsplit('/').next().unwrap_or_default();
            file = Some(name.trim_end_matches(" (deleted)").to_owned());
        }
    }
    found
}

/// Fills a store; returns for its page file and its value segment whether read-ahead is on.
fn reads_ahead(name: &str, asked: Option<bool>) -> Vec<(String, bool)> {
    let dir = TempDir::new(name);
    let options = Options { read_ahead: asked, ..Options::default() };
    let store = Store::open_with(dir.path(), options).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let long = vec![7; 100_000];
    txn.put(&table, b"long", &long).unwrap();
    txn.commit().unwrap();
    assert_eq!(store.begin_read().unwrap().get(&table, b"long").unwrap(), Some(&long[..]));
    let files = mapped(dir.path());
    let of_interest = files.into_iter().filter(|(name, _)| name == "pages" || name.ends_with(".val"));
    of_interest.map(|(name, flags)| (name, !flags.contains(" rr "))).collect()
}

#[test]
fn a_store_that_fits_into_memory_is_read_ahead() {
    let told = reads_ahead("ahead", None);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(_, ahead)| *ahead), "{told:?}");
}

#[test]
fn read_ahead_can_be_turned_off() {
    let told = reads_ahead("not-ahead", Some(false));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(_, ahead)| !*ahead), "{told:?}");
}
