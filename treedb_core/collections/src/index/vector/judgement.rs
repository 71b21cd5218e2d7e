//! What a sample of its vectors says of the codes of an index.

use treedb_query::index::vector::VectorDef;
use treedb_vector::centre::{Centre, Reach};

use super::record::{Comparison, encode_query, encode_vector};

/// By fewer vectors it is not said that codes do not tell them apart.
const LEAST: usize = 128;
/// So many vectors of a sample are searched for, evenly spread.
const SEARCHED: usize = 32;
/// So many of the nearest have to be among those that are put in exact order: the latter are as many as a search for ten puts in order.
const NEAREST: usize = 10;
const ORDERED: usize = 20;
/// Codes that find less of the nearest do not tell vectors apart.
const ENOUGH: f64 = 0.8;

/// The centre that the codes of an index are to be about by a sample of its vectors, if it is not zero, and what its links are to be chosen with. If codes do not even tell the vectors of
/// the sample apart, that is logged: the index finds little then, and one without codes more.
pub(super) fn judge(def: &VectorDef, sample: &[&[f32]]) -> Option<(Centre, Option<Reach>)> {
    let centre = Centre::of_alike(def.metric, def.elements, sample);
    if sample.len() >= LEAST {
        let found = told_apart(def, centre.as_ref(), sample);
        if found < ENOUGH {
            tracing::warn!(
                index = def.name,
                found,
                "codes of 8 bits do not tell the vectors of an index apart, as where they are in places that are far apart, or differ in a few of many \
                 elements: with the quantization `none` it finds more of the nearest"
            );
        }
    }
    centre.map(|centre| {
        let reach = centre.reach(sample);
        (centre, reach)
    })
}

/// The part of the nearest vectors of a sample that codes find among it, for some of its vectors.
fn told_apart(def: &VectorDef, centre: Option<&Centre>, sample: &[&[f32]]) -> f64 {
    let comparison = Comparison::of(def, centre);
    let records: Vec<Vec<u8>> = sample.iter().map(|vector| encode_vector(def, centre, vector)).collect();
    let (mut hits, mut wanted) = (0, 0);
    for vector in sample.iter().step_by((sample.len() / SEARCHED).max(1)) {
        let query = encode_query(def, centre, vector);
        let query = comparison.read(&query);
        // Each with its score and its exact distance.
        let all = sample.iter().zip(&records);
        let mut all: Vec<(f32, f32)> = all
            .map(|(other, record)| (comparison.score(record, &query), def.metric.distance(vector, other)))
            .collect();
        all.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        // Of those that are as far as the last, any will do.
        let Some((_, most)) = all.get(NEAREST.min(all.len()).saturating_sub(1)).copied() else { break };
        let near = all.iter().filter(|(_, distance)| *distance <= most).count();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = all.iter().take(ORDERED.max(near)).filter(|(_, distance)| *distance <= most).count();
        hits += found.min(NEAREST);
        wanted += NEAREST.min(all.len());
    }
    if wanted == 0 { 1.0 } else { hits as f64 / wanted as f64 }
}

#[cfg(test)]
mod tests {
    use treedb_query::index::vector::Metric;
    use treedb_testing::{Alike, Rng};

    use super::*;

    const DIMENSIONS: usize = 64;
    const METRICS: [Metric; 3] = [Metric::Cosine, Metric::L2, Metric::InnerProduct];

    /// What codes find, about the centre that is chosen and about zero.
    fn found(metric: Metric, vectors: &[Vec<f32>]) -> [f64; 2] {
        let def = VectorDef::new("v", DIMENSIONS, metric);
        let sample: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
        let centre = judge(&def, &sample).map(|(centre, _)| centre);
        [centre.as_ref(), None].map(|centre| told_apart(&def, centre, &sample))
    }

    #[test]
    fn codes_tell_usual_vectors_apart_and_those_that_are_alike_about_their_centre() {
        for metric in METRICS {
            let usual = found(metric, &Alike::new(1, DIMENSIONS, 0.0).vectors(512));
            let alike = found(metric, &Alike::new(1, DIMENSIONS, 100.0).vectors(512));
            println!("{metric:?}: {usual:?} usual, {alike:?} alike");
            assert!(usual[0] > 0.97 && usual[0] == usual[1], "{metric:?}: {usual:?}");
            assert!(
                alike[0] > 0.97 && (metric != Metric::Cosine || alike[1] < ENOUGH),
                "{metric:?}: {alike:?}"
            );
        }
    }

    #[test]
    fn codes_do_not_tell_apart_what_is_in_places_far_apart_and_copies_count_as_found() {
        for metric in [Metric::Cosine, Metric::L2] {
            let (mut rng, mut noise) = (Rng::new(1), Alike::new(2, DIMENSIONS, 0.0));
            let mut places = Alike::new(3, DIMENSIONS, 0.0).vectors(6);
            places.iter_mut().flatten().for_each(|element| *element *= 2000.0);
            let mut near = |_| -> Vec<f32> {
                let place = &places[rng.below(6)];
                place.iter().zip(noise.vector()).map(|(place, noise)| place + noise).collect()
            };
            let far_apart = found(metric, &(0..512).map(&mut near).collect::<Vec<_>>());
            let one = near(0);
            let copies = found(metric, &vec![one; 512]);
            println!("{metric:?}: {far_apart:?} far apart, {copies:?} copies");
            assert!(far_apart[0] < ENOUGH, "{metric:?}: {far_apart:?}");
            assert!(copies[1] > 0.99, "{metric:?}: {copies:?}");
        }
    }
}
