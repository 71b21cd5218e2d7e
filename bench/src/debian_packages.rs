//! The packages of a Debian distribution as documents: long strings, and fields that only some packages have.

use std::collections::HashSet;
use std::process::Command;

use bench_common::Checksum;
use bson::raw::{CString, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;

use crate::Result;

/// Packages per transaction.
pub(crate) const BATCH: usize = 1000;
/// Integer fields.
const NUMBERS: [&str; 2] = ["Installed-Size", "Size"];

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Text(String),
    Number(i64),
}

/// A package: its fields in the order of the package list. `Package`, `Version` and `Section` are always present.
pub(crate) struct Package(pub(crate) Vec<(String, Field)>);

impl Package {
    /// A string field; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, field)| match field {
            Field::Text(text) => text,
            Field::Number(_) => "",
        })
    }

    /// Parses one paragraph of the list; `None` if an indexed field is missing.
    fn parse(paragraph: &str) -> Option<Package> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines() {
            if let (true, Some((_, text))) = (line.starts_with([' ', '\t']), fields.last_mut()) {
                text.push('\n');
                text.push_str(line.trim_start());
            } else if let Some((name, text)) = line.split_once(": ") {
                fields.push((name.to_owned(), text.to_owned()));
            }
        }
        let package = Package(
            fields
                .into_iter()
                .map(|(name, text)| {
                    let number = NUMBERS.contains(&name.as_str()).then(|| text.parse().ok()).flatten();
                    let field = number.map_or(Field::Text(text), Field::Number);
                    (name, field)
                })
                .collect(),
        );
        let complete = ["Package", "Version", "Section"].iter().all(|name| !package.text(name).is_empty());
        complete.then_some(package)
    }

    /// As BSON with `id` as its `_id`.
    pub(crate) fn to_bson(&self, id: u64) -> Result<RawDocumentBuf> {
        let mut document = rawdoc! { "_id": id as i64 };
        for (name, field) in &self.0 {
            let name = CString::try_from(name.as_str())?;
            match field {
                Field::Text(text) => document.append(name, text.as_str()),
                Field::Number(number) => document.append(name, *number),
            }
        }
        Ok(document)
    }
}

/// A checksum over fields that does not depend on their order.
#[derive(Default)]
pub(crate) struct FieldChecksum(u64);

impl FieldChecksum {
    /// Adds one field.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        let mut checksum = Checksum::default();
        checksum.add_entry(name, value);
        self.0 = self.0.wrapping_add(checksum.finish());
    }

    /// Adds all fields of a document.
    pub(crate) fn add_document(&mut self, document: &RawDocument) -> Result<()> {
        for field in document {
            let (name, value) = field?;
            match value {
                RawBsonRef::String(text) => self.add(name.as_str().as_bytes(), text.as_bytes()),
                RawBsonRef::Int64(number) => self.add(name.as_str().as_bytes(), &number.to_le_bytes()),
                _ => return Err(format!("{name} is of another type").into()),
            }
        }
        Ok(())
    }

    /// The checksum.
    pub(crate) fn finish(self) -> u64 {
        self.0
    }
}

/// The packages in the lists that apt has fetched, each name and version once; empty if there are no lists.
pub(crate) fn available() -> Vec<Package> {
    let listed = Command::new("apt-cache").arg("dumpavail").output();
    let text = listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let mut seen = HashSet::new();
    text.split("\n\n")
        .filter_map(Package::parse)
        .filter(|p| seen.insert((p.text("Package").to_owned(), p.text("Version").to_owned())))
        .collect()
}

/// A collection of packages with integer ids, a unique index on name and version, and an index on the section.
pub(crate) trait PackageStore {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Inserts packages with ids from 0, encoding them from fields.
    fn insert(&self, packages: &[Package]) -> Result<()>;
    /// Finds packages by id and returns a checksum of all their fields.
    fn find_by_id(&self, numbers: &[u64]) -> Result<u64>;
    /// The same by name and version, through the unique index.
    fn find_by_name(&self, names: &[(&str, &str)]) -> Result<u64>;
    /// The same for all packages of a section, through its index.
    fn find_by_section(&self, section: &str) -> Result<u64>;
    /// Applies logs to the main files.
    fn checkpoint(&self) -> Result<()>;
    /// The bytes that its files occupy.
    fn bytes_on_disk(&self) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_a_package_with_integers_and_multi_line_strings() {
        let package = Package::parse("Package: a\nVersion: 1:2\nSize: 5\nTag: x,\n y\nSection: web").unwrap();
        assert_eq!(package.text("Version"), "1:2");
        assert_eq!(package.0[2], ("Size".to_owned(), Field::Number(5)));
        assert_eq!(package.text("Tag"), "x,\ny");
        assert!(Package::parse("Package: a\nVersion: 1").is_none());
    }
}
