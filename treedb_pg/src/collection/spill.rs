//! Memory and temporary files of sorts and groups: `work_mem`, and beyond it files that count against
//! `temp_file_limit`.

use std::io;

use treedb_query::access::{QueryContext, TempFile as ScratchFile, TempFiles};
use treedb_query::query::Result;

use crate::shim::server;
use crate::shim::temp_file::TransactionFile;
use crate::shim::thread::ServerThread;

/// Bytes that a sort may take in memory.
pub(super) fn work_mem() -> usize {
    server::work_mem()
}

/// A context whose queries may use temporary files.
pub(super) fn spilling() -> QueryContext<'static> {
    QueryContext { temp_files: Some(&ServerFiles), ..QueryContext::default() }
}

/// A new temporary file.
pub(super) fn temp_file() -> Box<dyn ScratchFile> {
    Box::new(File(ServerThread::new(TransactionFile::create())))
}

struct ServerFiles;

impl TempFiles for ServerFiles {
    fn create(&self) -> Result<Option<Box<dyn ScratchFile>>> {
        Ok(Some(temp_file()))
    }
}

/// A temporary file as the engine uses one: written from its beginning, then read from its beginning. Errors of the
/// device are SQL errors.
struct File(ServerThread<TransactionFile>);

impl File {
    fn get(&mut self) -> io::Result<&mut TransactionFile> {
        self.0
            .get()
            .ok_or_else(|| io::Error::other("a temporary file can only be used by the server's thread"))
    }
}

impl io::Read for File {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Ok(self.get()?.read(out))
    }
}

impl io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.get()?.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for File {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        if to != io::SeekFrom::Start(0) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a temporary file is only rewound"));
        }
        self.get()?.rewind();
        Ok(0)
    }
}
