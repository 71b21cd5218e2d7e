//! Flags of MongoDB's own programs, which people who come from there try first: an error says what they are called here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag of `mongod`, `mongosh`, `mongoimport` and the like, and what to write instead.
const FLAGS: &[(&str, &str)] = &[
    ("--bind_ip", "--mongo HOST:PORT says where drivers connect"),
    ("--bind_ip_all", "--mongo 0.0.0.0:27017 is for all addresses, and needs --auth"),
    ("--collection", "the collection is an argument: DATABASE.COLLECTION"),
    ("--db", "the database is named with the collection: DATABASE.COLLECTION, or --only DATABASE"),
    ("--dbpath", "--dir DIR"),
    ("--file", "the file is an argument after DATABASE.COLLECTION"),
    (
        "--fork",
        "the server stays in the foreground: run it by systemd (packaging/systemd) or in the background",
    ),
    ("--host", "--uri mongodb://HOST:PORT, or for treedb shell the URI alone"),
    (
        "--keyFile",
        "there are no other members that it would be for; --key-file is the key of an encrypted database",
    ),
    ("--logpath", "the log goes to standard error"),
    ("--nsInclude", "--only DATABASE.COLLECTION"),
    ("--out", "the directory is an argument"),
    ("--port", "treedb serve --mongo 127.0.0.1:PORT; clients take mongodb://HOST:PORT"),
    ("--replSet", "--replica-set NAME"),
    ("--setParameter", "the command setParameter, or a flag of its own: treedb serve --help"),
    ("--tlsCAFile", "in the URI: mongodb://HOST/?tlsCAFile=FILE; of the server --tls-client-ca FILE"),
    ("--tlsCertificateKeyFile", "--tls-certificate FILE --tls-key FILE, which may be the same file"),
    ("--tlsMode", "--tls-certificate FILE --tls-key FILE: then connections without TLS are closed"),
    ("--username", "--user NAME"),
    ("--wiredTigerCacheSizeGB", "--cache-bytes 4GiB"),
];

/// What to write instead of the flag that an error is about, if it is one of these.
pub(super) fn hint(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = given.split(['=', ' ']).next()?;
    FLAGS.iter().find_map(|(flag, instead)| (*flag == name).then_some(*instead))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_flags_of_mongodb_are_told_what_they_are_called_here_and_are_no_flags_of_ours() {
        for (flag, instead) in FLAGS {
            let error = Cli::try_parse_from(["treedb", "scan", flag, "x"]).unwrap_err();
            assert_eq!(hint(&error), Some(*instead), "{flag}");
        }
        let error = Cli::try_parse_from(["treedb", "serve", "--port=5"]).unwrap_err();
        assert!(hint(&error).is_some_and(|hint| hint.contains("--mongo")), "{error}");
        let error = Cli::try_parse_from(["treedb", "serve", "--nothing"]).unwrap_err();
        assert_eq!(hint(&error), None);
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter_map(|argument| argument.get_long()) {
                assert!(
                    !FLAGS.iter().any(|(flag, _)| flag.strip_prefix("--") == Some(argument)),
                    "{argument}"
                );
            }
        }
    }
}
