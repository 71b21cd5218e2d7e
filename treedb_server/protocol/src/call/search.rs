//! Requests for the documents with the nearest vectors, and about indexes.
//!
//! ```text
//! VECTOR_SEARCH        text namespace, text index, u32 limit, u32 candidates, u32 n, n x f32, document filter,
//!                      document projection (flag PROJECTED), f32 greatest distance (flag WITHIN), text field (flag PATH)
//!                      -> u32 n, n x (f32 distance, f64 score, document)
//! CREATE_INDEX         text namespace, document specification -> text name
//! LIST_INDEXES         text namespace -> u32 n, n documents
//! DROP_INDEX           text namespace, text name -> nothing
//! UPDATE_SEARCH_INDEX  text namespace, text name, document definition -> nothing
//! ```
//!
//! `candidates` is 0 for the server's default, and for a search that compares with all documents (flag [`EXACT`]).

use bson::{RawDocument, RawDocumentBuf};

use super::{Call, EVERY_KIND, EXACT, PATH, PROJECTED, WITHIN};
use crate::bytes::{Malformed, Reader, length, put_text};
use crate::frame::opcode;

/// The least bytes of a neighbour: distance, score, an empty document.
const LEAST_NEIGHBOR: usize = 4 + 8 + 5;

/// The documents whose vectors are nearest to another one.
#[derive(Debug, Clone)]
pub struct VectorSearch<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// The name of the search index.
    pub index: &'a str,
    /// Documents at most; at least 1.
    pub limit: u32,
    /// Candidates that the index keeps, at least the limit; 0 leaves it to the server.
    pub candidates: u32,
    /// Compares with all documents instead.
    pub exact: bool,
    /// The vector to compare with.
    pub vector: Vec<f32>,
    /// Which documents; `{}` for all.
    pub filter: &'a RawDocument,
    /// Which of their fields; `None` for all. Leaving out the vectors saves most of the answer.
    pub projection: Option<&'a RawDocument>,
    /// Only documents that are no farther than this, by the similarity of the index.
    pub within: Option<f32>,
    /// The field, of an index of several; `None` for the only one.
    pub path: Option<&'a str>,
}

/// A document that a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbor {
    /// Its distance by the similarity of the index: the less, the nearer.
    pub distance: f32,
    /// MongoDB's `vectorSearchScore`: the greater, the nearer.
    pub score: f64,
    /// The document.
    pub document: RawDocumentBuf,
}

impl<'a> VectorSearch<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (namespace, index) = (body.text("namespace")?, body.text("index")?);
        let (limit, candidates) = (body.u32("limit")?, body.u32("candidates")?);
        let elements = body.count("vector", size_of::<f32>())?;
        let vector = body.take("vector", elements * size_of::<f32>())?;
        let vector = vector.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)).collect();
        let filter = body.document("filter")?;
        let projection = (flags & PROJECTED != 0).then(|| body.document("projection")).transpose()?;
        let within = (flags & WITHIN != 0).then(|| body.u32("within").map(f32::from_bits)).transpose()?;
        let path = (flags & PATH != 0).then(|| body.text("path")).transpose()?;
        let exact = flags & EXACT != 0;
        Ok(VectorSearch {
            namespace,
            index,
            limit,
            candidates,
            exact,
            vector,
            filter,
            projection,
            within,
            path,
        })
    }

    /// Appends the answer's body.
    ///
    /// Errors: more documents than the wire can count.
    pub fn answer<'n>(
        found: impl ExactSizeIterator<Item = (f32, f64, &'n RawDocument)>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        out.extend_from_slice(&length(out.len(), "documents", found.len())?.to_le_bytes());
        for (distance, score, document) in found {
            out.extend_from_slice(&distance.to_le_bytes());
            out.extend_from_slice(&score.to_le_bytes());
            out.extend_from_slice(document.as_bytes());
        }
        Ok(())
    }
}

