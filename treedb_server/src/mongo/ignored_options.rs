//! The options that are accepted and have no effect, with the reason for each.
//!
//! [`IGNORED_OPTIONS`] is the only list of them: a command accepts an option that it does not read itself only if it is
//! listed here. `scripts/compatibility_doc.py` writes the same rows into `docs/mongodb-compatibility.md`, which a test compares.

/// An option that is accepted and has no effect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IgnoredOption {
    /// The command, or the part of one, that may carry it; [`ANY_COMMAND`] for all of them.
    pub(crate) owner: &'static str,
    /// Its name; `*` for every name that the owner does not read.
    pub(crate) option: &'static str,
    /// Why it has no effect.
    pub(crate) why: &'static str,
}

/// The owner of the options that every command accepts.
pub(crate) const ANY_COMMAND: &str = "any command";

const fn row(owner: &'static str, option: &'static str, why: &'static str) -> IgnoredOption {
    IgnoredOption { owner, option, why }
}

/// Every option that is accepted and ignored, by owner and name.
///
/// Those of `$changeStream`, `collation` and filters are ignored by the parsers of `treedb_collections` and
/// `treedb_query`; they are listed here so that there is one list.
pub(crate) static IGNORED_OPTIONS: &[IgnoredOption] = &[
    row(ANY_COMMAND, "$clusterTime", "there is one server, whose clock is the cluster's"),
    row(ANY_COMMAND, "$readPreference", "the only server is the primary"),
    row(ANY_COMMAND, "comment", "it is shown with its command, by `currentOp` and the profiler"),
    row("`$changeStream`", "showMigrationEvents", "there are no shards to migrate between"),
    row("`collation`", "normalization", "strings always compare as if they were normalized"),
    row("`collation`", "version", "it names a version of ICU, and the rules here are not ICU's"),
    row("`count`", "fields", "a count returns no fields"),
    row("`create`", "flags", "it belongs to a storage engine that MongoDB no longer has"),
    row("`createIndexes`", "commitQuorum", "there are no other members that could vote"),
    row("`createIndexes.indexes`", "dropDups", "MongoDB ignores it too; duplicates make the build fail"),
    row("`createIndexes.indexes`", "ns", "the collection is the one that the command names"),
    row("`createIndexes.indexes`", "v", "there is one version of index, listed as 2"),
    row("`currentOp`", "$truncateOps", "commands of more than 1,024 bytes are never shown in full"),
    row("a filter", "$comment", "it is shown with its command, by `currentOp` and the profiler"),
    row("`find`", "allowPartialResults", "there are no shards that could be missing"),
    row("`find`", "oplogReplay", "MongoDB ignores it too"),
    row("`find`", "readOnce", "it is about MongoDB's cache"),
    row("`fsync`", "async", "the reply always waits for the checkpoint"),
    row("`hello`", "*", "metadata of the driver, which `currentOp` shows"),
    row("`isMaster`", "*", "as for `hello`"),
    row("`readConcern`", "afterClusterTime", "every read sees all writes acknowledged before it"),
    row("`readConcern`", "provenance", "it only names the origin of the read concern"),
    row("`validate`", "background", "writers always continue, unless `full` asks for all pages"),
    row("`validate`", "checkBSONConformance", "documents are always checked all through"),
    row(
        "`validate`",
        "enforceFastCount",
        "the number of documents is always compared with the pages, with `full`",
    ),
    row("`validate`", "scandata", "the documents are always read"),
    row("`writeConcern`", "provenance", "it only names the origin of the write concern"),
    row("`writeConcern`", "wtimeout", "there are no other members to wait for"),
    row("`writeConcern`", "wtimeoutMS", "there are no other members to wait for"),
];

/// True if `owner` accepts and ignores `option`.
pub(crate) fn is_ignored(owner: &str, option: &str) -> bool {
    IGNORED_OPTIONS.iter().any(|row| {
        let own = row.owner.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        own == Some(owner) && matches!(row.option, name if name == option || name == "*")
    })
}

/// True if every command accepts and ignores `option`.
pub(crate) fn is_ignored_by_every_command(option: &str) -> bool {
    IGNORED_OPTIONS.iter().any(|row| row.owner == ANY_COMMAND && row.option == option)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of the repository: read, not included, since the pages are not in the package.
    fn page(path: &str) -> String {
        std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    const SECTION: &str = "## Options that are accepted and ignored";

    /// The page in two: its section about ignored options, and everything else.
    fn section() -> (String, String) {
        let page = page("docs/mongodb-compatibility.md");
        let (before, rest) = page.split_once(&format!("\n{SECTION}\n")).unwrap();
        let (section, after) = rest.split_once("\n## ").unwrap();
        (section.to_owned(), format!("{before}\n{after}"))
    }

    #[test]
    fn the_table_is_sorted_within_its_owners_and_has_no_row_twice() {
        for (i, row) in IGNORED_OPTIONS.iter().enumerate() {
            let again = IGNORED_OPTIONS[i + 1..]
                .iter()
                .any(|other| (other.owner, other.option) == (row.owner, row.option));
            assert!(!again, "{row:?} is there twice");
        }
        let key = |row: &IgnoredOption| {
            (row.owner != ANY_COMMAND, row.owner.trim_start_matches("a ").replace('`', ""), row.option)
        };
        assert!(IGNORED_OPTIONS.is_sorted_by_key(key));
    }

    #[test]
    fn the_documentation_lists_exactly_the_options_that_the_table_lists() {
        let (section, _) = section();
        let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        let expected: Vec<String> = IGNORED_OPTIONS
            .iter()
            .map(|row| match row.option {
                "*" => format!("| {} | all others | {} |", row.owner, row.why),
                option => format!("| {} | `{option}` | {} |", row.owner, row.why),
            })
            .collect();
        assert_eq!(listed, expected);
    }

    #[test]
    fn whatever_else_the_documentation_calls_ignored_is_in_the_table() {
        let (_, rest) = section();
        for line in rest.lines().filter(|line| line.contains("ignored")) {
            let by_name = |name: &str| IGNORED_OPTIONS.iter().any(|row| row.option == name);
            let named = line.split('`').skip(1).step_by(2).any(by_name);
            let linked = line.contains("#options-that-are-accepted-and-ignored");
            assert!(named || linked, "not in the table of ignored options: {line}");
        }
        let readme = page("README.md");
        let mentions: Vec<_> = readme.lines().filter(|line| line.contains("ignored")).collect();
        assert!(!mentions.is_empty());
        for line in mentions {
            assert!(
                line.contains("docs/mongodb-compatibility.md#options-that-are-accepted-and-ignored"),
                "the README speaks of ignored options without a link to the list: {line}"
            );
        }
    }
}
