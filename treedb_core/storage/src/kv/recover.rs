//! Opening a directory: the newest checkpoint, and the log's frames after it.
//!
//! A new directory is made in this order: the log, the value log, the page file (which is renamed into place whole).
//! So a directory with a page file has everything, and one without is either new, or the page file was lost: then
//! its log has frames, or begins late.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::changed_rows::ChangedRows;
use super::checkpoint::Worker;
use super::command::{BadCommand, Commands, FORMAT};
use super::derived::DERIVED;
use super::dup;
use super::edit::{Edit, Outcome, Writer};
use super::full_disk::StoreDisk;
use super::large_values::{DeadValues, decode_state};
#[cfg(feature = "optimistic")]
use super::optimistic::RecentCommits;
use super::options::Options;
use super::store::Inner;
use super::writer_lock::WriterLock;
use crate::btree::TreeRoot;
use crate::cipher::Keys;
use crate::disk::Disk;
use crate::disk::real::LOCK_FILE;
use crate::page::{PageSource, Pager, PagerOptions};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::vlog::{ValueLog, ValueLogOptions, ValueLogState};
use crate::wal::timings::Timer;
use crate::wal::{Log, LogOptions, Lsn, Recovery};
use crate::{Corruption, Error, Result};

pub(super) const PAGES: &str = "pages";
pub(super) const LOG: &str = "log";
pub(super) const VALUES: &str = "values";

/// Opens `dir` and recovers it.
pub(super) fn open(dir: &Path, options: Options) -> Result<Inner> {
    let disk = Arc::clone(&options.disk);
    disk.create_dir(dir)?;
    let pages = dir.join(PAGES);
    if !disk.exists(&pages)? {
        refuse_foreign(&*disk, dir)?;
    }
    let lock = disk.lock(dir)?;
    let derived_holders = Arc::default();
    let disk: Arc<dyn Disk> = match disk.is_lasting() {
        true => Arc::new(StoreDisk::new(&disk, dir, &derived_holders)),
        false => disk,
    };
    if disk.exists(&pages)? {
        // The process that made it, or moved its directory here, may have died before these names were durable.
        disk.sync_dir(dir)?;
        sync_name(&*disk, dir)?;
    } else {
        create(&disk, dir, &options)?;
    }
    let page_options = PagerOptions {
        max_bytes: options.max_bytes,
        growth: options.growth,
        cache: options.cache_bytes.map(|bytes| usize::try_from(bytes / 4096).unwrap_or(usize::MAX)),
        key: options.key.clone(),
    };
    let (pager, alloc, opened) = Pager::open(&*disk, &pages, page_options)?;
    // If the other meta page is damaged, this checkpoint may be the one before the newest. It will do if the log
    // still has everything after it; if not, the damage to the meta page is what went wrong.
    let blame = |error: Error| match (error, opened.other.clone()) {
        (Error::Corrupt(_) | Error::Invalid(_), Some(meta)) => Error::Corrupt(Box::new(meta)),
        (error, _) => error,
    };
    let (state, gone) = decode_state(&opened.state)?;
    let mut log_options = log_options(&options, Lsn(opened.meta.lsn), true);
    log_options.keys = opened.keys.clone();
    let (log, mut frames) = Log::open(Arc::clone(&disk), &dir.join(LOG), log_options).map_err(blame)?;
    let values = open_values(&disk, dir, &options, state, opened.keys).map_err(blame)?;
    gone.into_iter().try_for_each(|ptr| values.release(ptr))?;
    let catalog = TreeRoot::from_bytes(&opened.meta.root).ok_or_else(|| {
        pager.damaged(crate::page::PageId::NONE, 0, "the root of the catalog in the meta page", "other bytes")
    })?;
    dup::check_supported(&pager, &catalog)?;
    let mut writer = Writer::new(alloc, catalog, options.pending_bytes);
    writer.logged = log.stats().bytes;
    let dead = DeadValues::default();
    // If the other meta page is damaged, it may be that of a later checkpoint.
    let skipped = if opened.other.is_some() { MOST_IN_A_CHECKPOINT } else { 0 };
    replay(&pager, &values, &dead, &mut writer, (&mut frames, &dir.join(LOG)), skipped)?;
    #[cfg(feature = "optimistic")]
    let recent_commits = RecentCommits::new(options.optimistic_bytes);
    let inner = Inner {
        dir: dir.to_path_buf(),
        options,
        pager,
        values,
        log,
        writer_lock: WriterLock::new(Box::new(writer)),
        dead,
        #[cfg(feature = "optimistic")]
        recent_commits,
        changed_rows: ChangedRows::default(),
        derived_holders,
        checkpointing: Mutex::new(()),
        worker: Worker::default(),
        stalls: Timer::default(),
        checkpoints: Timer::default(),
        failure: OnceLock::new(),
        closed: AtomicBool::new(false),
        reads_ahead: AtomicBool::new(true),
        _lock: lock,
    };
    inner.set_read_ahead();
    Ok(inner)
}

fn log_options(options: &Options, applied: Lsn, must_exist: bool) -> LogOptions {
    LogOptions { applied, must_exist, segment_bytes: options.log_segment_bytes, ..LogOptions::default() }
}

fn open_values(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: &Options,
    state: ValueLogState,
    keys: Option<Arc<Keys>>,
) -> Result<ValueLog> {
    let value_options = ValueLogOptions { state, keys, segment_bytes: options.value_segment_bytes };
    ValueLog::open(Arc::clone(disk), &dir.join(VALUES), value_options)
}

