//! Strings under a collation: what is found is what a naive evaluation finds where every string is replaced by its
//! rank, which is written down without the collation's code.

use bson::{Bson, Document, doc};
use treedb_testing::{Rng, ranked, seeds};

use super::memory::Memory;
use super::{ids, naive, raw, run};
use treedb_query::access::Source;
use treedb_query::doc::Collation;
use treedb_query::query::{Execution, Path, Query, index_of};

fn text(rng: &mut Rng) -> Bson {
    match rng.below(8) {
        0 => Bson::Int32(rng.below(3) as i32),
        1 => Bson::Null,
        _ => Bson::String((*rng.pick(&["a", "A", "á", "ab", "Ab", "B", "b", "", "Z"])).to_owned()),
    }
}

fn value(rng: &mut Rng) -> Bson {
    match rng.below(6) {
        0 => Bson::Array((0..rng.below(3)).map(|_| text(rng)).collect()),
        1 => Bson::Document(doc! { "x": text(rng) }),
        _ => text(rng),
    }
}

fn filter(rng: &mut Rng) -> Document {
    let mut filter = Document::new();
    for _ in 0..1 + rng.below(2) {
        let path = *rng.pick(&["s", "s", "t", "s.x"]);
        let condition = match rng.below(8) {
            0 | 1 => value(rng),
            2 => doc! { "$in": [value(rng), text(rng)] }.into(),
            3 => doc! { "$gt": text(rng) }.into(),
            4 => doc! { "$gte": text(rng), "$lt": text(rng) }.into(),
            5 => doc! { "$ne": text(rng) }.into(),
            6 => doc! { "$elemMatch": { "$lte": text(rng) } }.into(),
            _ => doc! { "$exists": rng.below(4) > 0 }.into(),
        };
        filter.insert(path, condition);
    }
    if rng.below(4) == 0 {
        doc! { "$or": [filter, { "t": text(rng) }] }
    } else {
        filter
    }
}

#[test]
fn a_collation_finds_and_orders_as_if_strings_had_been_replaced_by_their_ranks() {
    let (mut by_index, mut ordered) = (0, 0);
    for seed in seeds(0..60) {
        let mut rng = Rng::new(seed);
        let strength = 1 + rng.below(3) as i32;
        let spec = doc! { "locale": "en", "strength": strength };
        let collation = Collation::parse(&raw(&spec)).unwrap();
        let docs: Vec<Document> = (0..30)
            .map(|number| {
                let mut doc = doc! { "_id": number, "t": text(&mut rng) };
                if rng.below(6) > 0 {
                    doc.insert("s", value(&mut rng));
                }
                doc
            })
            .collect();
        let ranked_docs: Vec<Document> = docs.iter().map(|doc| ranked(doc, strength)).collect();
        let mut source = Memory::new(&docs.iter().map(raw).collect::<Vec<_>>());
        for (number, key) in [
            doc! { "s": 1 },
            doc! { "t": 1 },
            doc! { "t": -1, "s": 1 },
            doc! { "$**": 1 },
            doc! { "s": "hashed" },
        ]
        .into_iter()
        .enumerate()
        {
            let mut index = doc! { "key": key, "name": format!("i{number}") };
            // Some of another collation: those answer for what is no text.
            if rng.below(4) > 0 {
                index.insert("collation", spec.clone());
            }
            if number < 3 && rng.below(3) == 0 {
                index.insert("sparse", true);
            }
            // A hashed index holds no arrays.
            let _ = source.index(index_of(&raw(&index)).unwrap());
        }
        for _ in 0..60 {
            let filter = filter(&mut rng);
            let sort = doc! { "t": if rng.below(2) == 0 { 1 } else { -1 }, "_id": 1 };
            let sorted = rng.below(3) == 0;
            let query = Query::parse(&raw(&filter), sorted.then(|| raw(&sort)).as_deref(), None).unwrap();
            let mut query = query.collated(&collation).unwrap();
            let ranked_filter = ranked(&filter, strength);
            let wanted: Vec<i32> = ranked_docs
                .iter()
                .filter(|doc| naive::matches(doc, &ranked_filter))
                .map(|doc| doc.get_i32("_id").unwrap())
                .collect();
            let plan = Execution::new(&source, &source.context(), query.clone()).unwrap().plan().clone();
            let context = || format!("{filter} {collation:?}\n{plan:?}\n{:?}", source.indexes());
            let found = run(&source, query.clone(), &mut rng).unwrap();
            assert_eq!(ids(&found), wanted, "{}", context());
            if sorted {
                ordered += usize::from(!plan.sort_in_memory);
                let keys: Vec<Vec<Bson>> = found
                    .iter()
                    .map(|doc| naive::sort_key(&ranked_docs[doc.get_i32("_id").unwrap() as usize], &sort))
                    .collect();
                assert!(
                    keys.windows(2).all(|pair| naive::compare_sort_keys(&pair[0], &pair[1], &sort).is_le()),
                    "{}",
                    context()
                );
            }
            by_index += usize::from(matches!(plan.path, Path::Index { .. }));
            query.hint = Some("$natural".into());
            assert_eq!(ids(&run(&source, query, &mut rng).unwrap()), wanted, "{}", context());
        }
    }
    println!("{by_index} by an index, {ordered} in its order");
    assert!(by_index > 1000, "{by_index}");
}
