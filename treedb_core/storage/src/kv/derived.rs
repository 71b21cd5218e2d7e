//! Files of derived data: what was made of tables and can be made again, kept so that it need not be after the next opening.
//!
//! They are in the directory `derived` of the store, and may be removed at any time: a file that is missing, damaged or of another identity
//! is not there for its reader. The store itself removes all of them when the disk is full ([`super::full_disk`]), and asks those who have any mapped to drop them ([`DerivedFiles::on_full_disk`]). A name is a word, a hyphen and
//! a number (`vector-7`); files of other names are nobody's here, and stay. What a file is of, its *identity*, is for its owner to say: its name says nothing. A file is written under
//! another name (`NAME.new`), made durable and renamed, so that a name has a whole file or none. Nothing in one is needed, so nothing that
//! fails here poisons the store; what its owner commits about it may, as any commit.
//!
//! A file is mapped, not read ([`DerivedMap`]), so that opening one takes as long whatever it has, processes and openings share what the
//! system has of it in memory, and the system can take that memory back.
//!
//! # Bytes
//!
//! The header, little-endian:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `TreeDBdv` |
//! | 8 | 4 | format version, 2 |
//! | 12 | 4 | zero |
//! | 16 | 64 | identity |
//! | 80 | 8 | bytes of the content |
//! | 88 | 4 | crc32c of the identity and the checksums of all blocks |
//! | 92 | 32 | zero |
//! | 124 | 4 | crc32c of bytes 0..124 |
//!
//! From byte 4096 on the content, which is checked in blocks of 4,096 bytes (the last one may have fewer), when they are first used. After it
//! the checksum of each block, 4 bytes: the crc32c of the identity, the number of the block (8 bytes) and its bytes. These are checked when the
//! file is opened. Files of other versions are not there for a reader.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::derived_map::DerivedMap;
use super::store::Store;
use crate::disk::{Disk, DiskFile};
use crate::{Error, Result};

/// The directory of the files.
pub(super) const DERIVED: &str = "derived";
/// What is added to the name of a file that is being written.
const UNFINISHED: &str = ".new";

const MAGIC: [u8; 8] = *b"TreeDBdv";
const VERSION: u32 = 2;
const HEADER: usize = 128;
const IDENTITY_AT: usize = 16;
const LEN_AT: usize = IDENTITY_AT + IDENTITY;
const CHECKSUMS_AT: usize = LEN_AT + 8;
const CHECKSUM_AT: usize = HEADER - CHECKSUM;
/// Bytes of a checksum.
pub(super) const CHECKSUM: usize = 4;
/// Where the content begins.
pub(super) const CONTENT_AT: usize = 4096;
/// Bytes that are checked together.
pub(super) const BLOCK: usize = 4096;
/// Bytes that are written at a time.
const WRITTEN: usize = 1 << 16;

/// Bytes of an [`Identity`].
const IDENTITY: usize = 64;

/// What a file of derived data is of.
pub type Identity = [u8; IDENTITY];

/// The files of derived data of a store. It does not keep the store open.
#[derive(Clone)]
pub struct DerivedFiles {
    disk: Arc<dyn Disk>,
    /// The store's directory.
    store: PathBuf,
    dir: PathBuf,
    holders: Arc<Holders>,
}

/// Who is asked to drop what it has mapped when the disk is full.
#[derive(Default)]
pub(super) struct Holders(Mutex<Vec<LetGo>>);

type LetGo = Box<dyn Fn() -> bool + Send + Sync>;

impl std::fmt::Debug for DerivedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DerivedFiles").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Files for what was made of tables and can be made again; [`DerivedFiles`] says what they promise. `None` for an encrypted store, whose
    /// data must not be written in the clear, and for one in memory, which is not opened again.
    pub fn derived_files(&self) -> Option<DerivedFiles> {
        let options = &self.inner.options;
        (options.key.is_none() && options.disk.is_lasting()).then(|| self.files_of_derived_data())
    }

    /// Removes the files of derived data that `are_gone` says, whether they were completed or not, also those that were left in a store that has
    /// none; true if there were any. What cannot be removed stays.
    pub fn remove_derived_files(&self, are_gone: impl Fn(&str) -> bool) -> bool {
        self.files_of_derived_data().remove_those(are_gone)
    }

    fn files_of_derived_data(&self) -> DerivedFiles {
        // Not the disk of the store's other files: none of these is removed for another one.
        let holders = Arc::clone(&self.inner.derived_holders);
        DerivedFiles::new(Arc::clone(&self.inner.options.disk), &self.inner.dir, holders)
    }
}