/// Names that may be in a directory before it is a store: those that an interrupted creation leaves, and what a new file
/// system contains.
const UNFINISHED: [&str; 5] = [LOCK_FILE, LOG, VALUES, "pages.new", "lost+found"];

/// Refuses to create a store among another program's files, and where one was.
fn refuse_foreign(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir)?;
    match names.iter().find(|name| !UNFINISHED.contains(&name.as_str())) {
        None => Ok(()),
        // Made from tables, so there was a page file.
        Some(derived) if derived == DERIVED && names.iter().any(|name| name == LOG) => {
            Err(Error::Corrupt(Box::new(lost_page_file(dir))))
        }
        Some(foreign) => Err(Error::Invalid(format!(
            "{}: {foreign:?} is in it, but no TreeDB database: name an empty directory, or one that does not exist",
            dir.display()
        ))),
    }
}

/// Makes the names of `dir` and of all directories above it durable: this process, or one that died, may have made
/// any of them. Where the system does not let us flush a directory, we have not made names either.
pub(super) fn sync_parents(disk: &dyn Disk, dir: &Path) -> Result<()> {
    for dir in dir.ancestors() {
        if !sync_name(disk, dir)? {
            break;
        }
    }
    Ok(())
}

/// Makes the name of `dir` durable. False if that is not for us to do.
fn sync_name(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    let Some(parent) = dir.parent() else { return Ok(false) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match disk.sync_dir(parent) {
        Err(Error::Io { source, .. }) if refused(source.kind()) => Ok(false),
        other => other.map(|()| true),
    }
}

fn refused(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::InvalidInput)
}

/// Makes the files of a new store.
fn create(disk: &Arc<dyn Disk>, dir: &Path, options: &Options) -> Result<()> {
    let lost = || Error::Corrupt(Box::new(lost_page_file(dir)));
    let opened = Log::open(Arc::clone(disk), &dir.join(LOG), log_options(options, Lsn::NONE, false));
    let (log, mut frames) = match opened {
        Ok(opened) => opened,
        // A log that does not begin at the beginning has been cut: there was a page file with a checkpoint.
        Err(Error::Corrupt(_)) => return Err(lost()),
        Err(error) => return Err(error),
    };
    match frames.next() {
        Ok(None) => {}
        // Whether it can be read or not.
        Ok(Some(_)) | Err(Error::Encrypted { .. }) => return Err(lost()),
        Err(error) => return Err(error),
    }
    drop(log);
    // Values are written only after the page file was there.
    if disk.exists(&dir.join(VALUES))? && ValueLog::any_segment(&**disk, &dir.join(VALUES))? {
        return Err(lost());
    }
    drop(open_values(disk, dir, options, ValueLogState::default(), None)?);
    disk.sync_dir(dir)?;
    sync_parents(&**disk, dir)?;
    Pager::create(&**disk, &dir.join(PAGES), options.key.as_ref())
}

fn lost_page_file(dir: &Path) -> Corruption {
    Corruption {
        file: dir.join(PAGES),
        page: None,
        offset: 0,
        expected: "the page file that the directory's log and values belong to".into(),
        found: "no such file".into(),
    }
}

/// More transactions than there are between two checkpoints: at a million a second, those of seven weeks.
pub(super) const MOST_IN_A_CHECKPOINT: u64 = 1 << 42;

/// Applies the frames to the checkpoint, as one transaction that readers then begin with. It skips some numbers.
///
/// What was changed after a durable checkpoint has to be on pages of later transactions: derived files ([`super::derived`]) find it by that
/// ([`super::Reads::new_rows`]). Among the frames may be some that a later checkpoint has than the one they are applied to,
/// if that one's meta page is damaged: then the transaction has to be later than that checkpoint.
fn replay(
    pager: &Pager,
    values: &ValueLog,
    dead: &DeadValues,
    writer: &mut Writer,
    (frames, log): (&mut Recovery, &Path),
    skipped: u64,
) -> Result<()> {
    let mut any = false;
    pager.begin_later(&mut writer.alloc, skipped);
    while let Some(frame) = frames.next()? {
        any = true;
        let bad = |bad: BadCommand| {
            let expected = format!("{} in frame {}", bad.expected, frame.lsn);
            Error::damaged(log, bad.at as u64, expected, "other bytes")
        };
        if let Some(&version) = frame.payload.first().filter(|&&version| version > FORMAT) {
            let ours = FORMAT.into();
            return Err(Error::other_version(log, "commit in the command log", version.into(), ours));
        }
        let mut commands = Commands::of_frame(frame.payload).map_err(bad)?;
        while let Some(command) = commands.next().map_err(bad)? {
            let outcome = Edit { pager, values, writer }.apply(&command)?;
            // A frame was written on top of exactly this state: what it removes is there, what it creates is not.
            if outcome == Outcome::NoTable || command.is_noop(outcome) {
                return Err(bad(BadCommand { at: 0, expected: "commands that match the stored data" }));
            }
        }
    }
    if !any {
        pager.roll_back(&mut writer.alloc);
        return Ok(());
    }
    let root = Edit { pager, values, writer }.finish()?;
    let txn = pager.publish(&mut writer.alloc, &root);
    dead.add(txn, &writer.committed());
    Ok(())
}
