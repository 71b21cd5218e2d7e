//! Flipped bits, truncated and missing files: the result is an error or an exact prefix, never a wrong
//! payload.

use std::collections::BTreeMap;

use super::*;
use crate::Error;
use crate::disk::sim::SimDisk;

const DIR: &str = "/log";

struct Sample {
    files: BTreeMap<String, Vec<u8>>,
    frames: Vec<(Lsn, Vec<u8>)>,
    /// The number of frames that a later frame or segment claims to be durable.
    claimed: usize,
}

impl Sample {
    /// A log of several segments, shut down cleanly or left by a killed process.
    fn new(closed: bool) -> Sample {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
        let mut frames = Vec::new();
        for i in 0..30 {
            let bytes = payload(i, (i as usize * 67) % 500);
            let sync = if i % 4 == 0 { Sync::Relaxed } else { Sync::Durable };
            let lsn = log.append(&bytes, sync).unwrap();
            log.wait_durable(lsn).unwrap();
            frames.push((lsn, bytes));
        }
        if closed {
            log.close().unwrap();
        }
        drop(log);
        // No other frame claims that the last one is durable, unless the log was closed.
        let claimed = if closed { frames.len() } else { frames.len() - 1 };
        let names = disk.list(Path::new(DIR)).unwrap();
        let files = names
            .into_iter()
            .map(|name| {
                let bytes = disk.contents(&Path::new(DIR).join(&name)).unwrap();
                (name, bytes)
            })
            .collect();
        Sample { files, frames, claimed }
    }

    fn disk(&self, change: impl Fn(&mut BTreeMap<String, Vec<u8>>)) -> Arc<dyn Disk> {
        let mut files = self.files.clone();
        change(&mut files);
        let disk = SimDisk::with_dir(Path::new(DIR));
        for (name, bytes) in files {
            disk.overwrite(&Path::new(DIR).join(name), bytes);
        }
        Arc::new(disk)
    }

    /// True if the damage was reported; otherwise checks that all frames claimed to be durable were read
    /// unchanged.
    fn reported(&self, disk: Arc<dyn Disk>, what: &str) -> bool {
        match open(disk, Path::new(DIR), small()) {
            Err(Error::Corrupt(c)) => {
                assert!(
                    c.file.starts_with(DIR) && !c.expected.is_empty() && !c.found.is_empty(),
                    "{what}: {c}"
                );
                true
            }
            Err(Error::Format { .. }) => true,
            Err(other) => panic!("{what}: {other}"),
            Ok((_, found)) => {
                assert!(found.len() >= self.claimed, "{what}: {} of {} frames", found.len(), self.claimed);
                assert!(found == self.frames[..found.len()], "{what}: wrong frames");
                false
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_or_harmless() {
    for closed in [true, false] {
        let sample = Sample::new(closed);
        assert!(sample.files.len() > 2);
        let (mut reported, mut all) = (0, 0);
        for (name, bytes) in &sample.files {
            for at in 0..bytes.len() {
                all += 1;
                let bit = 1u8 << (at % 8);
                let disk = sample.disk(|files| files.get_mut(name).unwrap()[at] ^= bit);
                reported += u32::from(sample.reported(disk, &format!("{name} byte {at}")));
            }
        }
        println!("log: {all} flips, {reported} reported, the others harmless");
        assert!(reported > 5000);
    }
}

#[test]
fn a_flipped_byte_in_a_header_is_always_reported() {
    let sample = Sample::new(true);
    for name in sample.files.keys() {
        for at in 0..64 {
            for xor in [0x01, 0x80, 0xff] {
                let disk = sample.disk(|files| files.get_mut(name).unwrap()[at] ^= xor);
                assert!(sample.reported(disk, &format!("{name} byte {at}")), "{name} byte {at}");
            }
        }
    }
}

#[test]
fn a_missing_segment_is_reported_wherever_it_is() {
    for closed in [true, false] {
        let sample = Sample::new(closed);
        for name in sample.files.keys() {
            let disk = sample.disk(|files| {
                files.remove(name);
            });
            assert!(sample.reported(disk, name), "{name} is missing and it was not reported");
        }
    }
}

#[test]
fn a_truncated_segment_is_reported() {
    let sample = Sample::new(true);
    for (name, bytes) in &sample.files {
        for len in [0, 1, 63, 64, 511, 512, 600, bytes.len() / 2, bytes.len() - 1] {
            let disk = sample.disk(|files| files.get_mut(name).unwrap().truncate(len));
            // The last byte may be unused: then nothing needs to be reported, but all frames must be there.
            let reported = sample.reported(disk, name);
            assert!(reported || len == bytes.len() - 1, "{name} cut to {len} bytes");
        }
    }
}

#[test]
fn after_a_clean_shutdown_a_grown_segment_may_not_be_shorter() {
    let disk = SimDisk::new();
    let (log, _) = open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap();
    let begun = disk.used();
    while disk.used() == begun {
        log.append(&[7; 200], Sync::Relaxed).unwrap();
    }
    log.close().unwrap();
    drop(log);
    let path = Path::new(DIR).join("0000000000000001.wal");
    let bytes = disk.contents(&path).unwrap();
    assert!(bytes.len() as u64 > begun);
    for len in begun as usize - 1..bytes.len() {
        let cut = SimDisk::new();
        cut.create_dir(Path::new(DIR)).unwrap();
        cut.overwrite(&path, bytes[..len].to_vec());
        assert!(matches!(open(Arc::new(cut), Path::new(DIR), small()), Err(Error::Corrupt(_))), "{len}");
    }
}

#[test]
fn swapped_segments_are_reported() {
    let sample = Sample::new(true);
    let names: Vec<_> = sample.files.keys().cloned().collect();
    let disk = sample.disk(|files| {
        let (a, b) = (files[&names[0]].clone(), files[&names[1]].clone());
        files.insert(names[0].clone(), b);
        files.insert(names[1].clone(), a);
    });
    assert!(sample.reported(disk, "swapped"));
}

#[test]
fn a_log_of_another_version_is_refused_naming_the_file() {
    let sample = Sample::new(true);
    let name = sample.files.keys().next().unwrap().clone();
    let disk = sample.disk(|files| {
        let bytes = files.get_mut(&name).unwrap();
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    });
    match open(disk, Path::new(DIR), small()).map(|_| ()) {
        Err(Error::Format { path, what }) => {
            assert!(path.ends_with(&name) && what.contains("format 2") && what.contains("up to 1"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn random_bytes_after_the_end_are_not_a_frame() {
    let sample = Sample::new(false);
    let last = sample.files.keys().next_back().unwrap().clone();
    let mut rng = treedb_testing::Rng::new(3);
    for _ in 0..200 {
        let noise: Vec<u8> = (0..1024).map(|_| rng.next_u64() as u8).collect();
        let disk = sample.disk(|files| {
            let bytes = files.get_mut(&last).unwrap();
            let end = bytes.iter().rposition(|b| *b != 0).map_or(512, |p| (p + 1).next_multiple_of(8));
            let room = bytes.len() - end;
            bytes[end..end + room.min(1024)].copy_from_slice(&noise[..room.min(1024)]);
        });
        assert!(!sample.reported(disk, "noise"));
    }
}
