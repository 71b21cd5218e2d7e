//! The medium under a simulated disk: what is durable, and every version of every sector, length and name that
//! was written since the last sync and may or may not be there after a power cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::crash::{Crash, Dice};

/// What a disk writes at once.
pub(super) const SECTOR: usize = 512;
/// Versions remembered per sector and sync interval; beyond that, one in the middle is forgotten.
const VERSIONS: usize = 4;

/// A file's identity, whatever its name.
pub(super) type Inode = u64;

/// One thing done to the disk.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Bytes written, growing the file if needed.
    Bytes { inode: Inode, offset: usize, bytes: Vec<u8> },
    /// The length set; new bytes are zero.
    Len { inode: Inode, len: usize },
    /// Everything in the file made durable.
    Sync { inode: Inode },
    /// A name created, removed or moved.
    Name(NameChange),
    /// The names of a directory made durable.
    SyncDir(PathBuf),
}

/// A change of names, durable after `SyncDir` of its directory.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Create { path: PathBuf, inode: Inode },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, inode: Inode },
    RenameDir { from: PathBuf, to: PathBuf },
}

/// What `path` is called after the directory `from` became `to`.
pub(super) fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_path_buf(),
    }
}

impl NameChange {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path } => path.parent(),
            NameChange::Rename { to, .. } | NameChange::RenameDir { to, .. } => to.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Inode>) {
        match self {
            NameChange::Create { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Remove { path } => {
                names.remove(path);
            }
            NameChange::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            NameChange::RenameDir { from, to } => {
                *names = std::mem::take(names)
                    .into_iter()
                    .map(|(p, inode)| (moved(&p, from, to), inode))
                    .collect();
            }
        }
    }
}

type Sector = Box<[u8; SECTOR]>;

/// One file: its durable bytes, its newest bytes, and what lies between.
#[derive(Debug, Clone, Default)]
struct Medium {
    durable: Arc<Vec<u8>>,
    newest: Arc<Vec<u8>>,
    /// Lengths since the last sync, oldest first.
    lengths: Vec<usize>,
    /// Versions since the last sync, oldest first, by sector number.
    sectors: BTreeMap<usize, Vec<Sector>>,
}

impl Medium {
    fn touch(&mut self, from: usize, to: usize) {
        for number in from / SECTOR..to.div_ceil(SECTOR) {
            let mut sector = Box::new([0u8; SECTOR]);
            let start = number * SECTOR;
            if let Some(bytes) = self.newest.get(start..(start + SECTOR).min(self.newest.len())) {
                sector[..bytes.len()].copy_from_slice(bytes);
            }
            let versions = self.sectors.entry(number).or_default();
            if versions.len() == VERSIONS {
                versions.remove(VERSIONS / 2);
            }
            versions.push(sector);
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let newest = Arc::make_mut(&mut self.newest);
        let end = offset + bytes.len();
        if end > newest.len() {
            newest.resize(end, 0);
            self.lengths.push(end);
        }
        newest[offset..end].copy_from_slice(bytes);
        self.touch(offset, end);
    }

    fn set_len(&mut self, len: usize) {
        let old = self.newest.len();
        if len == old {
            return;
        }
        Arc::make_mut(&mut self.newest).resize(len, 0);
        self.lengths.push(len);
        // Cut bytes read as zero if the file grows again, and so they may on the medium.
        if len < old {
            self.touch(len, old);
        }
    }

    fn sync(&mut self) {
        self.durable = Arc::clone(&self.newest);
        self.lengths.clear();
        self.sectors.clear();
    }

    fn is_synced(&self) -> bool {
        self.lengths.is_empty() && self.sectors.is_empty()
    }

    /// The bytes found after a power cut, if `length` was recorded and `pick` chose a version of each sector.
    fn after(
        &self,
        length: Option<usize>,
        mut pick: impl FnMut(usize, &[Sector]) -> Option<usize>,
    ) -> Arc<Vec<u8>> {
        if self.is_synced() {
            return Arc::clone(&self.durable);
        }
        let mut image = self.durable.as_ref().clone();
        image.resize(length.unwrap_or(image.len()), 0);
        for (&number, versions) in &self.sectors {
            if let Some(sector) = pick(number, versions).and_then(|i| versions.get(i)) {
                let start = number * SECTOR;
                let end = (start + SECTOR).min(image.len());
                if start < end {
                    image[start..end].copy_from_slice(&sector[..end - start]);
                }
            }
        }
        Arc::new(image)
    }
}

/// Every file's medium, and the names.
#[derive(Debug, Clone, Default)]
pub(super) struct Platter {
    media: BTreeMap<Inode, Medium>,
    /// Names as programs see them.
    names: BTreeMap<PathBuf, Inode>,
    durable_names: BTreeMap<PathBuf, Inode>,
    unsynced_names: Vec<NameChange>,
    /// The last `Bytes` change: inode, first and last sector.
    last_write: Option<(Inode, usize, usize)>,
    last_inode: Inode,
}

impl Platter {
    /// A platter on which exactly `files` are durable.
    pub(super) fn with(files: BTreeMap<PathBuf, Arc<Vec<u8>>>) -> Platter {
        let mut platter = Platter::default();
        for (path, bytes) in files {
            let inode = platter.new_inode();
            let medium = Medium { durable: Arc::clone(&bytes), newest: bytes, ..Medium::default() };
            platter.media.insert(inode, medium);
            platter.names.insert(path.clone(), inode);
            platter.durable_names.insert(path, inode);
        }
        platter
    }

