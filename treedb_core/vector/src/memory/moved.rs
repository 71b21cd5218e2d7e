//! A graph that goes on in a file that a version of it was written to.
//!
//! What the graph still shares with that version is in the file too, record for record, so the segments of the file take the place of
//! those in memory, or in another file. No node gets another number, and none is read: whoever meets a segment of the file checks it, as in any
//! file. What was changed since stays as it is.

use std::sync::Arc;

use super::segment::{Number, Segment};
use super::vectors::Vectors;
use super::{MemoryGraph, Records};

impl<T: Number> Records<T> {
    /// The same records, of which those that `written` has where these are, are in `file`, which `written` was written to and mapped from.
    /// `None` if some would stay in another file, or the file has other records.
    pub fn moved(&self, written: &Records<T>, file: &Records<T>) -> Option<Records<T>> {
        if self.shape() != file.shape() || written.count() != file.count() {
            return None;
        }
        let mut mapped = 0;
        let branches = self.branches.iter().enumerate().map(|(at, own)| {
            let written = written.branches.get(at).map_or(&[][..], |written| &**written);
            let in_file = file.branches.get(at);
            if std::ptr::eq(&**own, written)
                && let Some(in_file) = in_file
            {
                mapped += in_file.len();
                return Some(Arc::clone(in_file));
            }
            let in_file = in_file.map_or(&[][..], |in_file| &**in_file);
            let segments = own.iter().enumerate().map(|(at, own)| {
                let is_there = written.get(at).is_some_and(|written| own.is_where(written));
                match in_file.get(at).filter(|_| is_there) {
                    Some(in_file) => {
                        mapped += 1;
                        Some(in_file.clone())
                    }
                    None => Some(own.clone()).filter(|own| !own.is_mapped()),
                }
            });
            segments.collect::<Option<Arc<[Segment<T>]>>>()
        });
        let branches = branches.collect::<Option<Vec<_>>>()?;
        Some(self.with_segments(branches, mapped))
    }
}

impl Vectors {
    /// See [`Records::moved`].
    fn moved(&self, written: &Vectors, file: &Vectors) -> Option<Vectors> {
        match (self, written, file) {
            (Vectors::Floats(own), Vectors::Floats(written), Vectors::Floats(file)) => {
                own.moved(written, file).map(Vectors::Floats)
            }
            (Vectors::Coded(own), Vectors::Coded(written), Vectors::Coded(file)) => {
                own.moved(written, file).map(Vectors::Coded)
            }
            (Vectors::Halves(own, element), Vectors::Halves(written, _), Vectors::Halves(file, _)) => {
                own.moved(written, file).map(|records| Vectors::Halves(records, *element))
            }
            (Vectors::Packed(own), Vectors::Packed(written), Vectors::Packed(file)) => {
                own.moved(written, file).map(Vectors::Packed)
            }
            _ => None,
        }
    }
}

impl MemoryGraph {
    /// The same graph, in a file: `file` is what was mapped of the file that `written`, a version of this graph, was written to. What neither has
    /// changed since then takes no memory of its own any more. `None` if some of it would stay in another file, or the two are no
    /// such graphs.
    pub fn moved(&self, written: &MemoryGraph, file: &MemoryGraph) -> Option<MemoryGraph> {
        let codes = self.codes.records().moved(written.codes.records(), file.codes.records())?;
        let links = self.links.moved(&written.links, &file.links)?;
        let scores = match (&self.scores, &written.scores, &file.scores) {
            (None, None, None) => None,
            (Some(own), Some(written), Some(file)) => Some(own.moved(written, file)?),
            _ => return None,
        };
        let vectors = self.vectors.moved(&written.vectors, &file.vectors)?;
        let levels = self.above.records.moved(&written.above.records, &file.above.records)?;
        let mut moved = self.clone();
        *moved.codes.records_mut() = codes;
        (moved.links, moved.scores, moved.vectors, moved.above.records) = (links, scores, vectors, levels);
        moved.file.clone_from(&file.file);
        Some(moved)
    }

