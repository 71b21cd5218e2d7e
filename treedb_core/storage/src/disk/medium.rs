//! The medium under a simulated disk: what is durable, and every version of every sector, length and name that
//! was written since the last sync and may or may not be there after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::crash::{Choices, Crash};
use super::names::{NameChange, Names, Target};

/// What a disk writes at once.
pub(super) const SECTOR: usize = 512;
/// Versions remembered per sector and sync interval; beyond that, one in the middle is forgotten.
const VERSIONS: usize = 4;

/// The identity of a file or directory, whatever its name.
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
    SyncDir { dir: Inode },
}

type Sector = Box<[u8; SECTOR]>;

/// One file: its durable bytes, its newest bytes, and what lies between.
#[derive(Debug, Clone, Default)]
struct FileMedium {
    durable: Arc<Vec<u8>>,
    newest: Arc<Vec<u8>>,
    /// Lengths since the last sync, oldest first.
    lengths: Vec<usize>,
    /// Versions since the last sync, oldest first, by sector number.
    sectors: BTreeMap<usize, Vec<Sector>>,
}

impl FileMedium {
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
pub(super) struct Medium {
    media: BTreeMap<Inode, FileMedium>,
    /// Names as programs see them.
    names: Names,
    durable_names: Names,
    unsynced_names: Vec<NameChange>,
    /// The last `Bytes` change: inode, first and last sector.
    last_write: Option<(Inode, usize, usize)>,
    last_inode: Inode,
}

/// What a power cut leaves: files with their bytes, and directories, empty ones too.
#[derive(Debug, Default)]
pub(super) struct Image {
    files: BTreeMap<PathBuf, Arc<Vec<u8>>>,
    dirs: BTreeSet<PathBuf>,
}

impl Medium {
    /// A medium with this content, durable.
    pub(super) fn with(image: Image) -> Medium {
        let mut medium = Medium::default();
        image.dirs.iter().for_each(|dir| medium.create_dir_durably(dir));
        for (path, bytes) in image.files {
            let inode = medium.new_inode();
            let file = FileMedium { durable: Arc::clone(&bytes), newest: bytes, ..FileMedium::default() };
            medium.media.insert(inode, file);
            medium.link_durably(&path, Target::File(inode));
        }
        medium
    }

    /// Links a name durably. Its directory must exist.
    pub(super) fn link_durably(&mut self, path: &Path, target: Target) {
        if let Some(place) = self.names.place(path) {
            let link = NameChange::Link { place, target };
            self.names.apply(&link);
            self.durable_names.apply(&link);
        }
    }

    /// Makes a directory, and those above it, durably.
    pub(super) fn create_dir_durably(&mut self, dir: &Path) {
        for dir in dir.ancestors().collect::<Vec<_>>().into_iter().rev() {
            match self.names.lookup(dir) {
                Some(target) => {
                    if let Some(place) = self.names.place(dir) {
                        self.durable_names.apply(&NameChange::Link { place, target });
                    }
                }
                None => {
                    let inode = self.new_inode();
                    self.link_durably(dir, Target::Dir(inode));
                }
            }
        }
    }

    pub(super) fn new_inode(&mut self) -> Inode {
        self.last_inode += 1;
        self.last_inode
    }

    /// Names as programs see them.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// The file of this name.
    pub(super) fn lookup(&self, path: &Path) -> Option<Inode> {
        match self.names.lookup(path) {
            Some(Target::File(inode)) => Some(inode),
            _ => None,
        }
    }

    /// The directory of this name.
    pub(super) fn dir(&self, path: &Path) -> Option<Inode> {
        match self.names.lookup(path) {
            Some(Target::Dir(inode)) => Some(inode),
            _ => None,
        }
    }

    /// The bytes of a file as programs see them (stores through a map since the last sample aside).
    pub(super) fn newest(&self, inode: Inode) -> &[u8] {
        self.media.get(&inode).map_or(&[], |m| m.newest.as_slice())
    }

    /// Bytes in all named files together.
    pub(super) fn used(&self) -> u64 {
        self.names.walk().0.values().map(|&inode| self.newest(inode).len() as u64).sum()
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
                self.names.apply(name);
                self.unsynced_names.push(name.clone());
            }
            Change::SyncDir { dir } => {
                let names = &mut self.durable_names;
                self.unsynced_names.retain(|change| {
                    let here = change.dir() == *dir;
                    if here {
                        names.apply(change);
                    }
                    !here
                });
            }
        }
    }

    /// What is found after a power cut now.
    pub(super) fn after(&self, crash: Crash) -> Image {
        let mut choices = Choices::new(match crash {
            Crash::Random(seed) => seed,
            _ => 0,
        });
        let mut names = self.durable_names.clone();
        for change in &self.unsynced_names {
            let reached = match crash {
                Crash::Nothing | Crash::NamesLost => false,
                Crash::Random(_) => choices.chance(50),
                _ => true,
            };
            if reached {
                names.apply(change);
            }
        }
        let empty = FileMedium::default();
        let (files, dirs) = names.walk();
        let files = files
            .into_iter()
            .map(|(path, inode)| {
                let file = self.media.get(&inode).unwrap_or(&empty);
                let bytes = self.file_after(inode, file, crash, &mut choices);
                (path, bytes)
            })
            .collect();
        Image { files, dirs }
    }

    fn file_after(
        &self,
        inode: Inode,
        file: &FileMedium,
        crash: Crash,
        choices: &mut Choices,
    ) -> Arc<Vec<u8>> {
        let newest = file.lengths.last().copied();
        let last = |versions: &[Sector]| versions.len().checked_sub(1);
        match crash {
            Crash::Nothing | Crash::NamesOnly => file.after(None, |_, _| None),
            Crash::Everything | Crash::NamesLost => file.after(newest, |_, v| last(v)),
            Crash::EvenSectors => file.after(newest, |n, v| (n % 2 == 0).then(|| last(v))?),
            Crash::OddSectors => file.after(newest, |n, v| (n % 2 == 1).then(|| last(v))?),
            Crash::EvenPages => file.after(newest, |n, v| (n / 8 % 2 == 0).then(|| last(v))?),
            Crash::Torn => file.after(newest, |n, v| {
                let torn = self.last_write.is_some_and(|(file, from, to)| {
                    file == inode && n <= to && n > from + (to - from) / 2
                        || file == inode && from == to && n == to
                });
                // The version before the torn write: an older one, or what was durable.
                if torn { v.len().checked_sub(2) } else { last(v) }
            }),
            Crash::LengthWithoutData => file.after(newest, |_, _| None),
            Crash::DataWithoutLength => file.after(None, |_, v| last(v)),
            Crash::FirstVersions => file.after(newest, |_, _| Some(0)),
            Crash::Random(_) => {
                let length = match choices.below(file.lengths.len() + 1) {
                    0 => None,
                    n => file.lengths.get(n - 1).copied(),
                };
                let odds = [0, 10, 50, 90, 100][choices.below(5)];
                file.after(length, |_, v| choices.chance(odds).then(|| choices.below(v.len())))
            }
        }
    }
}
