//! The hot paths of TreeDB alone, by criterion: to see a change from one commit to the next. Comparisons with peers
//! are `make bench`'s.

use bench::people::Random;
use bench::sides::{Class, Form, KeyForm, Opened, Peer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const SIZE: u64 = 100_000;
const LOOP: usize = 1000;

fn loaded() -> bench::Result<Opened> {
    let side = Peer::TreeDb.keys(Class::Relaxed, Form { keys: KeyForm::Spread, value: 100 })?;
    side.keys.put(&(0..SIZE).collect::<Vec<u64>>(), 10_000, 0)?;
    Ok(side)
}

fn keys(c: &mut Criterion) {
    let opened = match loaded() {
        Ok(opened) => opened,
        Err(e) => return eprintln!("no store in the bench folder: {e}"),
    };
    let side = &opened.keys;
    let mut group = c.benchmark_group("keys, 100k of 8 bytes, values of 100");
    group.throughput(Throughput::Elements(LOOP as u64));
    let mut seed = 0;
    let mut order = || {
        seed += 1;
        Random::new(seed, SIZE).take(LOOP).collect::<Vec<u64>>()
    };
    group.bench_function("get, 1000 to a snapshot", |b| b.iter(|| side.get(&order(), LOOP)));
    group.bench_function("get, each in its own snapshot", |b| b.iter(|| side.get(&order(), 1)));
    group.bench_function("put, each in its own relaxed commit", |b| b.iter(|| side.put(&order(), 1, 1)));
    group.bench_function("put, 1000 to a relaxed commit", |b| b.iter(|| side.put(&order(), LOOP, 2)));
    group.finish();
}

criterion_group!(benches, keys);
criterion_main!(benches);
