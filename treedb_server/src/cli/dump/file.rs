//! The files of a dump.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use bson::{Bson, Document, RawDocumentBuf, doc};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sha1::{Digest, Sha1};
use treedb_query::doc::MAX_DOCUMENT_SIZE;
use treedb_query::doc::json::from_json;

use crate::cli::Failure;
use crate::cli::sync::{sync_folder, sync_name};

/// Longer names are shortened in names of files, as `mongodump` does it.
const LONGEST_NAME: usize = 238;
/// To so many bytes, which a hash follows.
const SHORTENED: usize = 208;
/// A document may be this much longer than [`MAX_DOCUMENT_SIZE`], as documents that a server stores itself are.
const EXTRA: usize = 16 << 10;
/// Buffer size of files.
const BUFFER: usize = 1 << 18;

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

/// A name as part of a file's name: everything but letters, digits and a few signs becomes `%xx`.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b':' | b'=' | b'@' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    if text.len() <= LONGEST_NAME {
        return text;
    }
    // All of it is ASCII by now.
    text.truncate(SHORTENED);
    text.push_str("%24");
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode_string(Sha1::digest(name.as_bytes()), &mut text);
    text
}

/// The name that [`escaped`] made such a text of; `None` if it is none, or was shortened.
pub(super) fn unescaped(text: &str) -> Option<String> {
    if text.len() > LONGEST_NAME {
        return None;
    }
    super::super::mongo_client::unescaped(text)
}

/// The other file that may have the same content: `c.bson.gz` beside `c.bson`, and the other way round.
fn sibling(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "gz") {
        return path.with_extension("");
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    PathBuf::from(name)
}

/// Removes the file of an earlier dump, compressed or not, that this dump has none for.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    for path in [path, &sibling(path)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// The file that a dump's directory has until the dump is complete: of one that was cut short, some collections may be missing,
/// others may be those of an earlier dump, and documents may have the options and indexes of another.
pub(super) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// Its path in the directory of a dump.
    pub(super) fn path(dump: &Path) -> PathBuf {
        // No database can have this name.
        dump.join("dump.unfinished")
    }

    /// Marks the directory, before a file of the dump is in it.
    pub(super) fn mark(dump: &Path) -> Result<Unfinished, Failure> {
        let path = Unfinished::path(dump);
        let text = b"treedb dump is writing into this directory, or was interrupted.\n";
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()
        });
        written.map_err(|error| failed(&path, &error))?;
        sync_folder(dump)?;
        Ok(Unfinished { path })
    }

    /// Everything of the dump is on disk under its name.
    pub(super) fn complete(self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| failed(&self.path, &error))?;
        sync_name(&self.path)
    }
}

/// A file that is being written under another name, and gets its own when it is complete.
pub(super) struct Sink {
    to: Option<Writer>,
    temporary: PathBuf,
    path: PathBuf,
}

enum Writer {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Sink {
    /// Creates a file; with `gzip`, `.gz` is added to its name.
    pub(super) fn create(path: &Path, gzip: bool) -> Result<Sink, Failure> {
        let mut name = path.as_os_str().to_owned();
        if gzip {
            name.push(".gz");
        }
        Sink::named(PathBuf::from(name), gzip)
    }

