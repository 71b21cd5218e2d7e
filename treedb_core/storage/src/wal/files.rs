//! The log's files: the segments in use, and spare ones kept for reuse.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::Lsn;
use super::log::{Log, LogOptions, lock};
use super::segment::{AHEAD, FIRST_FRAME, Header, Segment, name, preallocate, spare_name, zero_fill};
use crate::Result;
use crate::disk::Disk;

/// A segment in use. Its successor's first LSN says where it ends.
struct Live {
    first: Lsn,
    /// Bytes of the file, once it is full; 0 for the current one, which may grow.
    size: u64,
    /// Bytes of frames, once it is full; 0 for the current one.
    used: u64,
}

/// The files of a log.
#[derive(Default)]
pub(super) struct Files {
    live: VecDeque<Live>,
    /// Paths of full-length segments whose frames no one needs, made durable under these names.
    pub(super) spares: Vec<PathBuf>,
}

impl Files {
    /// Keeps a spare found at opening, or removes it if it has another length or is one too many.
    pub(super) fn adopt(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        first: Lsn,
        options: &LogOptions,
    ) -> Result<()> {
        let path = dir.join(spare_name(first));
        if self.spares.contains(&path) {
            return Ok(());
        }
        if self.spares.len() < options.spares && disk.open(&path, false)?.len()? == options.segment_bytes {
            self.spares.push(path);
            return Ok(());
        }
        disk.remove(&path)
    }

    /// Makes a segment that opening found to be covered by the checkpoint a spare.
    pub(super) fn retire(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        first: Lsn,
        options: &LogOptions,
    ) -> Result<()> {
        let spare = dir.join(spare_name(first));
        disk.rename(&dir.join(name(first)), &spare)?;
        self.adopt(disk, dir, first, options)
    }

    /// A segment in use is added after the others; of the one before it, `used` are the frame bytes and `size` those
    /// of its file.
    pub(super) fn push(&mut self, segment: &Segment, used: u64, size: u64) {
        if let Some(full) = self.live.back_mut() {
            (full.used, full.size) = (used, size);
        }
        self.live.push_back(Live { first: segment.header.first, size: 0, used: 0 });
    }

    /// Segments in use.
    pub(super) fn segments(&self) -> usize {
        self.live.len()
    }

    /// Bytes of frames in the full segments.
    pub(super) fn full_bytes(&self) -> u64 {
        self.live.iter().map(|l| l.used).sum()
    }

    /// Makes a segment with this header, from a spare if one is as long; only full-length ones are kept as spares,
    /// so a small segment becomes a full-length one when there is a spare.
    pub(super) fn make(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        mut header: Header,
        full: u64,
    ) -> Result<Arc<Segment>> {
        let spare = if header.size <= full { self.spares.pop() } else { None };
        if spare.is_some() {
            header.size = full;
        }
        Segment::create(disk, dir, header, spare)
    }
}

impl Log {
    /// See [`Log::prepare`].
    pub(super) fn prepare_spare(&self) -> Result<()> {
        // A number that no frame, and so no spare segment, ever has.
        let path = self.dir.join(spare_name(Lsn(1 << 63 | lock(&self.tail).next)));
        let d = self.disk.as_ref();
        if !lock(&self.files).spares.is_empty() || d.exists(&path)? {
            return Ok(());
        }
        let draft = self.dir.join(AHEAD);
        let size = self.options.segment_bytes;
        let fill = || {
            let file = d.open(&draft, false)?;
            zero_fill(file.as_ref(), FIRST_FRAME, size)?;
            file.sync()
        };
        let made = preallocate(d, &draft, size)
            .and_then(|()| fill())
            .and_then(|()| d.rename(&draft, &path))
            .and_then(|()| d.sync_dir(&self.dir));
        if let Err(error) = made {
            let _ = d.remove(&draft);
            return Err(error);
        }
        lock(&self.files).spares.push(path);
        Ok(())
    }

    /// See [`Log::cut`].
    pub(super) fn cut_files(&self, upto: Lsn) -> Result<()> {
        let (gone, keep) = {
            let mut files = lock(&self.files);
            let mut gone = Vec::new();
            // A segment is wholly covered when its successor starts at or before the first frame still needed.
            while files.live.get(1).is_some_and(|next| next.first.0 <= upto.0.saturating_add(1)) {
                gone.extend(files.live.pop_front());
            }
            (gone, self.options.spares.saturating_sub(files.spares.len()))
        };
        if gone.is_empty() {
            return Ok(());
        }
        // The files are no longer in use, so the directory is flushed without blocking the writer.
        let mut spares = Vec::new();
        for old in gone {
            let path = self.dir.join(name(old.first));
            if old.size == self.options.segment_bytes && spares.len() < keep {
                let spare = self.dir.join(spare_name(old.first));
                self.disk.rename(&path, &spare)?;
                spares.push(spare);
            } else {
                self.disk.remove(&path)?;
            }
        }
        self.disk.sync_dir(&self.dir)?;
        lock(&self.files).spares.extend(spares);
        Ok(())
    }
}
