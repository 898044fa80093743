//! The load balancers before the FSPIOP port, by the settings.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use upesi_http::{ProxyCounts, ProxyProtocol, ProxyRefusal};

use crate::config::{Settings, networks};
use crate::exposition::head;

/// Those that are named, if there are any.
pub(super) fn of(settings: &Settings) -> Option<ProxyProtocol> {
    // The settings were checked.
    let from = networks(&settings.fspiop.proxy_protocol_from).unwrap_or_default();
    (!from.is_empty()).then(|| ProxyProtocol {
        from,
        header_timeout: Duration::from_millis(settings.tls.handshake_deadline_ms),
        counts: Arc::default(),
    })
}

/// Their metric, if there are any.
pub(super) fn write(counts: Option<&ProxyCounts>, text: &mut String) {
    let Some(counts) = counts else { return };
    let name = "upesi_proxy_protocol_refused";
    head(text, name, "counter", "Connections closed for want of a listed balancer's header, by reason");
    for refusal in ProxyRefusal::ALL {
        let (count, reason) = (counts.of(refusal), refusal.name());
        // Writing into a String does not fail.
        let _ = writeln!(text, "{name}_total{{reason=\"{reason}\"}} {count}");
    }
}
