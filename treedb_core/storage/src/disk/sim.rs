//! A disk in memory that loses power.
//!
//! [`SimDisk`] remembers for each file what is durable and every version of every 512-byte sector written since
//! the last sync. Each call that changes something (write, set_len, reserve, sync, create, rename, remove,
//! sync_dir) is a *boundary*; stores through a map are noticed at the next boundary. What can be done with it:
//!
//! * [`SimDisk::cut_at`] cuts the power at a boundary: that call and all later ones fail. Then
//!   [`SimDisk::crash`] is the disk found afterwards, for a choice of what reached the medium.
//! * [`SimDisk::revive`] after a cut makes it the death of the process alone.
//! * [`SimDisk::record`] and [`SimDisk::replay`]: run a workload once, then visit every boundary of it.
//!
//! All of it follows the contract of [`Disk`], directories included: a new one is lost, with everything in it, unless
//! the directory above it was synced.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crash::Crash;
use super::map::Mapping;
use super::medium::{Change, Image, Inode, Medium, SECTOR};
use super::names::{NameChange, Place, Target};
use super::replay::{Replay, Step};
use super::{Disk, DiskFile, Map};
use crate::{Error, Result};

/// The least a mapping reserves, so that a later, longer one of the same file is the same memory.
const MAP_ROOM: usize = if cfg!(miri) { 1 << 20 } else { 64 << 20 };

/// What an injected failure looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device failed (`EIO`).
    Io,
    /// There was no room (`ENOSPC`).
    Full,
}

/// A simulated disk; clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    medium: Medium,
    locks: BTreeSet<PathBuf>,
    maps: BTreeMap<Inode, Arc<Mapping>>,
    /// Calls that changed something, done so far.
    boundaries: u64,
    cut_at: Option<u64>,
    dead: bool,
    /// Calls tried, failed ones too; faults are injected by this count.
    tried: u64,
    fault: Option<(u64, Fault, bool)>,
    room: Option<u64>,
    record: Option<Record>,
}

#[derive(Debug)]
struct Record {
    start: Medium,
    before: u64,
    steps: Vec<Step>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// A disk with an empty directory and those above it, durable.
    pub fn with_dir(dir: &Path) -> SimDisk {
        let disk = SimDisk::new();
        disk.state().medium.create_dir_durably(dir);
        disk
    }

    /// A disk on which exactly this is durable.
    pub(super) fn with_image(image: Image) -> SimDisk {
        let state = State { medium: Medium::with(image), ..State::default() };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that changed something so far.
    pub fn boundaries(&self) -> u64 {
        self.state().boundaries
    }

    /// Cuts the power when `boundary` calls have been done: the next one fails, and every call after it.
    pub fn cut_at(&self, boundary: u64) {
        self.state().cut_at = Some(boundary);
    }

    /// Starts the machine again without a power cut in between: what programs wrote is there, durable or not, as after
    /// the death of a process. Handles and locks of before are dead.
    pub fn revive(&self) {
        let mut state = self.state();
        state.dead = false;
        state.cut_at = None;
        state.locks.clear();
    }

    /// Makes the changing call number `call` (counted from 0 over all calls tried, see [`SimDisk::tried`]) fail
    /// without doing anything; all later ones too if `sticky`.
    pub fn fail_at(&self, call: u64, fault: Fault, sticky: bool) {
        self.state().fault = Some((call, fault, sticky));
    }

    /// Changing calls tried so far, whether they were done or failed.
    pub fn tried(&self) -> u64 {
        self.state().tried
    }

    /// Ends injected failures.
    pub fn heal(&self) {
        self.state().fault = None;
    }

    /// Limits the bytes all files together may have; growing beyond fails with `Error::DiskFull`. `None`: no limit.
    pub fn set_room(&self, room: Option<u64>) {
        self.state().room = room;
    }

    /// Bytes of all files together, with those that were removed and are still mapped.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The disk found if power is cut now (or was cut already) and `crash` says what reached the medium.
    pub fn crash(&self, crash: Crash) -> SimDisk {
        let mut state = self.state();
        if !state.dead {
            let stores = state.sample();
            state.absorb(&stores);
        }
        SimDisk::with_image(state.medium.after(crash))
    }

    /// Starts recording boundaries.
    pub fn record(&self) {
        let mut state = self.state();
        let stores = state.sample();
        state.absorb(&stores);
        state.record =
            Some(Record { start: state.medium.clone(), before: state.boundaries, steps: Vec::new() });
    }

    /// Ends the record and hands it out for replay; empty if nothing was recorded.
    pub fn replay(&self) -> Replay {
        let mut state = self.state();
        let stores = if state.dead { Vec::new() } else { state.sample() };
        match state.record.take() {
            Some(mut record) => {
                state.absorb(&stores);
                record.steps.push(Step { stores, call: None });
                Replay::new(record.start, record.steps, record.before)
            }
            None => Replay::new(Medium::default(), Vec::new(), 0),
        }
    }

    /// The bytes of a file as programs see them; `None` if there is no such file.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let mut state = self.state();
        if !state.dead {
            let stores = state.sample();
            state.absorb(&stores);
        }
        let inode = state.medium.lookup(path)?;
        Some(state.medium.newest(inode).to_vec())
    }

