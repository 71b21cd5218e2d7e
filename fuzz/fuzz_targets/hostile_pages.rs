//! Trees whose pages hold anything: each call returns, with an answer or an error.
#![no_main]

use std::ops::Bound;

use libfuzzer_sys::fuzz_target;
use treedb_storage::btree::{RowRoot, RowTree, Tree, TreeRoot, Value};
use treedb_storage::page::{PAYLOAD, PageId, PageSink, PageSource};
use treedb_storage::{Error, Result};

/// Pages in memory, changed in place. Page 0 is none.
#[derive(Clone, Default)]
struct Pages(Vec<Box<[u8]>>);

/// The most pages, so that nothing grows for ever.
const MOST: usize = 200;

impl PageSource for Pages {
    fn page(&self, id: PageId) -> Result<&[u8]> {
        let page = (id.0 as usize).checked_sub(1).and_then(|i| self.0.get(i));
        page.map(|page| &**page).ok_or_else(|| Error::Invalid(format!("no page {}", id.0)))
    }
    fn damaged(&self, id: PageId, at: usize, expected: &str, found: &str) -> Error {
        Error::Invalid(format!("page {} byte {at}: {found}, not {expected}", id.0))
    }
}

impl PageSink for Pages {
    fn allocate(&mut self) -> Result<PageId> {
        if self.0.len() == MOST {
            return Err(Error::Invalid("no room".into()));
        }
        self.0.push(vec![0; PAYLOAD].into());
        Ok(PageId(self.0.len() as u32))
    }
    fn writable(&mut self, id: PageId) -> Result<PageId> {
        self.page(id).map(|_| id)
    }
    fn page_mut(&mut self, id: PageId) -> Result<&mut [u8]> {
        let page = (id.0 as usize).checked_sub(1).and_then(|i| self.0.get_mut(i));
        page.map(|page| &mut **page).ok_or_else(|| Error::Invalid(format!("no page {}", id.0)))
    }
    fn free(&mut self, _: PageId) -> Result<()> {
        Ok(())
    }
}

fn key(n: u8) -> Vec<u8> {
    if n.is_multiple_of(4) { vec![n; usize::from(n)] } else { format!("some key {n}").into_bytes() }
}

fn keyed(pages: &mut Pages, count: u8) -> TreeRoot {
    let mut root = TreeRoot::EMPTY;
    for n in 0..count {
        Tree::put(pages, &mut root, &key(n), Value::inline(&vec![n; usize::from(n) * 3])).unwrap();
    }
    root
}

/// Everything that can be asked of a tree and done to it.
fn try_keys(pages: &Pages, mut root: TreeRoot, how: u8) -> Result<()> {
    let _ = Tree::check(pages, &root, &mut |_| {});
    let _ = Tree::get(pages, &root, &key(how));
    let _ = Tree::is_above_all(pages, &root, &key(how));
    let asked = [key(how), key(3), key(200)];
    let asked: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    let _ = Tree::get_many(pages, &root, &asked, &mut |_, _| Ok(()));
    let mut cursor = Tree::cursor(pages, &root);
    let mut there = cursor.seek(&key(how));
    for _ in 0..600 {
        if !matches!(there, Ok(true)) || cursor.entry().is_err() {
            break;
        }
        there = cursor.next();
    }
    there = cursor.last();
    for _ in 0..600 {
        if !matches!(there, Ok(true)) || cursor.key().is_err() {
            break;
        }
        there = cursor.prev();
    }
    let mut sink = pages.clone();
    match how % 4 {
        0 => Tree::put(&mut sink, &mut root, &key(how), Value::inline(&[how; 900])).map(drop),
        1 => Tree::delete(&mut sink, &mut root, &key(how)).map(drop),
        2 => Tree::delete_range(
            &mut sink,
            &mut root,
            (Bound::Excluded(&key(how / 2)), Bound::Included(&key(how))),
        )
        .map(drop),
        _ => Tree::clear(&mut sink, &mut root),
    }
}

fn try_rows(pages: &Pages, mut root: RowRoot, how: u8) -> Result<()> {
    let row = u64::from(how) * 3;
    let _ = RowTree::get(pages, &root.tree, row);
    let mut cursor = RowTree::cursor(pages, &root);
    let mut there = cursor.seek(row);
    for _ in 0..600 {
        if !matches!(there, Ok(true)) {
            break;
        }
        there = cursor.next();
    }
    let mut sink = pages.clone();
    match how % 3 {
        0 => RowTree::put(&mut sink, &mut root, row, Value::inline(&[how; 700])).map(drop),
        1 => RowTree::delete(&mut sink, &mut root, row).map(drop),
        _ => RowTree::append(&mut sink, &mut root, Value::inline(&[how; 100])).map(drop),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, count, how], data)) = data.split_first_chunk() else { return };
    let mut pages = Pages::default();
    let rows = kind % 2 == 1;
    let mut root = RowRoot { tree: TreeRoot::EMPTY, next: 1 };
    if rows {
        for n in 0..count {
            RowTree::append(&mut pages, &mut root, Value::inline(&vec![n; usize::from(n) * 3])).unwrap();
        }
    } else {
        root.tree = keyed(&mut pages, count);
    }
    if pages.0.is_empty() {
        return;
    }
    // Each change: which page, where, and what. Headers are the most interesting.
    for &[page, high, low, byte] in data.as_chunks::<4>().0 {
        let page = usize::from(page) % pages.0.len();
        let at = usize::from(u16::from_be_bytes([high, low])) % if page % 2 == 0 { PAYLOAD } else { 64 };
        pages.0[page][at] = byte;
    }
    // An error is as good as an answer: it is a panic, a hang or a stray access that is looked for.
    let _ = if rows { try_rows(&pages, root, how) } else { try_keys(&pages, root.tree, how) };
});
