//! Files that are cut off, or have other bytes, with right checksums too.

use std::io::Write;

use super::*;

/// The content of the only file, and its identity.
fn content(db: &Database, disk: &SimDisk) -> (String, [u8; 64], Vec<u8>) {
    let [file] = &*files(disk) else { panic!("one file") };
    let (name, bytes) = (file.file_name().unwrap().to_str().unwrap(), disk.contents(file).unwrap());
    let identity = bytes[16..80].try_into().unwrap();
    let map = db.store().derived_files().unwrap().map(name, &identity).unwrap().unwrap();
    (name.to_owned(), identity, map.read(0..map.len()).unwrap().to_vec())
}

#[test]
fn a_file_that_is_cut_off_at_any_length_is_not_used() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(21));
    saved(&disk, &mut rng).close().unwrap();
    let [file] = &*files(&disk) else { panic!("one file") };
    let bytes = disk.contents(file).unwrap();
    let ends = [0, 1, 127, 128, 129, 4_095, 4_096, 4_097, 8_192, bytes.len() - 5, bytes.len() - 1];
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
            // The numbers of nodes in the table are last, in three pages, but for the number of positions.
            2 => {
                let at = sound.len() - 8 - 3 * 4096 + 8 * rng.below(DOCUMENTS as usize);
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
        refused += memory.built;
        assert_eq!((memory.images, memory.without_image), (1, 0), "{round}");
    }
    assert!(cut == 60 && refused > 150, "{refused}");
}

#[test]
fn a_damaged_file_gives_every_search_the_answer_of_the_table() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(23));
    saved(&disk, &mut rng).close().unwrap();
    let [file] = &*files(&disk) else { panic!("one file") };
    let bytes = disk.contents(file).unwrap();
    let mut built = 0;
    for round in 0..60 {
        let disk = disk.crash(Crash::Everything);
        let mut damaged = bytes.clone();
        // One place, or many.
        for _ in 0..[1, 1, 5, 40][round % 4] {
            damaged[8192 + rng.below(bytes.len() - 8192)] ^= 1 << rng.below(8);
        }
        disk.overwrite(file, damaged);
        let db = open(&disk).unwrap();
        let find = |request: &VectorSearchRequest| -> Vec<(u32, i32)> {
            let found = things(&db).vector_search(request).unwrap();
            found.iter().map(|one| (one.distance.to_bits(), one.document.get_i32("_id").unwrap())).collect()
        };
        for step in 0..12 {
            let whole = VectorSearchRequest::new("near", floats(&mut rng), 10).candidates(400);
            let request = match step % 3 {
                0 => whole,
                // Most of what is found is discarded, so that the search goes on.
                1 => VectorSearchRequest { filter: Some(rawdoc! { "_id": { "$mod": [7, 0] } }), ..whole },
                _ => VectorSearchRequest {
                    filter: Some(rawdoc! { "_id": { "$gte": 300, "$lt": 340 } }),
                    ..whole
                },
            };
            assert_eq!(find(&request), find(&request.clone().exact()), "{round} {step}");
            if round % 3 == 0 {
                let id = (12 * round + step) as i32;
                things(&db).delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
            }
        }
        check_all(&db, &mut rng);
        built += db.vector_memory_use().built;
        // What is saved then is whole, unless what is damaged was never needed.
        db.close().unwrap();
        reopened(&disk, &mut rng);
    }
    assert!(built > 40, "{built}");
}
