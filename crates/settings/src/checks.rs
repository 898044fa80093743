//! Contradictions between settings that are valid by themselves.

use std::collections::{BTreeMap, BTreeSet};

use upesi_http::Network;
use upesi_kafka::ENTRY_BYTES_MAX;
use upesi_keys::PrivateKeyLocation;
use upesi_oidc::is_secure_issuer;

use super::catalogue::{Dfsp, OperatorProvider, Provider, Settings, Tls};
use super::choices::{
    Approvers, ClusterLog, ProductionRule, Profile, Requirement, SaslMechanism, SignatureMode, TlsMode,
};
use super::kind::Choice;
use super::mistake::{Mistake, ValueOrigin};
use super::setting::{Reader, SettingValue};

/// Settings to be checked, with the values as they are written and their origins.
pub(super) struct CheckedSettings<'a> {
    settings: &'a Settings,
    entries: BTreeMap<&'a str, &'a SettingValue>,
    /// The settings that have a mistake.
    wrong: &'a BTreeSet<String>,
}

impl<'a> CheckedSettings<'a> {
    pub fn new(settings: &'a Settings, reader: &'a Reader) -> Self {
        let entries = reader.entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
        Self { settings, entries, wrong: &reader.wrong }
    }

    /// The value of a setting as it is written; `None` if it has a mistake. No other mistake is reported then.
    fn sound(&self, key: &str) -> Option<&'a SettingValue> {
        let entry = self.entries.get(key).unwrap_or_else(|| unreachable!("{key} is not a setting"));
        (!self.wrong.contains(key)).then_some(entry)
    }

    fn origin(&self, key: &str) -> Option<&'a ValueOrigin> {
        self.sound(key).map(|entry| &entry.origin)
    }

    /// A mistake at the value of a setting.
    fn mistake(&self, key: &str, text: String) -> Option<Mistake> {
        Some(Mistake { origin: self.origin(key)?.clone(), text })
    }

    /// A setting needs another one, which is missing.
    fn needs(&self, key: &str, what: &str, missing: &str) -> Option<Mistake> {
        self.origin(missing)?;
        self.mistake(key, format!("{what} needs {missing}"))
    }

    /// A whole number, in the unit of the setting's name.
    fn number(&self, key: &str) -> Option<(i64, &'a ValueOrigin)> {
        let entry = self.sound(key)?;
        Some((entry.value.as_integer()?, &entry.origin))
    }
}

