//! A set as documents of a collection with a vector index.

use bson::{RawArrayBuf, rawdoc};
use treedb_collections::{Collection, Database, Durability, IndexSpec, Options, VectorSearchRequest};

use super::sets::Set;
use crate::Result;
use crate::engines::DataDir;

/// Documents with a vector, a title and a number.
pub(crate) struct Documents {
    things: Collection,
    /// Where the database is, as long as this lives.
    _dir: DataDir,
}

impl Documents {
    /// Inserts the vectors of a set and indexes them, with as many links and candidates as the other indexes.
    pub(crate) fn load(set: &Set) -> Result<Documents> {
        let dir = DataDir::new("vectors")?;
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let things = Database::open_with(dir.path(), options)?.collection("bench.things")?;
        let documents = set.vectors.iter().enumerate().map(|(id, vector)| {
            let vector: RawArrayBuf = vector.iter().map(|element| f64::from(*element)).collect();
            rawdoc! { "_id": id as i32, "title": format!("document number {id}"), "v": vector }
        });
        let documents: Vec<_> = documents.collect();
        for batch in documents.chunks(1_000) {
            things.insert_many(batch, true)?;
        }
        let field = rawdoc! { "path": "v", "numDimensions": set.dimensions as i32, "similarity": "cosine" };
        things.create_index(IndexSpec::vector(field).name("near"))?;
        Ok(Documents { things, _dir: dir })
    }

    /// Searches for the `k` nearest documents of queries, one at a time, and gives the rows found for each.
    pub(crate) fn search(
        &self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(k);
        for (i, query) in queries.iter().enumerate() {
            let request = VectorSearchRequest::new("near", query.clone(), k).candidates(ef);
            let found = self.things.vector_search(&request)?;
            rows.clear();
            for neighbor in &found {
                rows.push(neighbor.document.get_i32("_id")? as u32);
            }
            each(i, &rows);
        }
        Ok(())
    }
}
