//! Opens the ports of a node, and serves them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use upesi_admin::MetricsService;
use upesi_http::{BindError, BoundServer, Limits, ProxyCounts, Server, Service, Workers};
use upesi_settings::{Requirement, Settings};

use super::error::HubError;
use super::options;
use super::tls::Tls;

/// Time that a new leader waits for its ports, which the previous leader on the same machine may still use.
pub(super) const PORTS_PATIENCE: Duration = Duration::from_secs(5);
const PORTS_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Listens on an address as soon as it is free.
pub(super) fn bind(
    setting: &'static str,
    address: SocketAddr,
    patience: Duration,
) -> Result<BoundServer, HubError> {
    let until = Instant::now() + patience;
    loop {
        match Server::bind(address) {
            Err(BindError::InUse { .. }) if Instant::now() < until => thread::sleep(PORTS_LOOK_EVERY),
            bound => return bound.map_err(|source| HubError::Bind { setting, source }),
        }
    }
}

/// Returns the server, and the counts of PROXY connections if there are load balancers.
pub(super) fn serve_fspiop(
    settings: &Settings,
    (bound, limits): (BoundServer, Limits),
    workers: &Workers,
    service: impl Service,
    tls: &Tls,
) -> (Arc<Server>, Option<Arc<ProxyCounts>>) {
    let balancers = options::proxy_protocol(settings);
    let counts = balancers.as_ref().map(|balancers| Arc::clone(&balancers.counts));
    let before = (tls.fspiop(), balancers);
    (Arc::new(Server::serve_behind(bound, limits, workers, Arc::new(service), before)), counts)
}

pub(super) fn serve_admin(
    settings: &Settings,
    bound: BoundServer,
    workers: &Workers,
    service: impl Service,
    tls: &Tls,
) -> Arc<Server> {
    let is_asked = settings.admin.authentication == Requirement::Required;
    warn_of_open_admin_port(bound.local_addr(), tls, is_asked);
    let limits = options::admin_limits(settings, settings.admin.connections_max);
    Arc::new(Server::serve_with(bound, limits, workers, Arc::new(service), tls.admin()))
}

/// Serves the metrics port, which expects two scrapers and a person at a time.
pub(super) fn serve_metrics(
    settings: &Settings,
    bound: BoundServer,
    workers: &Workers,
    text: upesi_admin::MetricsText,
    tls: &Tls,
) -> Arc<Server> {
    let limits = options::admin_limits(settings, options::METRICS_CONNECTIONS_MAX);
    let service = Arc::new(MetricsService::new(text, options::metrics_hosts(settings)));
    Arc::new(Server::serve_with(bound, limits, workers, service, tls.metrics()))
}

fn warn_of_open_admin_port(address: SocketAddr, tls: &Tls, is_asked: bool) {
    if !address.ip().is_loopback() && !tls.asks_operators() && !is_asked {
        tracing::warn!(
            %address,
            "the admin port is open to other machines and has no authentication: any machine that can reach it can \
             move money; keep it on a private network, or set admin.authentication = required"
        );
    }
}
