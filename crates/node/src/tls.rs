//! TLS of the hub's ports and of its outbound connections: loading, reloading, metrics.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, interval};
use upesi_engine::{Participants, SharedParticipants};
use upesi_http::{ClientTls, HandshakeCounts, HandshakeOutcome, ServerTls, ServerTlsOptions, Workers};
use upesi_keys::{Keys, PrivateKeyLocation};
use upesi_ledger::Block;
use upesi_process::exposition::{counter, gauge, head};
use upesi_settings::{Settings, StaleCrls, Tls as TlsSettings, TlsMode};
use upesi_tls::{
    BlockedDigest, CertificateFacts, ClientFiles, ExpiringItem, Identity, Protocols, ServerFiles, TlsError,
    Trust, present_s,
};

use super::cluster::config::{broker_files, number_of};
use super::error::HubError;
use super::ports::{OpenPorts, Servers};

/// Maximum time between two checks of the certificates of open connections.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

const FSPIOP: &str = "fspiop_tls";
const ADMIN: &str = "admin_tls";
const METRICS: &str = "metrics_tls";
const NODES: &str = "cluster_tls";
const OUTBOUND: &str = "outbound_tls";
const BROKERS: &str = "broker_tls";

/// TLS of the hub's ports and of its connections to DFSPs.
pub(super) struct Tls {
    fspiop: Option<ServerTlsOptions>,
    admin: Option<ServerTlsOptions>,
    metrics: Option<ServerTlsOptions>,
    nodes: Option<ServerTlsOptions>,
    outbound: Option<ClientTls>,
    /// TLS to other nodes of a cluster.
    to_nodes: Option<ClientTls>,
    /// The files of the Kafka client, which reads them itself. They are loaded here only to report their expiry.
    to_brokers: Option<ClientTls>,
    /// Threads for handshakes; `None` if all ports are plain.
    handshakes: Option<Workers>,
    reload_interval: Duration,
    reload_now: Notify,
    reloads: AtomicU64,
    reload_failures: AtomicU64,
    /// Whether the files on disk cannot be used, so that older ones stay in use.
    is_failing: AtomicBool,
    closed_untrusted: AtomicU64,
}

impl Tls {
    /// Reads the files that the settings name.
    pub(super) fn load(settings: &Settings, keys: &Keys) -> Result<Self, HubError> {
        let Settings { fspiop_tls, admin_tls, metrics_tls, cluster_tls, .. } = settings;
        let listener = |section, files| listener(settings, keys, section, files);
        let fspiop = listener(FSPIOP, &fspiop_tls.port)?;
        let admin = listener(ADMIN, admin_tls)?;
        let metrics = match settings.metrics.listen {
            None => None,
            Some(_) => listener(METRICS, metrics_tls)?,
        };
        let (nodes, to_nodes) = match settings.cluster.listen {
            None => (None, None),
            Some(_) => (listener(NODES, cluster_tls)?, Some(to_nodes(settings, keys)?)),
        };
        let outbound = outbound(settings, keys)?;
        let unusable = outbound.as_ref().map(ClientTls::unusable_at_start);
        for (peer, problem) in unusable.into_iter().flatten() {
            tracing::error!(%peer, %problem, "cannot use the TLS files of a DFSP or oracle; the hub does not call it");
        }
        // A thread for each port: handshakes of one port must not delay another port.
        let handshakes = match [&fspiop, &admin, &metrics, &nodes].into_iter().flatten().count() {
            0 => None,
            ports => Some(Workers::start(ports, "upesi-handshake")?),
        };
        let secured = |tls: Option<ServerTls>| {
            Some(ServerTlsOptions {
                tls: tls?,
                worker: handshakes.as_ref()?.round_robin().clone(),
                handshake_timeout: settings.tls.handshake_deadline_ms,
                handshakes_max: settings.tls.handshakes_max,
                counts: Arc::<HandshakeCounts>::default(),
            })
        };
        let [fspiop, admin, metrics, nodes] = [fspiop, admin, metrics, nodes].map(secured);
        expect_apart(&authorities([&nodes]), &authorities([&fspiop, &admin])).map_err(in_section(NODES))?;
        Ok(Self {
            fspiop,
            admin,
            metrics,
            nodes,
            is_failing: AtomicBool::new(unusable.is_some_and(|unusable| !unusable.is_empty())),
            outbound,
            to_nodes,
            to_brokers: to_brokers(settings),
            handshakes,
            reload_interval: settings.tls.reload_interval_s,
            reload_now: Notify::new(),
            reloads: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
            closed_untrusted: AtomicU64::new(0),
        })
    }

