//! Where values come from: defaults, then the file, then the environment, then flags; the last one that has a value wins.

use std::fmt;
use std::path::{Path, PathBuf};

use super::file::{ConfigFile, nearest};
use super::kind::Raw;
use super::table::{Preset, Row, Settings, TABLE};

/// The variable that names the configuration file.
pub(crate) const FILE_VARIABLE: &str = "TREEDB_CONFIG";
/// A variable of another name is a misspelt setting if it is as much like one as this.
const MISSPELT: f64 = 0.75;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf, usize),
    Environment(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// Settings, and where each of them comes from.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) settings: Settings,
    /// In the order of the table; `None`: it has no value.
    origins: Vec<Option<Origin>>,
}

impl Layers {
    /// All layers on top of each other.
    ///
    /// # Errors
    /// A file that cannot be read, names that no setting has, values that are not of its kind, settings that lack another. The
    /// message says where and what to write.
    pub(crate) fn merge(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&'static str, String)],
    ) -> Result<Layers, String> {
        let mut layers = Layers { settings: Settings::default(), origins: vec![None; TABLE.len()] };
        for row in TABLE {
            if let Preset::Is(text) = row.default {
                layers.set(row.name, Origin::Default, &Raw::text(text))?;
            }
        }
        if let Some(file) = file {
            let ConfigFile { path, values } = ConfigFile::read(file)?;
            for (name, line, raw) in values {
                layers.set(name, Origin::File(path.clone(), line), &raw)?;
            }
        }
        for (variable, text) in environment {
            let named = |row: &&Row| row.variable() == variable;
            match TABLE.iter().find(named) {
                // An empty variable is how a container's file unsets one.
                Some(_) if text.is_empty() => {}
                Some(row) => layers.set(row.name, Origin::Environment(variable), &Raw::text(&text))?,
                None => refuse_misspelt(&variable)?,
            }
        }
        for (name, text) in flags {
            layers.set(name, Origin::Flag(name.replace('_', "-")), &Raw::text(text))?;
        }
        layers.complete()?;
        Ok(layers)
    }

    fn set(&mut self, name: &str, origin: Origin, raw: &Raw) -> Result<(), String> {
        for (row, slot) in TABLE.iter().zip(&mut self.origins) {
            if row.name == name {
                (row.set)(&mut self.settings, raw).map_err(|error| match &origin {
                    Origin::File(..) => format!("{origin}: {name}: {error}"),
                    _ => format!("{origin}: {error}"),
                })?;
                *slot = Some(origin);
                break;
            }
        }
        Ok(())
    }

    /// Where a setting has its value from; `None` if it has none.
    pub(crate) fn origin(&self, name: &str) -> Option<&Origin> {
        TABLE
            .iter()
            .zip(&self.origins)
            .find_map(|(row, origin)| (row.name == name).then_some(origin.as_ref())?)
    }

    /// That there is what has to be there.
    fn complete(&self) -> Result<(), String> {
        for row in TABLE {
            match (self.origin(row.name), row.needs) {
                (None, _) if matches!(row.default, Preset::Required) => {
                    return Err(format!(
                        "{} is not set: give --{}, {}, or a line in a file that --config names",
                        row.name,
                        row.flag(),
                        row.variable()
                    ));
                }
                (Some(origin), Some(needed)) if self.origin(needed).is_none() => {
                    return Err(format!("{origin}: {} needs {needed} too, which is not set", row.name));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Refuses a variable that was probably meant to be a setting. Others belong to somebody else: Kubernetes, for one, sets
/// `TREEDB_PORT` in every container if a service is called `treedb`.
fn refuse_misspelt(variable: &str) -> Result<(), String> {
    let Some(name) = variable.strip_prefix("TREEDB_").filter(|_| variable != FILE_VARIABLE) else {
        return Ok(());
    };
    let lower = name.to_ascii_lowercase();
    match nearest(&lower) {
        Some(near) if strsim::normalized_damerau_levenshtein(&lower, near) >= MISSPELT => {
            Err(format!("{variable} is not a setting; did you mean TREEDB_{}?", near.to_ascii_uppercase()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(
        file: &str,
        environment: &[(&str, &str)],
        flags: &[(&'static str, &str)],
    ) -> Result<Layers, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        std::fs::write(&path, file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<_> = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Layers::merge(Some(&path), environment, &flags)
    }

    fn connections(layers: &Layers) -> u64 {
        layers.settings.max_connections.unwrap().0
    }

    #[test]
    fn flags_win_over_the_environment_over_the_file_over_defaults() {
        let (file, variable) = ("dir = \"d\"\nmax_connections = 2", ("TREEDB_MAX_CONNECTIONS", "3"));
        let layers = merge("dir = \"d\"", &[], &[]).unwrap();
        assert_eq!((connections(&layers), layers.origin("max_connections")), (1000, Some(&Origin::Default)));
        let layers = merge(file, &[], &[]).unwrap();
        assert_eq!(connections(&layers), 2);
        assert!(layers.origin("max_connections").unwrap().to_string().ends_with("t.toml:2"));
        let layers = merge(file, &[variable], &[]).unwrap();
        assert_eq!(connections(&layers), 3);
        let layers = merge(file, &[variable], &[("max_connections", "4")]).unwrap();
        assert_eq!(connections(&layers), 4);
        assert_eq!(layers.origin("max_connections").unwrap().to_string(), "--max-connections");
        // A switch can be turned off again.
        assert_eq!(
            merge("dir = \"d\"\nauth = true", &[("TREEDB_AUTH", "false")], &[]).unwrap().settings.auth,
            Some(false)
        );
        // An empty variable sets nothing.
        assert_eq!(connections(&merge(file, &[("TREEDB_MAX_CONNECTIONS", "")], &[]).unwrap()), 2);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (file, environment, message) in [
            ("", &[][..], "dir is not set: give --dir, TREEDB_DIR"),
            ("\ncache_bytes = \"5m\"", &[], "t.toml:2: cache_bytes: \"m\" is a unit of time"),
            ("stall_seconds = \"5MiB\"", &[], "t.toml:1: stall_seconds: \"MiB\" is a unit of size"),
            (
                "max_connections = true",
                &[],
                "t.toml:1: max_connections: expected a number, not true or false",
            ),
            ("max_connections = 1.5", &[], "not a number with a fraction"),
            ("dir = 5", &[], "write it in quotes"),
            ("durability = \"strong\"", &[], "expected one of durable, relaxed, none"),
            ("dir = \"d\"\nadvertise = \"h:1\"", &[], "t.toml:2: advertise needs replica_set too"),
            ("dir = \"d\"", &[("TREEDB_TLS_KEY", "k")], "TREEDB_TLS_KEY: tls_key needs tls_certificate too"),
            (
                "dir = \"d\"",
                &[("TREEDB_STALL_SECONDS", "5MiB")],
                "TREEDB_STALL_SECONDS: \"MiB\" is a unit of size",
            ),
            ("dir = \"d\"", &[("TREEDB_CACHE_BYTE", "5")], "did you mean TREEDB_CACHE_BYTES?"),
        ] {
            let error = merge(file, environment, &[]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn variables_of_others_are_left_alone() {
        let others =
            ["TREEDB_PORT", "TREEDB_SERVICE_HOST", "TREEDB_PORT_27017_TCP_ADDR", "TREEDB_SEED", "TREEDB_BIN"];
        let others = others.map(|name| (name, "tcp://10.0.0.1:27017"));
        merge("dir = \"d\"", &others, &[]).unwrap();
    }
}
