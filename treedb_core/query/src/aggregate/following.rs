//! What the stages that follow a stage need of its documents: which fields, and how many documents.

use crate::query::Sort;

use super::stage::{PlannedStage, Reads, Role};

/// `fields` and the top-level fields of their input that `stages` depend on; `None` if it may be any.
pub(crate) fn fields_needed(stages: &[PlannedStage], mut fields: Vec<String>) -> Option<Vec<String>> {
    for stage in stages {
        match stage.stage.reads(&mut fields) {
            Reads::Any => return None,
            Reads::Named => {}
            Reads::OnlyNamed => return Some(fields),
        }
    }
    // The result of the pipeline has all other fields.
    None
}

/// The top-level fields that a sort and the stages that follow it depend on; `None` if it may be any.
pub(crate) fn fields_needed_by_sort(sort: &Sort, following: &[PlannedStage]) -> Option<Vec<String>> {
    fields_needed(following, sort.keys.iter().map(|key| key.path.first().to_owned()).collect())
}

/// The fields that `stages` need of the document in the field `field`; `None` if it may be any.
pub(crate) fn subfields_needed(stages: &[PlannedStage], field: &str) -> Option<Vec<String>> {
    let mut subfields = Vec::new();
    for stage in stages {
        match stage.stage.reads_within(field, &mut subfields) {
            Reads::Any => return None,
            Reads::Named => {}
            Reads::OnlyNamed => return Some(subfields),
        }
    }
    None
}

/// How many of the first documents are enough for a `$limit` among `stages`, if there is one.
pub(crate) fn documents_needed(stages: &[PlannedStage]) -> Option<usize> {
    let mut skipped = 0_u64;
    for stage in stages {
        match stage.role() {
            Role::Skip(skip) => skipped = skipped.saturating_add(skip),
            Role::Limit(limit) => return usize::try_from(skipped.saturating_add(limit)).ok(),
            // One document becomes one document.
            Role::Project(_) => {}
            _ => return None,
        }
    }
    None
}
