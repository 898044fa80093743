//! Contradictions between settings that are valid by themselves.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use upesi_admin::AllowedOrigins;
use upesi_gateway::RateLimits;
use upesi_http::{Network, too_large_port};
use upesi_kafka::ENTRY_BYTES_MAX;
use upesi_keys::Place;
use upesi_oidc::is_secure_issuer;
use upesi_process::hints::nearest;
use upesi_process::values::why_no_port;

use super::catalogue::Settings;
use super::mistake::{Mistake, Origin};
use super::setting::Value;
use super::values::{
    SignatureModes, address_lists, guard_rules, items, networks, peers, rate_exceptions, roles_of_groups,
};

/// The parsed values with their origins, without the settings that have a mistake.
pub(super) type Understood = BTreeMap<&'static str, (Value, Origin)>;

/// Pairs of settings. The first must not exceed the second multiplied by the factor, which converts units.
const NOT_ABOVE: &[(&str, &str, u64)] = &[
    ("callbacks.backoff_min_ms", "callbacks.backoff_max_ms", 1),
    ("callbacks.breaker_pause_min_ms", "callbacks.breaker_pause_max_ms", 1),
    ("callbacks.request_timeout_ms", "callbacks.deadline_s", 1000),
    ("callbacks.connect_timeout_ms", "callbacks.request_timeout_ms", 1),
    ("callbacks.concurrency_max", "callbacks.queue_max", 1),
    ("callbacks.retrying_max", "callbacks.queue_max", 1),
    ("engine.batch_commands_max", "engine.queue_commands_max", 1),
    ("engine.batch_bytes_max", "data.segment_bytes", 1),
    // A message of the maximum size must fit.
    ("fspiop.transfer_body_bytes_max", "callbacks.queue_bytes_max", 1),
    ("fspiop.body_bytes_max", "fspiop.sender_bodies_bytes_max", 1),
    ("fspiop.sender_bodies_bytes_max", "fspiop.large_bodies_bytes_max", 1),
    ("fspiop.body_bytes_max", "relay.waiting_bytes_max", 1),
    ("relay.waiting_bytes_max", "relay.sender_bytes_max", 1),
    ("relay.sender_bytes_max", "relay.bytes_max", 1),
    ("oracles.deadline_ms", "lookup.deadline_ms", 1),
    ("oracles.connect_timeout_ms", "oracles.deadline_ms", 1),
    ("oracles.breaker_pause_min_ms", "oracles.breaker_pause_max_ms", 1),
];

/// Finds every contradiction.
pub(super) fn contradictions(values: &Understood) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> =
        NOT_ABOVE.iter().filter_map(|(low, high, factor)| not_above(values, low, high, *factor)).collect();
    mistakes.extend(signatures(values));
    mistakes.extend(same_port(values));
    mistakes.extend(metrics_address(values));
    mistakes.extend(PLACES.iter().filter_map(|key| too_large_ports(values, key)));
    mistakes.extend(allowed_origins(values));
    mistakes.extend(default_version(values));
    mistakes.extend(log_level(values));
    mistakes.extend(quote_rules(values));
    mistakes.extend(
        ["fspiop_tls", "admin_tls", "metrics_tls"]
            .iter()
            .filter_map(|section| listener_files(values, section)),
    );
    mistakes.extend(outbound_files(values));
    mistakes.extend(PRIVATE_KEYS.iter().filter_map(|key| private_key(values, key)));
    mistakes.extend(outbound_networks(values));
    mistakes.extend(["oidc", "oidc_dfsps", "oauth"].iter().filter_map(|section| issuer(values, section)));
    mistakes.extend(rates(values));
    mistakes.extend(entries_of_a_cluster(values));
    mistakes.extend(port_of_a_node(values));
    mistakes.extend(broker_files(values));
    mistakes.extend(broker_login(values));
    mistakes
}

