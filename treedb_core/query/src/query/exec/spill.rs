//! Records in temporary files: `length of the first part (4 bytes, little endian), length of the second, both parts`.

use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

use crate::access::TempFile;
use crate::error::{ErrorCode, QueryError, Result};

fn device(error: std::io::Error) -> QueryError {
    let code = match error.kind() {
        ErrorKind::StorageFull => ErrorCode::OutOfDiskSpace,
        _ => ErrorCode::InternalError,
    };
    QueryError::new(code, format!("a scratch file failed: {error}"))
}

/// A file being written.
pub(crate) struct SpillWriter(BufWriter<Box<dyn TempFile>>);

impl SpillWriter {
    pub(crate) fn new(file: Box<dyn TempFile>) -> Self {
        SpillWriter(BufWriter::with_capacity(1 << 16, file))
    }

    /// Appends a record.
    pub(crate) fn put(&mut self, first: &[u8], second: &[u8]) -> Result<()> {
        for part in [first, second] {
            self.0.write_all(&(part.len() as u32).to_le_bytes()).map_err(device)?;
        }
        self.0.write_all(first).map_err(device)?;
        self.0.write_all(second).map_err(device)
    }

    /// The file from its beginning.
    pub(crate) fn reader(self) -> Result<SpillReader> {
        let mut file = self.0.into_inner().map_err(|error| device(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(device)?;
        Ok(SpillReader(BufReader::with_capacity(1 << 16, file)))
    }
}

/// A file being read.
pub(crate) struct SpillReader(BufReader<Box<dyn TempFile>>);

impl SpillReader {
    /// Begins again.
    pub(crate) fn rewind(&mut self) -> Result<()> {
        self.0.seek(SeekFrom::Start(0)).map(drop).map_err(device)
    }

    /// The next record; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut head = [0; 8];
        if self.0.read(head.get_mut(..1).unwrap_or_default()).map_err(device)? == 0 {
            return Ok(None);
        }
        self.0.read_exact(head.get_mut(1..).unwrap_or_default()).map_err(device)?;
        let [a, b, c, d, e, f, g, h] = head;
        let mut part = |len: [u8; 4]| {
            let mut part = vec![0; u32::from_le_bytes(len) as usize];
            self.0.read_exact(&mut part).map_err(device)?;
            Ok::<_, QueryError>(part)
        };
        Ok(Some((part([a, b, c, d])?, part([e, f, g, h])?)))
    }
}
