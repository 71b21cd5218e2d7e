//! `treedb.index_pages(regclass)`: what each page of an index holds, for those who want to know why it is as large or
//! slow as it is.

use pgrx::check_for_interrupts;

use super::leaf::LeafView;
use super::meta::Meta;
use super::schema::Schema;
use super::tree::Tree;
use crate::pages::allocate::is_unused;
use crate::pages::page::{Damage, View, flag};
use crate::shim::buffer::{Page, Shared};
use crate::shim::catalog;
use crate::shim::function::pg_function;
use crate::shim::relation::{LockMode, OpenIndex};
use crate::shim::rows::{Rows, Set};

/// A page as a JSON object, as `treedb.index_pages` takes it apart.
fn describe(tree: &Tree<'_>, block: u32, bytes: &[u8]) -> Result<String, Damage> {
    if is_unused(bytes) {
        return Ok(format!(r#"{{"block": {block}, "kind": "unused"}}"#));
    }
    let view = View::open(bytes)?;
    let (level, next) = (view.level(), view.next().map_or("null".to_owned(), |next| next.to_string()));
    if view.has(flag::META) {
        let meta = Meta::read(bytes)?;
        return Ok(format!(
            r#"{{"block": {block}, "kind": "meta", "level": {}, "next": {}}}"#,
            meta.level, meta.root
        ));
    }
    let kind = match level {
        _ if view.has(flag::DELETED) => "deleted",
        0 => "leaf",
        _ => "branch",
    };
    let free = view.hole()?.len();
    let (mut entries, mut appended, mut dead) = (0, 0, 0);
    if kind == "leaf" {
        let leaf = LeafView::open(&view, tree.schema.keys)?;
        let all = leaf.all(tree.schema)?;
        appended = leaf.appended().count();
        entries = all.len();
        for place in (0..entries).filter_map(|i| all.place(i)) {
            dead += usize::from(leaf.is_marked(place)?);
        }
    } else if kind == "branch" {
        entries = view.branch(tree.schema.keys)?.count() + 1;
    }
    Ok(format!(
        r#"{{"block": {block}, "kind": "{kind}", "level": {level}, "entries": {entries}, "appended": {appended}, "dead": {dead}, "free_bytes": {free}, "next": {next}}}"#
    ))
}

pg_function! {
    /// `treedb.index_page_objects(regclass) RETURNS SETOF text`: a JSON object for each page.
    fn treedb_index_page_objects(args: [Oid]) -> Set {
        let oid = args.oid(0);
        let mut rows = Rows::begin(args);
        catalog::expect_owner(oid);
        super::expect_own_index(oid);
        let open = OpenIndex::open(oid, LockMode::AccessShare);
        let schema = Schema::of(open.get());
        let tree = Tree::new(open.get(), &schema);
        for block in 0..open.get().blocks() {
            check_for_interrupts!();
            let page: Page<Shared> = Page::read(open.get(), block);
            let bytes = page.bytes().to_vec();
            drop(page);
            rows.put(tree.checked(block, describe(&tree, block, &bytes)).as_bytes());
        }
        rows.finish()
    }
}
