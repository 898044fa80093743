//! Distribution of file descriptors.
//!
//! A journal or an archive without a descriptor would stop the hub, so connections get only the remaining
//! descriptors. Every part has its own limit. If the settings need more than the system's limit allows, the hub allows
//! fewer connections than configured.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use upesi_gateway::nodes::CONNECTIONS_PER_NODE;
use upesi_http::Limits;
use upesi_http::server::PROXY_HEADERS_MAX;
use upesi_settings::{ClusterLog, Settings};

use super::cluster::config::replicas_of;
use super::error::TooFewDescriptors;
use super::options::{METRICS_CONNECTIONS_MAX, admin_limits, node_limits};

/// Standard streams, listening sockets, the lock, `/proc` during a scrape, profiles, name servers, and spare
/// descriptors.
const PROCESS: u64 = 48;
/// For each thread with a runtime: its selector and its wakers.
const PER_WORKER: u64 = 4;
/// The journal's segments, the cursors that read them for callbacks and for the archive, snapshots, exports.
const JOURNAL: u64 = 64;
/// Tables of archive and store that are being merged.
const MERGES: u64 = 96;
/// The store: tables kept open, its log and its lists.
const STORE: u64 = upesi_tables::store::OPEN_FILES_MAX as u64 + 32;
/// A division of the archive: tables kept open, its log and its lists.
const DIVISION: u64 = upesi_tables::archive::OPEN_FILES_MAX as u64 + 12;
/// Divisions that an archive may gain until the next start, in addition to half of its current number.
const DIVISIONS_MORE: u64 = 8;
/// Kafka clients that exist at the same time: producer and consumer of the log, their replacements when files change,
/// and two that query the offsets that other nodes need.
const BROKER_CLIENTS: u64 = 6;
/// Brokers of such a client in addition to the configured and discovered ones: the client itself, and the coordinator
/// of its group.
const BROKERS_MORE: u64 = 2;
/// For each broker: a connection, and a pipe that wakes its thread.
const PER_BROKER: u64 = 3;
/// Minimum number of useful connections from and to DFSPs.
const INBOUND_MIN: u64 = 64;
const OUTBOUND_MIN: u64 = 64;
/// Maximum number of outbound connections, to DFSPs and oracles together.
const OUTBOUND_MAX: u64 = 65_536;

/// The limits that fit into the system's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Descriptors that the process may have.
    pub limit: u64,
    /// Descriptors that are not available for connections from and to DFSPs.
    pub reserved: u64,
    /// `fspiop.connections_max`, or less if the limit requires it.
    pub inbound: u64,
    /// Connections to DFSPs and oracles.
    pub outbound: u64,
}

/// Raises the limit of open files to the process's maximum. If that fails, the hub adapts to the current limit.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| maximum.is_none_or(|maximum| current < maximum)) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// The current limit of open files; the highest number if there is none.
pub(super) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Number of divisions that an archive has or may gain.
fn divisions(settings: &Settings) -> u64 {
    let found = std::fs::read_dir(Path::new(&settings.data.dir).join("archive"))
        .map_or(0, |entries| entries.flatten().filter(|entry| entry.path().is_dir()).count() as u64);
    found + found / 2 + DIVISIONS_MORE
}

/// Descriptors of the Kafka clients.
fn of_brokers(settings: &Settings) -> u64 {
    let cluster = &settings.cluster;
    let named = cluster.brokers.len() as u64;
    // The brokers may name further addresses.
    let learned = u64::from(replicas_of(cluster).count.unsigned_abs());
    match cluster.log {
        ClusterLog::Kafka => BROKER_CLIENTS * (named + learned + BROKERS_MORE) * PER_BROKER,
        ClusterLog::None => 0,
    }
}

/// Descriptors that are not available for connections from and to DFSPs.
fn reserve(settings: &Settings, workers: usize) -> u64 {
    let open_max = |connections_max| admin_limits(settings, connections_max).open_max() as u64;
    let admin = open_max(settings.admin.connections_max);
    let metrics = settings.metrics.listen.map_or(0, |_| open_max(METRICS_CONNECTIONS_MAX));
    // Three more: operators, handshakes, and the process.
    let threads = (workers as u64 + 3) * PER_WORKER;
    let storage = JOURNAL + MERGES + STORE + DIVISION * divisions(settings);
    let balancers = if settings.fspiop.proxy_protocol_from.is_empty() { 0 } else { PROXY_HEADERS_MAX as u64 };
    // Connections of the port, and connections to the leader.
    let of_nodes = || (node_limits(settings).open_max() + CONNECTIONS_PER_NODE) as u64;
    let nodes = settings.cluster.listen.map_or(0, |_| of_nodes());
    PROCESS + threads + storage + admin + metrics + balancers + nodes + of_brokers(settings)
}

