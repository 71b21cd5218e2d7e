//! What owners of pages of differing size use: dividing, sizes, compaction, the gap.

use super::{Branch, BranchMut, Keys, Leaf, LeafMut, NodeDamage, Value, gap};

fn key(i: u32) -> Vec<u8> {
    format!("a common beginning/{i:06}/{}", "x".repeat(i as usize % 23)).into_bytes()
}

fn full_leaf(page: &mut [u8]) -> usize {
    let mut leaf = LeafMut::init(page, Keys::Bytewise).unwrap();
    let mut n = 0;
    while leaf.insert(n, &key(n as u32), Value::inline(b"v")).unwrap() {
        n += 1;
    }
    n
}

fn keys(page: &[u8]) -> Vec<Vec<u8>> {
    let leaf = Leaf::open(page).unwrap();
    leaf.validate().unwrap();
    (0..leaf.count())
        .map(|i| {
            let mut key = Vec::new();
            leaf.key_into(i, &mut key).unwrap();
            key
        })
        .collect()
}

#[test]
fn a_divided_leaf_keeps_every_entry_and_reports_the_size_of_its_halves() {
    let mut page = vec![0; 4000];
    let n = full_leaf(&mut page);
    let plan = Leaf::open(&page).unwrap().divide().unwrap();
    let (left_size, right_size) = plan.sizes().unwrap();
    let (mut left, mut right) = (vec![0; left_size], vec![0; right_size]);
    plan.left(&mut left).unwrap();
    plan.right(&mut right).unwrap();
    let mut found = keys(&left);
    assert_eq!(found.len(), plan.left_count());
    let mut separator = Vec::new();
    plan.separator(&mut separator).unwrap();
    assert!(found.last().unwrap() < &separator && separator <= keys(&right)[0]);
    found.extend(keys(&right));
    assert_eq!(found, (0..n as u32).map(key).collect::<Vec<_>>());
}

#[test]
fn a_divided_branch_keeps_every_child() {
    let mut page = vec![0; 2000];
    let mut branch = BranchMut::init(&mut page, Keys::Bytewise, 1000).unwrap();
    let mut n = 0;
    while branch.insert(n, &key(n as u32), 1001 + n as u32).unwrap() {
        n += 1;
    }
    let plan = Branch::open(&page).unwrap().divide().unwrap();
    let (left_size, right_size) = plan.sizes().unwrap();
    let (mut left, mut right) = (vec![0; left_size.max(256)], vec![0; right_size.max(256)]);
    plan.left(&mut left).unwrap();
    plan.right(&mut right).unwrap();
    let mut children = Vec::new();
    for page in [&left, &right] {
        let branch = Branch::open(page).unwrap();
        branch.validate().unwrap();
        children.extend((0..=branch.count()).map(|c| branch.child(c).unwrap()));
    }
    assert_eq!(children, (1000..=1000 + n as u32).collect::<Vec<_>>());
    let mut separator = Vec::new();
    plan.separator(&mut separator).unwrap();
    assert_eq!(separator, key(Branch::open(&left).unwrap().count() as u32));
}

#[test]
fn a_node_of_one_entry_cannot_be_divided() {
    let mut page = vec![0; 512];
    let mut leaf = LeafMut::init(&mut page, Keys::Custom).unwrap();
    leaf.insert(0, b"one", Value::inline(b"")).unwrap();
    assert!(matches!(Leaf::open(&page).unwrap().divide(), Err(NodeDamage { .. })));
}

#[test]
fn compaction_gains_the_prefix_and_dead_cells_and_changes_no_entry() {
    let mut page = vec![0; 4000];
    let mut leaf = LeafMut::init(&mut page, Keys::Bytewise).unwrap();
    for i in 0..40 {
        assert!(leaf.insert(i, &key(i as u32), Value::inline(b"value")).unwrap());
    }
    for i in (0..20).rev() {
        leaf.remove(2 * i).unwrap();
    }
    let before = leaf.view().unwrap().free().unwrap();
    leaf.compact().unwrap();
    assert!(leaf.view().unwrap().free().unwrap() >= before + 20 * "a common beg".len());
    assert_eq!(keys(&page), (0..20).map(|i| key(2 * i + 1)).collect::<Vec<_>>());
    let mut page = vec![0; 400];
    let mut branch = BranchMut::init(&mut page, Keys::Bytewise, 7).unwrap();
    branch.insert(0, b"only one separator", 8).unwrap();
    branch.compact().unwrap();
    let branch = branch.view().unwrap();
    branch.validate().unwrap();
    assert_eq!((branch.child(0).unwrap(), branch.child(1).unwrap()), (7, 8));
}

#[test]
fn bytes_in_the_gap_are_ignored() {
    let mut page = vec![0; 4000];
    let n = full_leaf(&mut page);
    let mut leaf = LeafMut::open(&mut page).unwrap();
    for i in (n / 2..n).rev() {
        leaf.remove(i).unwrap();
    }
    leaf.compact().unwrap();
    let expected = keys(&page);
    let hole = gap(&page).unwrap();
    assert!(hole.len() > 1000);
    page[hole].fill(0xa5);
    assert_eq!(keys(&page), expected);
    let mut leaf = LeafMut::open(&mut page).unwrap();
    for i in expected.len()..n {
        assert!(leaf.insert(i, &key(i as u32), Value::inline(b"v")).unwrap());
    }
    assert_eq!(keys(&page), (0..n as u32).map(key).collect::<Vec<_>>());
}