    /// Replaces a file's bytes, durably, without passing a boundary: damage for tests of damage.
    pub fn overwrite(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        if let Some(dir) = path.parent() {
            state.medium.create_dir_durably(dir);
        }
        let inode = state.medium.lookup(path).unwrap_or_else(|| state.medium.new_inode());
        state.medium.link_durably(path, Target::File(inode));
        if let Some(map) = state.maps.get(&inode) {
            map.copy_in(0, &bytes);
        }
        state.medium.apply(&Change::Len { inode, len: bytes.len() });
        state.medium.apply(&Change::Bytes { inode, offset: 0, bytes });
        state.medium.apply(&Change::Sync { inode });
    }
}

fn dead(op: &'static str, path: &Path) -> Error {
    Error::Io { op, path: path.to_path_buf(), source: io::Error::other("the simulated power is cut") }
}

fn missing(op: &'static str, path: &Path) -> Error {
    Error::Io { op, path: path.to_path_buf(), source: io::ErrorKind::NotFound.into() }
}

impl State {
    /// Stores made through maps since the last look, as changes; nothing is applied yet.
    fn sample(&self) -> Vec<Change> {
        let mut stores: Vec<Change> = Vec::new();
        for (&inode, map) in &self.maps {
            map.compare(self.medium.newest(inode), SECTOR, |at, new| match stores.last_mut() {
                Some(Change::Bytes { inode: i, offset, bytes })
                    if *i == inode && *offset + bytes.len() == at =>
                {
                    bytes.extend_from_slice(new);
                }
                _ => stores.push(Change::Bytes { inode, offset: at, bytes: new.to_vec() }),
            });
        }
        stores
    }

    /// Bytes of all files together. One without a name takes room for as long as it is mapped.
    fn used(&self) -> u64 {
        let named: BTreeSet<Inode> = self.medium.names().walk().0.into_values().collect();
        let is_held =
            |inode: &Inode, map: &Arc<Mapping>| !named.contains(inode) && Arc::strong_count(map) > 1;
        let held = self.maps.iter().filter(|(inode, map)| is_held(inode, map));
        self.medium.used() + held.map(|(inode, _)| self.medium.newest(*inode).len() as u64).sum::<u64>()
    }

    fn absorb(&mut self, stores: &[Change]) {
        for store in stores {
            self.medium.apply(store);
        }
    }

    fn alive(&self, op: &'static str, path: &Path) -> Result<()> {
        if self.dead { Err(dead(op, path)) } else { Ok(()) }
    }