/// A provider needs an audience, suitable roles, and a secure connection to its keys.
fn issuer(values: &Understood, section: &str) -> Option<Mistake> {
    let of = |name: &str| text(values, &format!("{section}.{name}"));
    let (issuer, origin) = of("issuer")?;
    let is_same =
        section == "oidc_dfsps" && text(values, "oidc.issuer").is_some_and(|(other, _)| other == issuer);
    let problem = if is_same {
        Some("must differ from oidc.issuer: a provider belongs to one section only".to_owned())
    } else if section == "oauth" && is_for_operators(values) {
        Some(
            "needs an oauth.audience that differs from the audience of operators' tokens of this provider"
                .to_owned(),
        )
    } else if of("audience").is_none() {
        Some(format!("needs {section}.audience"))
    } else if issuer.starts_with("https://") && of("anchors_file").is_none() {
        Some(format!("needs {section}.anchors_file"))
    } else if is_secure_issuer(issuer) {
        None
    } else {
        Some("must be https://, or http:// on this machine".to_owned())
    };
    if let Some(problem) = problem {
        return Some(Mistake { origin: origin.clone(), text: format!("{section}.issuer {problem}") });
    }
    if section == "oauth" {
        return None;
    }
    let (roles, origin) = of("roles").unwrap_or(("", origin));
    let problem = match roles_of_groups(roles) {
        Err(problem) => problem,
        Ok(roles) => {
            let is_of_dfsps = section == "oidc_dfsps";
            let other = roles.values().flatten().find(|role| role.is_of_dfsp() != is_of_dfsps)?;
            format!("{} is not a role for users of this section", other.name())
        }
    };
    Some(Mistake { origin: origin.clone(), text: format!("{section}.roles: {problem}") })
}

/// Whether tokens of DFSPs' clients would also be valid as operators' tokens.
fn is_for_operators(values: &Understood) -> bool {
    let of = |section: &str, name: &str| text(values, &format!("{section}.{name}")).map(|(text, _)| text);
    let is_same = |section: &str, name: &str| of(section, name) == of("oauth", name);
    ["oidc", "oidc_dfsps"].iter().any(|section| is_same(section, "issuer") && is_same(section, "audience"))
}

/// Reports the mistake at the value that was set explicitly, not at a default.
fn not_above(values: &Understood, low: &str, high: &str, factor: u64) -> Option<Mistake> {
    let (Value::Integer(lower), low_origin) = values.get(low)? else { return None };
    let (Value::Integer(upper), high_origin) = values.get(high)? else { return None };
    if *lower <= upper.saturating_mul(factor) {
        return None;
    }
    Some(if *low_origin == Origin::Default {
        let text = format!("{high} = {upper} is too low for {low} = {lower} ({low_origin})");
        Mistake { origin: high_origin.clone(), text }
    } else {
        let text = format!("{low} = {lower} is too high for {high} = {upper} ({high_origin})");
        Mistake { origin: low_origin.clone(), text }
    })
}

fn same_port(values: &Understood) -> Option<Mistake> {
    let (Value::Address(fspiop), fspiop_origin) = values.get("fspiop.listen")? else { return None };
    let (Value::Address(admin), admin_origin) = values.get("admin.listen")? else { return None };
    let overlap = fspiop.ip() == admin.ip() || fspiop.ip().is_unspecified() || admin.ip().is_unspecified();
    if fspiop.port() != admin.port() || fspiop.port() == 0 || !overlap {
        return None;
    }
    let origin = if *admin_origin == Origin::Default { fspiop_origin } else { admin_origin };
    let text = format!("fspiop.listen = {fspiop} and admin.listen = {admin} need different ports");
    Some(Mistake { origin: origin.clone(), text })
}

/// `metrics.listen` must be an address or empty.
fn metrics_address(values: &Understood) -> Option<Mistake> {
    let (address, origin) = text(values, "metrics.listen")?;
    let wanted = "give an address with port, such as 127.0.0.1:4002, or nothing for no such port";
    let why = why_no_port(address);
    address.parse::<SocketAddr>().is_err().then(|| Mistake {
        origin: origin.clone(),
        text: format!("metrics.listen = {address:?}: {wanted}{why}"),
    })
}

/// Settings with host names and ports. The names are resolved later.
const PLACES: [&str; 5] =
    ["cluster.brokers", "cluster.nodes", "cluster.address", "admin.allowed_origins", "admin.allowed_hosts"];

/// Ports must not exceed 65535.
fn too_large_ports(values: &Understood, key: &str) -> Option<Mistake> {
    let (list, origin) = text(values, key)?;
    let wrong = items(list).find(|item| too_large_port(item.trim_end_matches('/')).is_some())?;
    let why = why_no_port(wrong.trim_end_matches('/'));
    Some(Mistake { origin: origin.clone(), text: format!("{key}: {wrong:?} cannot be reached{why}") })
}

