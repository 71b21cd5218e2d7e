//! The table of settings. Everything that knows settings by name is made from it.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::kind::{Bytes, Choice, Count, Hours, Kind, MESSAGE, Millis, Raw, Seconds, Several};
use crate::config::{Address, Compressors};
use crate::logs::{LogFormat, LogLevel};

/// A setting.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in a file.
    pub(crate) name: &'static str,
    /// Under which heading it stands.
    pub(crate) group: &'static str,
    /// What it is for, in lines.
    help: &'static [&'static str],
    pub(crate) default: Preset,
    /// Another setting that has to be given too.
    pub(crate) needs: Option<&'static str>,
    /// What help calls its value; empty for those that are on or off.
    pub(crate) form: &'static str,
    /// Its values, if they can be listed.
    pub(crate) choices: fn() -> Vec<PossibleValue>,
    /// Sets it.
    pub(crate) set: fn(&mut Settings, &Raw) -> Result<(), String>,
    /// Its value as TOML.
    pub(crate) get: fn(&Settings) -> Option<String>,
}

/// What a setting is when nobody sets it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Preset {
    /// A value, as it would be written as a flag.
    Is(&'static str),
    /// No value, what that means, and what one could be, as TOML.
    Unset(&'static str, &'static str),
    /// It has to be given.
    Required,
}