    /// Passes a boundary: notices stores, cuts the power or injects a failure if it is time, else does `change`.
    fn pass(&mut self, op: &'static str, path: &Path, change: Change) -> Result<()> {
        self.alive(op, path)?;
        let stores = self.sample();
        self.absorb(&stores);
        if self.cut_at == Some(self.boundaries) {
            self.dead = true;
            if let Some(record) = &mut self.record {
                record.steps.push(Step { stores, call: None });
            }
            return Err(dead(op, path));
        }
        let call = self.tried;
        self.tried += 1;
        if let Some((at, fault, sticky)) = self.fault
            && (call == at || sticky && call > at)
        {
            self.note(stores, None);
            return Err(match fault {
                Fault::Io => {
                    let source = io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
                    Error::Io { op, path: path.to_path_buf(), source }
                }
                Fault::Full => Error::DiskFull { path: path.to_path_buf() },
            });
        }
        if let Some(room) = self.room {
            let (inode, end) = match &change {
                Change::Bytes { inode, offset, bytes } => (*inode, offset + bytes.len()),
                Change::Len { inode, len } => (*inode, *len),
                _ => (0, 0),
            };
            let growth = end.saturating_sub(self.medium.newest(inode).len()) as u64;
            if growth > 0 && self.used() + growth > room {
                self.note(stores, None);
                return Err(Error::DiskFull { path: path.to_path_buf() });
            }
        }
        self.medium.apply(&change);
        self.boundaries += 1;
        self.note(stores, Some(change));
        Ok(())
    }

    /// The place of `path`; `Err` if the directory is missing that it would be in.
    fn place(&self, op: &'static str, path: &Path) -> Result<Place> {
        self.medium.names().place(path).ok_or_else(|| missing(op, path))
    }

    /// `Err` if something is in the directory `dir` of this path.
    fn empty(&self, op: &'static str, path: &Path, dir: Inode) -> Result<()> {
        if self.medium.names().list(dir).next().is_some() {
            let source = io::ErrorKind::DirectoryNotEmpty.into();
            return Err(Error::Io { op, path: path.to_path_buf(), source });
        }
        Ok(())
    }

    /// Adds to the record. A call that failed leaves only its stores, which the next step takes over.
    fn note(&mut self, mut stores: Vec<Change>, call: Option<Change>) {
        let Some(record) = &mut self.record else { return };
        if let Some(last) = record.steps.last_mut().filter(|step| step.call.is_none()) {
            last.stores.append(&mut stores);
            last.call = call;
        } else {
            record.steps.push(Step { stores, call });
        }
    }
}

impl Disk for SimDisk {
    fn is_lasting(&self) -> bool {
        true
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        let state = self.state();
        state.room.map(|room| room.saturating_sub(state.used()))
    }