impl Descriptors {
    /// Divides the descriptors that the system allows this process.
    pub(super) fn of(settings: &Settings, workers: usize) -> Result<Self, TooFewDescriptors> {
        Self::divide(limit(), reserve(settings, workers), settings.fspiop.connections_max)
    }

    /// Divides the descriptors that remain after the reserve. A third of them is first assigned to outbound
    /// connections.
    fn divide(limit: u64, reserved: u64, wanted: u64) -> Result<Self, TooFewDescriptors> {
        // A server has a few open beyond its cap, while they are refused or make room.
        let beyond_cap = Limits { connections_max: 0, ..Limits::default() }.open_max() as u64;
        let reserved = reserved + beyond_cap;
        let needed = reserved + INBOUND_MIN.min(wanted) + OUTBOUND_MIN;
        let left = limit.saturating_sub(reserved);
        if limit < needed {
            return Err(TooFewDescriptors { limit, needed });
        }
        let third = (left / 3).clamp(OUTBOUND_MIN, OUTBOUND_MAX);
        let inbound = wanted.min(left - third);
        let outbound = (left - inbound).min(OUTBOUND_MAX);
        Ok(Self { limit, reserved, inbound, outbound })
    }

    /// Logs a setting that is not in effect.
    pub(super) fn tell(&self, settings: &Settings) {
        let Self { limit, reserved, inbound, outbound } = self;
        if *inbound < settings.fspiop.connections_max {
            tracing::warn!(
                "fspiop.connections_max is lowered from {} to {inbound}: this process can open {limit} files and \
                 connections, of which {reserved} are reserved for journal, archive, store and the admin port, and \
                 {outbound} are for connections to DFSPs and oracles; raise the limit (ulimit -n, LimitNOFILE=)",
                settings.fspiop.connections_max
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_settings::Sources;

    #[test]
    fn every_port_and_broker_client_has_a_part_of_the_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let reserved = |more: &[(&str, &str)]| {
            let given = [("data.dir", directory.path().to_str().unwrap())];
            let flags = given
                .iter()
                .chain(more)
                .map(|(key, value)| ("test".to_owned(), (*key).to_owned(), (*value).to_owned()));
            let sources = Sources { flags: flags.collect(), ..Sources::default() };
            reserve(&upesi_settings::load(&sources).unwrap().settings, 4)
        };
        let metrics = ("metrics.listen", "127.0.0.1:9464");
        let kafka = [
            ("cluster.log", "kafka"),
            ("cluster.id", "00112233445566778899aabbccddeeff"),
            ("cluster.node", "1"),
            ("cluster.brokers", "a:9092,b:9092"),
        ];
        let alone = reserved(&[]);
        assert_eq!(reserved(&[metrics]) - alone, 16 + 64);
        assert_eq!(reserved(&kafka) - alone, 6 * (2 + 3 + 2) * 3);
    }

    #[test]
    fn parts_fit_into_the_limit_and_a_high_limit_reduces_none() {
        for limit in [700, 1_024, 4_096, 12_000, 65_536, 524_288, u64::MAX] {
            for wanted in [1, 512, 10_000, 1_000_000] {
                let found = Descriptors::divide(limit, 500, wanted).unwrap();
                let Descriptors { reserved, inbound, outbound, .. } = found;
                assert!(reserved > 500 && inbound + outbound + reserved <= limit, "{found:?}");
                assert!(inbound >= wanted.min(INBOUND_MIN) && outbound >= OUTBOUND_MIN, "{found:?}");
                if limit > 2_000_000 {
                    assert_eq!(inbound, wanted);
                }
            }
        }
        let found = Descriptors::divide(524_288, 500, 10_000).unwrap();
        assert_eq!((found.inbound, found.outbound), (10_000, OUTBOUND_MAX));
    }

    #[test]
    fn reserve_above_the_limit_is_rejected_with_both_numbers() {
        let error = Descriptors::divide(512, 500, 10_000).unwrap_err().to_string();
        assert!(error.contains("512 files") && error.contains("692 at least"), "{error}");
    }
}