fn allowed_origins(values: &Understood) -> Option<Mistake> {
    let (list, origin) = text(values, "admin.allowed_origins")?;
    let wrong = AllowedOrigins::parse(list).err()?;
    let text = format!("admin.allowed_origins: {wrong:?} is not an origin; write https://portal.example");
    Some(Mistake { origin: origin.clone(), text })
}

fn default_version(values: &Understood) -> Option<Mistake> {
    let (Value::Versions(accepted), accepted_origin) = values.get("fspiop.versions_accepted")? else {
        return None;
    };
    let (Value::Version(version), origin) = values.get("fspiop.version_default")? else { return None };
    if accepted.contains(version) {
        return None;
    }
    let origin = if *origin == Origin::Default { accepted_origin } else { origin };
    let text = format!("fspiop.version_default = {version} is not among fspiop.versions_accepted");
    Some(Mistake { origin: origin.clone(), text })
}

fn log_level(values: &Understood) -> Option<Mistake> {
    let (Value::Text(directives), origin) = values.get("log.level")? else { return None };
    let error = super::directives::parse(directives).err()?;
    Some(Mistake { origin: origin.clone(), text: format!("log.level: {error}") })
}

fn quote_rules(values: &Understood) -> Option<Mistake> {
    let (Value::Text(file), origin) = values.get("quotes.rules_file")? else { return None };
    let error = super::values::quote_rules(file).err()?;
    Some(Mistake { origin: origin.clone(), text: format!("quotes.rules_file = {file}: {error}") })
}

/// Exceptions must be valid participants and modes.
fn signatures(values: &Understood) -> Option<Mistake> {
    let (Value::Choice(mode), origin) = values.get("jws.mode")? else { return None };
    let (exceptions, of_exceptions) = text(values, "jws.exceptions").unwrap_or(("", origin));
    let problem = SignatureModes::read(mode, exceptions).err()?;
    Some(Mistake { origin: of_exceptions.clone(), text: format!("jws.exceptions: {problem}") })
}

/// A text with its origin, if it is not empty.
fn text<'a>(values: &'a Understood, key: &str) -> Option<(&'a str, &'a Origin)> {
    let (Value::Text(text), origin) = values.get(key)? else { return None };
    (!text.is_empty()).then_some((text.as_str(), origin))
}

/// A listener's mode requires certain files.
fn listener_files(values: &Understood, section: &str) -> Option<Mistake> {
    let key = |name: &str| format!("{section}.{name}");
    let (Value::Choice(mode), origin) = values.get(&*key("mode"))? else { return None };
    let needed: &[&str] = match *mode {
        "plain" => &[],
        "tls" => &["certificate_file", "key_file"],
        _ => &["certificate_file", "key_file", "anchors_file"],
    };
    let missing = needed.iter().map(|name| key(name)).find(|key| text(values, key).is_none())?;
    Some(Mistake { origin: origin.clone(), text: format!("{section}.mode = {mode} needs {missing}") })
}

/// Upper limit in bytes of what a batch contains in addition to the records of its commands.
const BEYOND_COMMANDS: usize = 1024 * 1024;

/// A port for other nodes needs an address, TLS, and an entry in the list of nodes.
fn port_of_a_node(values: &Understood) -> Option<Mistake> {
    let (address, origin) = text(values, "cluster.listen")?;
    let mistake = |problem: &str| Mistake {
        origin: origin.clone(),
        text: format!("cluster.listen = {address:?} {problem}"),
    };
    match address.parse::<SocketAddr>() {
        Err(_) => {
            let why = why_no_port(address);
            return Some(mistake(&format!("is not an address with port, such as 0.0.0.0:4003{why}")));
        }
        Ok(address) if address.port() == 0 => {
            return Some(mistake("has port 0, but other nodes need a fixed port"));
        }
        Ok(_) => {}
    }
    if matches!(values.get("cluster.log")?.0, Value::Choice("none")) {
        return Some(mistake("is only for nodes of a cluster: set cluster.log"));
    }
    let needed =
        ["cluster_tls.certificate_file", "cluster_tls.key_file", "cluster_tls.anchors_file", "cluster.nodes"];
    if let Some(missing) = needed.into_iter().find(|needed| text(values, needed).is_none()) {
        return Some(mistake(&format!("needs {missing}")));
    }
    let (list, of_list) = text(values, "cluster.nodes")?;
    let Value::Integer(node) = values.get("cluster.node")?.0 else { return None };
    let problem = match peers(list) {
        // Another check reports a port that is too large.
        Err(_) if too_large_ports(values, "cluster.nodes").is_some() => return None,
        Ok(peers) if peers.iter().any(|(number, _)| u64::from(*number) == node) => return None,
        Ok(_) => format!("this node ({node}) is not listed"),
        Err(problem) => problem,
    };
    Some(Mistake { origin: of_list.clone(), text: format!("cluster.nodes: {problem}") })
}

