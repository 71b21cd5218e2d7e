//! A set as documents of a collection with a vector index.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_collections::{
    Collection, Database, DeleteRequest, Durability, IndexSpec, Options, VectorSearchRequest,
};

use super::sets::Set;
use crate::Result;
use crate::engines::DataDir;

fn document(id: usize, vector: &[f32]) -> RawDocumentBuf {
    let vector: RawArrayBuf = vector.iter().map(|element| f64::from(*element)).collect();
    let title = format!("document number {id}");
    rawdoc! { "_id": id as i32, "title": title, "part": (id % 1000) as i32, "v": vector }
}

/// Documents with a vector, a title and a number.
pub(crate) struct Documents {
    things: Collection,
    /// Where the database is, as long as this lives.
    dir: Arc<DataDir>,
}

impl Documents {
    /// Inserts the vectors of a set and indexes them, with as many links and candidates as the other indexes.
    pub(crate) fn load(set: &Set) -> Result<Documents> {
        let dir = DataDir::new("vectors")?;
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let things = Database::open_with(dir.path(), options)?.collection("bench.things")?;
        Documents::of(things, set, Arc::new(dir))
    }

    /// The same in another collection of this database.
    pub(crate) fn beside(&self, set: &Set) -> Result<Documents> {
        Documents::of(self.things.sibling("bench.others")?, set, self.dir.clone())
    }

    fn of(things: Collection, set: &Set, dir: Arc<DataDir>) -> Result<Documents> {
        let documents: Vec<_> =
            set.vectors.iter().enumerate().map(|(id, vector)| document(id, vector)).collect();
        for batch in documents.chunks(1_000) {
            things.insert_many(batch, true)?;
        }
        let field = rawdoc! { "path": "v", "numDimensions": set.dimensions as i32, "similarity": "cosine" };
        things.create_index(IndexSpec::vector(field).name("near"))?;
        things.create_index(rawdoc! { "part": 1 })?;
        Ok(Documents { things, dir })
    }

    /// Bytes of the index in memory.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.things.database().vector_memory()
    }

    /// Deletes the documents that a filter lets through, so many of a thousand, and inserts them again.
    pub(crate) fn delete_and_insert_again(&self, set: &Set, part: usize) -> Result<()> {
        self.things.delete(DeleteRequest::many(rawdoc! { "part": { "$lt": part as i32 } }))?;
        for (id, vector) in set.vectors.iter().enumerate().filter(|(id, _)| id % 1000 < part) {
            self.insert(id, vector)?;
        }
        Ok(())
    }

    /// Inserts one more document.
    pub(crate) fn insert(&self, id: usize, vector: &[f32]) -> Result<()> {
        self.things.insert_one(document(id, vector))?;
        Ok(())
    }

    /// Searches for the `k` nearest documents of queries, one at a time, and gives the rows found for each.
    pub(crate) fn search(
        &self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        self.answer(queries, &|query| VectorSearchRequest::new("near", query.clone(), k).candidates(ef), each)
    }

    /// The same among the documents that match a filter, which lets so many of a thousand through; without `ef` exactly.
    pub(crate) fn search_filtered(
        &self,
        queries: &[Vec<f32>],
        k: usize,
        part: u32,
        ef: Option<usize>,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        let request = |query: &Vec<f32>| {
            let filter = rawdoc! { "part": { "$lt": part as i32 } };
            let request = VectorSearchRequest::new("near", query.clone(), k).filter(filter);
            match ef {
                Some(ef) => request.candidates(ef),
                None => request.exact(),
            }
        };
        self.answer(queries, &request, each)
    }

    fn answer(
        &self,
        queries: &[Vec<f32>],
        request: &dyn Fn(&Vec<f32>) -> VectorSearchRequest,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        let mut rows = Vec::new();
        for (i, query) in queries.iter().enumerate() {
            let found = self.things.vector_search(&request(query))?;
            rows.clear();
            for neighbor in &found {
                rows.push(neighbor.document.get_i32("_id")? as u32);
            }
            each(i, &rows);
        }
        Ok(())
    }
}
