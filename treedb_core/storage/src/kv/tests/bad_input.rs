//! Invalid arguments, and directories that users have changed: each gives a typed error whose message says
//! what to do, or no error.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::ops::Bound;
use std::process::{Command, Stdio};

use rustix::io::Errno;

use super::*;
use crate::disk::{Disk, DiskFile};
use crate::{Error, Result};

/// Environment variable for the child process that keeps a directory open: see
/// [`a_directory_in_use_by_another_process_is_refused_with_its_number`].
const HOLD: &str = "TREEDB_TEST_HOLD_DIRECTORY";

/// A store on the real disk with a checkpoint, a large value and a commit after the checkpoint.
fn left_behind(name: &str) -> TempDir {
    let temp = TempDir::new(name);
    let store = Store::open_with(temp.path(), small()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    txn.put(&table, b"small", b"1").unwrap();
    txn.put(&table, b"large", &[7; 5000]).unwrap();
    txn.commit().unwrap();
    store.checkpoint().unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.put(&table, b"later", &[8; 4000]).unwrap();
    txn.commit().unwrap();
    drop(store);
    temp
}

fn small() -> Options {
    Options { log_segment_bytes: 64 << 10, background: false, ..Options::default() }
}

/// The error of opening `dir`; its message must contain all of `words`.
fn refused(dir: &Path, words: &[&str]) -> Error {
    let error = Store::open_with(dir, small()).map(drop).unwrap_err();
    let told = error.to_string();
    for word in words {
        assert!(told.contains(word), "{told:?} does not say {word:?}");
    }
    error
}

/// The only file of `dir` with this ending.
fn file_in(dir: &Path, ending: &str) -> PathBuf {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|e| e == ending)).max().unwrap()
}

#[test]
fn a_key_over_the_limit_is_refused_by_every_method_that_stores_one() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let (long, longest) = (vec![9; MAX_KEY + 1], vec![9; MAX_KEY]);
    let mut batch = Batch::new();
    let tries = [
        txn.put(&table, &long, b"v"),
        txn.append(&table, &long, b"v"),
        txn.put_if_absent(&table, &long, b"v").map(drop),
        txn.replace(&table, &long, b"v").map(drop),
        txn.compare_and_swap(&table, &long, None, Some(b"v")).map(drop),
        batch.put(&table, &long, b"v"),
    ];
    for (way, result) in tries.into_iter().enumerate() {
        let Err(Error::KeyTooLong { len, limit }) = result else { panic!("way {way}: {result:?}") };
        assert_eq!((len, limit), (MAX_KEY + 1, MAX_KEY));
        assert!(Error::KeyTooLong { len, limit }.to_string().contains("use a shorter one"));
    }
    assert!(batch.is_empty());
    // Getting or deleting such a key is not an error: it does not exist.
    assert_eq!(txn.get(&table, &long).unwrap(), None);
    assert!(!txn.delete(&table, &long).unwrap());
    assert_eq!(txn.delete_range(&table, (Bound::Included(&long), Bound::Excluded(&long))).unwrap(), 0);
    assert_eq!(txn.get_many(&table, &[&long, &longest]).unwrap(), [None, None]);
    assert_eq!(txn.range(&table, (Bound::Excluded(&long), Bound::Unbounded)).unwrap().count(), 0);
    // The transaction stays usable, and a key of the maximum length is accepted.
    txn.put(&table, &longest, b"v").unwrap();
    txn.commit().unwrap();
    assert_eq!(store.check().unwrap().entries, 1);
}

#[test]
fn empty_keys_and_values_are_like_any_others() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let rows = txn.create_table("r", TableKind::Rows).unwrap();
    txn.put(&table, b"", b"of the empty key").unwrap();
    txn.put(&table, b"\0", b"").unwrap();
    assert_eq!(txn.append_row(&rows, b"").unwrap(), 1);
    txn.commit().unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let read = store.snapshot().unwrap();
    assert_eq!(read.get(&table, b"").unwrap(), Some(&b"of the empty key"[..]));
    assert_eq!(read.get(&table, b"\0").unwrap(), Some(&b""[..]));
    assert_eq!(read.row(&rows, 1).unwrap(), Some(&b""[..]));
    assert_eq!(read.first(&table).unwrap().unwrap().0, b"");
    assert_eq!(read.prefix(&table, b"").unwrap().count(), 2);
    drop(read);
    let mut txn = store.begin_write().unwrap();
    assert!(txn.delete(&table, b"").unwrap());
    assert!(!txn.delete(&table, b"").unwrap());
    txn.commit().unwrap();
    assert_eq!(store.check().unwrap().entries, 2);
}