/// A batch is one entry of the log. Brokers reject an entry above their limit, and the leader would retry it forever.
fn entries_of_a_cluster(values: &Understood) -> Option<Mistake> {
    let (Value::Choice("kafka"), _) = values.get("cluster.log")? else { return None };
    let (Value::Integer(bytes), origin) = values.get("engine.batch_bytes_max")? else { return None };
    let most = ENTRY_BYTES_MAX - BEYOND_COMMANDS;
    (*bytes > most as u64).then(|| Mistake {
        origin: origin.clone(),
        text: format!(
            "engine.batch_bytes_max = {bytes} is too high for the log of a cluster: at most {most}"
        ),
    })
}

/// Files for TLS to the brokers. The Kafka client does not support PKCS #11 tokens.
fn broker_files(values: &Understood) -> Option<Mistake> {
    let (Value::Choice(mode), origin) = values.get("broker_tls.mode")? else { return None };
    if let Some((place, origin)) = text(values, "broker_tls.key_file")
        && matches!(Place::parse(place), Ok(Place::Token(_)) | Err(_))
    {
        let text = "broker_tls.key_file must be a file: the brokers' client cannot use a token".to_owned();
        return Some(Mistake { origin: origin.clone(), text });
    }
    let needed: &[&str] = match *mode {
        "plain" => &[],
        "tls" => &["broker_tls.anchors_file"],
        _ => &["broker_tls.anchors_file", "broker_tls.certificate_file", "broker_tls.key_file"],
    };
    let missing = needed.iter().find(|key| text(values, key).is_none())?;
    Some(Mistake { origin: origin.clone(), text: format!("broker_tls.mode = {mode} needs {missing}") })
}

/// A login needs a name and a password. `PLAIN` sends both unencrypted, so it also needs TLS.
fn broker_login(values: &Understood) -> Option<Mistake> {
    let (Value::Choice(mechanism), origin) = values.get("broker_sasl.mechanism")? else { return None };
    let (Value::Choice(mode), _) = values.get("broker_tls.mode")? else { return None };
    if *mechanism == "none" {
        return None;
    }
    let needed = ["broker_sasl.username", "broker_sasl.password_file"];
    let missing = match needed.into_iter().find(|key| text(values, key).is_none()) {
        None if *mechanism == "PLAIN" && *mode == "plain" => "broker_tls.mode = tls or mutual",
        missing => missing?,
    };
    let text = format!("broker_sasl.mechanism = {mechanism} needs {missing}");
    Some(Mistake { origin: origin.clone(), text })
}

fn rates(values: &Understood) -> Option<Mistake> {
    let (exceptions, origin) = text(values, "admission.exceptions")?;
    let error = rate_exceptions(exceptions, RateLimits::default()).err()?;
    Some(Mistake { origin: origin.clone(), text: format!("admission.exceptions: {error}") })
}

/// Settings that contain the location of a private key.
const PRIVATE_KEYS: [&str; 7] = [
    "fspiop_tls.key_file",
    "admin_tls.key_file",
    "metrics_tls.key_file",
    "cluster_tls.key_file",
    "outbound_tls.key_file",
    "jws.signing_key_file",
    "jws.next_key_file",
];

