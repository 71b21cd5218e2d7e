//! Opening a log after a clean shutdown.

use super::*;
use crate::Error;
use crate::disk::sim::SimDisk;

const DIR: &str = "/log";

/// A closed log with one segment, its last data frame, and the path of the segment.
fn closed() -> (SimDisk, Lsn, PathBuf) {
    let disk = SimDisk::new();
    let options = LogOptions { segment_bytes: 64 << 10, ..small() };
    let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    let last = (0..20).map(|i| durable(&log, &payload(i, 200)).unwrap()).last().unwrap();
    log.close().unwrap();
    let names = disk.list(Path::new(DIR)).unwrap();
    let [name] = &names[..] else { panic!("{names:?}") };
    (disk, last, Path::new(DIR).join(name))
}

fn opened(disk: &SimDisk, applied: Lsn) -> Result<(Log, Frames)> {
    open(Arc::new(disk.clone()), Path::new(DIR), from(applied))
}

/// Changes a byte of a file.
fn flip(disk: &SimDisk, path: &Path, at: usize) {
    let mut bytes = disk.contents(path).unwrap();
    bytes[at] ^= 0x40;
    disk.overwrite(path, bytes);
}

#[test]
fn a_cleanly_closed_log_is_opened_without_reading_unneeded_frames() {
    let (disk, last, path) = closed();
    // A frame that the checkpoint covers is damaged.
    flip(&disk, &path, 2000);
    assert!(matches!(opened(&disk, Lsn::NONE), Err(Error::Corrupt(_))));
    for round in 0..3 {
        let (log, frames) = opened(&disk, last).unwrap();
        assert!(frames.is_empty() && log.last_lsn().0 == last.0 + 2 + 2 * round, "{round}");
        log.close().unwrap();
    }
    let (log, _) = opened(&disk, last).unwrap();
    let next = durable(&log, b"next").unwrap();
    log.close().unwrap();
    assert!(
        matches!(opened(&disk, last), Err(Error::Corrupt(_))),
        "frames are needed, so the damage is found"
    );
    assert!(opened(&disk, next).unwrap().1.is_empty());
}

#[test]
fn a_damaged_clean_shutdown_record_only_makes_opening_search_for_the_end() {
    for at in 64..96 {
        let (disk, last, path) = closed();
        flip(&disk, &path, at);
        let (log, frames) = opened(&disk, last).unwrap();
        assert!(frames.is_empty() && log.last_lsn().0 == last.0 + 2, "byte {at}");
        log.close().unwrap();
    }
    let (disk, last, path) = closed();
    // The same if the frame of the record is damaged.
    let bytes = disk.contents(&path).unwrap();
    let frame = u64::from_le_bytes(*bytes[80..].first_chunk().unwrap()) as usize;
    flip(&disk, &path, frame + 20);
    let (log, frames) = opened(&disk, Lsn::NONE).unwrap();
    assert_eq!((frames.len(), frames.last().map(|f| f.0)), (20, Some(last)));
    drop(log);
}

#[test]
fn a_clean_shutdown_record_is_erased_before_frames_follow_it() {
    let (disk, last, path) = closed();
    let record = disk.contents(&path).unwrap()[64..96].to_vec();
    let (log, _) = opened(&disk, last).unwrap();
    let later = durable(&log, b"after the record").unwrap();
    durable(&log, b"claims that the frame before it is durable").unwrap();
    drop(log);
    let bytes = disk.contents(&path).unwrap();
    assert!(record.iter().any(|&byte| byte != 0) && bytes[64..96] == [0; 32]);
    // The `opened` frame is damaged: this is corruption and not the end of the log, since later frames were
    // durable.
    let closed_frame = u64::from_le_bytes(*record[16..].first_chunk().unwrap()) as usize;
    flip(&disk, &path, closed_frame + 24 + 20);
    assert!(matches!(opened(&disk, last), Err(Error::Corrupt(_))), "{later} was durable");
}