/// The memory that this process uses, in bytes.
fn paging() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_is_copied() {
    // Zeroed memory that is never read takes address space, but no memory.
    let huge = vec![0u8; MAX_VALUE as usize + 1];
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", TableKind::Ordered).unwrap();
    let rows = txn.create_table("r", TableKind::Rows).unwrap();
    let before = paging();
    let mut batch = Batch::new();
    let tries = [
        txn.put(&table, b"k", &huge),
        txn.append(&table, b"k", &huge),
        txn.put_if_absent(&table, b"k", &huge).map(drop),
        txn.replace(&table, b"k", &huge).map(drop),
        txn.compare_and_swap(&table, b"k", None, Some(&huge)).map(drop),
        txn.append_row(&rows, &huge).map(drop),
        txn.put_row(&rows, 5, &huge),
        batch.put(&table, b"k", &huge),
        batch.put_row(&rows, 5, &huge),
    ];
    assert!(paging() < before + (1 << 30), "the value was copied");
    for (way, result) in tries.into_iter().enumerate() {
        let Err(error @ Error::ValueTooLong { len, limit }) = result else {
            panic!("way {way}: {result:?}");
        };
        assert_eq!((len, limit), (MAX_VALUE + 1, MAX_VALUE));
        assert!(error.to_string().contains("store it in parts"), "{error}");
    }
    assert!(matches!(txn.put_row(&rows, u64::MAX, b""), Err(Error::Invalid(_))));
    assert!(matches!(batch.put_row(&rows, u64::MAX, b""), Err(Error::Invalid(_))));
    txn.put(&table, b"k", b"v").unwrap();
    txn.commit().unwrap();
    assert_eq!(store.check().unwrap().entries, 1);
}

#[test]
fn a_page_file_a_log_and_values_of_a_newer_format_are_refused_by_name() {
    let temp = left_behind("newer");
    let dir = temp.path();
    let files = [dir.join("pages"), file_in(&dir.join("log"), "wal"), file_in(&dir.join("values"), "val")];
    for path in &files {
        let whole = fs::read(path).unwrap();
        let mut newer = whole.clone();
        // Start and length of the bytes of each header checksum; the checksum follows them.
        let sums: &[(usize, usize)] =
            if path.ends_with("pages") { &[(0, 4092), (4096, 4092)] } else { &[(0, 60)] };
        for &(from, len) in sums {
            newer[from + 8] = 9;
            let sum = crc32c::crc32c(&newer[from..from + len]);
            newer[from + len..from + len + 4].copy_from_slice(&sum.to_le_bytes());
        }
        fs::write(path, newer).unwrap();
        let error = refused(dir, &["format 9", "use the TreeDB that wrote it"]);
        assert!(matches!(&error, Error::Format { path: named, .. } if named == path), "{error}");
        fs::write(path, whole).unwrap();
    }
    Store::open_with(dir, small()).unwrap().check().unwrap();
}

#[test]
fn a_commit_of_a_newer_format_in_the_log_is_refused_naming_the_format() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.inner.log.append(&[9, 1, 2, 3], crate::wal::Sync::Relaxed).unwrap();
    drop(store);
    let error = open(&disk).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Format { path, .. } if path.ends_with("log")), "{error}");
    assert!(error.to_string().contains("format 9"), "{error}");
}

#[test]
fn a_transaction_too_large_for_a_frame_is_refused_and_the_next_one_is_not() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    // Zeroed memory that is never read takes address space, but no memory.
    let frame = vec![0u8; crate::wal::MAX_PAYLOAD as usize + 1];
    let error = store.inner.log.append(&frame, crate::wal::Sync::Durable).unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { .. }), "{error}");
    assert!(error.to_string().contains("commit them in parts"), "{error}");
    let mut txn = store.begin_write().unwrap();
    txn.create_table("t", TableKind::Ordered).unwrap();
    txn.commit().unwrap();
    store.check().unwrap();
}