/// The word and the number that a file's name is made of, complete or not; `None` for a name that is no file of derived data.
fn parts_of(name: &str) -> Option<(&str, u32)> {
    let (word, digits) = name.strip_suffix(UNFINISHED).unwrap_or(name).rsplit_once('-')?;
    let number = digits.parse().ok().filter(|number: &u32| number.to_string() == digits)?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then_some((word, number))
}

impl DerivedFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, store: &Path, holders: Arc<Holders>) -> DerivedFiles {
        DerivedFiles { disk, store: store.to_path_buf(), dir: store.join(DERIVED), holders }
    }

    /// Calls `let_go` when the disk is full and files were removed to make room, which a [`DerivedMap`] of one keeps until it is dropped. It is to drop
    /// those that it has, and to say whether there were any. It may be called by any thread that needs room, also within a call of the store, and
    /// must not wait for anything that is held during such calls.
    pub fn on_full_disk(&self, let_go: impl Fn() -> bool + Send + Sync + 'static) {
        self.holders.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(let_go));
    }

    /// Asks all who have files mapped to drop them; true if there were any.
    pub fn let_go(&self) -> bool {
        let holders = self.holders.0.lock().unwrap_or_else(PoisonError::into_inner);
        holders.iter().filter(|let_go| let_go()).count() > 0
    }

    /// The names of the files there are, sorted, with those of files that were not completed.
    ///
    /// # Errors
    /// `Io` from the system.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = if self.disk.exists(&self.dir)? { self.disk.list(&self.dir)? } else { Vec::new() };
        names.retain(|name| parts_of(name).is_some());
        Ok(names)
    }

    /// The number in the name of a file that has this word in it, complete or not.
    pub fn number_of(name: &str, word: &str) -> Option<u32> {
        parts_of(name).filter(|(of, _)| *of == word).map(|(_, number)| number)
    }

    /// False if it is known that files cannot grow by so many bytes.
    pub fn may_grow_by(&self, bytes: u64) -> bool {
        self.disk.free_bytes(&self.store).is_none_or(|free| free >= bytes)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// `Io` from the system.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.remove_if_there(name).map(drop)
    }

    /// True if it was there.
    fn remove_if_there(&self, name: &str) -> Result<bool> {
        match self.disk.remove(&self.dir.join(name)) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the files that `are_gone` says, whether they were completed or not; true if any was removed. What cannot be removed stays.
    pub fn remove_those(&self, are_gone: impl Fn(&str) -> bool) -> bool {
        let mut names = self.names().unwrap_or_default();
        names.retain(|name| are_gone(name));
        names.iter().filter(|name| matches!(self.remove_if_there(name), Ok(true))).count() > 0
    }

    /// Writes a file in place of the one of that name: what `write` writes. It is durable when this returns; after an error the one
    /// before is there, or none. Two threads must not write the same one at the same time.
    ///
    /// # Errors
    /// `Invalid` for a name that is not a word of small letters, a hyphen and a number; `DiskFull` and `Io` from the system, also if the
    /// file was removed meanwhile to make room; those of `write`, as `Io`.
    pub fn write(
        &self,
        name: &str,
        identity: &Identity,
        write: impl FnOnce(&mut DerivedWriter) -> io::Result<()>,
    ) -> Result<()> {
        if name.ends_with(UNFINISHED) || parts_of(name).is_none() {
            return Err(Error::Invalid(format!("{name:?} is no name of derived data, such as \"vector-7\"")));
        }
        let (path, unfinished) = (self.dir.join(name), self.dir.join(format!("{name}{UNFINISHED}")));
        let written = self.write_at(&unfinished, identity, write).and_then(|()| {
            self.disk.rename(&unfinished, &path)?;
            self.disk.sync_dir(&self.dir)
        });
        if written.is_err() {
            let _ = self.disk.remove(&unfinished);
        }
        written
    }

    fn write_at(
        &self,
        path: &Path,
        identity: &Identity,
        write: impl FnOnce(&mut DerivedWriter) -> io::Result<()>,
    ) -> Result<()> {
        self.disk.create_dir(&self.dir)?;
        self.disk.sync_dir(&self.store)?;
        let file = self.disk.open(path, true)?;
        file.set_len(0)?;
        let mut writer = DerivedWriter {
            file,
            identity: *identity,
            waiting: Vec::with_capacity(WRITTEN),
            written: 0,
            checksums: Vec::new(),
            failure: None,
        };
        let written = write(&mut writer);
        if let Some(failure) = writer.failure.take() {
            return Err(failure);
        }
        written.map_err(|source| Error::Io { op: "write", path: path.to_path_buf(), source })?;
        writer.finish()
    }

    /// Maps a file; `None` if there is none of this name and identity.
    ///
    /// # Errors
    /// `Io` from the system.
    pub fn map(&self, name: &str, identity: &Identity) -> Result<Option<Arc<DerivedMap>>> {
        let path = self.dir.join(name);
        if !self.disk.exists(&path)? {
            return Ok(None);
        }
        let file = self.disk.open(&path, false)?;
        let len = file.len()?;
        let mut header = [0; HEADER];
        if len < HEADER as u64 {
            return Ok(None);
        }
        file.read_at(&mut header, 0)?;
        let (mut content, mut checksums) = ([0; 8], [0; CHECKSUM]);
        content.copy_from_slice(&header[LEN_AT..CHECKSUMS_AT]);
        checksums.copy_from_slice(&header[CHECKSUMS_AT..CHECKSUMS_AT + CHECKSUM]);
        let (content, checksums) = (u64::from_le_bytes(content), u32::from_le_bytes(checksums));
        let of_checksums = CHECKSUM as u64 * content.div_ceil(BLOCK as u64);
        let there = content.checked_add(of_checksums + CONTENT_AT as u64);
        if header_of(identity, content, checksums) != header || there != Some(len) {
            return Ok(None);
        }
        let (Ok(len), Ok(content)) = (usize::try_from(len), usize::try_from(content)) else {
            return Ok(None);
        };
        let map = file.map_to_read(len as u64)?;
        Ok(DerivedMap::new(Opened { file, identity: *identity, file_len: len, content, checksums }, map))
    }
}