    fn open(&self, path: &Path, create: bool) -> Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.alive("open", path)?;
        let inode = match state.medium.lookup(path) {
            Some(inode) => inode,
            None if create => {
                let place = state.place("open", path)?;
                let inode = state.medium.new_inode();
                let link = NameChange::Link { place, target: Target::File(inode) };
                state.pass("open", path, Change::Name(link))?;
                inode
            }
            None => return Err(missing("open", path)),
        };
        drop(state);
        Ok(Arc::new(SimFile { disk: self.clone(), inode, path: path.to_path_buf() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.state();
        state.alive("stat", path)?;
        Ok(state.medium.names().lookup(path).is_some())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.state();
        state.alive("readdir", dir)?;
        let inode = state.medium.dir(dir).ok_or_else(|| missing("readdir", dir))?;
        let names = state.medium.names().list(inode);
        Ok(names.filter_map(|(name, _)| Some(name.to_str()?.to_owned())).collect())
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        state.alive("mkdir", dir)?;
        for dir in dir.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if state.medium.dir(dir).is_none() {
                let place = state.place("mkdir", dir)?;
                let target = Target::Dir(state.medium.new_inode());
                state.pass("mkdir", dir, Change::Name(NameChange::Link { place, target }))?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        let inode = state.medium.lookup(path).ok_or_else(|| missing("unlink", path))?;
        let place = state.place("unlink", path)?;
        state.pass("unlink", path, Change::Name(NameChange::Unlink { place }))?;
        // One that is in use stays what it is.
        if state.maps.get(&inode).is_some_and(|map| Arc::strong_count(map) == 1) {
            state.maps.remove(&inode);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        let inode = state.medium.dir(dir).ok_or_else(|| missing("rmdir", dir))?;
        state.empty("rmdir", dir, inode)?;
        let place = state.place("rmdir", dir)?;
        state.pass("rmdir", dir, Change::Name(NameChange::Unlink { place }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        let target = state.medium.names().lookup(from).ok_or_else(|| missing("rename", from))?;
        if let (Target::Dir(_), Some(there)) = (target, state.medium.dir(to)) {
            state.empty("rename", to, there)?;
        }
        let (old, new) = (state.place("rename", from)?, state.place("rename", to)?);
        state.pass("rename", from, Change::Name(NameChange::Move { from: old, to: new, target }))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        state.alive("fsync", dir)?;
        let inode = state.medium.dir(dir).ok_or_else(|| missing("open", dir))?;
        state.pass("fsync", dir, Change::SyncDir { dir: inode })
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        state.alive("flock", dir)?;
        if state.medium.dir(dir).is_none() {
            return Err(missing("open", dir));
        }
        if !state.locks.insert(dir.to_path_buf()) {
            return Err(Error::InUse { dir: dir.to_path_buf(), pid: std::process::id() });
        }
        drop(state);
        Ok(Box::new(SimLock { disk: self.clone(), dir: dir.to_path_buf() }))
    }
}

struct SimLock {
    disk: SimDisk,
    dir: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.dir);
    }
}

struct SimFile {
    disk: SimDisk,
    inode: Inode,
    path: PathBuf,
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl SimFile {
    fn too_large(&self, op: &'static str) -> Error {
        Error::Io { op, path: self.path.clone(), source: io::ErrorKind::FileTooLarge.into() }
    }

    fn resize(&self, op: &'static str, len: u64) -> Result<()> {
        let mut state = self.disk.state();
        let (len, inode) = (to_usize(len), self.inode);
        let old = state.medium.newest(inode).len();
        let room = state.maps.get(&inode).map_or(isize::MAX as usize, |map| map.len());
        if len > room {
            return Err(self.too_large(op));
        }
        state.pass(op, &self.path, Change::Len { inode, len })?;
        if let Some(map) = state.maps.get(&inode).filter(|_| len < old) {
            map.copy_in(len, &vec![0; old - len]);
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> Result<u64> {
        let state = self.disk.state();
        state.alive("fstat", &self.path)?;
        Ok(state.medium.newest(self.inode).len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.resize("ftruncate", len)
    }

    fn reserve(&self, len: u64) -> Result<()> {
        if len <= self.len()? { Ok(()) } else { self.resize("fallocate", len) }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let state = self.disk.state();
        state.alive("read", &self.path)?;
        let bytes = state.medium.newest(self.inode);
        let start = to_usize(offset);
        let from = start.checked_add(buf.len()).and_then(|end| bytes.get(start..end)).ok_or_else(|| {
            let source = io::ErrorKind::UnexpectedEof.into();
            Error::Io { op: "read", path: self.path.clone(), source }
        })?;
        match state.maps.get(&self.inode) {
            Some(map) if map.copy_out(start, buf) => {}
            _ => buf.copy_from_slice(from),
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let mut state = self.disk.state();
        let (inode, offset) = (self.inode, to_usize(offset));
        let room = state.maps.get(&inode).map_or(isize::MAX as usize, |map| map.len());
        if offset.checked_add(buf.len()).is_none_or(|end| end > room) {
            return Err(self.too_large("write"));
        }
        state.pass("write", &self.path, Change::Bytes { inode, offset, bytes: buf.to_vec() })?;
        if let Some(map) = state.maps.get(&inode) {
            map.copy_in(offset, buf);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.disk.state().pass("fdatasync", &self.path, Change::Sync { inode: self.inode })
    }

    fn map(&self, len: u64) -> Result<Box<dyn Map>> {
        let mut state = self.disk.state();
        state.alive("mmap", &self.path)?;
        let len = to_usize(len);
        if let Some(map) = state.maps.get(&self.inode) {
            return if map.len() >= len {
                Ok(Box::new(Arc::clone(map)))
            } else {
                Err(self.too_large("mmap"))
            };
        }
        let bytes = state.medium.newest(self.inode);
        let map = Mapping::anonymous(len.max(bytes.len()).max(MAP_ROOM)).map_err(|source| Error::Io {
            op: "mmap",
            path: self.path.clone(),
            source,
        })?;
        // Untouched pages of the mapping are zero already, and stay untouched.
        for (i, page) in bytes.chunks(4096).enumerate() {
            if page.iter().any(|&b| b != 0) {
                map.copy_in(i * 4096, page);
            }
        }
        let map = Arc::new(map);
        state.maps.insert(self.inode, Arc::clone(&map));
        Ok(Box::new(map))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