/// Pairs of settings. The first must not exceed the second multiplied by the factor, which converts units.
const NOT_ABOVE: &[(&str, &str, i64)] = &[
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
pub(super) fn contradictions(checked: &CheckedSettings<'_>) -> Vec<Mistake> {
    let Settings { fspiop_tls, admin_tls, metrics_tls, .. } = checked.settings;
    let mut mistakes: Vec<Mistake> =
        NOT_ABOVE.iter().filter_map(|(low, high, factor)| not_above(checked, low, high, *factor)).collect();
    mistakes.extend(same_port(checked));
    mistakes.extend(default_version(checked));
    let ports = [("fspiop_tls", &fspiop_tls.port), ("admin_tls", admin_tls), ("metrics_tls", metrics_tls)];
    mistakes.extend(ports.iter().filter_map(|(section, tls)| needed_files(checked, section, tls)));
    mistakes.extend(outbound_files(checked));
    mistakes.extend(KEY_LOCATIONS.iter().filter_map(|(key, of)| private_key(checked, key, of)));
    mistakes.extend(providers(checked));
    mistakes.extend(entries_of_a_cluster(checked));
    mistakes.extend(port_of_a_node(checked));
    mistakes.extend(broker_files(checked));
    mistakes.extend(broker_login(checked));
    mistakes
}

/// A provider needs an audience, suitable roles, and a secure connection to its keys.
fn providers(checked: &CheckedSettings<'_>) -> Vec<Mistake> {
    let Settings { oidc, oidc_dfsps, oauth, .. } = checked.settings;
    let [staff, dfsps] = [&oidc.provider, &oidc_dfsps.provider];
    let is_shared = dfsps.issuer.is_some() && dfsps.issuer == staff.issuer;
    let is_for_operators = [staff, dfsps]
        .iter()
        .any(|other| other.issuer == oauth.provider.issuer && other.audience == oauth.provider.audience);
    let apart = is_shared.then_some("must differ from oidc.issuer: a provider belongs to one section only");
    let other_audience = is_for_operators.then_some(
        "needs an oauth.audience that differs from the audience of operators' tokens of this provider",
    );
    let provider = |section, provider, problem| provider_of(checked, section, provider, problem);
    let roles = |section, operators, is_of_dfsps| wrong_role(checked, section, operators, is_of_dfsps);
    let of_staff = provider("oidc", staff, None).or_else(|| roles("oidc", oidc, false));
    let of_dfsps = provider("oidc_dfsps", dfsps, apart).or_else(|| roles("oidc_dfsps", oidc_dfsps, true));
    let of_clients = provider("oauth", &oauth.provider, other_audience);
    let logins = [login_of(checked, "oidc", oidc), login_of(checked, "oidc_dfsps", oidc_dfsps)];
    [of_staff, of_dfsps, of_clients].into_iter().chain(logins).flatten().collect()
}

/// A login in the console needs a provider, and a secure address of the console for the provider's answers. Browsers do
/// not store the session for another address.
fn login_of(checked: &CheckedSettings<'_>, section: &str, operators: &OperatorProvider) -> Option<Mistake> {
    let key = |name: &str| format!("{section}.{name}");
    let scope = operators.login_scopes.iter().find(|scope| !is_scope(scope));
    let problem = match (&operators.login_client, checked.settings.admin.allowed_origins.first()) {
        (None, _) if operators.login_secret_file.is_some() => {
            let key = key("login_secret_file");
            return checked.needs(&key, &key, &format!("{section}.login_client"));
        }
        (None, _) => return None,
        (Some(_), _) if operators.provider.issuer.is_none() => format!("needs {section}.issuer"),
        (Some(_), None) => {
            "needs admin.allowed_origins, which begins with the address of the console".to_owned()
        }
        (Some(_), Some(origin)) if !is_secure_issuer(&origin.to_string()) => {
            format!(
                "needs https:// in the first of admin.allowed_origins, not {origin}, except on this machine"
            )
        }
        (Some(_), Some(_)) => {
            let key = key("login_scopes");
            return checked.mistake(&key, format!("{key}: {:?} is not the name of a scope", scope?));
        }
    };
    // Mistakes of these settings are reported already.
    checked.origin("admin.allowed_origins").and(checked.origin(&key("issuer")))?;
    let key = key("login_client");
    checked.mistake(&key, format!("{key} {problem}"))
}

/// Whether a text is a scope (RFC 6749 §3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
}

/// A provider needs an audience, and authorities for `https://`. `problem` is another reason against it.
fn provider_of(
    checked: &CheckedSettings<'_>,
    section: &str,
    provider: &Provider,
    problem: Option<&str>,
) -> Option<Mistake> {
    let issuer = provider.issuer.as_deref()?;
    let problem = match problem {
        Some(problem) => problem.to_owned(),
        None if provider.audience.is_none() => format!("needs {section}.audience"),
        None if issuer.starts_with("https://") && provider.anchors_file.is_none() => {
            format!("needs {section}.anchors_file")
        }
        None => return None,
    };
    let key = format!("{section}.issuer");
    checked.mistake(&key, format!("{key} {problem}"))
}

/// A provider of the hub's users cannot assign roles of DFSPs' users, and vice versa. A user of a DFSP needs a DFSP.
fn wrong_role(
    checked: &CheckedSettings<'_>,
    section: &str,
    operators: &OperatorProvider,
    is_of_dfsps: bool,
) -> Option<Mistake> {
    operators.provider.issuer.as_deref()?;
    if is_of_dfsps && operators.participant_claim.is_none() {
        return checked.needs(&format!("{section}.issuer"), section, &format!("{section}.participant_claim"));
    }
    let wrong = operators.roles.values().flatten().find(|role| role.is_of_dfsp() != is_of_dfsps)?;
    let key = format!("{section}.roles");
    checked.mistake(&key, format!("{key}: {} is not a role for users of this section", wrong.name()))
}

