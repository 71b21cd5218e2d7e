//! The two meta pages: where a checkpoint becomes the state the file opens with.
//!
//! Checkpoint number `n` writes page `n % 2`, after everything it refers to is durable; so the other page always
//! describes the checkpoint before. The valid one with the higher number counts. Bytes:
//!
//! ```text
//!    0  [8]   magic "TREEDBPF"
//!    8  u32   format version, 1
//!   12  u32   page size, 4096
//!   16  u64   checkpoint number
//!   24  u64   last transaction in it
//!   32  u64   last log sequence number in it
//!   40  u32   pages in use, from 0: pages at and beyond this number have never been used
//!   44  u32   first page of the free list, 0 if there is none
//!   48  u64   bytes of the free list
//!   56  [16]  root of the catalog tree
//!   72  u32   0, or 1 if the file is encrypted
//!   76  u32   zero
//!   80  [32]  salt of the file's keys, the same in both pages
//!  112  [40]  seal of bytes 16..72, which are encrypted then; bytes 0..16 and 72..112 are authenticated with them
//!  152  ..    zero
//! 4092  u32   CRC-32C of bytes 0..4092
//! ```
//!
//! In a file that is not encrypted bytes 76..152 are zero. The checksum is that of the bytes as they are in the file: so
//! a page that is whole and does not open was sealed with another key.

use std::path::Path;
use std::sync::Arc;

use super::layout::{FIRST_PAGE, PAGE_SIZE, offset_of};
use crate::cipher::{Key, Keys, SALT, SEAL, random};
use crate::disk::DiskFile;
use crate::{Corruption, Error, Result};

const MAGIC: [u8; 8] = *b"TREEDBPF";
/// The format this version writes; newer ones are refused.
pub const VERSION: u32 = 1;
const CHECKSUM_AT: usize = PAGE_SIZE - 4;

/// A checkpoint's description of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Number of the checkpoint, from 0.
    pub number: u64,
    /// The last transaction in it.
    pub txn: u64,
    /// The last log sequence number in it; recovery replays what follows.
    pub lsn: u64,
    /// Pages in use, counting from page 0.
    pub pages: u32,
    /// First page of the free list, 0 for none.
    pub free_list: u32,
    /// Bytes of the free list.
    pub free_list_len: u64,
    /// Root of the catalog tree, in the form its owner gave.
    pub root: [u8; 16],
}

/// Why a meta page does not count.
#[derive(Debug)]
enum Unusable {
    /// Not written by TreeDB, or damaged.
    Damaged { at: usize, expected: String, found: String, ours: bool },
    /// Whole, but of a later format.
    Newer(u32),
    /// Whole, but what was given to open it is not what it needs.
    Refused(Error),
}

/// Where encrypted pages have what.
const CIPHER_AT: usize = 72;
const SALT_AT: usize = 80;
const SEAL_AT: usize = SALT_AT + SALT;
/// What is encrypted of a page that is.
const SECRET: std::ops::Range<usize> = 16..CIPHER_AT;

/// What is authenticated with it.
fn clear_parts(page: &[u8; PAGE_SIZE]) -> Vec<u8> {
    [&page[..SECRET.start], &page[SECRET.end..SEAL_AT]].concat()
}

/// A file's salt and the keys made with it.
#[derive(Debug, Clone)]
pub(crate) struct Secret {
    pub(crate) salt: [u8; SALT],
    pub(crate) keys: Arc<Keys>,
}

impl Secret {
    /// Of the file with this salt.
    pub(crate) fn of(key: &Key, salt: [u8; SALT]) -> Result<Secret> {
        Ok(Secret { salt, keys: Arc::new(Keys::derive(key, &salt)?) })
    }

    /// Of a new file.
    pub(crate) fn new(key: &Key) -> Result<Secret> {
        let mut salt = [0; SALT];
        random(&mut salt)?;
        Secret::of(key, salt)
    }
}