    pub(super) fn fspiop(&self) -> Option<ServerTlsOptions> {
        self.fspiop.clone()
    }

    pub(super) fn admin(&self) -> Option<ServerTlsOptions> {
        self.admin.clone()
    }

    pub(super) fn metrics(&self) -> Option<ServerTlsOptions> {
        self.metrics.clone()
    }

    pub(super) fn nodes(&self) -> Option<ServerTlsOptions> {
        self.nodes.clone()
    }

    pub(super) fn to_nodes(&self) -> Option<&ClientTls> {
        self.to_nodes.as_ref()
    }

    /// For each port: its section of the settings, its name, and its current TLS state.
    fn ports(&self) -> [(&'static str, &'static str, Option<&ServerTlsOptions>); 4] {
        [
            (FSPIOP, "fspiop", self.fspiop.as_ref()),
            (ADMIN, "admin", self.admin.as_ref()),
            (METRICS, "metrics", self.metrics.as_ref()),
            (NODES, "nodes", self.nodes.as_ref()),
        ]
    }

    pub(super) fn outbound(&self) -> Option<ClientTls> {
        self.outbound.clone()
    }

    /// Whether the admin port requires client certificates.
    pub(super) fn requires_operator_certificates(&self) -> bool {
        self.admin.as_ref().is_some_and(|secured| secured.tls.is_mutual())
    }

    /// Triggers a reload of the files.
    pub(super) fn reload_soon(&self) {
        self.reload_now.notify_one();
    }

    /// Reloads the files at every interval, applies operators' blocks, and checks the connections. Returns immediately
    /// if there is no TLS.
    pub(super) async fn keep(self: Arc<Self>, ports: OpenPorts, participants: SharedParticipants) {
        if self.handshakes.is_none() && self.outbound.is_none() && self.to_brokers.is_none() {
            return;
        }
        let mut due = interval(self.reload_interval);
        let mut checked_at = Instant::now();
        loop {
            let reads_files = tokio::select! {
                _ = due.tick() => true,
                () = self.reload_now.notified() => {
                    tracing::info!("reloading the TLS files");
                    true
                }
                () = participants.changed() => false,
            };
            let is_due = checked_at.elapsed() >= RECHECK_INTERVAL;
            let (tls, servers, present) = (Arc::clone(&self), ports.get(), participants.get());
            // Files are read and certificates verified, which must not delay operators' requests.
            let looked = tokio::task::spawn_blocking(move || {
                let has_changed = tls.block(&present) | (reads_files && tls.reload());
                if has_changed || is_due {
                    tls.recheck(&servers);
                }
                has_changed || is_due
            });
            if looked.await.unwrap_or(false) {
                checked_at = Instant::now();
            }
        }
    }

    /// Rejects clients that operators have blocked. Returns whether anything changed.
    pub(super) fn block(&self, participants: &Participants) -> bool {
        let digests: Vec<_> = participants.blocks().iter().filter_map(digest_of).collect();
        let mut has_changed = false;
        for (section, _, secured) in self.ports() {
            let Some(secured) = secured else { continue };
            match secured.tls.block(digests.iter().copied()) {
                Ok(is_other) => has_changed |= is_other,
                Err(error) => tracing::error!(section, %error, "the block list could not be applied"),
            }
        }
        has_changed
    }

    /// Reloads all files. Returns whether anything changed. Files that cannot be used leave the current ones in use.
    fn reload(&self) -> bool {
        let servers = self.ports().map(|(section, _, secured)| {
            let accepts = |found: &[CertificateFacts]| expect_apart(found, &self.kept_apart_from(section));
            (section, secured.map(|secured| secured.tls.reload_if(accepts)))
        });
        let clients = [(OUTBOUND, &self.outbound), (NODES, &self.to_nodes), (BROKERS, &self.to_brokers)];
        let clients = clients.map(|(section, tls)| {
            let accepts = |found: &[CertificateFacts]| expect_apart(found, &self.kept_apart_from(section));
            (section, tls.as_ref().map(|tls| tls.reload_if(accepts)))
        });
        let outcomes = servers.into_iter().chain(clients);
        let (mut has_changed, mut has_failed) = (false, false);
        for (section, outcome) in outcomes {
            match outcome {
                Some(Ok(true)) => {
                    has_changed = true;
                    tracing::info!(section, "certificates, keys or revocation lists have changed");
                }
                Some(Err(error)) => {
                    has_failed = true;
                    self.reload_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(section, %error, "cannot use the TLS files; the current files stay in use");
                }
                Some(Ok(false)) | None => {}
            }
        }
        self.reloads.fetch_add(u64::from(has_changed), Ordering::Relaxed);
        self.is_failing.store(has_failed, Ordering::Relaxed);
        has_changed
    }

