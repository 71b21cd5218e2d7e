//! A log with bytes changed anywhere, its headers' checksums made right again: it opens with frames that were written
//! or with an error, and goes on.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use treedb_storage::disk::crash::Crash;
use treedb_storage::disk::{Disk, SimDisk};
use treedb_storage::wal::{Log, LogOptions, Lsn, Sync};

const DIR: &str = "/log";

fn options() -> LogOptions {
    let mut options = LogOptions::default();
    (options.segment_bytes, options.max_buffered) = (4096, 1024);
    options
}

fn payload(n: u64) -> Vec<u8> {
    vec![n as u8; (n as usize * 37) % 300]
}

/// A log of some segments, as a killed process left it.
fn written() -> &'static SimDisk {
    static DISK: OnceLock<SimDisk> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = SimDisk::with_dir(Path::new(DIR));
        let (log, _) = Log::open(Arc::new(disk.clone()), Path::new(DIR), options()).unwrap();
        for n in 0..40 {
            let sync = if n % 3 == 0 { Sync::Relaxed } else { Sync::Durable };
            let lsn = log.append(&payload(n), sync).unwrap();
            if n % 5 == 0 {
                log.wait_durable(lsn).unwrap();
            }
        }
        disk.crash(Crash::Everything)
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((&[applied, resum], data)) = data.split_first_chunk() else { return };
    let disk = written().crash(Crash::Everything);
    let names = disk.list(Path::new(DIR)).unwrap();
    let files: Vec<PathBuf> = names.iter().map(|name| Path::new(DIR).join(name)).collect();
    let mut contents: Vec<Vec<u8>> = files.iter().map(|path| disk.contents(path).unwrap()).collect();
    // Each change: which file, where, and what.
    for &[file, high, low, byte] in data.as_chunks::<4>().0 {
        let file = usize::from(file) % contents.len();
        let at = usize::from(u16::from_be_bytes([high, low]));
        if at < contents[file].len() {
            contents[file][at] = byte;
        } else {
            contents[file].truncate(usize::from(byte) * 16);
        }
    }
    for (path, mut bytes) in files.into_iter().zip(contents) {
        if resum % 2 == 0 && bytes.len() >= 64 {
            let sum = crc32c::crc32c(&bytes[..60]);
            bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        }
        disk.overwrite(&path, bytes);
    }
    let mut options = options();
    options.applied = Lsn(u64::from(applied % 50));
    let Ok((log, mut recovery)) = Log::open(Arc::new(disk), Path::new(DIR), options) else { return };
    loop {
        match recovery.next() {
            Ok(Some(frame)) => assert!(frame.payload.len() < 300, "a frame that was never written"),
            Ok(None) => break,
            Err(_) => return,
        }
    }
    if let Ok(lsn) = log.append(b"after", Sync::Durable) {
        log.wait_durable(lsn).unwrap();
    }
});