fn u32_at(page: &[u8; PAGE_SIZE], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(page: &[u8; PAGE_SIZE], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Meta {
    /// The page's bytes, encrypted if the file is.
    pub(crate) fn encode(&self, secret: Option<&Secret>) -> Result<[u8; PAGE_SIZE]> {
        let mut page = [0; PAGE_SIZE];
        page[0..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        page[16..24].copy_from_slice(&self.number.to_le_bytes());
        page[24..32].copy_from_slice(&self.txn.to_le_bytes());
        page[32..40].copy_from_slice(&self.lsn.to_le_bytes());
        page[40..44].copy_from_slice(&self.pages.to_le_bytes());
        page[44..48].copy_from_slice(&self.free_list.to_le_bytes());
        page[48..56].copy_from_slice(&self.free_list_len.to_le_bytes());
        page[56..72].copy_from_slice(&self.root);
        if let Some(Secret { salt, keys }) = secret {
            page[CIPHER_AT..CIPHER_AT + 4].copy_from_slice(&1u32.to_le_bytes());
            page[SALT_AT..SEAL_AT].copy_from_slice(salt);
            let seal = keys.meta.seal(&clear_parts(&page), &mut page[SECRET])?;
            page[SEAL_AT..SEAL_AT + SEAL].copy_from_slice(&seal);
        }
        let sum = crc32c::crc32c(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        Ok(page)
    }

    fn decode(
        page: &mut [u8; PAGE_SIZE],
        path: &Path,
        key: Option<&Key>,
    ) -> Result<(Meta, Option<Secret>), Unusable> {
        let damaged = |at, expected, found, ours| Err(Unusable::Damaged { at, expected, found, ours });
        let ours = page[0..8] == MAGIC;
        let sum = crc32c::crc32c(&page[..CHECKSUM_AT]);
        let stored = u32_at(page, CHECKSUM_AT);
        if !ours {
            let found = format!("{:02x?}", &page[0..8]);
            return damaged(0, format!("magic {:02x?}", MAGIC), found, sum == stored && sum != 0);
        }
        if sum != stored {
            return damaged(CHECKSUM_AT, format!("checksum {sum:#010x}"), format!("{stored:#010x}"), true);
        }
        let version = u32_at(page, 8);
        if version > VERSION {
            return Err(Unusable::Newer(version));
        }
        if version == 0 {
            return damaged(8, format!("a version from 1 to {VERSION}"), "0".into(), true);
        }
        let size = u32_at(page, 12);
        if size as usize != PAGE_SIZE {
            return damaged(12, format!("page size {PAGE_SIZE}"), size.to_string(), true);
        }
        let path = path.to_path_buf();
        let secret = match (u32_at(page, CIPHER_AT), key) {
            (0, None) => None,
            (0, Some(_)) => return Err(Unusable::Refused(Error::NotEncrypted { path })),
            (1, None) => return Err(Unusable::Refused(Error::Encrypted { path })),
            (1, Some(key)) => {
                let (mut salt, mut seal) = ([0; SALT], [0; SEAL]);
                salt.copy_from_slice(&page[SALT_AT..SEAL_AT]);
                seal.copy_from_slice(&page[SEAL_AT..SEAL_AT + SEAL]);
                let secret = Secret::of(key, salt).map_err(Unusable::Refused)?;
                let clear = clear_parts(page);
                if !secret.keys.meta.open(&clear, &mut page[SECRET], &seal) {
                    return Err(Unusable::Refused(Error::WrongKey { path }));
                }
                Some(secret)
            }
            (other, _) => return damaged(CIPHER_AT, "0 or 1".into(), other.to_string(), true),
        };
        let mut root = [0; 16];
        root.copy_from_slice(&page[56..72]);
        let meta = Meta {
            number: u64_at(page, 16),
            txn: u64_at(page, 24),
            lsn: u64_at(page, 32),
            pages: u32_at(page, 40),
            free_list: u32_at(page, 44),
            free_list_len: u64_at(page, 48),
            root,
        };
        if meta.pages < FIRST_PAGE {
            return damaged(40, format!("at least {FIRST_PAGE} pages"), meta.pages.to_string(), true);
        }
        Ok((meta, secret))
    }
}

/// The newest valid meta of a file.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) meta: Meta,
    /// The keys, if it is encrypted.
    pub(crate) secret: Option<Secret>,
    /// What is wrong with the other page, if something is: a checkpoint that power cut short, or damage. The
    /// caller tells the two apart by whether the log still has everything since `meta`.
    pub(crate) other: Option<Corruption>,
}

/// Reads both meta pages of `file`, which is encrypted if there is a `key`, and chooses. Errors: `Encrypted`, `WrongKey`
/// and `NotEncrypted` if the key is not what the file needs, `Format` if the file is foreign or of a later format,
/// `Corrupt` if neither page is whole or the file is shorter than the meta says.
pub(crate) fn choose(file: &dyn DiskFile, key: Option<&Key>) -> Result<Chosen> {
    let path = file.path();
    let len = file.len()?;
    let mut found = Vec::with_capacity(2);
    for page in 0..FIRST_PAGE {
        let mut bytes = [0; PAGE_SIZE];
        let have = len.saturating_sub(offset_of(page)).min(PAGE_SIZE as u64) as usize;
        if have > 0 {
            file.read_at(&mut bytes[..have], offset_of(page))?;
        }
        found.push(if have == PAGE_SIZE {
            Meta::decode(&mut bytes, path, key)
        } else {
            Err(Unusable::Damaged {
                at: have,
                expected: format!("at least {} bytes in the file", offset_of(FIRST_PAGE)),
                found: format!("{len}"),
                ours: have == 0 || bytes.starts_with(&MAGIC[..have.min(MAGIC.len())]),
            })
        });
    }
    let mut best: Option<(Meta, Option<Secret>)> = None;
    for (meta, secret) in found.iter().filter_map(|f| f.as_ref().ok()) {
        if best.as_ref().is_none_or(|(best, _)| best.number < meta.number) {
            best = Some((*meta, secret.clone()));
        }
    }
    let mut bad = None;
    let mut foreign = best.is_none();
    for (page, unusable) in found.into_iter().enumerate().filter_map(|(i, f)| Some((i as u64, f.err()?))) {
        match unusable {
            Unusable::Newer(version) => {
                return Err(Error::other_version(path, "page file", version, VERSION));
            }
            Unusable::Refused(error) => return Err(error),
            Unusable::Damaged { at, expected, found, ours } => {
                foreign &= !ours;
                let offset = page * PAGE_SIZE as u64 + at as u64;
                bad = bad.or(Some(Corruption {
                    file: path.to_path_buf(),
                    page: Some(page),
                    offset,
                    expected,
                    found,
                }));
            }
        }
    }
    match (best, bad) {
        (Some((meta, secret)), other) => {
            whole(path, &meta, len)?;
            Ok(Chosen { meta, secret, other })
        }
        (None, _) if foreign => Err(Error::Format {
            path: path.to_path_buf(),
            what: "not a TreeDB page file (no magic in either meta page): open another directory".into(),
        }),
        (None, Some(corruption)) => Err(Error::Corrupt(Box::new(corruption))),
        // Both pages are either valid or bad, so this is not reached; it is an error all the same.
        (None, None) => Err(Error::Invalid(format!("{} has no meta page", path.display()))),
    }
}

fn whole(path: &Path, meta: &Meta, len: u64) -> Result<()> {
    let need = offset_of(meta.pages);
    if len < need {
        return Err(Error::Corrupt(Box::new(Corruption {
            file: path.to_path_buf(),
            page: None,
            offset: len,
            expected: format!("{need} bytes ({} pages)", meta.pages),
            found: format!("the file's end at {len}"),
        })));
    }
    Ok(())
}
