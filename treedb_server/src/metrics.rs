//! The counters behind `/metrics`, with stable names and units.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Which protocol, as a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Door {
    /// `mongo` or `native`.
    pub(crate) door: &'static str,
}

/// Which protocol and which command, as labels. Names come from the servers' own tables, never from the wire.
#[derive(Debug, Clone, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Operation {
    /// `mongo` or `native`.
    pub(crate) door: &'static str,
    /// The command's name.
    pub(crate) command: &'static str,
}

/// Each command looks for its histogram: its name's length and first bytes tell nearly all of them apart, and take a quarter of the time.
impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let first =
            |text: &str| text.bytes().take(7).fold(text.len() as u64, |all, byte| all << 8 | u64::from(byte));
        state.write_u64(first(self.door).rotate_left(32) ^ first(self.command));
    }
}

/// What clients of the native protocol have open now, and what they were sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct NativeCounts {
    /// Cursors open now, each of which keeps a snapshot.
    pub(crate) cursors: Gauge,
    /// Statements prepared now.
    pub(crate) statements: Gauge,
    /// Cursors whose batches are being sent.
    pub(crate) pulls: Gauge,
    /// Cursors opened.
    pub(crate) opened: Counter,
    /// Cursors closed because nobody used them.
    pub(crate) timed_out: Counter,
    /// Documents sent.
    pub(crate) returned: Counter,
}

/// One of those that a gauge counts, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    /// One more of what `gauge` counts.
    pub(crate) fn by(gauge: &Gauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

type Histograms = Family<Operation, Histogram, fn() -> Histogram>;

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Connections open now.
    pub(crate) connections: Family<Door, Gauge>,
    /// Connections accepted.
    pub(crate) accepted: Family<Door, Counter>,
    /// Connections refused because there were too many.
    pub(crate) refused: Family<Door, Counter>,
    /// Connections closed because of bytes that are not the protocol.
    pub(crate) protocol_errors: Family<Door, Counter>,
    /// Commands that returned an error.
    pub(crate) failed: Family<Operation, Counter>,
    /// Cursors open now.
    pub(crate) cursors: Family<Door, Gauge>,
    /// What is open on the native port.
    pub(crate) native: NativeCounts,
    /// Bytes of requests in progress.
    pub(crate) inflight: Gauge,
    /// Bytes received and sent.
    pub(crate) received: Family<Door, Counter>,
    /// Bytes sent.
    pub(crate) sent: Family<Door, Counter>,
    started: Gauge<f64, AtomicU64>,
    /// Of `failed`, the sum.
    failures: AtomicU64,
    seconds: Histograms,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        // 10 us to 40 s, in steps of 2.
        let seconds = Histograms::new_with_constructor(|| Histogram::new(exponential_buckets(1e-5, 2.0, 23)));
        let mut metrics = Metrics {
            registry: Registry::with_prefix("treedb"),
            connections: Family::default(),
            accepted: Family::default(),
            refused: Family::default(),
            protocol_errors: Family::default(),
            failed: Family::default(),
            cursors: Family::default(),
            native: NativeCounts::default(),
            inflight: Gauge::default(),
            received: Family::default(),
            sent: Family::default(),
            started: Gauge::default(),
            failures: AtomicU64::new(0),
            seconds,
        };
        metrics.native.cursors = metrics.cursors.get_or_create_owned(&Door { door: "native" });
        let to = &mut metrics.registry;
        to.register("connections", "Connections open now", metrics.connections.clone());
        to.register("connections_accepted", "Connections accepted", metrics.accepted.clone());
        to.register("connections_refused", "Connections refused: too many", metrics.refused.clone());
        to.register(
            "protocol_errors",
            "Connections closed: not the protocol",
            metrics.protocol_errors.clone(),
        );
        to.register("commands_failed", "Commands that returned an error", metrics.failed.clone());
        to.register("cursors", "Cursors open now", metrics.cursors.clone());
        to.register(
            "statements",
            "Statements that native clients have prepared",
            metrics.native.statements.clone(),
        );
        to.register("pulls", "Cursors whose batches native clients are sent", metrics.native.pulls.clone());
        to.register_with_unit("inflight", "Requests in progress", Unit::Bytes, metrics.inflight.clone());
        to.register_with_unit("received", "Received on the wire", Unit::Bytes, metrics.received.clone());
        to.register_with_unit("sent", "Sent on the wire", Unit::Bytes, metrics.sent.clone());
        to.register_with_unit("start_time", "Start, since 1970", Unit::Seconds, metrics.started.clone());
        to.register_with_unit(
            "command_duration",
            "Time in a command",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        // A counter that does not exist before its first event has no rate when that happens.
        for door in ["mongo", "native", "admin"].map(|door| Door { door }) {
            drop(metrics.connections.get_or_create(&door));
            for counts in [&metrics.accepted, &metrics.refused, &metrics.protocol_errors] {
                drop(counts.get_or_create(&door));
            }
        }
        if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            metrics.started.set(now.as_secs_f64());
        }
        metrics
    }

    /// Records that a command ran for `time`.
    pub(crate) fn observe(&self, door: &'static str, command: &'static str, time: Duration, failed: bool) {
        let operation = Operation { door, command };
        if failed {
            self.failed.get_or_create(&operation).inc();
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.seconds.get_or_create(&operation).observe(time.as_secs_f64());
    }

    /// How many commands have returned an error.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// All families.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn the_text_has_names_units_and_labels() {
        let metrics = Metrics::new();
        metrics.observe("mongo", "find", Duration::from_micros(15), true);
        metrics.connections.get_or_create(&Door { door: "mongo" }).inc();
        let mut text = String::new();
        encode(&mut text, metrics.registry()).unwrap();
        for line in [
            "treedb_connections{door=\"mongo\"} 1",
            "treedb_commands_failed_total{door=\"mongo\",command=\"find\"} 1",
            "treedb_command_duration_seconds_count{door=\"mongo\",command=\"find\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
