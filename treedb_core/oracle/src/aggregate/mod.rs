//! Random pipelines with the answers that the definitions give: written down once more over decoded documents, without
//! streams, indexes, plans or scratch files. Nothing here uses the code it is compared with.

mod random;
mod series;
mod stages;
mod values;
mod windows;

use bson::{Bson, Document};
use treedb_testing::Rng;

pub use random::writing;
pub use series::written;
use stages::State;
use values::{Variables, Wrong};

/// Documents beyond which a pipeline takes no further stage.
const MANY: usize = 600;

/// A pipeline over a collection and another one named `other`, and its answer.
#[derive(Debug)]
pub struct Case {
    pub stages: Vec<Document>,
    /// `None` if the pipeline is an error.
    pub answer: Option<Vec<Document>>,
    /// The answer is a sequence, not a set.
    pub ordered: bool,
    /// Equal numbers may stand for each other.
    pub loose: bool,
}

/// A pipeline of one to six stages.
pub fn case(rng: &mut Rng, docs: &[Document], other: &[Document]) -> Case {
    let (wanted, mut all, other) = (1 + rng.below(6), Vec::new(), other.to_vec());
    let mut state = State { docs: docs.to_vec(), ordered: false, loose: false };
    let mut tries = 0;
    while all.len() < wanted && tries < 60 {
        tries += 1;
        let next = random::stages(rng, state.ordered);
        let mut made = Ok(state.clone());
        for stage in &next {
            made = made.and_then(|state| stages::apply(stage, &state, &other, &Variables::new()));
        }
        match made {
            Ok(made) if made.docs.len() > MANY => {}
            Ok(made) => {
                state = made;
                all.extend(next);
            }
            Err(Wrong::Refused) if rng.below(3) == 0 => {
                all.extend(next);
                return Case { stages: all, answer: None, ordered: false, loose: false };
            }
            Err(_) => {}
        }
    }
    let State { docs, ordered, loose } = state;
    Case { stages: all, answer: Some(docs), ordered, loose }
}

impl Case {
    /// What is wrong with an answer.
    pub fn disagreement(&self, found: &[Document]) -> Option<String> {
        let wanted = self.answer.as_deref()?;
        let wrong = if self.ordered || wanted.len() < 2 {
            wanted.len() != found.len() || !wanted.iter().zip(found).all(|(a, b)| self.documents(a, b))
        } else {
            let mut left: Vec<&Document> = found.iter().collect();
            let missed = wanted.iter().any(|wanted| {
                match left.iter().position(|found| self.documents(wanted, found)) {
                    Some(at) => {
                        left.swap_remove(at);
                        false
                    }
                    None => true,
                }
            });
            missed || !left.is_empty()
        };
        let shown = |docs: &[Document]| docs.iter().map(|doc| format!("\n  {doc:?}")).collect::<String>();
        wrong.then(|| {
            format!("wanted {}{}\nfound {}{}", wanted.len(), shown(wanted), found.len(), shown(found))
        })
    }

    fn documents(&self, a: &Document, b: &Document) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|((x, a), (y, b))| x == y && self.same(a, b))
    }

    fn same(&self, a: &Bson, b: &Bson) -> bool {
        match (a, b) {
            (Bson::Document(a), Bson::Document(b)) => self.documents(a, b),
            (Bson::Array(a), Bson::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same(a, b))
            }
            // Equal in every comparison.
            (Bson::Symbol(a), Bson::String(b)) | (Bson::String(a), Bson::Symbol(b)) => self.loose && a == b,
            _ => match (values::number(a), values::number(b)) {
                (Some((kind, a)), Some((other, b))) => {
                    // Doubles may be added in any order.
                    let close = |by: f64| by.is_finite() && by <= 1e-9 * a.abs().max(1.0);
                    let near = a == b || a.is_nan() && b.is_nan() || close((a - b).abs());
                    near && (kind == other || self.loose)
                }
                _ => a == b,
            },
        }
    }
}
