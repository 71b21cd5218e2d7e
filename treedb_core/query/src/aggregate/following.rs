//! What the stages that follow a stage need of its documents: which fields, and how many documents.

use crate::query::{Filter, Sort, UsedFields};

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

/// The top-level fields that `stages` use of the documents that `filter` finds: those that they depend on, or all but those that are
/// left out before anything depends on them; `None` if it may be any.
pub(crate) fn used_fields(stages: &[PlannedStage], filter: &Filter) -> Option<UsedFields> {
    let (mut read, mut left_out) = (Vec::new(), Vec::new());
    for stage in stages {
        let mut now = Vec::new();
        stage.stage.leaves_out(&mut now);
        left_out.extend(now.into_iter().filter(|field| !read.contains(field)));
        match stage.stage.reads(&mut read) {
            Reads::Any => break,
            Reads::Named => {}
            Reads::OnlyNamed => return Some(UsedFields::new(&read, filter)),
        }
    }
    (!left_out.is_empty()).then(|| UsedFields::all_but(&left_out, filter))
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

#[cfg(test)]
mod tests {
    use super::super::Pipeline;
    use super::used_fields;
    use crate::doc::json::documents_from_json;
    use crate::doc::{Doc, Value};
    use crate::query::expr::Names;
    use crate::query::{Filter, UsedFields};

    #[test]
    fn fields_that_are_left_out_before_anything_reads_them_are_not_used() {
        let all = Filter::all();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let only = |these: &[&str]| Some(UsedFields::new(&names(these), &all));
        let all_but = |these: &[&str]| Some(UsedFields::all_but(&names(these), &all));
        for (stages, expected) in [
            (r#"[{"$project":{"a":1}}]"#, only(&["_id", "a"])),
            (r#"[{"$project":{"_id":0,"a":1}}]"#, only(&["a"])),
            (r#"[{"$project":{"v":0}}]"#, all_but(&["v"])),
            (r#"[{"$unset":["v","w.a"]}]"#, all_but(&["v"])),
            (r#"[{"$limit":3},{"$unset":"v"},{"$sort":{"v":1}}]"#, all_but(&["v"])),
            (r#"[{"$match":{"v":1}},{"$unset":["v","w"]}]"#, all_but(&["w"])),
            (r#"[{"$set":{"a":"$v"}},{"$unset":"v"}]"#, None),
            (r#"[{"$unset":"v"},{"$set":{"v":1}},{"$unset":"w"}]"#, all_but(&["v", "w"])),
            (r#"[{"$unset":"v"},{"$replaceRoot":{"newRoot":"$$ROOT"}}]"#, all_but(&["v"])),
            (r#"[{"$replaceRoot":{"newRoot":"$$ROOT"}},{"$unset":"v"}]"#, None),
            (r#"[{"$unset":"v"},{"$group":{"_id":"$a"}}]"#, only(&["a"])),
            (r#"[{"$limit":3}]"#, None),
            ("[]", None),
        ] {
            let mut array = bson::RawArrayBuf::new();
            documents_from_json(stages).unwrap().into_iter().for_each(|stage| array.push(stage));
            let array = bson::RawDocument::from_bytes(array.as_bytes()).unwrap();
            let pipeline = Pipeline::parse(Value::Array(Doc::from(array)), &Names::default()).unwrap();
            assert_eq!(used_fields(pipeline.stages_after(0), &all), expected, "{stages}");
        }
    }
}