    /// Creates a file that is called that, compressed or not.
    pub(super) fn named(path: PathBuf, gzip: bool) -> Result<Sink, Failure> {
        let temporary = crate::cli::export::temporary_name(&path);
        let file = File::create(&temporary).map_err(|error| failed(&path, &error))?;
        let file = BufWriter::with_capacity(BUFFER, file);
        let to = if gzip {
            Writer::Gzip(GzEncoder::new(file, Compression::default()))
        } else {
            Writer::Plain(file)
        };
        Ok(Sink { to: Some(to), temporary, path })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.to {
            Some(Writer::Plain(file)) => file.write_all(bytes),
            Some(Writer::Gzip(file)) => file.write_all(bytes),
            None => Ok(()),
        };
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Everything is in it. It replaces the file of an earlier dump, compressed or not.
    pub(super) fn complete(mut self) -> Result<(), Failure> {
        self.name().map_err(|error| failed(&self.path, &error))?;
        let earlier = sibling(&self.path);
        if earlier.exists() {
            // At no moment is there neither.
            sync_name(&self.path)?;
            fs::remove_file(&earlier).map_err(|error| failed(&earlier, &error))?;
        }
        Ok(())
    }

    /// Gives the file its name, when its content is on disk.
    fn name(&mut self) -> io::Result<()> {
        let file = match self.to.take() {
            Some(Writer::Plain(file)) => file,
            Some(Writer::Gzip(file)) => match file.finish() {
                Ok(file) => file,
                Err(error) => return Err(self.give_up(error)),
            },
            None => return Ok(()),
        };
        let written = file.into_inner().map_err(io::IntoInnerError::into_error);
        let named =
            written.and_then(|file| file.sync_all()).and_then(|()| fs::rename(&self.temporary, &self.path));
        named.map_err(|error| self.give_up(error))
    }

    /// The file cannot be completed.
    fn give_up(&self, error: io::Error) -> io::Error {
        // That error is reported, and not one of cleaning up after it.
        let _ = fs::remove_file(&self.temporary);
        error
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.to.is_some() {
            // The dump has failed, and that error is reported.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// What a compressed file without a date begins with. Of a BSON file the last byte of these would be the end of a document.
const COMPRESSED: &[u8] = &[0x1f, 0x8b, 8, 0, 0];

/// Opens a file, which is compressed if its name ends in `.gz`, or if it begins so: `mongodump` compresses `oplog.bson` too.
fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let mut file = BufReader::with_capacity(BUFFER, file);
    let named = path.extension().is_some_and(|extension| extension == "gz");
    if named || file.fill_buf().map_err(|error| failed(path, &error))?.starts_with(COMPRESSED) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// The documents of a BSON file.
pub(super) struct BsonFile {
    input: Box<dyn Read>,
    path: PathBuf,
    /// Bytes read.
    at: u64,
}

impl BsonFile {
    pub(super) fn open(path: &Path) -> Result<BsonFile, Failure> {
        Ok(BsonFile { input: open(path)?, path: path.to_owned(), at: 0 })
    }

    /// Bytes of documents that were read.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    fn damaged(&self, what: &str) -> Failure {
        failed(&self.path, &format!("{what} at byte {}: the file is cut or is no BSON dump", self.at))
    }

    /// The next document; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RawDocumentBuf>, Failure> {
        let mut length = [0; 4];
        let mut got = 0;
        while got < length.len() {
            let rest = length.get_mut(got..).unwrap_or_default();
            match self.input.read(rest) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(self.damaged("a document without its length")),
                Ok(read) => got += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.path, &error)),
            }
        }
        let size = usize::try_from(i32::from_le_bytes(length)).unwrap_or(0);
        if !(5..=MAX_DOCUMENT_SIZE + EXTRA).contains(&size) {
            return Err(self.damaged(&format!("a document of {} bytes", i32::from_le_bytes(length))));
        }
        let mut bytes = Vec::with_capacity(size.min(BUFFER));
        bytes.extend_from_slice(&length);
        let read = (&mut self.input).take(size as u64 - 4).read_to_end(&mut bytes);
        read.map_err(|error| failed(&self.path, &error))?;
        if bytes.len() < size {
            return Err(self.damaged("a document that is cut"));
        }
        let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| self.damaged(&error.to_string()))?;
        self.at += size as u64;
        Ok(Some(document))
    }
}

/// What a dump says of a collection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metadata {
    pub(super) name: String,
    /// `collection`, `view` or `timeseries`.
    pub(super) kind: String,
    /// 32 hexadecimal digits; a view has none.
    pub(super) uuid: Option<String>,
    pub(super) options: Document,
    pub(super) indexes: Vec<Document>,
    /// Search indexes, which `mongodump` does not know.
    pub(super) search_indexes: Vec<Document>,
}

