//! `treedb serve`: opens a directory and serves it until a signal arrives.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use treedb_collections::ChangeLogOptions;
use treedb_storage::Durability;

use super::key::KeyArgs;
use super::user::password;
use super::{Failure, error_hints};
use crate::config::{Address, Changes, Compressors, Config, Limits, Unprotected};
use crate::logs::{self, LogFormat, LogLevel};
use crate::server::Server;
use crate::tls::TlsFiles;

/// A generous estimate of the files that a server has open besides its connections.
const OWN_FILES: u64 = 100;

/// Serve a directory to MongoDB drivers (and, if asked, to native clients)
#[derive(Debug, Args)]
#[command(after_help = "\
Every listener is printed on standard output when it is ready, as `listening NAME HOST:PORT`, so that a script can use
port 0 and read the actual port. SIGTERM or SIGINT stops accepting, lets running commands finish, checkpoints and
exits with status 0; a second signal exits at once.

Clients need not authenticate unless --auth is given; then only this machine can connect. With --auth, users and their roles
decide: the first one is created by --root-user, or by createUser from this machine.")]
pub(super) struct Serve {
    /// Directory of the database; created if missing
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// Maximal bytes of pages in memory [default: decided by the system; with a key: 64 MiB]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(65536..))]
    cache_bytes: Option<u64>,
    /// Where MongoDB drivers connect
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:27017")]
    mongo: Address,
    /// Present the server to MongoDB drivers as the only member of the replica set NAME: drivers start transactions and
    /// retry writes only on replica sets [default: a standalone server]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    replica_set: Option<String>,
    /// The address of that member that drivers are told of [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", requires = "replica_set")]
    advertise: Option<String>,
    /// How messages of MongoDB drivers may be compressed: snappy, zstd, zlib, or none
    #[arg(long, value_name = "NAMES", default_value = "snappy,zstd,zlib")]
    compressors: Compressors,
    /// Accept configureFailPoint, by which drivers test how they retry: not where data matters
    #[arg(long)]
    enable_test_commands: bool,
    /// Where native clients connect [default: not served]
    #[arg(long, value_name = "HOST:PORT")]
    native: Option<Address>,
    /// HTTP for /livez, /readyz and /metrics [default: not served]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<Address>,
    /// Serve --mongo and --admin through TLS only: file with the certificate and those that certify it (PEM); read again when it
    /// changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// File with the private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Let clients in only as users, who may do what their roles permit
    #[arg(long)]
    auth: bool,
    /// Create this user with the role root if there is no user yet
    #[arg(long, value_name = "NAME", requires = "root_password_file")]
    root_user: Option<String>,
    /// Where the password of that user is read from: the first line of the file
    #[arg(long, value_name = "FILE", requires = "root_user")]
    root_password_file: Option<PathBuf>,
    /// Listeners that other machines may use without authentication: only behind a firewall
    #[arg(long, value_enum, value_name = "WHICH", value_delimiter = ',')]
    allow_unauthenticated: Vec<UnprotectedFlag>,
    /// When a write without a write concern is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityFlag::Durable)]
    durability: DurabilityFlag,
    /// Open connections of both protocols together
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Bytes of requests in progress and of unread answers; further requests wait
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().inflight_bytes,
          value_parser = inflight_bytes)]
    max_inflight_bytes: usize,
    /// Seconds that a peer may stall in the middle of a message, or leave an answer unread
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    stall_seconds: u64,
    /// Seconds that a cursor may be idle before it is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    cursor_seconds: u64,
    /// Seconds that a transaction may take before it is aborted
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    transaction_seconds: u64,
    /// Seconds that running commands have to finish when the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_seconds: u64,
    /// Whether changes are recorded for change streams; stored in the database [default: on in a new database]
    #[arg(long, value_enum, value_name = "on|off")]
    change_log: Option<ChangeLogFlag>,
    /// Hours that recorded changes are kept
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    change_hours: Option<u64>,
    /// Bytes of recorded changes that are kept
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1 << 20..))]
    change_bytes: Option<u64>,
    /// Least severe log lines to write to standard error
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Form of the log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityFlag {
    /// When it is on disk: survives a power cut
    Durable,
    /// When it is visible: a power cut may lose the most recent writes
    Relaxed,
    /// When it is visible: durable at the next checkpoint
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnprotectedFlag {
    /// --mongo and --native
    Clients,
    /// --admin
    Admin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChangeLogFlag {
    On,
    Off,
}

impl Serve {
    /// Whether changes are to be recorded.
    fn changes(&self) -> Changes {
        let usual = ChangeLogOptions::default();
        let limits = ChangeLogOptions {
            keep: self.change_hours.map_or(usual.keep, |hours| Duration::from_secs(hours * 3600)),
            bytes: self.change_bytes.unwrap_or(usual.bytes),
        };
        match self.change_log {
            Some(ChangeLogFlag::Off) => Changes::Off,
            Some(ChangeLogFlag::On) => Changes::On(limits),
            None if limits != usual => Changes::On(limits),
            None => Changes::Unspecified,
        }
    }

    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        logs::start(self.log_level, self.log_format);
        let changes = self.changes();
        let first_user = match (&self.root_user, &self.root_password_file) {
            (Some(name), Some(file)) => Some((name.clone(), password(file)?)),
            _ => None,
        };
        let mut config = Config {
            tls: match (self.tls_certificate, self.tls_key) {
                (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
                _ => None,
            },
            authentication: self.auth,
            first_user,
            allow_unprotected: self
                .allow_unauthenticated
                .iter()
                .map(|which| match which {
                    UnprotectedFlag::Clients => Unprotected::Clients,
                    UnprotectedFlag::Admin => Unprotected::Admin,
                })
                .collect(),
            advertised: self.advertise.clone(),
            changes,
            key: self.key.key()?,
            cache_bytes: self.cache_bytes,
            dir: self.dir,
            durability: match self.durability {
                DurabilityFlag::Durable => Durability::Durable,
                DurabilityFlag::Relaxed => Durability::Relaxed,
                DurabilityFlag::None => Durability::None,
            },
            mongo: self.mongo,
            replica_set: self.replica_set,
            compressors: self.compressors,
            test_commands: self.enable_test_commands,
            native: self.native,
            admin: self.admin,
            limits: Limits {
                connections: self.max_connections,
                inflight_bytes: self.max_inflight_bytes,
                stall: Duration::from_secs(self.stall_seconds),
                cursor_idle: Duration::from_secs(self.cursor_seconds),
                transaction_life: Duration::from_secs(self.transaction_seconds),
                shutdown_grace: Duration::from_secs(self.drain_seconds),
                ..Limits::default()
            },
        };
        config.limits.connections = allowed_connections(config.limits.connections);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("treedb")
            .max_blocking_threads(config.limits.threads())
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
    for (name, address) in server.addresses() {
        writeln!(out, "listening {name} {address}")?;
    }
    out.flush()?;
    drop(out);

    let shutdown = Arc::new(server.shutdown_handle());
    let waiter = Arc::clone(&shutdown);
    tokio::spawn(async move {
        let first = signals.next().await;
        tracing::info!(signal = first, "stopping: no new connections, running commands may finish");
        waiter.stop();
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

fn inflight_bytes(text: &str) -> Result<usize, String> {
    let least = crate::config::MAX_MESSAGE_BYTES;
    match text.parse() {
        Ok(bytes) if bytes >= least => Ok(bytes),
        Ok(_) => Err(format!("must be at least {least}, the size of the largest message")),
        Err(error) => Err(format!("{error}")),
    }
}