    /// The authorities that a section must not contain.
    fn kept_apart_from(&self, section: &str) -> Vec<CertificateFacts> {
        match section {
            FSPIOP | ADMIN => authorities([&self.nodes]),
            NODES => authorities([&self.fspiop, &self.admin]),
            _ => Vec::new(),
        }
    }

    /// Closes, after their current request, connections that would no longer be accepted.
    fn recheck(&self, servers: &Servers) {
        let Servers { fspiop, admin, metrics, nodes } = servers;
        for (server, (.., secured)) in [fspiop, admin, metrics, nodes].into_iter().zip(self.ports()) {
            let (Some(server), Some(secured)) = (server, secured) else { continue };
            let closed = server.recheck(|peer| secured.tls.trusts(peer));
            if closed > 0 {
                self.closed_untrusted.fetch_add(closed as u64, Ordering::Relaxed);
                tracing::warn!(
                    connections = closed,
                    "closing connections whose certificate is no longer trusted"
                );
            }
        }
    }

    /// Writes the metrics, if there is TLS.
    pub(super) fn write(&self, text: &mut String) {
        let ports =
            self.ports().map(|(_, place, secured)| (place, secured.map(|secured| secured.tls.stock())));
        let outbound = ("outbound", self.outbound.as_ref().map(ClientTls::stock));
        let brokers = ("brokers", self.to_brokers.as_ref().map(ClientTls::stock));
        let places = ports.into_iter().chain([outbound, brokers]);
        let places: Vec<(&str, Vec<ExpiringItem>)> =
            places.filter_map(|(place, stock)| Some((place, stock?))).collect();
        if places.is_empty() {
            return;
        }
        self.write_handshakes(text);
        let now = present_s();
        let name = "upesi_tls_expiry_seconds";
        head(text, name, "gauge", "Time until a certificate, an authority or a revocation list expires");
        for (place, stock) in &places {
            for item in stock {
                let left = item.not_after_s.saturating_sub(now);
                let (kind, owner) = (item.kind.name(), item.name.replace('\\', "\\\\").replace('"', "\\\""));
                let serial = &item.serial;
                // Writing into a String does not fail.
                let _ = writeln!(
                    text,
                    "{name}{{place=\"{place}\",kind=\"{kind}\",name=\"{owner}\",serial=\"{serial}\"}} {left}"
                );
            }
        }
        let failing = u64::from(self.is_failing.load(Ordering::Relaxed));
        gauge(
            text,
            "upesi_tls_reload_failing",
            "1 while the TLS files cannot be used and older ones stay in use",
            failing,
        );
        for (name, help, count) in [
            ("upesi_tls_reloads", "Reloads of changed TLS files", &self.reloads),
            ("upesi_tls_reload_failures", "Failed reloads of TLS files", &self.reload_failures),
            (
                "upesi_tls_connections_untrusted",
                "Connections closed because their certificate was no longer trusted",
                &self.closed_untrusted,
            ),
        ] {
            counter(text, name, help, count.load(Ordering::Relaxed));
        }
    }

    fn write_handshakes(&self, text: &mut String) {
        let name = "upesi_tls_handshakes";
        head(text, name, "counter", "TLS handshakes, by outcome");
        for (_, port, secured) in self.ports() {
            let Some(secured) = secured else { continue };
            for outcome in HandshakeOutcome::ALL {
                let (count, outcome) = (secured.counts.of(outcome), outcome.name());
                let _ = writeln!(text, "{name}_total{{port=\"{port}\",outcome=\"{outcome}\"}} {count}");
            }
        }
    }

    /// Stops the handshakes.
    pub(super) fn shutdown(&self) {
        if let Some(handshakes) = &self.handshakes {
            handshakes.shutdown();
        }
    }
}

/// TLS of a port; `None` if it has none.
fn listener(
    settings: &Settings,
    keys: &Keys,
    section: &'static str,
    files: &TlsSettings,
) -> Result<Option<ServerTls>, HubError> {
    let clients = match files.mode {
        TlsMode::Plain => return Ok(None),
        TlsMode::Tls => None,
        TlsMode::Mutual => Some(trust(settings, section, files)?),
    };
    let files = ServerFiles { identity: identity(section, files)?, clients };
    // Nodes use many connections with one request at a time.
    let protocols = protocols(settings.tls.http2 && section != NODES);
    let blocked = settings.tls.blocked_file.clone();
    ServerTls::load_blocking(files, blocked, keys.clone(), protocols).map(Some).map_err(in_section(section))
}

