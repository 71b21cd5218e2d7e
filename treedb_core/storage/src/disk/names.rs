//! The names on a simulated disk: which name in which directory leads to which file or directory.
//!
//! A directory is a thing of its own, as on a real disk: its name stands in the directory above it and is lost with a
//! power cut unless that one was synced, and with it everything below, synced or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::medium::Inode;

/// The directory at the root, which is always there.
pub(super) const ROOT: Inode = 0;

/// A name in a directory.
pub(super) type Place = (Inode, OsString);

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    File(Inode),
    Dir(Inode),
}

/// A change of names, durable after a sync of its directory.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Link { place: Place, target: Target },
    Unlink { place: Place },
    Move { from: Place, to: Place, target: Target },
}

impl NameChange {
    /// The directory whose sync makes it durable; a move is durable as a whole.
    pub(super) fn dir(&self) -> Inode {
        match self {
            NameChange::Link { place, .. } | NameChange::Unlink { place } => place.0,
            NameChange::Move { to, .. } => to.0,
        }
    }
}

/// All names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(BTreeMap<Place, Target>);

impl Names {
    /// What `path` leads to.
    pub(super) fn lookup(&self, path: &Path) -> Option<Target> {
        path.components().try_fold(Target::Dir(ROOT), |at, part| match (at, part) {
            (_, Component::RootDir | Component::CurDir | Component::Prefix(_)) => Some(at),
            (Target::Dir(dir), Component::Normal(name)) => self.0.get(&(dir, name.to_owned())).copied(),
            _ => None,
        })
    }

    /// Where `path` stands, whether something is there or not; `None` if the directory is missing that it would be in.
    pub(super) fn place(&self, path: &Path) -> Option<Place> {
        match self.lookup(path.parent()?)? {
            Target::Dir(dir) => Some((dir, path.file_name()?.to_owned())),
            Target::File(_) => None,
        }
    }

    /// The names in a directory.
    pub(super) fn list(&self, dir: Inode) -> impl Iterator<Item = (&OsString, Target)> {
        let from = (dir, OsString::new());
        self.0.range(from..).take_while(move |((at, _), _)| *at == dir).map(|((_, name), &to)| (name, to))
    }

    pub(super) fn apply(&mut self, change: &NameChange) {
        match change.clone() {
            NameChange::Link { place, target } => {
                self.0.insert(place, target);
            }
            NameChange::Unlink { place } => {
                self.0.remove(&place);
            }
            NameChange::Move { from, to, target } => {
                self.0.remove(&from);
                self.0.insert(to, target);
            }
        }
    }

    /// Every file and every directory that can be reached, by path.
    pub(super) fn walk(&self) -> (BTreeMap<PathBuf, Inode>, BTreeSet<PathBuf>) {
        let (mut files, mut dirs) = (BTreeMap::new(), BTreeSet::new());
        let mut todo = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, dir)) = todo.pop() {
            for (name, target) in self.list(dir) {
                let path = path.join(name);
                match target {
                    Target::File(inode) => {
                        files.insert(path, inode);
                    }
                    Target::Dir(inode) => todo.push((path, inode)),
                }
            }
            dirs.insert(path);
        }
        (files, dirs)
    }
}
