//! Criterion benchmarks of TreeDB's hot paths, to compare two commits. `make bench` compares TreeDB with its peers.

use bench::engines::{DurabilityClass, Engine, EntryFormat, KeyFormat, OpenStore};
use bench_common::Random;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIZE: u64 = 100_000;
const LOOP: usize = 1000;

fn loaded() -> bench::Result<OpenStore> {
    let store = Engine::TreeDb
        .create(DurabilityClass::Relaxed, EntryFormat { keys: KeyFormat::Spread, value: 100 })?;
    store.store.put(&(0..SIZE).collect::<Vec<u64>>(), 10_000, 0)?;
    Ok(store)
}

fn keys(c: &mut Criterion) {
    let opened = match loaded() {
        Ok(opened) => opened,
        Err(e) => return eprintln!("cannot open a store in the benchmark directory: {e}"),
    };
    let store = &opened.store;
    let mut group = c.benchmark_group("keys, 100k of 8 bytes, values of 100");
    group.throughput(Throughput::Elements(LOOP as u64));
    let mut seed = 0;
    let mut order = || {
        seed += 1;
        Random::new(seed, SIZE).take(LOOP).collect::<Vec<u64>>()
    };
    group.bench_function("get, 1000 per snapshot", |b| b.iter(|| store.get(&order(), LOOP)));
    group.bench_function("get, each in its own snapshot", |b| b.iter(|| store.get(&order(), 1)));
    group.bench_function("put, each in its own relaxed commit", |b| b.iter(|| store.put(&order(), 1, 1)));
    group.bench_function("put, 1000 per relaxed commit", |b| b.iter(|| store.put(&order(), LOOP, 2)));
    group.finish();
}

criterion_group!(benches, keys);
criterion_main!(benches);
