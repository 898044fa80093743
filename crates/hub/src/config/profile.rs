//! What a hub in production must have, and what is off in one that is not.

use std::net::SocketAddr;

use super::origin::{Mistake, Origin};
use super::{Settings, nearest};

/// Something that a hub in production must have, unless `security.relaxed` names it.
struct Demand {
    name: &'static str,
    /// As a setting and its value.
    wanted: &'static str,
    is_met: fn(&Settings) -> bool,
}

const DEMANDS: &[Demand] = &[
    Demand {
        name: "fspiop-tls",
        wanted: "fspiop_tls.mode = mutual",
        is_met: |settings| settings.fspiop_tls.mode == "mutual",
    },
    Demand {
        name: "bindings",
        wanted: "fspiop_tls.bindings_required = true",
        is_met: |settings| settings.fspiop_tls.mode == "mutual" && settings.fspiop_tls.bindings_required,
    },
    Demand {
        name: "callbacks-tls",
        wanted: "outbound_tls.https_only = true",
        is_met: |settings| settings.outbound_tls.https_only,
    },
    Demand {
        name: "signatures",
        wanted: "jws.mode = enforce, without jws.exceptions",
        is_met: |settings| settings.jws.mode == "enforce" && settings.jws.exceptions.is_empty(),
    },
    Demand {
        name: "signing",
        wanted: "jws.signing_key_file",
        is_met: |settings| !settings.jws.signing_key_file.is_empty(),
    },
    Demand {
        name: "admin-tls",
        wanted: "admin_tls.mode = tls or mutual",
        is_met: |settings| settings.admin_tls.mode != "plain",
    },
    Demand {
        name: "admin-authentication",
        wanted: "admin.authentication = required",
        is_met: |settings| settings.admin.authentication == "required",
    },
    Demand {
        name: "admin-approvals",
        wanted: "admin.approvals = required",
        is_met: |settings| settings.admin.approvals == "required",
    },
    Demand {
        name: "admin-approvers",
        wanted: "admin.approvers = people",
        is_met: |settings| settings.admin.approvers == "people",
    },
    Demand {
        name: "metrics-tls",
        wanted: "metrics_tls.mode = tls or mutual, a loopback address or none in metrics.listen",
        is_met: |settings| {
            let address = settings.metrics.listen.parse::<SocketAddr>();
            settings.metrics_tls.mode != "plain"
                || address.is_err()
                || address.is_ok_and(|at| at.ip().is_loopback())
        },
    },
    Demand {
        name: "diagnostics",
        wanted: "fspiop.diagnostics = false",
        is_met: |settings| !settings.fspiop.diagnostics,
    },
    Demand {
        name: "outbound-addresses",
        wanted: "outbound.addresses = public",
        is_met: |settings| settings.outbound.addresses == "public",
    },
    Demand {
        name: "brokers",
        wanted: "broker_tls.mode = mutual, or tls with broker_sasl.mechanism",
        is_met: |settings| match settings.broker_tls.mode {
            "mutual" => true,
            "tls" => settings.broker_sasl.mechanism != "none",
            _ => settings.cluster.log == "none",
        },
    },
];

fn relaxed(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.security.relaxed.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// What contradicts the profile.
pub(super) fn contradictions(settings: &Settings, profile: &Origin, relaxations: &Origin) -> Vec<Mistake> {
    let names: Vec<&'static str> = DEMANDS.iter().map(|demand| demand.name).collect();
    let unknown = relaxed(settings).filter(|name| !names.contains(name)).map(|name| {
        let meant = nearest(name, names.iter().copied());
        let meant = meant.map_or_else(|| names.join(", "), |meant| format!("did you mean {meant}?"));
        let text = format!("security.relaxed: {name:?} is nothing that can be relaxed: {meant}");
        Mistake { origin: relaxations.clone(), text }
    });
    let mut mistakes: Vec<Mistake> = unknown.collect();
    if settings.security.profile == "production" {
        let is_missing = |demand: &&Demand| {
            !(demand.is_met)(settings) && !relaxed(settings).any(|name| name == demand.name)
        };
        mistakes.extend(DEMANDS.iter().filter(is_missing).map(|Demand { name, wanted, .. }| {
            let text = format!("security.profile = production needs {wanted}, or security.relaxed = {name}");
            Mistake { origin: profile.clone(), text }
        }));
    }
    mistakes
}

/// The names of what a hub in production must have, and this one has not.
pub fn missing_for_production(settings: &Settings) -> Vec<&'static str> {
    DEMANDS.iter().filter(|demand| !(demand.is_met)(settings)).map(|demand| demand.name).collect()
}
