//! The options of `create`: what they leave open is filled in before they are stored, so that those of two collections can be compared.

use bson::{Bson, Document};

use treedb_query::doc::Collation;
use treedb_query::error::Result;

use crate::catalog::meta::collation_of;
use crate::catalog::namespace::Namespace;
use crate::catalog::special::Special;
use crate::catalog::view_def::ViewDef;
use crate::database::Database;

/// Checks the options of a new collection, and fills in what they leave open.
///
/// # Errors
/// Those of [`Collation::parse`] and [`Special::complete`].
pub(crate) fn complete(options: &mut Document) -> Result<(Collation, Special)> {
    let collation = collation_of(options)?;
    let special = Special::complete(options)?;
    match collation.document() {
        Some(whole) => drop(options.insert("collation", Document::try_from(whole)?)),
        None => drop(options.remove("collation")),
    }
    Ok((collation, special))
}

/// True if completed options say the same. The order of the options is no difference, that of fields within them is one.
fn are_same(one: &Document, other: &Document) -> Result<bool> {
    let said = |options: &Document| {
        let mut options = options.clone();
        if options
            .get_document("changeStreamPreAndPostImages")
            .is_ok_and(|images| !images.get_bool("enabled").unwrap_or(false))
        {
            options.remove("changeStreamPreAndPostImages");
        }
        options
    };
    let (one, other) = (said(one), said(other));
    if one.len() != other.len() {
        return Ok(false);
    }
    // Documents compare as sets of fields.
    let bytes = |value: &Bson| bson::doc! { "": value.clone() }.to_vec();
    for (name, value) in &one {
        match other.get(name) {
            Some(same) if bytes(value)? == bytes(same)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

impl Database {
    /// True if there is a collection or view of this name with the options that `options` would give it.
    ///
    /// # Errors
    /// Those of [`Database::create_collection`] for the options.
    pub fn exists_with_options(&self, namespace: &str, mut options: Document) -> Result<bool> {
        let namespace = Namespace::parse(namespace)?;
        let reads = self.inner.store.begin_read()?;
        let view = self.inner.catalog.view(&reads, &namespace)?;
        let there = if options.contains_key("viewOn") {
            options = ViewDef::new(namespace, options)?.options;
            view.map(|view| view.options)
        } else {
            complete(&mut options)?;
            match view {
                Some(_) => None,
                None => self.inner.catalog.find(&reads, &namespace)?.map(|meta| meta.options.clone()),
            }
        };
        there.map_or(Ok(false), |there| are_same(&there, &options))
    }
}