impl Row {
    /// The flag, without its dashes.
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("TREEDB_{}", self.name.to_ascii_uppercase())
    }

    /// What it is for.
    pub(crate) fn help(&self) -> String {
        self.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

macro_rules! settings {
    ($($group:literal { $(
        $(#[doc = $help:literal])+
        $name:ident: $kind:ty = $default:expr $(, needs $needs:ident)?;
    )+ })+) => {
        /// The values of settings.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Settings { $($(
            $(#[doc = $help])+
            pub(crate) $name: Option<$kind>,
        )+)+ }

        /// Every setting.
        pub(crate) static TABLE: &[Row] = &[ $($( Row {
            name: stringify!($name),
            group: $group,
            help: &[$($help),+],
            default: $default,
            needs: { let _needs: Option<&'static str> = None; $( let _needs = Some(stringify!($needs)); )? _needs },
            form: <$kind as Kind>::FORM,
            choices: <$kind as Kind>::choices,
            set: |to, raw| { to.$name = Some(<$kind as Kind>::parse(raw)?); Ok(()) },
            get: |from| from.$name.as_ref().map(Kind::toml),
        }, )+)+ ];
    };
}

use Preset::{Is, Required, Unset};

settings! {
    "Database" {
        /// Directory of the database; created if missing
        dir: PathBuf = Required;
        /// File with the key of an encrypted database: 32 bytes, or 64 hexadecimal digits
        key_file: PathBuf = Unset("not encrypted", r#""/etc/treedb/key""#);
        /// Maximal bytes of pages in memory
        cache_bytes: Bytes<65_536> = Unset("decided by the system; with a key: 64 MiB", r#""4GiB""#);
        /// Maximal bytes of the copies of vector indexes in memory, by which they are searched, and of vector indexes while they are built
        vector_memory: Bytes<0> = Unset("a quarter of the memory, at least 1 GiB; with cache_bytes: as much as that", r#""8GiB""#);
        /// Threads that build a vector index
        vector_build_threads: Count<1> = Unset("one for each core", "2");
        /// Whether a stop saves the copies of vector indexes in files, which the first searches after the next start read instead of building them
        save_vector_images: Choice<OnOff> = Is("on");
        /// When a write without a write concern is acknowledged
        durability: Choice<DurabilityName> = Is("durable");
        /// Whether changes are recorded for change streams; stored in the database
        change_log: Choice<OnOff> = Unset("on in a new database", r#""on""#);
        /// Hours that recorded changes are kept
        change_hours: Hours<1> = Unset("24", r#""24h""#);
        /// Bytes of recorded changes that are kept
        change_bytes: Bytes<{ 1 << 20 }> = Unset("256 MiB", r#""256MiB""#);
    }
    "Listeners" {
        /// Where MongoDB drivers connect
        mongo: Address = Is("127.0.0.1:27017");
        /// Where native clients connect
        native: Address = Unset("not served", r#""127.0.0.1:27117""#);
        /// HTTP for a web page, /livez, /readyz and /metrics
        admin: Address = Unset("not served", r#""127.0.0.1:27217""#);
        /// Whether the admin port has the web page: without auth it shows the data to everybody who reaches the port, through a proxy
        /// on this machine too
        web_page: Choice<OnOff> = Unset("on with auth, off without", r#""on""#), needs admin;
        /// Present the server to MongoDB drivers as the only member of this replica set: drivers start transactions and
        /// retry writes only on replica sets
        replica_set: String = Unset("a standalone server", r#""rs0""#);
        /// The address of that member that drivers are told of
        advertise: String = Unset("where it listens", r#""db.example.org:27017""#), needs replica_set;
        /// How messages of MongoDB drivers may be compressed: snappy, zstd, zlib, or none
        compressors: Compressors = Is("snappy,zstd,zlib");
        /// Accept configureFailPoint, by which drivers test how they retry: not where data matters
        enable_test_commands: bool = Is("false");
    }
    "Access" {
        /// Let clients in only as users, who may do what their roles permit
        auth: bool = Is("false");
        /// Create this user with the role root if there is no user yet
        root_user: String = Unset("none is created", r#""root""#), needs root_password_file;
        /// Where the password of that user is read from: the first line of the file
        root_password_file: PathBuf = Unset("none is created", r#""/etc/treedb/root.password""#), needs root_user;
        /// Listeners that other machines may use without authentication: only behind a firewall
        allow_unauthenticated: Several<UnprotectedName> = Unset("none", r#"["admin"]"#);
        /// Serve MongoDB drivers, native clients and the admin port through TLS only: file with the certificate and those that
        /// certify it (PEM); read again when it changes
        tls_certificate: PathBuf = Unset("no TLS", r#""/etc/treedb/server.pem""#), needs tls_key;
        /// File with the private key of the certificate (PEM)
        tls_key: PathBuf = Unset("no TLS", r#""/etc/treedb/server.key""#), needs tls_certificate;
        /// Ask MongoDB drivers for certificates of these authorities (PEM): users of $external authenticate by them (MONGODB-X509)
        tls_client_ca: PathBuf = Unset("drivers are not asked", r#""/etc/treedb/clients.pem""#), needs tls_certificate;
    }
    "Limits" {
        /// Open connections of both protocols together
        max_connections: Count<1> = Is("1000");
        /// Bytes of requests in progress and of unread answers; further requests wait
        max_inflight_bytes: Bytes<MESSAGE> = Is("256MiB");
        /// Seconds within which a peer has to send each 1 MiB of a message, or to read it of an answer
        stall_seconds: Seconds<1> = Is("30");
        /// Seconds that a cursor may be idle before it is closed
        cursor_seconds: Seconds<1> = Is("600");
        /// Seconds that a transaction may take before it is aborted
        transaction_seconds: Seconds<1> = Is("60");
        /// Seconds that running commands have to finish when the server stops
        drain_seconds: Seconds<0> = Is("10");
    }
    "Log" {
        /// Least severe log lines to write to standard error
        log_level: Choice<LogLevel> = Is("info");
        /// Form of the log lines
        log_format: Choice<LogFormat> = Is("text");
        /// Milliseconds from which on a command is logged as slow, with its namespace and without its values
        slow_millis: Millis<0> = Is("100");
    }
}

/// Names of durabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    /// When it is on disk: survives a power cut
    Durable,
    /// When it is visible: a power cut may lose the most recent writes
    Relaxed,
    /// When it is visible: durable at the next checkpoint
    None,
}

/// Names of listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnprotectedName {
    /// --mongo and --native
    Clients,
    /// --admin
    Admin,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}