    /// Keeps no file in use if none of its records is in one. For who has no other records in the file either, whose damage the graph would tell.
    pub fn leave_file(&mut self) {
        if self.mapped_bytes() == 0 {
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::Rng;

    use super::*;
    use crate::graph::{Link, NodesMut};
    use crate::memory::bytes::tests::{
        FORMS, add_nodes, change, empty, find, mapped, read, sample, vector, written,
    };

    /// Gives some nodes that there are other vectors, and links to such nodes.
    fn change_nodes(graph: &mut MemoryGraph, rng: &mut Rng) {
        for _ in 0..20 {
            let mut node = || 200 + rng.below(500) as u32;
            let links: Vec<Link<u32>> = (0..6).map(|_| Link { score: 1.0, node: node() }).collect();
            let node = node();
            graph.set_links(node, 0, &links).unwrap();
            graph.set_vector(node, &vector(rng)).unwrap();
        }
    }

    #[test]
    fn a_graph_that_goes_on_in_a_file_is_the_same_and_what_was_changed_stays_in_memory() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 60);
            let graph = sample(form, &mut rng);
            let bytes = written(&graph);
            let file = read(empty(form), &bytes).unwrap();
            let all = graph.moved(&graph, &file).unwrap();
            assert_eq!((all.bytes(), all.mapped_bytes()), (file.bytes(), file.mapped_bytes()), "{form}");
            assert!(written(&all) == bytes && all.is_mapped() && !graph.is_mapped(), "{form}");
            // A version that has gone on meanwhile, with nodes that the file does not have.
            let mut newer = graph.clone();
            change(&mut newer, &mut rng);
            let moved = newer.moved(&graph, &file).unwrap();
            drop(graph);
            assert!(written(&moved) == written(&newer) && moved.len() == newer.len(), "{form}");
            assert!(all.bytes() < moved.bytes() && moved.bytes() < newer.bytes(), "{form}");
            assert!(0 < moved.mapped_bytes() && moved.mapped_bytes() < all.mapped_bytes(), "{form}");
            for _ in 0..20 {
                let query = vector(&mut rng);
                assert_eq!(find(&moved, &query), find(&newer, &query), "{form}");
            }
            // What is changed then changes neither the file nor the versions before.
            let (mut next, before) = (moved.clone(), written(&moved));
            add_nodes(&mut next, &mut rng);
            assert!(written(&moved) == before && written(&all) == bytes && !next.is_damaged(), "{form}");
        }
    }

    #[test]
    fn a_graph_in_a_file_goes_on_in_a_newer_one_and_leaves_the_first() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 80);
            let first = written(&sample(form, &mut rng));
            let (first_file, _) = mapped(&first, &[]);
            let old = MemoryGraph::map(empty(form), &first_file).unwrap().graph;
            let mut changed = old.clone();
            change_nodes(&mut changed, &mut rng);
            let second = written(&changed);
            let file = read(empty(form), &second).unwrap();
            let mut newest = changed.clone();
            change_nodes(&mut newest, &mut rng);
            // The version before has in the first file what was changed then.
            assert!(old.moved(&changed, &file).is_none(), "{form}");
            let moved = newest.moved(&changed, &file).unwrap();
            assert!(written(&moved) == written(&newest), "{form}");
            let expected: Vec<Vec<u32>> =
                (0..20).map(|at| find(&newest, &vector(&mut Rng::new(at)))).collect();
            drop((old, changed, newest));
            assert_eq!(Arc::strong_count(&first_file), 1, "{form}: the first file is still in use");
            let found: Vec<Vec<u32>> = (0..20).map(|at| find(&moved, &vector(&mut Rng::new(at)))).collect();
            assert_eq!(found, expected, "{form}");
            assert!(!moved.is_damaged());
        }
    }

    #[test]
    fn a_graph_of_which_all_has_changed_leaves_the_file_and_one_that_has_something_there_does_not() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 70);
            let (file, _) = mapped(&written(&sample(form, &mut rng)), &[]);
            let mut graph = MemoryGraph::map(empty(form), &file).unwrap().graph;
            graph.leave_file();
            assert!(graph.is_mapped() && graph.mapped_bytes() > 0, "{form}");
            let before = written(&graph);
            // To ask for a record for writing copies its segment.
            fn own<T: Number>(records: &mut Records<T>) {
                (0..records.count() as u32).for_each(|number| {
                    records.get_mut(number);
                });
            }
            own(graph.codes.records_mut());
            own(&mut graph.links);
            graph.scores.iter_mut().for_each(own);
            match &mut graph.vectors {
                Vectors::Floats(records) | Vectors::Coded(records) => own(records),
                Vectors::Halves(records, _) => own(records),
                Vectors::Packed(records) => own(records),
            }
            own(&mut graph.above.records);
            graph.leave_file();
            assert!(!graph.is_mapped() && Arc::strong_count(&file) == 1, "{form}");
            assert!(written(&graph) == before, "{form}");
        }
    }

    #[test]
    fn a_graph_that_goes_on_in_a_damaged_file_says_so_and_one_of_other_records_does_not_go_on() {
        for form in 0..FORMS {
            let mut rng = Rng::new(form as u64 + 90);
            let graph = sample(form, &mut rng);
            let bytes = written(&graph);
            // A graph has a page before its records, or two.
            let damaged: Vec<usize> = (2..bytes.len() / 4096).map(|page| page * 4096).collect();
            let file = MemoryGraph::map(empty(form), &mapped(&bytes, &damaged).0).unwrap().graph;
            let moved = graph.moved(&graph, &file).unwrap();
            assert!(!moved.is_damaged());
            find(&moved, &vector(&mut rng));
            assert!(moved.is_damaged() && !graph.is_damaged(), "{form}");
            // Nothing of it is where the other one is: it stays as it is.
            let same = sample(form, &mut Rng::new(form as u64 + 90));
            assert!(written(&same) == bytes);
            assert!(same.moved(&graph, &file).is_none_or(|moved| moved.mapped_bytes() == 0), "{form}");
            let other =
                read(empty((form + 1) % FORMS), &written(&sample((form + 1) % FORMS, &mut rng))).unwrap();
            assert!(graph.moved(&graph, &other).is_none(), "{form}");
        }
    }
}
