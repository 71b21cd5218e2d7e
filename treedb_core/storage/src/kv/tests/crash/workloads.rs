//! Workloads with a power cut at every boundary.

use super::super::{Mode, in_mode};
use super::cut_everywhere;
use super::run::{MIXED, Profile};

#[test]
fn puts_and_deletes_survive_power_cuts() {
    for seed in treedb_testing::seeds(1..=2) {
        cut_everywhere(MIXED, seed, 4);
    }
}

#[test]
fn created_and_dropped_tables_survive_power_cuts() {
    cut_everywhere(Profile { name: "create, rename, drop", ddl: 25, rename: 40, reopen: 6, ..MIXED }, 3, 4);
}

#[test]
fn full_tables_dropped_and_recreated_survive_power_cuts() {
    let profile = Profile {
        name: "dropping full tables",
        ops: 30,
        steps: 40,
        ddl: 8,
        delete: 5,
        large: 8,
        value: 800,
        durable: 35,
        relaxed: 45,
        ..MIXED
    };
    cut_everywhere(profile, 12, 3);
}

#[test]
fn large_values_survive_power_cuts() {
    let profile = Profile { name: "large values", large: 35, ops: 4, steps: 45, checkpoint: 14, ..MIXED };
    cut_everywhere(profile, 4, 4);
}

#[test]
fn growth_splits_and_merges_survive_power_cuts() {
    let profile =
        Profile { name: "growth", ops: 40, steps: 40, value: 900, delete: 20, durable: 30, ..MIXED };
    cut_everywhere(profile, 5, 3);
}

#[test]
fn deleted_ranges_and_cleared_tables_survive_power_cuts() {
    let profile = Profile {
        name: "ranges and clear",
        ops: 20,
        steps: 45,
        range: 10,
        delete: 0,
        large: 6,
        ddl: 3,
        value: 700,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_everywhere(profile, 10, 3);
}

#[test]
fn rolled_back_changes_do_not_survive_power_cuts() {
    let profile = Profile {
        name: "savepoints",
        ops: 8,
        steps: 45,
        savepoint: 20,
        range: 3,
        large: 10,
        ddl: 5,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_everywhere(profile, 11, 3);
}

#[test]
fn pairs_of_dup_tables_survive_power_cuts() {
    let profile = Profile {
        name: "dup tables",
        ops: 12,
        steps: 45,
        dup: true,
        batch: 60,
        range: 4,
        savepoint: 8,
        ddl: 3,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_everywhere(profile, 12, 3);
}

#[test]
fn optimistic_transactions_are_atomic_in_power_cuts() {
    let profile =
        Profile { name: "optimistic", optimistic: 70, ddl: 8, range: 5, durable: 40, relaxed: 30, ..MIXED };
    cut_everywhere(profile, 13, 3);
}

const UNLOGGED: Profile = Profile {
    name: "unlogged commits",
    durable: 20,
    relaxed: 20,
    checkpoint: 12,
    large: 10,
    ddl: 6,
    ..MIXED
};

#[test]
fn of_commits_without_durability_only_the_last_ones_are_lost() {
    cut_everywhere(UNLOGGED, 6, 4);
}

#[test]
fn a_logged_commit_after_too_many_pending_ones_leaves_no_hole() {
    cut_everywhere(Profile { name: "too many unlogged", pending: 1500, barrier: 10, ..UNLOGGED }, 9, 4);
}

#[test]
fn stores_with_a_small_cache_survive_power_cuts() {
    in_mode(Mode::Cached, || {
        cut_everywhere(Profile { name: "a cache of 16 pages", ..IN_A_CACHE }, 21, 1);
    });
}

#[test]
fn encrypted_stores_survive_power_cuts() {
    in_mode(Mode::Encrypted, || {
        cut_everywhere(Profile { name: "encrypted", steps: 20, ..IN_A_CACHE }, 22, 1);
    });
}

/// Transactions with every kind of change that do not fit in the cache.
const IN_A_CACHE: Profile = Profile {
    name: "",
    ops: 25,
    steps: 30,
    large: 5,
    range: 4,
    savepoint: 6,
    value: 700,
    durable: 40,
    ..MIXED
};

/// Runs the workload with mapped pages, and then a shorter, sampled one with a cache and with encryption.
fn cut_in_every_mode(profile: Profile, seed: u64) {
    cut_everywhere(profile, seed, 1);
    for mode in [Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || cut_everywhere(Profile { every: 4, ..profile }, seed, 1));
    }
}

#[test]
fn moved_pages_and_shrinking_files_survive_power_cuts() {
    let profile = Profile {
        name: "compaction",
        ops: 30,
        steps: 24,
        compact: 12,
        range: 12,
        delete: 20,
        large: 5,
        value: 900,
        checkpoint: 5,
        ..MIXED
    };
    cut_in_every_mode(profile, 12);
}

#[test]
fn moved_values_survive_power_cuts() {
    let profile = Profile {
        name: "value-log reclaim",
        ops: 5,
        steps: 26,
        large: 60,
        delete: 35,
        batch: 50,
        checkpoint: 16,
        range: 4,
        durable: 40,
        relaxed: 40,
        ..MIXED
    };
    cut_in_every_mode(profile, 13);
}

#[test]
fn writes_through_the_leveldb_interface_survive_power_cuts() {
    let profile = Profile { name: "LevelDB's interface", leveldb: 100, large: 6, steps: 30, ..MIXED };
    cut_in_every_mode(profile, 14);
}

#[test]
fn dup_tables_in_a_cache_survive_power_cuts() {
    let profile = Profile { name: "dup tables", dup: true, range: 4, compact: 6, every: 4, ..IN_A_CACHE };
    for mode in [Mode::Cached, Mode::Encrypted] {
        in_mode(mode, || cut_everywhere(profile, 23, 1));
    }
}