/// Reports the mistake at the value that was set explicitly, not at a default.
fn not_above(checked: &CheckedSettings<'_>, low: &str, high: &str, factor: i64) -> Option<Mistake> {
    let ((lower, low_origin), (upper, high_origin)) = (checked.number(low)?, checked.number(high)?);
    if lower <= upper.saturating_mul(factor) {
        return None;
    }
    if *low_origin == ValueOrigin::Default {
        checked.mistake(high, format!("{high} = {upper} is too low for {low} = {lower} ({low_origin})"))
    } else {
        checked.mistake(low, format!("{low} = {lower} is too high for {high} = {upper} ({high_origin})"))
    }
}

fn same_port(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let (fspiop, admin) = (checked.settings.fspiop.listen, checked.settings.admin.listen);
    checked.origin("fspiop.listen")?;
    let overlap = fspiop.ip() == admin.ip() || fspiop.ip().is_unspecified() || admin.ip().is_unspecified();
    if fspiop.port() != admin.port() || fspiop.port() == 0 || !overlap {
        return None;
    }
    let is_default = *checked.origin("admin.listen")? == ValueOrigin::Default;
    let key = if is_default { "fspiop.listen" } else { "admin.listen" };
    let text = format!("fspiop.listen = {fspiop} and admin.listen = {admin} need different ports");
    checked.mistake(key, text)
}

fn default_version(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let fspiop = &checked.settings.fspiop;
    let accepted = "fspiop.versions_accepted";
    checked.origin(accepted)?;
    if fspiop.versions_accepted.contains(&fspiop.version_default) {
        return None;
    }
    let is_default = *checked.origin("fspiop.version_default")? == ValueOrigin::Default;
    let key = if is_default { accepted } else { "fspiop.version_default" };
    checked
        .mistake(key, format!("fspiop.version_default = {} is not among {accepted}", fspiop.version_default))
}

/// The mode of a section requires certain files.
fn needed_files(checked: &CheckedSettings<'_>, section: &str, tls: &Tls) -> Option<Mistake> {
    let (key, missing) = (format!("{section}.mode"), missing_file(tls)?);
    checked.needs(&key, &format!("{key} = {}", tls.mode.word()), &format!("{section}.{missing}"))
}

/// The first file that a port lacks for its mode.
fn missing_file(tls: &Tls) -> Option<&'static str> {
    let needed = [
        ("certificate_file", tls.certificate_file.is_some(), tls.mode != TlsMode::Plain),
        ("key_file", tls.key_file.is_some(), tls.mode != TlsMode::Plain),
        ("anchors_file", tls.anchors_file.is_some(), tls.mode == TlsMode::Mutual),
    ];
    needed.into_iter().find(|(_, is_there, is_needed)| *is_needed && !is_there).map(|(name, ..)| name)
}

/// Upper limit in bytes of what a batch contains in addition to the records of its commands.
const BEYOND_COMMANDS: usize = 1024 * 1024;

/// A port for other nodes needs an address, TLS, and an entry in the list of nodes.
fn port_of_a_node(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let Settings { cluster, cluster_tls, .. } = checked.settings;
    let address = cluster.listen?;
    let key = "cluster.listen";
    let mistake = |problem: &str| checked.mistake(key, format!("{key} = {address} {problem}"));
    let needs = |missing: &str| checked.needs(key, &format!("{key} = {address}"), missing);
    if address.port() == 0 {
        return mistake("has port 0, but other nodes need a fixed port");
    }
    if cluster.log == ClusterLog::None {
        return mistake("is only for nodes of a cluster: set cluster.log");
    }
    if let Some(missing) = missing_file(cluster_tls) {
        return needs(&format!("cluster_tls.{missing}"));
    }
    if cluster.nodes.is_empty() {
        return needs("cluster.nodes");
    }
    if cluster.nodes.contains_key(&cluster.node) {
        return None;
    }
    checked.mistake("cluster.nodes", format!("cluster.nodes: this node ({}) is not listed", cluster.node))
}

/// A batch is one entry of the log. Brokers reject an entry above their limit, and the leader would retry it forever.
fn entries_of_a_cluster(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let Settings { cluster, engine, .. } = checked.settings;
    let (bytes, most) = (engine.batch_bytes_max, ENTRY_BYTES_MAX - BEYOND_COMMANDS);
    if cluster.log == ClusterLog::None || bytes <= most {
        return None;
    }
    let key = "engine.batch_bytes_max";
    checked.mistake(key, format!("{key} = {bytes} is too high for the log of a cluster: at most {most}"))
}

