//! `treedb serve`: opens a directory and serves it until a signal arrives.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use treedb_collections::ChangeLogOptions;
use treedb_storage::Durability;

use super::key::key;
use super::user::password;
use super::{Failure, error_hints};
use crate::config::{Changes, Compressors, Config, Limits, Unprotected};
use crate::logs::{self, LogFormat, LogLevel};
use crate::notify;
use crate::server::{self, Server};
use crate::settings::kind::Raw;
use crate::settings::sources::FILE_VARIABLE;
use crate::settings::table::{DurabilityName, OnOff, Preset, Row, UnprotectedName};
use crate::settings::{Layers, Settings, TABLE, show};
use crate::tls::TlsFiles;

/// A generous estimate of the files that a server has open besides its connections.
const OWN_FILES: u64 = 100;

/// How long a thread that may block is kept without work. After a burst of many connections there are as many, each with a stack and a share of
/// the allocator's memory; to start one takes some ten microseconds.
const IDLE_THREAD: Duration = Duration::from_millis(500);

const ABOUT: &str = "Serve a directory to MongoDB drivers (and, if asked, to native clients)";
const AFTER_HELP: &str = "\
Every setting is also a line of a configuration file (max_connections = 500) and an environment variable
(TREEDB_MAX_CONNECTIONS=500); flags win over the environment, and the environment over the file. Sizes are bytes or have a unit
(512MiB), times too (90s, 5m).

Every listener is printed on standard output when it is ready, as `listening NAME HOST:PORT`, so that a script can use
port 0 and read the actual port. SIGTERM, SIGINT or the command shutdown stops accepting, lets running commands finish,
checkpoints and exits with status 0; a second signal exits at once. Under systemd the server says when it is ready, and that it stops (Type=notify).

Clients need not authenticate unless --auth is given; then only this machine can connect. With --auth, users and their roles
decide: the first one is created by --root-user, or by createUser from this machine.";

/// `treedb serve`, before its settings are put together.
#[derive(Debug)]
pub(super) struct Serve {
    file: Option<PathBuf>,
    flags: Vec<(&'static str, String)>,
    instead: Option<Instead>,
}

/// What to do instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    Check,
    Print,
    Sample,
}

const INSTEAD: [(&str, &str, Instead); 3] = [
    (
        "check-config",
        "Check the settings, the files that they name and who could connect, and exit",
        Instead::Check,
    ),
    (
        "print-config",
        "Print the settings in effect as a configuration file, and where each comes from, and exit",
        Instead::Print,
    ),
    (
        "sample-config",
        "Print a configuration file with every setting, its meaning and its default, and exit",
        Instead::Sample,
    ),
];

/// The flag of a setting.
fn flag(row: &'static Row) -> Arg {
    let mut help = row.help();
    match row.default {
        Preset::Is("false") | Preset::Required => {}
        Preset::Is(value) => help.push_str(&format!(" [default: {value}]")),
        Preset::Unset(meaning, _) => help.push_str(&format!(" [default: {meaning}]")),
    }
    let arg = Arg::new(row.name).long(row.flag()).help(help).help_heading(row.group);
    let choices = (row.choices)();
    match (row.form, choices.is_empty()) {
        ("", _) => arg
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_default_value(true)
            .value_parser(PossibleValuesParser::new(["true", "false"]))
            .hide_possible_values(true),
        (form, true) => arg.value_name(form).value_parser(move |text: &str| {
            (row.set)(&mut Settings::default(), &Raw::text(text)).map(|()| text.to_owned())
        }),
        (form, false) if form == "NAMES" => {
            arg.value_name(form).value_delimiter(',').value_parser(PossibleValuesParser::new(choices))
        }
        (form, false) => arg.value_name(form).value_parser(PossibleValuesParser::new(choices)),
    }
}

impl Args for Serve {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Configuration file (TOML) [default: the one that TREEDB_CONFIG names, if any]");
        let instead = INSTEAD.map(|(name, help, _)| {
            Arg::new(name).long(name).help(help).action(ArgAction::SetTrue).group("instead")
        });
        command
            .about(ABOUT)
            .after_help(AFTER_HELP)
            .arg(file)
            .args(instead)
            .group(ArgGroup::new("instead").multiple(false))
            .args(TABLE.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Serve::augment_args(command)
    }
}