/// TLS to other nodes. Their names are in `cluster.nodes`.
fn to_nodes(settings: &Settings, keys: &Keys) -> Result<ClientTls, HubError> {
    let files = &settings.cluster_tls;
    let identity = Some(identity(NODES, files)?);
    let files = ClientFiles { servers: trust(settings, NODES, files)?, identity };
    ClientTls::load_with_own(files, None, keys.clone(), protocols(false)).map_err(in_section(NODES))
}

/// Rejects authorities of DFSPs and operators as authorities of nodes, because their clients could act for every DFSP.
/// Compares keys, because an authority that was re-issued has another certificate.
fn expect_apart(one: &[CertificateFacts], others: &[CertificateFacts]) -> Result<(), TlsError> {
    let is_in_others =
        |own: &&CertificateFacts| others.iter().any(|other| other.spki_sha256 == own.spki_sha256);
    match one.iter().find(is_in_others) {
        None => Ok(()),
        Some(shared) => Err(TlsError::Unusable(format!(
            "cluster_tls.anchors_file contains {}, which is also an authority of clients in fspiop_tls or admin_tls: each \
             of these clients could act for every DFSP; use a separate authority for nodes",
            shared.subject
        ))),
    }
}

/// The authorities of the clients of the ports.
fn authorities<'a>(ports: impl IntoIterator<Item = &'a Option<ServerTlsOptions>>) -> Vec<CertificateFacts> {
    ports.into_iter().flatten().flat_map(|secured| secured.tls.authorities()).collect()
}

/// TLS files for the brokers. If they cannot be used, the start of the Kafka client fails and reports the reason.
fn to_brokers(settings: &Settings) -> Option<ClientTls> {
    number_of(settings)?;
    ClientTls::load(broker_files(settings).ok()??).ok()
}

fn outbound(settings: &Settings, keys: &Keys) -> Result<Option<ClientTls>, HubError> {
    let tls = &settings.outbound_tls;
    let Some(anchors_file) = tls.anchors_file.clone() else { return Ok(None) };
    let identity = tls.certificate_file.clone().zip(tls.key_file.as_ref());
    let identity =
        identity.map(|(certificate_file, key)| Identity { certificate_file, key_file: key_file(key) });
    let servers = trust_in(settings, anchors_file, tls.crl_file.clone());
    let files = ClientFiles { servers, identity };
    let (protocols, own) = (protocols(tls.http2), tls.own_directory.clone());
    ClientTls::load_with_own(files, own, keys.clone(), protocols).map(Some).map_err(in_section(OUTBOUND))
}

/// The part of a block that TLS can enforce. Blocks of participants are enforced by request.
const fn digest_of(block: &Block) -> Option<BlockedDigest> {
    match block {
        Block::Key(digest) => Some(BlockedDigest::Key(*digest)),
        Block::Certificate(digest) => Some(BlockedDigest::Certificate(*digest)),
        Block::Participant(_) => None,
    }
}

const fn protocols(has_http2: bool) -> Protocols {
    if has_http2 { Protocols::Http2AndHttp1 } else { Protocols::Http1 }
}

/// Certificate and key of a section. The checks of the settings ensure that there are both.
fn identity(section: &str, files: &TlsSettings) -> Result<Identity, HubError> {
    match (&files.certificate_file, &files.key_file) {
        (Some(certificate_file), Some(key)) => {
            Ok(Identity { certificate_file: certificate_file.clone(), key_file: key_file(key) })
        }
        _ => Err(HubError::Settings(format!("{section} needs certificate_file and key_file"))),
    }
}

/// The authorities of a section. The checks of the settings ensure that there are some.
fn trust(settings: &Settings, section: &str, files: &TlsSettings) -> Result<Trust, HubError> {
    let anchors = files.anchors_file.clone();
    let anchors = anchors.ok_or_else(|| HubError::Settings(format!("{section} needs anchors_file")))?;
    Ok(trust_in(settings, anchors, files.crl_file.clone()))
}

fn trust_in(settings: &Settings, anchors_file: PathBuf, crl_file: Option<PathBuf>) -> Trust {
    Trust { anchors_file, crl_file, refuses_stale_crls: settings.tls.crl_stale == StaleCrls::Refuse }
}

/// The location of a key, as TLS reads it.
fn key_file(key: &PrivateKeyLocation) -> PathBuf {
    match key {
        PrivateKeyLocation::File(path) => path.clone(),
        PrivateKeyLocation::Token(name) => name.to_string().into(),
    }
}

fn in_section(section: &'static str) -> impl Fn(TlsError) -> HubError {
    move |source| HubError::Tls { section, source }
}

#[cfg(test)]
mod tests;
