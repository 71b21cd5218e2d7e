//! The log's files: the segments in use, and spare ones kept for reuse.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::Lsn;
use super::log::{Log, LogOptions, lock};
use super::segment::{AHEAD, FIRST_FRAME, Header, Segment, name, preallocate, spare_name, zero_fill};
use crate::Result;
use crate::disk::Disk;

/// A segment in use. It ends where its successor's first LSN begins.
struct LiveSegment {
    first: Lsn,
    /// Length of the file once the segment is full; 0 for the current segment, which may grow.
    size: u64,
    /// Bytes of frames once the segment is full; 0 for the current segment.
    used: u64,
}

/// The files of a log.
#[derive(Default)]
pub(super) struct Files {
    live: VecDeque<LiveSegment>,
    /// Paths of full-length segments whose frames are no longer needed. The names are durable.
    pub(super) spares: Vec<PathBuf>,
}

impl Files {
    /// Keeps a spare segment found when opening, or removes it if it has another length or there are enough.
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

    /// Turns a segment that is covered by the checkpoint into a spare; for opening.
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

    /// Adds the new current segment. `used` and `size` are the bytes of frames and the file length of the
    /// segment before it.
    pub(super) fn push(&mut self, segment: &Segment, used: u64, size: u64) {
        if let Some(full) = self.live.back_mut() {
            (full.used, full.size) = (used, size);
        }
        self.live.push_back(LiveSegment { first: segment.header.first, size: 0, used: 0 });
    }

    /// The number of segments in use.
    pub(super) fn segments(&self) -> usize {
        self.live.len()
    }

    /// Bytes of frames in the full segments.
    pub(super) fn full_bytes(&self) -> u64 {
        self.live.iter().map(|l| l.used).sum()
    }

    /// Creates a segment with this header, from a spare if the segment is not longer than one. Spares have
    /// the full length, so a shorter segment gets the full length if there is a spare.
    pub(super) fn create_segment(
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
        // An LSN that no frame ever has, so no other spare segment has this name.
        let path = self.dir.join(spare_name(Lsn(1 << 63 | lock(&self.appender).next)));
        let d = self.disk.as_ref();
        if !lock(&self.files).spares.is_empty() || d.exists(&path)? {
            return Ok(());
        }
        let unfinished = self.dir.join(AHEAD);
        let size = self.options.segment_bytes;
        let fill = || {
            let file = d.open(&unfinished, false)?;
            zero_fill(file.as_ref(), FIRST_FRAME, size)?;
            file.sync()
        };
        // Nobody needs it yet: derived data is not removed for it.
        let created = preallocate(d, &unfinished, |file| file.reserve_early(size))
            .and_then(|()| fill())
            .and_then(|()| d.rename(&unfinished, &path))
            .and_then(|()| d.sync_dir(&self.dir));
        if let Err(error) = created {
            let _ = d.remove(&unfinished);
            return Err(error);
        }
        lock(&self.files).spares.push(path);
        Ok(())
    }

    /// See [`Log::cut`].
    pub(super) fn cut_files(&self, upto: Lsn) -> Result<()> {
        let (obsolete, wanted_spares) = {
            let mut files = lock(&self.files);
            let mut obsolete = Vec::new();
            // A segment is not needed if its successor starts at or before the first frame that is.
            while files.live.get(1).is_some_and(|next| next.first.0 <= upto.0.saturating_add(1)) {
                obsolete.extend(files.live.pop_front());
            }
            (obsolete, self.options.spares.saturating_sub(files.spares.len()))
        };
        if obsolete.is_empty() {
            return Ok(());
        }
        // These files are no longer in use, so the directory is flushed without holding a lock that blocks
        // the writer.
        let mut spares = Vec::new();
        for old in obsolete {
            let path = self.dir.join(name(old.first));
            if old.size == self.options.segment_bytes && spares.len() < wanted_spares {
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