/// A key in a token needs a complete name and the settings of the token.
fn private_key(values: &Understood, key: &str) -> Option<Mistake> {
    let (place, origin) = text(values, key)?;
    let text = match Place::parse(place) {
        Err(error) => format!("{key}: {error}"),
        Ok(Place::File(_)) => return None,
        Ok(Place::Token(_)) => {
            let needed = ["pkcs11.module", "pkcs11.pin_file"];
            let missing = needed.into_iter().find(|needed| text(values, needed).is_none())?;
            format!("{key} names a token, which needs {missing}")
        }
    };
    Some(Mistake { origin: origin.clone(), text })
}

/// Networks and ports must be valid.
fn outbound_networks(values: &Understood) -> Option<Mistake> {
    let of = |key| text(values, key).unwrap_or(("", &Origin::Default));
    let ((networks, networks_origin), (ports, ports_origin)) =
        (of("outbound.networks"), of("outbound.ports"));
    if let (lists, Err(error)) = (of("fspiop.address_lists"), address_lists(of("fspiop.address_lists").0)) {
        return Some(Mistake { origin: lists.1.clone(), text: format!("fspiop.address_lists: {error}") });
    }
    let (from, from_origin) = of("fspiop.proxy_protocol_from");
    if let Err(error) = self::networks(from) {
        let text = format!("fspiop.proxy_protocol_from: {error}");
        return Some(Mistake { origin: from_origin.clone(), text });
    }
    let (origin, text) = match (guard_rules(networks, ""), guard_rules("", ports)) {
        (Err(error), _) => (networks_origin, format!("outbound.networks: {error}")),
        (_, Err(error)) => (ports_origin, format!("outbound.ports: {error}")),
        (Ok(_), Ok(_)) => return None,
    };
    Some(Mistake { origin: origin.clone(), text })
}

fn outbound_files(values: &Understood) -> Option<Mistake> {
    let needs = |one: &str, other: &str| {
        let (_, origin) = text(values, one)?;
        let missing = text(values, other).is_none();
        missing.then(|| Mistake { origin: origin.clone(), text: format!("{one} needs {other}") })
    };
    let https_only = || {
        let (Value::Flag(true), origin) = values.get("outbound_tls.https_only")? else { return None };
        let missing = text(values, "outbound_tls.anchors_file").is_none();
        let text = "outbound_tls.https_only needs outbound_tls.anchors_file".to_owned();
        missing.then(|| Mistake { origin: origin.clone(), text })
    };
    needs("outbound_tls.certificate_file", "outbound_tls.key_file")
        .or_else(|| needs("outbound_tls.key_file", "outbound_tls.certificate_file"))
        .or_else(|| needs("outbound_tls.certificate_file", "outbound_tls.anchors_file"))
        .or_else(|| needs("outbound_tls.crl_file", "outbound_tls.anchors_file"))
        .or_else(|| needs("outbound_tls.own_directory", "outbound_tls.anchors_file"))
        .or_else(https_only)
}

// Requirements of the production profile.