/// Files for TLS to the brokers. The Kafka client does not support PKCS #11 tokens.
fn broker_files(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let tls = &checked.settings.broker_tls;
    if matches!(tls.key_file, Some(PrivateKeyLocation::Token(_))) {
        let text = "broker_tls.key_file must be a file: the brokers' client cannot use a token".to_owned();
        return checked.mistake("broker_tls.key_file", text);
    }
    let (is_used, is_mutual) = (tls.mode != TlsMode::Plain, tls.mode == TlsMode::Mutual);
    let needed = [
        ("anchors_file", tls.anchors_file.is_some(), is_used),
        ("certificate_file", tls.certificate_file.is_some(), is_mutual),
        ("key_file", tls.key_file.is_some(), is_mutual),
    ];
    let (missing, ..) = needed.into_iter().find(|(_, is_there, is_needed)| *is_needed && !is_there)?;
    let key = "broker_tls.mode";
    checked.needs(key, &format!("{key} = {}", tls.mode.word()), &format!("broker_tls.{missing}"))
}

/// A login needs a name and a password. `PLAIN` sends both unencrypted, so it also needs TLS.
fn broker_login(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let Settings { broker_sasl, broker_tls, .. } = checked.settings;
    let missing = match broker_sasl.mechanism {
        SaslMechanism::None => return None,
        _ if broker_sasl.username.is_none() => "broker_sasl.username",
        _ if broker_sasl.password_file.is_none() => "broker_sasl.password_file",
        SaslMechanism::Plain if broker_tls.mode == TlsMode::Plain => "broker_tls.mode = tls or mutual",
        _ => return None,
    };
    let key = "broker_sasl.mechanism";
    checked.mistake(key, format!("{key} = {} needs {missing}", broker_sasl.mechanism.word()))
}

