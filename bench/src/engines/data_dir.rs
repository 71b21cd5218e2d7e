//! Directories for the engines' files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

/// A directory of its own for one store, removed on drop.
pub struct DataDir(PathBuf);

impl DataDir {
    /// A new, empty directory under [`base`].
    ///
    /// # Errors
    /// From the file system.
    pub fn new(name: &str) -> Result<DataDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base()?.join(format!("{name}-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(DataDir(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The bytes that all files in it occupy on disk.
    ///
    /// # Errors
    /// From the file system.
    pub fn bytes(&self) -> Result<u64> {
        fn of(dir: &Path) -> std::io::Result<u64> {
            use std::os::unix::fs::MetadataExt;
            let mut sum = 0;
            for entry in std::fs::read_dir(dir)? {
                let entry = entry?;
                let path = entry.path();
                // Allocated blocks, not lengths: files may be sparse.
                sum += if path.is_dir() { of(&path)? } else { entry.metadata()?.blocks() * 512 };
            }
            Ok(sum)
        }
        Ok(of(&self.0)?)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The parent of all data directories: `BENCH_DIR`, or `target/bench-data` of the checkout.
///
/// # Errors
/// From the file system.
pub fn base() -> Result<PathBuf> {
    let path = match std::env::var_os("BENCH_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-data"),
    };
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
