//! A configuration file: TOML without sections, a line for each setting. Errors name file and line, and never quote a value
//! of an unknown key: it may be a secret that does not belong there.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::kind::Raw;
use super::table::TABLE;

/// The values of a file, in the order of their names.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// Name, line, value. Each name is in the table.
    pub(super) values: Vec<(&'static str, usize, Raw)>,
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Raw::Number(number.as_str().to_owned()),
        DeValue::Integer(_) => Raw::Other("number of another base than ten"),
        DeValue::Boolean(on) => Raw::Switch(*on),
        DeValue::Array(list) => {
            let texts = list.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or(Raw::Other("list of anything but texts"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("date"),
        DeValue::Table(_) => Raw::Other("section"),
    }
}

/// The setting that `name` may have been meant to be.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let likeness = |row: &&super::table::Row| strsim::jaro_winkler(&name, row.name);
    let best = TABLE.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.7).then_some(best.name)
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or has a key that no setting has.
    pub(super) fn read(path: &Path) -> Result<ConfigFile, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        ConfigFile::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<ConfigFile, String> {
        let place = |at: usize| format!("{}:{}", path.display(), line_of(text, at));
        let table = DeTable::parse(text).map_err(|error| {
            // Only the message: the whole error quotes the line.
            format!("{}: {}", place(error.span().map_or(0, |span| span.start)), error.message())
        })?;
        let mut values = Vec::new();
        for (key, value) in table.get_ref() {
            let (name, place) = (key.get_ref().as_ref(), place(key.span().start));
            let Some(row) = TABLE.iter().find(|row| row.name == name) else {
                let hint = match (nearest(name), value.get_ref()) {
                    (_, DeValue::Table(_)) => {
                        "; there are no sections, settings stand by themselves".to_owned()
                    }
                    (Some(near), _) => format!("; did you mean {near}?"),
                    (None, _) => "; treedb serve --sample-config lists all settings".to_owned(),
                };
                return Err(format!("{place}: {name} is not a setting{hint}"));
            };
            values.push((row.name, line_of(text, key.span().start), raw(value.get_ref())));
        }
        Ok(ConfigFile { path: path.to_owned(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(&'static str, usize, Raw)>, String> {
        ConfigFile::parse(Path::new("t.toml"), text).map(|file| file.values)
    }

    #[test]
    fn values_come_with_their_lines() {
        let values =
            parse("# nothing\nmax_connections = 1_000\n\nauth = true\ncompressors = [\"zstd\"]\n").unwrap();
        assert_eq!(
            values,
            [
                ("auth", 4, Raw::Switch(true)),
                ("compressors", 5, Raw::List(vec!["zstd".into()])),
                ("max_connections", 2, Raw::Number("1000".into())),
            ]
        );
    }

    #[test]
    fn mistakes_are_told_with_file_line_and_the_nearest_setting_but_without_values() {
        for (text, message) in [
            (
                "\nmax_conections = 5",
                "t.toml:2: max_conections is not a setting; did you mean max_connections?",
            ),
            ("max-connections = 5", "did you mean max_connections?"),
            ("MaxConnections = 5", "did you mean max_connections?"),
            ("root_password = \"hunter2\"", "did you mean root_password_file?"),
            ("zzz = 5", "--sample-config"),
            ("[limits]\ncache = 5", "t.toml:1: limits is not a setting; there are no sections"),
            ("auth = true\nauth = false", "t.toml:2: duplicate key"),
            ("root_password_file = hunter2", "t.toml:1: "),
            ("auth = true\nroot_user = \"hunter2", "t.toml:2: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message) && !error.contains("hunter2"), "{error}");
        }
    }
}