/// A setting with the location of a private key.
type KeySetting = (&'static str, fn(&Settings) -> Option<&PrivateKeyLocation>);

const KEY_LOCATIONS: [KeySetting; 8] = [
    ("fspiop_tls.key_file", |settings| settings.fspiop_tls.port.key_file.as_ref()),
    ("admin_tls.key_file", |settings| settings.admin_tls.key_file.as_ref()),
    ("metrics_tls.key_file", |settings| settings.metrics_tls.key_file.as_ref()),
    ("cluster_tls.key_file", |settings| settings.cluster_tls.key_file.as_ref()),
    ("outbound_tls.key_file", |settings| settings.outbound_tls.key_file.as_ref()),
    ("jws.signing_key_file", |settings| settings.jws.signing_key_file.as_ref()),
    ("jws.next_key_file", |settings| settings.jws.next_key_file.as_ref()),
    ("admin.people_key_file", |settings| settings.admin.people_key_file.as_ref()),
];

/// A key in a token needs the settings of the token.
fn private_key(
    checked: &CheckedSettings<'_>,
    key: &str,
    location: &fn(&Settings) -> Option<&PrivateKeyLocation>,
) -> Option<Mistake> {
    let Some(PrivateKeyLocation::Token(_)) = location(checked.settings) else { return None };
    let pkcs11 = &checked.settings.pkcs11;
    let needed = [("pkcs11.module", pkcs11.module.is_some()), ("pkcs11.pin_file", pkcs11.pin_file.is_some())];
    let (missing, _) = needed.into_iter().find(|(_, is_there)| !is_there)?;
    checked.needs(key, &format!("{key} names a token, which"), missing)
}

fn outbound_files(checked: &CheckedSettings<'_>) -> Option<Mistake> {
    let tls = &checked.settings.outbound_tls;
    let anchors = tls.anchors_file.is_some();
    let (certificate, key) = (tls.certificate_file.is_some(), tls.key_file.is_some());
    let needs = [
        ("certificate_file", certificate, "key_file", key),
        ("key_file", key, "certificate_file", certificate),
        ("certificate_file", certificate, "anchors_file", anchors),
        ("crl_file", tls.crl_file.is_some(), "anchors_file", anchors),
        ("own_directory", tls.own_directory.is_some(), "anchors_file", anchors),
        ("https_only", tls.https_only, "anchors_file", anchors),
    ];
    let (one, _, other, _) = needs.into_iter().find(|(_, is_set, _, is_there)| *is_set && !is_there)?;
    let key = format!("outbound_tls.{one}");
    checked.needs(&key, &key, &format!("outbound_tls.{other}"))
}

// Requirements of the production profile.

/// A requirement of the production profile, and its check. `security.relaxed` can waive it.
struct Check {
    rule: ProductionRule,
    /// The required setting and value.
    wanted: &'static str,
    is_met: fn(&Settings) -> bool,
}

const CHECKS: &[Check] = &[
    Check {
        rule: ProductionRule::FspiopTls,
        wanted: "fspiop_tls.mode = mutual",
        is_met: |settings| settings.fspiop_tls.port.mode == TlsMode::Mutual,
    },
    Check {
        rule: ProductionRule::Bindings,
        wanted: "fspiop_tls.bindings_required = true",
        is_met: |settings| {
            settings.fspiop_tls.port.mode == TlsMode::Mutual && settings.fspiop_tls.bindings_required
        },
    },
    Check {
        rule: ProductionRule::CallbacksTls,
        wanted: "outbound_tls.https_only = true",
        is_met: |settings| settings.outbound_tls.https_only,
    },
    Check {
        rule: ProductionRule::RevocationLists,
        wanted: "crl_file in each TLS section that verifies peers",
        is_met: has_revocation_lists,
    },
    Check {
        rule: ProductionRule::Signatures,
        wanted: "jws.mode = enforce, and no other signatures in [[dfsp]]",
        is_met: enforces_signatures,
    },
    Check {
        rule: ProductionRule::Signing,
        wanted: "jws.signing_key_file",
        is_met: |settings| settings.jws.signing_key_file.is_some(),
    },
    Check {
        rule: ProductionRule::AdminTls,
        wanted: "admin_tls.mode = tls or mutual",
        is_met: |settings| settings.admin_tls.mode != TlsMode::Plain,
    },
    Check {
        rule: ProductionRule::AdminAuthentication,
        wanted: "admin.authentication = required",
        is_met: |settings| settings.admin.authentication == Requirement::Required,
    },
    Check {
        rule: ProductionRule::AdminApprovals,
        wanted: "admin.approvals = required",
        is_met: |settings| settings.admin.approvals == Requirement::Required,
    },
    Check {
        rule: ProductionRule::AdminApprovers,
        wanted: "admin.approvers = people",
        is_met: |settings| settings.admin.approvers == Approvers::People,
    },
    Check {
        rule: ProductionRule::OidcApprovals,
        wanted: "oidc.approval_methods and oidc.approval_age_s with oidc.issuer",
        is_met: |settings| {
            let oidc = &settings.oidc;
            let proves_login = !oidc.approval_methods.is_empty() && oidc.approval_age_s > 0;
            oidc.provider.issuer.is_none() || proves_login
        },
    },
    Check {
        rule: ProductionRule::PeopleKey,
        wanted: "admin.people_key_file",
        is_met: |settings| settings.admin.people_key_file.is_some(),
    },
    Check {
        rule: ProductionRule::AuditKey,
        wanted: "admin.audit_key_file",
        is_met: |settings| settings.admin.audit_key_file.is_some(),
    },
    Check {
        rule: ProductionRule::AllowedHosts,
        wanted: "admin.allowed_hosts without *",
        is_met: |settings| settings.admin.allowed_hosts.iter().all(|host| host != "*"),
    },
    Check {
        rule: ProductionRule::MetricsTls,
        wanted: "metrics_tls.mode = mutual, a loopback address or none in metrics.listen",
        is_met: |settings| settings.metrics_tls.mode != TlsMode::Plain || !leaves_the_machine(settings),
    },
    Check {
        rule: ProductionRule::MetricsClients,
        wanted: "metrics_tls.mode = mutual, a loopback address or none in metrics.listen",
        is_met: |settings| settings.metrics_tls.mode != TlsMode::Tls || !leaves_the_machine(settings),
    },
    Check {
        rule: ProductionRule::Diagnostics,
        wanted: "fspiop.diagnostics = false",
        is_met: |settings| !settings.fspiop.diagnostics,
    },
    Check {
        rule: ProductionRule::ProxyProtocol,
        wanted: "networks of load balancers, none wider than /8, in fspiop.proxy_protocol_from",
        is_met: |settings| are_narrow(&settings.fspiop.proxy_protocol_from),
    },
    Check {
        rule: ProductionRule::OutboundAddresses,
        wanted: "outbound.addresses = public",
        is_met: Settings::is_outbound_guarded,
    },
    Check {
        rule: ProductionRule::OutboundNetworks,
        wanted: "networks of DFSPs, none wider than /8, in outbound.networks",
        is_met: |settings| are_narrow(&settings.outbound.networks),
    },
    Check {
        rule: ProductionRule::LookupMisses,
        wanted: "admission.lookup_misses_per_dfsp, and no lookup_misses_per_s = 0 in [[dfsp]]",
        is_met: bounds_lookup_misses,
    },
    Check {
        rule: ProductionRule::MustExist,
        wanted: "data.must_exist = true",
        is_met: |settings| settings.data.must_exist,
    },
    Check {
        rule: ProductionRule::Brokers,
        wanted: "broker_tls.mode = mutual, or tls with broker_sasl.mechanism",
        is_met: |settings| match settings.broker_tls.mode {
            TlsMode::Mutual => true,
            TlsMode::Tls => settings.broker_sasl.mechanism != SaslMechanism::None,
            TlsMode::Plain => settings.cluster.log == ClusterLog::None,
        },
    },
];

/// Whether messages of all DFSPs need signatures.
fn enforces_signatures(settings: &Settings) -> bool {
    let is_exception =
        |dfsp: &Dfsp| dfsp.settings.signatures.is_some_and(|mode| mode != SignatureMode::Enforce);
    settings.jws.mode == SignatureMode::Enforce && !settings.dfsps.iter().any(is_exception)
}

/// Whether a separate metrics port is reachable from other machines.
fn leaves_the_machine(settings: &Settings) -> bool {
    settings.metrics.listen.is_some_and(|address| !address.ip().is_loopback())
}

/// Whether each section that verifies peers' certificates has revocation lists.
fn has_revocation_lists(settings: &Settings) -> bool {
    let Settings { fspiop_tls, admin_tls, metrics_tls, outbound_tls, cluster_tls, .. } = settings;
    let is_mutual = |tls: &Tls| tls.mode == TlsMode::Mutual;
    [
        (is_mutual(&fspiop_tls.port), &fspiop_tls.port.crl_file),
        (is_mutual(admin_tls), &admin_tls.crl_file),
        (is_mutual(metrics_tls) && settings.metrics.listen.is_some(), &metrics_tls.crl_file),
        (outbound_tls.anchors_file.is_some(), &outbound_tls.crl_file),
        (settings.cluster.listen.is_some(), &cluster_tls.crl_file),
    ]
    .iter()
    .all(|(verifies, lists)| !verifies || lists.is_some())
}

/// Shortest prefix of a network in a list. It allows a private network such as 10.0.0.0/8, but not half of all
/// addresses.
const PREFIX_MIN: u8 = 8;

fn are_narrow(networks: &[Network]) -> bool {
    networks.iter().all(|network| network.prefix() >= PREFIX_MIN)
}

/// Whether each DFSP has a limit on lookups of unknown parties.
fn bounds_lookup_misses(settings: &Settings) -> bool {
    let is_unbound = |dfsp: &Dfsp| dfsp.settings.lookup_misses_per_s == Some(0);
    settings.admission.lookup_misses_per_dfsp > 0 && !settings.dfsps.iter().any(is_unbound)
}

/// The requirements of the profile that are neither met nor waived.
pub(super) fn short_of_production(checked: &CheckedSettings<'_>) -> Vec<Mistake> {
    let settings = checked.settings;
    if settings.security.profile != Profile::Production {
        return Vec::new();
    }
    let is_missing =
        |check: &&Check| !(check.is_met)(settings) && !settings.security.relaxed.contains(&check.rule);
    let mistake = |Check { rule, wanted, .. }: &Check| {
        let name = rule.word();
        let text = format!("security.profile = production needs {wanted}, or security.relaxed = {name}");
        checked.mistake("security.profile", text)
    };
    CHECKS.iter().filter(is_missing).filter_map(mistake).collect()
}

/// The names of the production requirements that these settings do not meet.
pub fn missing_for_production(settings: &Settings) -> Vec<&'static str> {
    CHECKS.iter().filter(|check| !(check.is_met)(settings)).map(|check| check.rule.word()).collect()
}
