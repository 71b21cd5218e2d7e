//! The value log's handle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::pointer::ValuePtr;
use super::record::{MAX_OWNER, MAX_VALUE, live_bytes, size};
use super::records::Records;
use super::segment::{Common, FIRST, Segment, name, parse};
use super::segment_table::SegmentTable;
use super::state::{SegmentState, ValueLogState};
use crate::cipher::Keys;
use crate::disk::Disk;
use crate::{Error, Result};

/// How a value log is opened.
#[derive(Debug, Clone)]
pub(crate) struct ValueLogOptions {
    /// What the checkpoint remembers; empty for a new log.
    pub state: ValueLogState,
    /// Capacity of a segment, in bytes, at most 16 GiB. A value that does not fit gets a segment of its own size.
    pub segment_bytes: u64,
    /// Keys of an encrypted log. [`ValueLog::get`] cannot give out its values, [`ValueLog::read`] does.
    pub(crate) keys: Option<Arc<Keys>>,
}

impl Default for ValueLogOptions {
    fn default() -> Self {
        ValueLogOptions { state: ValueLogState::default(), segment_bytes: 64 << 20, keys: None }
    }
}

/// Statistics of a value log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueLogStats {
    /// Segments, the active one included.
    pub segments: usize,
    /// Bytes of records in all segments.
    pub bytes: u64,
    /// Bytes of values that have not been released.
    pub live: u64,
}

/// The largest segment, in bytes: a pointer reaches twice as far.
const LARGEST: u64 = 16 << 30;
/// Files of removed segments that are kept for another use.
const MOST_SPARES: usize = 2;

/// An open value log. `append`, `release`, `state` and `roll` are the writer's, one thread at a time in effect
/// (they take a lock); `get` may be called from any thread and takes none.
pub(crate) struct ValueLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: ValueLogOptions,
    table: SegmentTable,
    segments: Mutex<Segments>,
    /// True if a segment was made whose name no sync has covered.
    new_names: AtomicBool,
    /// True if the system reads ahead in the segments.
    ahead: AtomicBool,
    common: Common,
    /// Called when records are to be written by another thread.
    helper: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Segments {
    all: BTreeMap<u32, Arc<Segment>>,
    active: Option<Arc<Segment>>,
    next: u32,
    /// Files of segments that were removed, for another use; under their old names, which no checkpoint knows.
    used: Vec<PathBuf>,
}

