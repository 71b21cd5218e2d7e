//! Settings as a file: those in effect, and the sample.

use super::sources::{Layers, Origin};
use super::table::{Preset, Row, TABLE};

/// The settings in effect as a configuration file, which says of each where it comes from.
pub(crate) fn in_effect(layers: &Layers) -> String {
    let mut text = String::from("# The settings in effect, and where each comes from.\n");
    for (row, heading) in grouped() {
        text.push_str(&heading);
        match ((row.get)(&layers.settings), layers.origin(row.name)) {
            (Some(value), origin) => {
                let origin = origin.unwrap_or(&Origin::Default);
                text.push_str(&format!("{} = {value}  # {origin}\n", row.name));
            }
            (None, _) => {
                let meaning = match row.default {
                    Preset::Unset(meaning, _) => meaning,
                    Preset::Is(_) | Preset::Required => "not set",
                };
                text.push_str(&format!("# {}: {meaning}\n", row.name));
            }
        }
    }
    text
}

/// A configuration file with every setting, its meaning and its default, all commented out but the directory.
pub(crate) fn sample() -> String {
    let mut text = String::from(
        "\
# Configuration of `treedb serve`: `treedb serve --config FILE`, or TREEDB_CONFIG=FILE.
#
# What is commented out is the default. A setting is also an environment variable (TREEDB_MAX_CONNECTIONS) and a flag
# (--max-connections): flags win over the environment, and the environment over this file. Sizes are bytes, or have a unit
# (\"512MiB\"); times too (\"90s\", \"5m\", \"2h\"). `treedb serve --config FILE --check-config` tells mistakes.
",
    );
    let defaults = Layers::merge(None, [], &[("dir", "/var/lib/treedb".to_owned())]).unwrap_or_default();
    for (row, heading) in grouped() {
        text.push_str(&heading);
        text.push('\n');
        for line in wrapped(&row.help()) {
            text.push_str(&format!("# {line}\n"));
        }
        for choice in (row.choices)() {
            let help = choice.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            text.push_str(&format!("#   {:?}{help}\n", choice.get_name()));
        }
        if let Some(needed) = row.needs {
            text.push_str(&format!("# Needs {needed} too.\n"));
        }
        match ((row.get)(&defaults.settings), row.default) {
            (Some(value), Preset::Required) => text.push_str(&format!("{} = {value}\n", row.name)),
            (Some(value), _) => text.push_str(&format!("#{} = {value}\n", row.name)),
            (None, Preset::Unset(meaning, example)) => {
                text.push_str(&format!("# Default: {meaning}.\n#{} = {example}\n", row.name));
            }
            (None, _) => {}
        }
    }
    text
}

/// The settings, the first of each group with its heading.
fn grouped() -> impl Iterator<Item = (&'static Row, String)> {
    let mut last = "";
    TABLE.iter().map(move |row| {
        let heading = if row.group == last { String::new() } else { format!("\n## {}\n", row.group) };
        last = row.group;
        (row, heading)
    })
}

/// A text in lines of at most 110 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 110 => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn merged(text: &str) -> Layers {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        Layers::merge(Some(&path), [], &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Name and value of each setting that has one.
    fn values(layers: &Layers) -> Vec<(&'static str, String)> {
        TABLE.iter().filter_map(|row| Some((row.name, (row.get)(&layers.settings)?))).collect()
    }

    #[test]
    fn the_sample_in_the_repository_has_every_setting_with_its_default() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/treedb.toml");
        let file = std::fs::read_to_string(&path).unwrap();
        assert!(
            file == sample(),
            "packaging/treedb.toml is out of date: treedb serve --sample-config >packaging/treedb.toml"
        );
        // As it is, it is the defaults.
        let defaults = Layers::merge(None, [], &[("dir", "/var/lib/treedb".to_owned())]).unwrap();
        assert_eq!(values(&merged(&file)), values(&defaults));
        // What is commented out is valid, names every setting, and what has a default has it there.
        let all: String = file
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if TABLE.iter().any(|row| setting.starts_with(&format!("{} = ", row.name))) => {
                    setting
                }
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let all = values(&merged(&all));
        assert_eq!(
            all.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            TABLE.iter().map(|row| row.name).collect::<Vec<_>>()
        );
        for default in values(&defaults) {
            assert!(all.contains(&default), "{default:?}");
        }
    }

    #[test]
    fn what_is_printed_is_a_file_with_the_same_settings() {
        let layers = merged(
            "dir = \"a \\\"b\\\" \\\\ \\u0001\"\ncache_bytes = 100000\nauth = true\ncompressors = []\nadmin = \"127.0.0.1:0\"",
        );
        let printed = in_effect(&layers);
        assert_eq!(values(&merged(&printed)), values(&layers), "{printed}");
        assert!(printed.contains("t.toml:3") && printed.contains("# default"), "{printed}");
        assert!(printed.contains("# native: not served"), "{printed}");
    }
}