impl Metadata {
    /// As canonical extended JSON.
    pub(super) fn to_json(&self) -> String {
        let mut document = doc! { "options": self.options.clone(), "indexes": self.indexes.clone() };
        if let Some(uuid) = &self.uuid {
            document.insert("uuid", uuid);
        }
        document.insert("collectionName", &self.name);
        document.insert("type", &self.kind);
        if !self.search_indexes.is_empty() {
            document.insert("treedbSearchIndexes", self.search_indexes.clone());
        }
        Bson::Document(document).into_canonical_extjson().to_string()
    }

    /// Reads a file; older ones lack the name, which is `name` then.
    pub(super) fn read(path: &Path, name: Option<String>) -> Result<Metadata, Failure> {
        let mut text = String::new();
        open(path)?.read_to_string(&mut text).map_err(|error| failed(path, &error))?;
        let document = from_json(&text).map_err(|error| failed(path, &error.message))?;
        let mut document = Document::try_from(document).map_err(|error| failed(path, &error))?;
        let documents = |list: Option<Bson>| -> Result<Vec<Document>, Failure> {
            let Some(list) = list else { return Ok(Vec::new()) };
            let list = match list {
                Bson::Array(list) => list,
                _ => return Err(failed(path, &"indexes that are no array")),
            };
            let of = |index| match index {
                Bson::Document(index) => Ok(index),
                _ => Err(failed(path, &"an index that is no document")),
            };
            list.into_iter().map(of).collect()
        };
        let own = document.get_str("collectionName").ok().map(str::to_owned);
        let Some(name) = own.or(name) else {
            return Err(failed(path, &"the name of the collection is not in it, and not in its own name"));
        };
        let options = match document.remove("options") {
            Some(Bson::Document(options)) => options,
            _ => Document::new(),
        };
        Ok(Metadata {
            name,
            kind: document.get_str("type").unwrap_or("collection").to_owned(),
            uuid: document.get_str("uuid").ok().map(str::to_owned),
            options,
            indexes: documents(document.remove("indexes"))?,
            search_indexes: documents(document.remove("treedbSearchIndexes"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_come_back_as_names_unless_they_had_to_be_shortened() {
        for (name, file) in [("films", "films"), ("a/b c%é", "a%2Fb%20c%25%C3%A9"), ("$x.y", "$x.y")] {
            assert_eq!(escaped(name), file);
            assert_eq!(unescaped(file).as_deref(), Some(name));
        }
        let long = "é".repeat(100);
        let file = escaped(&long);
        assert_eq!(file.len(), SHORTENED + 3 + 27);
        assert!(file.starts_with("%C3%A9") && escaped(&(long + "x")) != file);
        assert_eq!(unescaped(&"x".repeat(LONGEST_NAME + 1)), None);
    }

    #[test]
    fn a_damaged_file_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.bson");
        let one = bson::rawdoc! { "a": 1 }.into_bytes();
        for (extra, message) in [
            (&one[..7], "a document that is cut at byte 12"),
            (&[1, 0][..], "a document without its length at byte 12"),
            (&[4, 0, 0, 0], "a document of 4 bytes at byte 12"),
            (&[255, 255, 255, 127], "a document of 2147483647 bytes"),
            (&[255, 255, 255, 255], "a document of -1 bytes"),
            (&[5, 0, 0, 0, 1], "at byte 12"),
        ] {
            fs::write(&path, [&one[..], extra].concat()).unwrap();
            let mut file = BsonFile::open(&path).unwrap();
            assert_eq!(file.next().ok().flatten(), Some(bson::rawdoc! { "a": 1 }));
            let error = file.next().err().unwrap().0;
            assert!(error.contains(message) && error.contains("c.bson"), "{error}");
        }
    }
}