impl Call for VectorSearch<'_> {
    const OPCODE: u16 = opcode::VECTOR_SEARCH;
    type Answer = Vec<Neighbor>;

    fn flags(&self) -> u16 {
        let exact = if self.exact { EXACT } else { 0 };
        let projected = if self.projection.is_some() { PROJECTED } else { 0 };
        let within = if self.within.is_some() { WITHIN } else { 0 };
        exact | projected | within | if self.path.is_some() { PATH } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        put_text(out, "index", self.index)?;
        out.extend_from_slice(&self.limit.to_le_bytes());
        out.extend_from_slice(&self.candidates.to_le_bytes());
        out.extend_from_slice(&length(out.len(), "vector", self.vector.len())?.to_le_bytes());
        self.vector.iter().for_each(|element| out.extend_from_slice(&element.to_le_bytes()));
        out.extend_from_slice(self.filter.as_bytes());
        out.extend_from_slice(self.projection.map_or(&[], RawDocument::as_bytes));
        self.within.iter().for_each(|distance| out.extend_from_slice(&distance.to_le_bytes()));
        self.path.map_or(Ok(()), |path| put_text(out, "path", path))
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Vec<Neighbor>, Malformed> {
        let count = body.count("documents", LEAST_NEIGHBOR)?;
        (0..count)
            .map(|_| {
                Ok(Neighbor {
                    distance: f32::from_bits(body.u32("distance")?),
                    score: f64::from_bits(body.u64("score")?),
                    document: body.document("document")?.to_owned(),
                })
            })
            .collect()
    }
}

/// Creates an index, and waits until it is ready.
#[derive(Debug, Clone, Copy)]
pub struct CreateIndex<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// As `createIndexes` takes it, `{key: {year: 1}}`, or as `createSearchIndexes` does, `{type: "vectorSearch", ..}`.
    pub spec: &'a RawDocument,
}

impl<'a> CreateIndex<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(CreateIndex { namespace: body.text("namespace")?, spec: body.document("specification")? })
    }

    /// Appends the answer's body.
    ///
    /// Errors: a name that is too long for the wire.
    pub fn answer(name: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "name", name)
    }
}

impl Call for CreateIndex<'_> {
    const OPCODE: u16 = opcode::CREATE_INDEX;
    /// The name of the index.
    type Answer = String;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        out.extend_from_slice(self.spec.as_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<String, Malformed> {
        Ok(body.text("name")?.to_owned())
    }
}

/// The indexes of a collection, as far as the user may list them: search indexes are listed to whom may do so beside the others.
#[derive(Debug, Clone, Copy)]
pub struct ListIndexes<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// An error, instead of the others alone, if the user may not list search indexes.
    pub every_kind: bool,
}

impl<'a> ListIndexes<'a> {
    /// Reads the request.
    pub fn read(flags: u16, body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(ListIndexes { namespace: body.text("namespace")?, every_kind: flags & EVERY_KIND != 0 })
    }

    /// Appends the answer's body.
    ///
    /// Errors: more indexes than the wire can count.
    pub fn answer(indexes: &[RawDocumentBuf], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&length(out.len(), "indexes", indexes.len())?.to_le_bytes());
        indexes.iter().for_each(|index| out.extend_from_slice(index.as_bytes()));
        Ok(())
    }
}

impl Call for ListIndexes<'_> {
    const OPCODE: u16 = opcode::LIST_INDEXES;
    /// Those of `listIndexes`, then those of `$listSearchIndexes`.
    type Answer = Vec<RawDocumentBuf>;

    fn flags(&self) -> u16 {
        if self.every_kind { EVERY_KIND } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Vec<RawDocumentBuf>, Malformed> {
        let count = body.count("indexes", 5)?;
        (0..count).map(|_| Ok(body.document("index")?.to_owned())).collect()
    }
}

/// Drops an index of any kind.
#[derive(Debug, Clone, Copy)]
pub struct DropIndex<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// The name of the index.
    pub name: &'a str,
}

impl<'a> DropIndex<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(DropIndex { namespace: body.text("namespace")?, name: body.text("name")? })
    }
}

impl Call for DropIndex<'_> {
    const OPCODE: u16 = opcode::DROP_INDEX;
    type Answer = ();

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        put_text(out, "name", self.name)
    }

    fn read_answer(_: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Gives a search index another definition, and waits until it is ready.
#[derive(Debug, Clone, Copy)]
pub struct UpdateSearchIndex<'a> {
    /// `database.collection`.
    pub namespace: &'a str,
    /// The name of the index.
    pub name: &'a str,
    /// `{fields: [..]}`.
    pub definition: &'a RawDocument,
}

impl<'a> UpdateSearchIndex<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(UpdateSearchIndex {
            namespace: body.text("namespace")?,
            name: body.text("name")?,
            definition: body.document("definition")?,
        })
    }
}

impl Call for UpdateSearchIndex<'_> {
    const OPCODE: u16 = opcode::UPDATE_SEARCH_INDEX;
    type Answer = ();

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "namespace", self.namespace)?;
        put_text(out, "name", self.name)?;
        out.extend_from_slice(self.definition.as_bytes());
        Ok(())
    }

    fn read_answer(_: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}