impl FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |row: &Row| {
            let values: Vec<&str> = matches.get_many::<String>(row.name)?.map(String::as_str).collect();
            Some((row.name, values.join(",")))
        };
        Ok(Serve {
            file: matches.get_one("config").cloned(),
            flags: TABLE.iter().filter_map(|row| given(row).map(|(_, value)| (row.name, value))).collect(),
            instead: INSTEAD
                .into_iter()
                .find(|(name, ..)| matches.get_flag(name))
                .map(|(.., instead)| instead),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Serve::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The variables of the environment that may be settings.
fn environment() -> Result<Vec<(String, String)>, Failure> {
    let ours = std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TREEDB_"));
    ours.map(|(name, value)| {
        let name = name.to_string_lossy().into_owned();
        let value = value.into_string().map_err(|_| Failure(format!("{name}: its value is not UTF-8")))?;
        Ok((name, value))
    })
    .collect()
}

/// The configuration that settings describe, whose files are read.
fn config(settings: Settings) -> Result<Config, Failure> {
    let usual = Limits::default();
    let first_user = match (settings.root_user, &settings.root_password_file) {
        (Some(name), Some(file)) => Some((name, password(file)?)),
        _ => None,
    };
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let kept = ChangeLogOptions::default();
    let limits = ChangeLogOptions {
        keep: settings.change_hours.map_or(kept.keep, |time| time.0),
        bytes: settings.change_bytes.map_or(kept.bytes, |bytes| bytes.0),
    };
    Ok(Config {
        dir: settings.dir.unwrap_or_default(),
        key: settings.key_file.as_deref().map(key).transpose()?,
        cache_bytes: settings.cache_bytes.map(|bytes| bytes.0),
        vector_memory: settings.vector_memory.map(|bytes| bytes.0),
        vector_build_threads: settings.vector_build_threads.map(|threads| size(threads.0)),
        save_vector_images: settings.save_vector_images.is_none_or(|choice| choice.0 != OnOff::Off),
        durability: match settings.durability.map(|choice| choice.0) {
            Some(DurabilityName::Durable) | None => Durability::Durable,
            Some(DurabilityName::Relaxed) => Durability::Relaxed,
            Some(DurabilityName::None) => Durability::None,
        },
        changes: match settings.change_log.map(|choice| choice.0) {
            Some(OnOff::Off) => Changes::Off,
            Some(OnOff::On) => Changes::On(limits),
            None if limits != kept => Changes::On(limits),
            None => Changes::Unspecified,
        },
        mongo: settings.mongo.ok_or_else(|| Failure("mongo is not set".to_owned()))?,
        replica_set: settings.replica_set,
        advertised: settings.advertise,
        test_commands: settings.enable_test_commands.unwrap_or_default(),
        compressors: settings.compressors.unwrap_or(Compressors::ALL),
        native: settings.native,
        admin: settings.admin,
        web_page: settings.web_page.map(|choice| choice.0 == OnOff::On),
        tls: match (settings.tls_certificate, settings.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate, key, client_authorities: settings.tls_client_ca })
            }
            _ => None,
        },
        authentication: settings.auth.unwrap_or_default(),
        first_user,
        allow_unprotected: settings
            .allow_unauthenticated
            .into_iter()
            .flat_map(|which| which.0)
            .map(|which| match which {
                UnprotectedName::Clients => Unprotected::Clients,
                UnprotectedName::Admin => Unprotected::Admin,
            })
            .collect(),
        limits: Limits {
            connections: settings.max_connections.map_or(usual.connections, |count| size(count.0)),
            inflight_bytes: settings.max_inflight_bytes.map_or(usual.inflight_bytes, |bytes| size(bytes.0)),
            stall: settings.stall_seconds.map_or(usual.stall, |time| time.0),
            cursor_idle: settings.cursor_seconds.map_or(usual.cursor_idle, |time| time.0),
            transaction_life: settings.transaction_seconds.map_or(usual.transaction_life, |time| time.0),
            shutdown_grace: settings.drain_seconds.map_or(usual.shutdown_grace, |time| time.0),
            slow: settings.slow_millis.map_or(usual.slow, |time| time.0),
            ..usual
        },
    })
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut out = std::io::stdout().lock();
        if self.instead == Some(Instead::Sample) {
            out.write_all(show::sample().as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let named = std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        let file = self.file.or(named);
        let layers = Layers::merge(file.as_deref(), environment()?, &self.flags).map_err(Failure)?;
        if self.instead == Some(Instead::Print) {
            out.write_all(show::in_effect(&layers).as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let settings = layers.settings;
        let (level, format) = (settings.log_level, settings.log_format);
        let mut config = config(settings)?;
        if self.instead == Some(Instead::Check) {
            server::check(&config).map_err(|error| error_hints::server(&config.dir, &error))?;
            writeln!(out, "the configuration is valid")?;
            return Ok(ExitCode::SUCCESS);
        }
        drop(out);
        logs::start(
            level.map_or(LogLevel::Info, |level| level.0),
            format.map_or(LogFormat::Text, |format| format.0),
        );
        config.limits.connections = allowed_connections(config.limits.connections);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("treedb")
            .max_blocking_threads(config.limits.threads())
            .thread_keep_alive(IDLE_THREAD)
            .build()?;
        let status = runtime.block_on(serve(config));
        // A command that outlived the grace period is not waited for a second time.
        runtime.shutdown_background();
        status
    }
}

async fn serve(config: Config) -> Result<ExitCode, Failure> {
    // Handlers first: a signal that arrives while the directory is being recovered must not be lost.
    let mut signals = Signals::new()?;
    let dir = config.dir.clone();
    let server = Server::bind(config).await.map_err(|error| error_hints::server(&dir, &error))?;
    let mut out = std::io::stdout().lock();
    let mut doors = Vec::new();
    for (name, address) in server.addresses() {
        writeln!(out, "listening {name} {address}")?;
        doors.push(format!("{name} on {address}"));
    }
    out.flush()?;
    drop(out);
    notify::ready(&doors.join(", "));

    let shutdown = server.shutdown_handle();
    let mut requested = shutdown.subscribe();
    tokio::spawn(async move {
        let first = tokio::select! {
            signal = signals.next() => signal,
            () = requested.requested() => "none: the command shutdown",
        };
        tracing::info!(signal = first, "stopping: no new connections, running commands may finish");
        notify::stopping();
        shutdown.stop();
        let second = signals.next().await;
        tracing::warn!(
            signal = second,
            "second signal: exiting at once, the next start recovers from the log"
        );
        std::process::exit(1);
    });
    server.run().await?;
    Ok(ExitCode::SUCCESS)
}

/// Raises the limit of open files as far as permitted. Returns how many of the connections that are asked for that leaves room
/// for: without a descriptor for a file of its own the database would have to refuse writes until it is opened again, so
/// clients must not be able to take the last one.
fn allowed_connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let room = now.map_or(usize::MAX, |now| {
        usize::try_from(now.saturating_sub(OWN_FILES)).unwrap_or(usize::MAX).max(1)
    });
    if room < wanted {
        tracing::warn!(
            open_files = now,
            connections = room,
            wanted,
            "not enough open files for --max-connections, which is lowered: raise the limit (ulimit -n)"
        );
    }
    wanted.min(room)
}

/// SIGTERM and SIGINT.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_library() {
        let defaults = Layers::merge(None, [], &[("dir", String::new() + "d")]).unwrap().settings;
        let none = Settings { dir: Some("d".into()), mongo: defaults.mongo, ..Settings::default() };
        assert_eq!(format!("{:?}", config(defaults).unwrap()), format!("{:?}", config(none).unwrap()));
        for row in TABLE {
            match (row.name, row.default) {
                ("change_hours", Preset::Unset(meaning, _)) => {
                    assert_eq!(meaning, (ChangeLogOptions::default().keep.as_secs() / 3600).to_string());
                }
                ("change_bytes", Preset::Unset(meaning, _)) => {
                    assert_eq!(meaning, format!("{} MiB", ChangeLogOptions::default().bytes >> 20));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_setting_is_in_the_configuration() {
        let changed = |row: &Row| match row.form {
            "" => "true",
            "N" => "7",
            "BYTES" => "99MiB",
            "SECONDS" | "MILLISECONDS" | "HOURS" => "7d",
            "HOST:PORT" => "127.0.0.1:7",
            _ => match row.name {
                "durability" => "relaxed",
                "change_log" | "web_page" | "save_vector_images" => "off",
                "compressors" => "zstd",
                "allow_unauthenticated" => "admin",
                name => name,
            },
        };
        let debug = |settings: &Settings| format!("{:?}", config(settings.clone()).unwrap());
        for row in TABLE {
            // Files are read, of which tests of the command have some; the log is not part of the configuration.
            if row.name.ends_with("_file") || row.name.starts_with("log_") || row.name == "root_user" {
                continue;
            }
            // What needs another setting is only seen with it.
            let mut before = Settings { mongo: "127.0.0.1:1".parse().ok(), ..Settings::default() };
            let needed = |row: &Row| row.needs.and_then(|needed| TABLE.iter().find(|row| row.name == needed));
            // The certificate needs its key, and the key its certificate.
            for other in std::iter::successors(needed(row), |other| needed(other)).take(2) {
                if other.name != row.name {
                    (other.set)(&mut before, &Raw::text(changed(other))).unwrap();
                }
            }
            let mut after = before.clone();
            (row.set)(&mut after, &Raw::text(changed(row))).unwrap();
            assert_ne!(debug(&before), debug(&after), "{}", row.name);
        }
    }
}
