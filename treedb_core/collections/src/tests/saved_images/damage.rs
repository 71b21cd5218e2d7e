//! Files that are cut off, or have other bytes, with right checksums too.

use std::io::{Read, Write};

use super::*;

/// The content of the only file, and its identity.
fn content(db: &Database, disk: &SimDisk) -> (String, [u8; 64], Vec<u8>) {
    let [file] = &*files(disk) else { panic!("one file") };
    let (name, bytes) = (file.file_name().unwrap().to_str().unwrap(), disk.contents(file).unwrap());
    let identity = bytes[16..80].try_into().unwrap();
    let mut content = Vec::new();
    let file = db.store().derived_files().unwrap().open(name, &identity).unwrap().unwrap();
    { file }.read_to_end(&mut content).unwrap();
    (name.to_owned(), identity, content)
}

#[test]
fn a_file_that_is_cut_off_at_any_length_is_not_used() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(21));
    saved(&disk, &mut rng).close().unwrap();
    let [file] = &*files(&disk) else { panic!("one file") };
    let bytes = disk.contents(file).unwrap();
    let ends = [0, 1, 127, 128, 129, 128 + 65_536, 128 + 65_540, bytes.len() - 5, bytes.len() - 1];
    let others: Vec<usize> = (0..30).map(|_| rng.below(bytes.len())).collect();
    for len in ends.into_iter().chain(others) {
        let copy = disk.crash(Crash::Everything);
        copy.overwrite(file, bytes[..len].to_vec());
        assert_eq!(reopened(&copy, &mut rng), (1, 0), "{len}");
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + 1 + rng.below(100_000), 0);
        copy.overwrite(file, longer);
        assert_eq!(reopened(&copy, &mut rng), (1, 0), "{len}");
    }
}

#[test]
fn content_with_right_checksums_that_is_no_image_is_refused_and_never_a_panic() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(22));
    saved(&disk, &mut rng).close().unwrap();
    let (name, identity, sound) = content(&open(&disk).unwrap(), &disk);
    let (mut refused, mut cut) = (0, 0);
    for round in 0..240 {
        let disk = disk.crash(Crash::Everything);
        let db = open(&disk).unwrap();
        let mut bytes = sound.clone();
        match round % 4 {
            // The numbers of nodes, levels and free ones.
            0 => {
                let at = 4 * rng.below(7);
                let number = [u32::MAX, u32::MAX - 1, 1 << 31, 1 << 20, 0, 1][rng.below(6)];
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            1 => bytes.truncate(rng.below(sound.len())),
            // The numbers of nodes in the table are last.
            2 => {
                let at = sound.len() - 8 * (1 + rng.below(DOCUMENTS as usize));
                let number = [u64::MAX, 0, 1 << 63, 1 << 40, rng.next_u64(), 8][rng.below(6)];
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            _ => (0..20).for_each(|_| bytes[rng.below(sound.len())] ^= 1 << rng.below(8)),
        }
        let files = db.store().derived_files().unwrap();
        files.write(&name, &identity, |out| out.write_all(&bytes)).unwrap();
        // Floats that are others are not noticed. Whatever is found, every search ends.
        for _ in 0..20 {
            let request = VectorSearchRequest::new("near", floats(&mut rng), 10);
            let _ = things(&db).vector_search(&request);
        }
        let memory = db.vector_memory_use();
        refused += memory.built;
        if round % 4 == 1 {
            cut += 1;
            assert_eq!((memory.built, memory.loaded), (1, 0), "{}", bytes.len());
        }
        if memory.built == 1 {
            check_all(&db, &mut rng);
        }
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 30 } })).unwrap();
        // Whatever an image was read from, there is one in the end.
        for _ in 0..30 {
            let _ = things(&db).vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 10));
        }
        let memory = db.vector_memory_use();
        assert_eq!((memory.images, memory.without_image), (1, 0), "{round}");
    }
    assert!(cut == 60 && refused > 150, "{refused}");
}