/// A file that is of an identity, and as long as its header says.
pub(super) struct Opened {
    pub(super) file: Arc<dyn DiskFile>,
    identity: Identity,
    /// Bytes of the file.
    pub(super) file_len: usize,
    /// Bytes of the content.
    pub(super) content: usize,
    /// The checksum of the checksums.
    pub(super) checksums: u32,
}

impl Opened {
    /// The checksum of a block.
    pub(super) fn checksum(&self, number: u64, bytes: &[u8]) -> u32 {
        checksum(&self.identity, number, bytes)
    }

    /// That of the checksums of all blocks.
    pub(super) fn checksum_of_checksums(&self, all: &[u8]) -> u32 {
        checksum_of_checksums(&self.identity, all)
    }
}

/// The header of a file: whatever differs from it in any byte is no such file.
fn header_of(identity: &Identity, content: u64, checksums: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[IDENTITY_AT..LEN_AT].copy_from_slice(identity);
    header[LEN_AT..CHECKSUMS_AT].copy_from_slice(&content.to_le_bytes());
    header[CHECKSUMS_AT..CHECKSUMS_AT + CHECKSUM].copy_from_slice(&checksums.to_le_bytes());
    let sum = crc32c::crc32c(&header[..CHECKSUM_AT]);
    header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The checksum of a block.
fn checksum(identity: &Identity, number: u64, bytes: &[u8]) -> u32 {
    let place = crc32c::crc32c_append(crc32c::crc32c(identity), &number.to_le_bytes());
    crc32c::crc32c_append(place, bytes)
}

/// The checksum of the checksums of all blocks.
fn checksum_of_checksums(identity: &Identity, all: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(identity), all)
}

/// Writes the content of a file of derived data.
pub struct DerivedWriter {
    file: Arc<dyn DiskFile>,
    identity: Identity,
    /// What was not written yet.
    waiting: Vec<u8>,
    /// Bytes of the content that were.
    written: u64,
    /// Those of the blocks that were written.
    checksums: Vec<u8>,
    failure: Option<Error>,
}

impl DerivedWriter {
    fn write_waiting(&mut self) -> Result<()> {
        for (number, block) in (self.written / BLOCK as u64..).zip(self.waiting.chunks(BLOCK)) {
            let sum = checksum(&self.identity, number, block);
            self.checksums.extend_from_slice(&sum.to_le_bytes());
        }
        self.file.write_at(&self.waiting, CONTENT_AT as u64 + self.written)?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// The header is last: what is before it is no file.
    fn finish(mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.write_waiting()?;
        }
        let (content, sum) = (self.written, checksum_of_checksums(&self.identity, &self.checksums));
        if content == 0 {
            self.file.set_len(CONTENT_AT as u64)?;
        } else {
            self.file.write_at(&self.checksums, CONTENT_AT as u64 + content)?;
        }
        self.file.write_at(&header_of(&self.identity, content, sum), 0)?;
        self.file.sync()
    }
}

impl Write for DerivedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(io::Error::other(failure.to_string()));
        }
        let (now, _) = bytes.split_at(bytes.len().min(WRITTEN - self.waiting.len()));
        self.waiting.extend_from_slice(now);
        if self.waiting.len() == WRITTEN
            && let Err(failure) = self.write_waiting()
        {
            let error = io::Error::other(failure.to_string());
            self.failure = Some(failure);
            return Err(error);
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