#[test]
fn files_of_another_program_are_refused_by_name() {
    let temp = left_behind("foreign");
    let dir = temp.path();
    let files = [dir.join("pages"), file_in(&dir.join("log"), "wal"), file_in(&dir.join("values"), "val")];
    for path in &files {
        let whole = fs::read(path).unwrap();
        fs::write(path, b"SQLite format 3\0".repeat(whole.len() / 16 + 600)).unwrap();
        let error = refused(dir, &["open another directory"]);
        assert!(matches!(&error, Error::Format { path: named, .. } if named == path), "{error}");
        fs::write(path, whole).unwrap();
    }
    Store::open_with(dir, small()).unwrap().check().unwrap();
}

#[test]
fn other_files_in_the_directory_are_not_touched() {
    let temp = left_behind("strangers");
    let strangers = ["notes.txt", "log/notes.txt", "values/notes.txt", "log/0.wal", "values/x.val"];
    for name in strangers {
        fs::write(temp.path().join(name), b"mine").unwrap();
    }
    Store::open_with(temp.path(), small()).unwrap().close().unwrap();
    for name in strangers {
        assert_eq!(fs::read(temp.path().join(name)).unwrap(), b"mine", "{name}");
    }
}

#[test]
fn a_deleted_page_file_log_or_value_segment_is_a_typed_error_and_nothing_else_is_touched() {
    let what = ["pages", "log", "values", "log/*.wal", "values/*.val", "pages and log"];
    for what in what {
        let temp = left_behind("deleted");
        let dir = temp.path();
        match what {
            "pages" => fs::remove_file(dir.join("pages")).unwrap(),
            "pages and log" => {
                fs::remove_file(dir.join("pages")).unwrap();
                fs::remove_dir_all(dir.join("log")).unwrap();
            }
            "log/*.wal" => fs::remove_file(file_in(&dir.join("log"), "wal")).unwrap(),
            "values/*.val" => fs::remove_file(file_in(&dir.join("values"), "val")).unwrap(),
            folder => fs::remove_dir_all(dir.join(folder)).unwrap(),
        }
        // Tried twice: the first attempt must not repair the directory.
        for _ in 0..2 {
            let error = refused(dir, &["restore it from a backup"]);
            assert!(matches!(&error, Error::Corrupt(c) if c.file.starts_with(dir)), "{what}: {error}");
        }
        if what.starts_with("pages") {
            file_in(&dir.join("values"), "val");
        }
    }
}