/// A requirement of the production profile, which `security.relaxed` can waive.
struct Demand {
    name: &'static str,
    /// The required setting and value.
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
        name: "revocation-lists",
        wanted: "crl_file in each TLS section that verifies peers",
        is_met: has_revocation_lists,
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
        name: "oidc-approvals",
        wanted: "oidc.approval_methods and oidc.approval_age_s with oidc.issuer",
        is_met: |settings| {
            let oidc = &settings.oidc;
            let proves_log_in = items(&oidc.approval_methods).next().is_some() && oidc.approval_age_s > 0;
            oidc.issuer.is_empty() || proves_log_in
        },
    },
    Demand {
        name: "people-key",
        wanted: "admin.people_key_file",
        is_met: |settings| !settings.admin.people_key_file.is_empty(),
    },
    Demand {
        name: "audit-key",
        wanted: "admin.audit_key_file",
        is_met: |settings| !settings.admin.audit_key_file.is_empty(),
    },
    Demand {
        name: "allowed-hosts",
        wanted: "admin.allowed_hosts without *",
        is_met: |settings| items(&settings.admin.allowed_hosts).all(|host| host != "*"),
    },
    Demand {
        name: "metrics-tls",
        wanted: "metrics_tls.mode = mutual, a loopback address or none in metrics.listen",
        is_met: |settings| settings.metrics_tls.mode != "plain" || !leaves_the_machine(settings),
    },
    Demand {
        name: "metrics-clients",
        wanted: "metrics_tls.mode = mutual, a loopback address or none in metrics.listen",
        is_met: |settings| settings.metrics_tls.mode != "tls" || !leaves_the_machine(settings),
    },
    Demand {
        name: "diagnostics",
        wanted: "fspiop.diagnostics = false",
        is_met: |settings| !settings.fspiop.diagnostics,
    },
    Demand {
        name: "proxy-protocol",
        wanted: "networks of load balancers, none wider than /8, in fspiop.proxy_protocol_from",
        is_met: |settings| has_narrow_networks(&settings.fspiop.proxy_protocol_from),
    },
    Demand { name: "outbound-addresses", wanted: "outbound.addresses = public", is_met: is_outbound_guarded },
    Demand {
        name: "outbound-networks",
        wanted: "networks of DFSPs, none wider than /8, in outbound.networks",
        is_met: |settings| has_narrow_networks(&settings.outbound.networks),
    },
    Demand {
        name: "lookup-misses",
        wanted: "admission.lookup_misses_per_dfsp, and no misses=0 in admission.exceptions",
        is_met: bounds_lookup_misses,
    },
    Demand {
        name: "must-exist",
        wanted: "data.must_exist = true",
        is_met: |settings| settings.data.must_exist,
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

/// Whether callbacks and lookups may connect to public addresses only.
pub fn is_outbound_guarded(settings: &Settings) -> bool {
    match settings.outbound.addresses {
        "public" => true,
        "any" => false,
        _ => settings.security.profile != "development",
    }
}

/// Whether a separate metrics port is reachable from other machines.
fn leaves_the_machine(settings: &Settings) -> bool {
    settings.metrics.listen.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback())
}

/// Whether each section that verifies peers' certificates has revocation lists.
fn has_revocation_lists(settings: &Settings) -> bool {
    let Settings { fspiop_tls, admin_tls, metrics_tls, outbound_tls, cluster_tls, .. } = settings;
    [
        (fspiop_tls.mode == "mutual", &fspiop_tls.crl_file),
        (admin_tls.mode == "mutual", &admin_tls.crl_file),
        (metrics_tls.mode == "mutual" && !settings.metrics.listen.is_empty(), &metrics_tls.crl_file),
        (!outbound_tls.anchors_file.is_empty(), &outbound_tls.crl_file),
        (!settings.cluster.listen.is_empty(), &cluster_tls.crl_file),
    ]
    .iter()
    .all(|(verifies, lists)| !verifies || !lists.is_empty())
}

/// Shortest prefix of a network in a list. It allows a private network such as 10.0.0.0/8, but not half of all
/// addresses.
const PREFIX_MIN: u8 = 8;

fn has_narrow_networks(list: &str) -> bool {
    networks(list)
        .is_ok_and(|networks| networks.iter().all(|network: &Network| network.prefix() >= PREFIX_MIN))
}

/// Whether each DFSP has a limit on lookups of unknown parties.
fn bounds_lookup_misses(settings: &Settings) -> bool {
    let admission = &settings.admission;
    let limits = RateLimits { misses: admission.lookup_misses_per_dfsp, ..RateLimits::default() };
    let exceptions = rate_exceptions(&admission.exceptions, limits);
    limits.misses > 0 && exceptions.is_ok_and(|all| all.values().all(|limits| limits.misses > 0))
}

fn relaxed(settings: &Settings) -> impl Iterator<Item = &str> {
    items(&settings.security.relaxed)
}

/// Unknown names in `security.relaxed`, and requirements of the profile that are not met.
pub(super) fn short_of_production(
    settings: &Settings,
    profile: &Origin,
    relaxations: &Origin,
) -> Vec<Mistake> {
    let names: Vec<&'static str> = DEMANDS.iter().map(|demand| demand.name).collect();
    let unknown = relaxed(settings).filter(|name| !names.contains(name)).map(|name| {
        let meant = nearest(name, names.iter().copied());
        let meant = meant.map_or_else(|| names.join(", "), |meant| format!("did you mean {meant}?"));
        let text = format!("security.relaxed: {name:?} is not a requirement that can be waived: {meant}");
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

/// The names of the production requirements that these settings do not meet.
pub fn missing_for_production(settings: &Settings) -> Vec<&'static str> {
    DEMANDS.iter().filter(|demand| !(demand.is_met)(settings)).map(|demand| demand.name).collect()
}
