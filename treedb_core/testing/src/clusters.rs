//! Random vectors that are distributed as embeddings often are.

use crate::Rng;

/// About normally distributed.
fn normal(rng: &mut Rng) -> f32 {
    (0..6).map(|_| rng.below(20_001) as f32 / 10_000.0 - 1.0).sum::<f32>() / 1.4
}

/// Vectors in clusters, each of which varies in a few directions only.
#[derive(Debug)]
pub struct Clusters {
    centres: Vec<Vec<f32>>,
    directions: Vec<Vec<Vec<f32>>>,
    rng: Rng,
}

impl Clusters {
    /// The generator of a seed. Each cluster varies in `latent` directions.
    pub fn new(seed: u64, dimensions: usize, clusters: usize, latent: usize) -> Clusters {
        let mut rng = Rng::new(seed);
        let mut vector = || (0..dimensions).map(|_| normal(&mut rng)).collect::<Vec<f32>>();
        let centres = (0..clusters).map(|_| vector()).collect();
        let directions = (0..clusters).map(|_| (0..latent).map(|_| vector()).collect()).collect();
        Clusters { centres, directions, rng }
    }

    /// The next vector, in a random cluster. It is not normalised.
    pub fn vector(&mut self) -> Vec<f32> {
        let cluster = self.rng.below(self.centres.len());
        let mut vector = self.centres[cluster].clone();
        for direction in &self.directions[cluster] {
            let size = normal(&mut self.rng) * 0.3;
            vector.iter_mut().zip(direction).for_each(|(element, step)| *element += size * step);
        }
        vector.iter_mut().for_each(|element| *element += 0.05 * normal(&mut self.rng));
        vector
    }
}

/// Vectors that have far more in common than they differ: [`Clusters`] that are far from zero.
#[derive(Debug)]
pub struct Alike {
    clusters: Clusters,
    spread: f32,
    offset: f32,
}

impl Alike {
    /// The generator of a seed. Elements are `offset` times as far from zero as they are spread.
    pub fn new(seed: u64, dimensions: usize, offset: f32) -> Alike {
        let new = || Clusters::new(seed, dimensions, 20, 12);
        let mut sample = new();
        let squares: f32 = (0..500).flat_map(|_| sample.vector()).map(|element| element * element).sum();
        Alike { clusters: new(), spread: (squares / (500 * dimensions) as f32).sqrt(), offset }
    }

    /// The next vectors are so far from zero.
    pub fn set_offset(&mut self, offset: f32) {
        self.offset = offset;
    }

    /// The next vector.
    pub fn vector(&mut self) -> Vec<f32> {
        let far = self.offset * self.spread;
        let with_offset =
            |(at, element): (usize, f32)| element + if at.is_multiple_of(3) { -far } else { far };
        self.clusters.vector().into_iter().enumerate().map(with_offset).collect()
    }

    /// The next vectors.
    pub fn vectors(&mut self, count: usize) -> Vec<Vec<f32>> {
        (0..count).map(|_| self.vector()).collect()
    }
}