impl ValueLog {
    /// Opens the log in `dir` (made if it is not there) as the checkpoint knew it: everything appended since is
    /// gone, and so are the segments made since.
    ///
    /// # Errors
    /// `Corrupt` if a segment is missing, too short or has a damaged header; `Format` for one of another version;
    /// `Io` from the disk. Values are verified when they are first read.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, options: ValueLogOptions) -> Result<ValueLog> {
        disk.create_dir(dir)?;
        let state = &options.state;
        let common = Common { keys: options.keys.clone(), ..Common::default() };
        let table = SegmentTable::new();
        let mut all = BTreeMap::new();
        for s in &state.segments {
            let segment = Arc::new(Segment::open(disk.as_ref(), dir, s, &common)?);
            if !table.insert(&segment) {
                return Err(Error::Invalid(format!("the value log has two segments for number {}", s.id)));
            }
            all.insert(s.id, segment);
        }
        for id in disk.list(dir)?.iter().filter_map(|n| parse(n)) {
            if !all.contains_key(&id) {
                disk.remove(&dir.join(name(id)))?;
            }
        }
        let active = all.get(&state.active).cloned();
        let highest = all.keys().next_back().copied().unwrap_or(0).max(state.active);
        let segments = Segments { all, active, next: following(highest), used: Vec::new() };
        Ok(ValueLog {
            disk,
            dir: dir.to_path_buf(),
            options,
            table,
            segments: Mutex::new(segments),
            new_names: AtomicBool::new(false),
            ahead: AtomicBool::new(true),
            common,
            helper: OnceLock::new(),
        })
    }

    /// True if `dir` has segments, whosever they are.
    pub(crate) fn any_segment(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(disk.list(dir)?.iter().any(|name| parse(name).is_some()))
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a value for `owner` (up to 64 KiB that say who holds the pointer) and counts it as live. It is
    /// readable at once and durable after the next [`sync`](ValueLog::sync).
    ///
    /// # Errors
    /// `ValueTooLong` over 2 GiB; `DiskFull`: nothing was appended and the log goes on when there is room;
    /// `Poisoned` after an earlier failure; any other error poisons the log.
    pub(crate) fn append(&self, owner: &[u8], value: &[u8]) -> Result<ValuePtr> {
        if value.len() as u64 > MAX_VALUE {
            return Err(Error::ValueTooLong { len: value.len() as u64, limit: MAX_VALUE });
        }
        if owner.len() > MAX_OWNER {
            return Err(Error::KeyTooLong { len: owner.len(), limit: MAX_OWNER });
        }
        self.refuse_if_poisoned()?;
        let size = size(value.len() as u64, owner.len() as u64, self.options.keys.is_some());
        let mut segments = self.segments();
        let helper = self.helper.get();
        let append = |active: &Segment| active.append(owner, value, helper.is_some());
        let appended = match &segments.active {
            Some(active) if active.has_room(size) => append(active),
            _ => self.next_segment(&mut segments, size).and_then(|active| append(&active)),
        };
        match appended {
            Ok((ptr, full)) => {
                if let Some(active) = &segments.active {
                    active.add_live(live_bytes(ptr.len));
                }
                if let Some(helper) = helper.filter(|_| full) {
                    helper();
                }
                Ok(ptr)
            }
            Err(full @ Error::DiskFull { .. }) => Err(full),
            Err(e) => Err(self.poison(&e)),
        }
    }

    fn next_segment(&self, segments: &mut Segments, size: u64) -> Result<Arc<Segment>> {
        let capacity = self.options.segment_bytes.min(LARGEST).max(FIRST + size);
        if let Some(full) = &segments.active {
            full.buffer.close();
            if self.helper.get().is_none() {
                full.buffer.write_out()?;
            }
        }
        loop {
            let id = segments.next;
            segments.next = following(id);
            if self.table.get(id).is_some() {
                continue;
            }
            let usual = capacity == self.options.segment_bytes;
            let used = if usual { segments.used.pop() } else { None };
            let (disk, used) = (self.disk.as_ref(), used.as_deref());
            let segment = Arc::new(Segment::create(disk, &self.dir, id, capacity, used, &self.common)?);
            segment.read_ahead(self.ahead.load(Ordering::Relaxed));
            self.new_names.store(true, Ordering::Release);
            if !self.table.insert(&segment) {
                // Its place is taken by a segment 2^22 numbers older.
                self.disk.remove(&self.dir.join(name(id)))?;
                continue;
            }
            segments.all.insert(id, segment.clone());
            segments.active = Some(segment.clone());
            return Ok(segment);
        }
    }

    /// The value of a pointer, as a slice of the map: no copy, no lock. Its checksum has been verified since the
    /// log was opened.
    ///
    /// # Errors
    /// `Corrupt` if the pointer leads nowhere or to something else, or if the value is damaged.
    pub(crate) fn get(&self, ptr: ValuePtr) -> Result<&[u8]> {
        if self.options.keys.is_some() {
            return Err(Error::Invalid(
                "the values of an encrypted log are read into memory, not mapped".into(),
            ));
        }
        self.segment(ptr.segment)?.value(ptr)
    }

    /// Asks for the memory of the value of a pointer, which is about to be read.
    #[inline]
    pub(crate) fn prefetch(&self, ptr: ValuePtr) {
        if let Some(segment) = self.table.get(ptr.segment) {
            segment.prefetch(ptr);
        }
    }

    /// Reads the value of a pointer from its file into the room that `room` gives for its length, past the map: for
    /// those who bound the memory in use. Its checksum is verified each time.
    ///
    /// # Errors
    /// As [`get`](ValueLog::get), and `Io` from the disk.
    pub(crate) fn read<'b>(
        &self,
        ptr: ValuePtr,
        room: impl FnOnce(usize) -> &'b mut [u8],
    ) -> Result<&'b [u8]> {
        self.segment(ptr.segment)?.read(ptr, room)
    }

    fn segment(&self, id: u32) -> Result<&Segment> {
        self.table.get(id).ok_or_else(|| {
            Error::damaged(&self.dir.join(name(id)), 0, "a value segment that is in use", "none")
        })
    }

    /// Counts a value as dead: its owner no longer has the pointer. It remains readable until its segment is removed.
    ///
    /// # Errors
    /// `Corrupt` if the pointer's segment is not there or has fewer live bytes than the value.
    pub(crate) fn release(&self, ptr: ValuePtr) -> Result<()> {
        let segment = self.segment(ptr.segment)?;
        let bytes = live_bytes(ptr.len);
        if segment.take_live(bytes) {
            return Ok(());
        }
        let found = format!("{} live bytes in the segment", segment.live());
        Err(Error::damaged(segment.path(), ptr.at(), format!("a live value of {bytes} bytes"), found))
    }

    /// The state of the log that a checkpoint stores. Segments without live values are left out: once
    /// the checkpoint is durable, [`removable`](ValueLog::removable) names them.
    pub(crate) fn state(&self) -> ValueLogState {
        let segments = self.segments();
        let active = segments.active.as_ref().map_or(0, |s| s.id);
        let named = segments.all.values().filter(|s| s.id == active || s.live() > 0);
        let named = named.map(|s| SegmentState { id: s.id, end: s.end(), live: s.live() });
        ValueLogState { active, segments: named.collect() }
    }

    /// Sets a function that is called when records are to be written out; another thread then calls
    /// [`write_out`](ValueLog::write_out). Appends no longer write them unless there are many. Can be set once.
    pub(crate) fn help(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.helper.set(Box::new(wake));
    }

    /// Brings everything appended so far into the files.
    ///
    /// # Errors
    /// `Poisoned`; a failed write poisons the log, whose values can still be had.
    pub(crate) fn write_out(&self) -> Result<()> {
        self.refuse_if_poisoned()?;
        let all: Vec<_> = self.segments().all.values().filter(|s| s.waits()).cloned().collect();
        all.iter().try_for_each(|s| s.buffer.write_out()).map_err(|e| self.poison(&e))
    }

    /// Makes everything appended so far durable: before the checkpoint that remembers a state taken earlier.
    ///
    /// # Errors
    /// `Poisoned`; a failed flush poisons the log.
    pub(crate) fn sync(&self) -> Result<()> {
        self.refuse_if_poisoned()?;
        let all: Vec<_> = self.segments().all.values().cloned().collect();
        let names = self.new_names.swap(false, Ordering::AcqRel);
        let flushed = all
            .iter()
            .filter(|s| s.dirty.swap(false, Ordering::AcqRel))
            .try_for_each(|s| s.sync())
            .and_then(|()| if names { self.disk.sync_dir(&self.dir) } else { Ok(()) });
        flushed.map_err(|e| self.poison(&e))
    }

    /// Segments that held no live value when `state` was taken. Once `state` is durable they may be removed, as
    /// soon as no one reads from them.
    pub(crate) fn removable(&self, state: &ValueLogState) -> Vec<u32> {
        let segments = self.segments();
        let active = segments.active.as_ref().map_or(0, |s| s.id);
        let empty = segments.all.values().filter(|s| s.live() == 0 && s.id != active && !state.names(s.id));
        empty.map(|s| s.id).collect()
    }

    /// Removes a segment: its file, its mapping and its numbers. Removing one that is gone does nothing.
    ///
    /// # Safety
    /// No slice, record or iterator that this log gave out for the segment is used any more, no call that could
    /// give one out is running, and none will be made: no snapshot holds a pointer into it.
    ///
    /// # Errors
    /// `Io` if the file could not be removed; it goes at the next open then.
    pub(crate) unsafe fn remove(&self, id: u32) -> Result<()> {
        let mut segments = self.segments();
        if segments.active.as_ref().is_some_and(|s| s.id == id) {
            return Err(Error::Invalid(format!("value segment {id} is being appended to")));
        }
        // SAFETY: the caller's promise is the one that `take` asks for.
        let taken = unsafe { self.table.take(id) };
        let held = segments.all.remove(&id);
        let Some(gone) = taken.or(held) else { return Ok(()) };
        // Nothing writes to the file any more: it can be reused.
        gone.buffer.retire();
        if gone.capacity == self.options.segment_bytes && segments.used.len() < self.spares(&segments) {
            segments.used.push(gone.path().to_path_buf());
            return Ok(());
        }
        drop(segments);
        self.disk.remove(gone.path())
    }

    /// How many files to keep for reuse: they take no more room than live values, and are few.
    fn spares(&self, segments: &Segments) -> usize {
        let live: u64 = segments.all.values().map(|s| s.live()).sum();
        usize::try_from(live / self.options.segment_bytes.max(1)).unwrap_or(MOST_SPARES).min(MOST_SPARES)
    }

    /// Segments in which less than half of the bytes are live, but some are: whoever moves their live values (see
    /// [`records`](ValueLog::records)) and checkpoints gets their room back. If the active segment is one, it is closed
    /// first; so it is if nothing in it is live.
    pub(crate) fn sparse(&self) -> Vec<u32> {
        let mut segments = self.segments();
        let sparse = |s: &Segment| s.live() * 2 < s.end() - FIRST;
        if let Some(closed) = segments.active.take_if(|active| sparse(active)) {
            closed.buffer.close();
        }
        segments.all.values().filter(|s| s.live() > 0 && sparse(s)).map(|s| s.id).collect()
    }

    /// The records of a segment, dead ones included: the caller compares each with what its owner holds, appends
    /// the live ones again and releases the old pointers.
    ///
    /// # Errors
    /// `Corrupt` if there is no such segment.
    pub(crate) fn records(&self, id: u32) -> Result<Records<'_>> {
        Ok(Records::new(self.segment(id)?))
    }

    /// The statistics as of now.
    pub(crate) fn stats(&self) -> ValueLogStats {
        let segments = self.segments();
        ValueLogStats {
            segments: segments.all.len(),
            bytes: segments.all.values().map(|s| s.end() - FIRST).sum(),
            live: segments.all.values().map(|s| s.live()).sum(),
        }
    }

    /// Turns the system's read-ahead on or off.
    pub(crate) fn read_ahead(&self, on: bool) {
        self.ahead.store(on, Ordering::Relaxed);
        self.segments().all.values().for_each(|segment| segment.read_ahead(on));
    }

    /// Why the log refuses writes, if it does.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.common.failure.get().cloned()
    }

    fn refuse_if_poisoned(&self) -> Result<()> {
        match self.common.failure.get() {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn poison(&self, cause: &Error) -> Error {
        let reason = self.common.failure.get_or_init(|| cause.to_string()).clone();
        Error::Poisoned { reason }
    }
}

impl std::fmt::Debug for ValueLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueLog").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// The number after `id`; 0 is no segment's.
fn following(id: u32) -> u32 {
    id.checked_add(1).unwrap_or(1)
}