    pub(super) fn new_inode(&mut self) -> Inode {
        self.last_inode += 1;
        self.last_inode
    }

    pub(super) fn lookup(&self, path: &Path) -> Option<Inode> {
        self.names.get(path).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&Path, Inode)> {
        self.names.iter().map(|(path, &inode)| (path.as_path(), inode))
    }

    /// The bytes of a file as programs see them (stores through a map since the last sample aside).
    pub(super) fn newest(&self, inode: Inode) -> &[u8] {
        self.media.get(&inode).map_or(&[], |m| m.newest.as_slice())
    }

    /// Bytes in all named files together.
    pub(super) fn used(&self) -> u64 {
        self.names.values().map(|&inode| self.newest(inode).len() as u64).sum()
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Bytes { inode, offset, bytes } => {
                self.media.entry(*inode).or_default().write(*offset, bytes);
                let last = (offset + bytes.len()).saturating_sub(1) / SECTOR;
                self.last_write = Some((*inode, offset / SECTOR, last));
            }
            Change::Len { inode, len } => self.media.entry(*inode).or_default().set_len(*len),
            Change::Sync { inode } => self.media.entry(*inode).or_default().sync(),
            Change::Name(name) => {
                name.apply(&mut self.names);
                self.unsynced_names.push(name.clone());
            }
            Change::SyncDir(dir) => {
                let names = &mut self.durable_names;
                self.unsynced_names.retain(|change| {
                    let here = change.dir() == Some(dir.as_path());
                    if here {
                        change.apply(names);
                    }
                    !here
                });
            }
        }
    }

    /// The files found after a power cut now.
    pub(super) fn after(&self, crash: Crash) -> BTreeMap<PathBuf, Arc<Vec<u8>>> {
        let mut dice = Dice::new(match crash {
            Crash::Random(seed) => seed,
            _ => 0,
        });
        let mut names = self.durable_names.clone();
        for change in &self.unsynced_names {
            let reached = match crash {
                Crash::Nothing | Crash::NamesLost => false,
                Crash::Random(_) => dice.chance(50),
                _ => true,
            };
            if reached {
                change.apply(&mut names);
            }
        }
        let empty = Medium::default();
        names
            .into_iter()
            .map(|(path, inode)| {
                let medium = self.media.get(&inode).unwrap_or(&empty);
                let bytes = self.file_after(inode, medium, crash, &mut dice);
                (path, bytes)
            })
            .collect()
    }

    fn file_after(&self, inode: Inode, medium: &Medium, crash: Crash, dice: &mut Dice) -> Arc<Vec<u8>> {
        let newest = medium.lengths.last().copied();
        let last = |versions: &[Sector]| versions.len().checked_sub(1);
        match crash {
            Crash::Nothing | Crash::NamesOnly => medium.after(None, |_, _| None),
            Crash::Everything | Crash::NamesLost => medium.after(newest, |_, v| last(v)),
            Crash::EvenSectors => medium.after(newest, |n, v| (n % 2 == 0).then(|| last(v))?),
            Crash::OddSectors => medium.after(newest, |n, v| (n % 2 == 1).then(|| last(v))?),
            Crash::EvenPages => medium.after(newest, |n, v| (n / 8 % 2 == 0).then(|| last(v))?),
            Crash::Torn => medium.after(newest, |n, v| {
                let torn = self.last_write.is_some_and(|(file, from, to)| {
                    file == inode && n <= to && n > from + (to - from) / 2
                        || file == inode && from == to && n == to
                });
                // The version before the torn write: an older one, or what was durable.
                if torn { v.len().checked_sub(2) } else { last(v) }
            }),
            Crash::LengthWithoutData => medium.after(newest, |_, _| None),
            Crash::DataWithoutLength => medium.after(None, |_, v| last(v)),
            Crash::FirstVersions => medium.after(newest, |_, _| Some(0)),
            Crash::Random(_) => {
                let length = match dice.below(medium.lengths.len() + 1) {
                    0 => None,
                    n => medium.lengths.get(n - 1).copied(),
                };
                let odds = [0, 10, 50, 90, 100][dice.below(5)];
                medium.after(length, |_, v| dice.chance(odds).then(|| dice.below(v.len())))
            }
        }
    }
}