#[test]
fn a_directory_in_place_of_a_file_and_vice_versa_are_typed_errors() {
    let temp = left_behind("kinds");
    let dir = temp.path();
    let files = [
        dir.join("pages"),
        dir.join("LOCK"),
        file_in(&dir.join("log"), "wal"),
        file_in(&dir.join("values"), "val"),
    ];
    for path in files {
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        let error = refused(dir, &["a directory is where a file of the database belongs: move it away"]);
        assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    for path in [dir.join("log"), dir.join("values")] {
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).unwrap();
        fs::write(&path, b"").unwrap();
        let error = refused(dir, &["a file is where a directory of the database belongs: move it away"]);
        assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    Store::open_with(dir, small()).unwrap().check().unwrap();
    refused(&dir.join("pages"), &["a file is where a directory of the database belongs"]);
    refused(&dir.join("pages/below"), &["a file is where a directory of the database belongs"]);
}

/// Does nothing when it is run as a test; see [`HOLD`].
#[test]
fn a_child_keeps_a_directory_open_when_requested() {
    let Some(dir) = std::env::var_os(HOLD) else { return };
    let store = Store::open_with(dir, small()).unwrap();
    println!("\nholding");
    // Waits until the parent closes the pipe.
    let _ = std::io::stdin().lines().next();
    store.close().unwrap();
}

#[test]
fn a_directory_in_use_by_another_process_is_refused_with_its_number() {
    let temp = left_behind("held");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_child_keeps_a_directory_open_when_requested", "--nocapture"])
        .env(HOLD, temp.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"));
    let error = refused(temp.path(), &["stop it, or open another directory"]);
    assert!(matches!(error, Error::InUse { pid, .. } if pid == child.id()), "{error}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    Store::open_with(temp.path(), small()).unwrap().check().unwrap();
}

/// A disk that refuses writes with an error of the operating system.
struct ReadOnlyDisk {
    inner: SimDisk,
    errno: Errno,
}

impl ReadOnlyDisk {
    fn refuse<T>(&self, op: &'static str, path: &Path) -> Result<T> {
        let source = std::io::Error::from_raw_os_error(self.errno.raw_os_error());
        Err(Error::Io { op, path: path.to_path_buf(), source })
    }
}

impl Disk for ReadOnlyDisk {
    fn is_lasting(&self) -> bool {
        true
    }
    fn open(&self, path: &Path, _: bool) -> Result<Arc<dyn DiskFile>> {
        self.refuse("open", path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        if self.inner.exists(dir)? { Ok(()) } else { self.refuse("mkdir", dir) }
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.refuse("unlink", path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.refuse("rmdir", dir)
    }
    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        self.refuse("rename", from)
    }
    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        self.refuse("open", &dir.join("LOCK"))
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_a_typed_error_with_advice() {
    let cases = [
        (Errno::ROFS, ErrorKind::ReadOnlyFilesystem, "mount the file system writable"),
        (Errno::ACCESS, ErrorKind::PermissionDenied, "change their owner"),
        (Errno::PERM, ErrorKind::PermissionDenied, "change their owner"),
    ];
    for (errno, kind, advice) in cases {
        for there in [true, false] {
            let inner = SimDisk::new();
            if there {
                drop(open(&inner).unwrap());
            }
            let options =
                Options { disk: Arc::new(ReadOnlyDisk { inner: inner.clone(), errno }), ..options(&inner) };
            let error = Store::open_with(dir(), options).map(drop).unwrap_err();
            assert!(error.to_string().contains(advice), "{error}");
            assert!(matches!(&error, Error::Io { source, .. } if source.kind() == kind), "{error}");
        }
    }
}

#[test]
fn options_out_of_range_are_refused_or_clamped() {
    let odd = |change: fn(&mut Options)| {
        let disk = SimDisk::new();
        let mut odd = options(&disk);
        change(&mut odd);
        let store = Store::open_with(dir(), odd)?;
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", TableKind::Ordered)?;
        for n in 0..200u32 {
            txn.put(&table, &n.to_be_bytes(), &vec![1; 200 + 20 * n as usize])?;
        }
        txn.commit()?;
        store.checkpoint()?;
        checked(&store)?;
        store.close()?;
        checked(&open(&disk)?)
    };
    odd(|o| o.growth = 0).unwrap();
    odd(|o| o.growth = u32::MAX).unwrap();
    odd(|o| o.log_segment_bytes = 0).unwrap();
    odd(|o| o.value_segment_bytes = 0).unwrap();
    odd(|o| o.checkpoint_log_bytes = 0).unwrap();
    odd(|o| o.checkpoint_dead_pages = 0).unwrap();
    odd(|o| o.pending_bytes = 0).unwrap();
    for max_bytes in [0, 1, 4096, 8 << 10] {
        let temp = TempDir::new("little-room");
        let outcome = Store::open_with(temp.path(), Options { max_bytes, ..small() }).and_then(|store| {
            let mut txn = store.begin_write()?;
            txn.create_table("t", TableKind::Ordered)?;
            txn.commit()
        });
        assert!(
            matches!(outcome, Err(Error::DiskFull { .. } | Error::Invalid(_))),
            "{max_bytes}: {outcome:?}"
        );
    }
}

#[test]
fn table_names_of_any_characters_work_and_those_over_the_limit_are_refused() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let mut txn = store.begin_write().unwrap();
    for name in ["", &"n".repeat(MAX_NAME + 1)] {
        let error = txn.create_table(name, TableKind::Ordered).unwrap_err();
        assert!(error.to_string().contains("1 to"), "{error}");
        assert!(txn.table(name).unwrap().is_none());
        assert!(!txn.drop_table(name).unwrap());
    }
    let names = ["\0", "../x", "a\nb", "\u{1F333}", &"n".repeat(MAX_NAME)];
    for name in names {
        txn.create_table(name, TableKind::Rows).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().tables().unwrap().len(), names.len());
    store.check().unwrap();
}
