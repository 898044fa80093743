//! Settings whose values are lists: networks and ports, rate limits, roles of groups, signature modes.

use std::collections::{BTreeMap, HashMap};

use upesi_gateway::{AddressLists, IPV6_PREFIX_MAX, RateLimits};
use upesi_http::{GuardRules, Network, Origin, Target, check_address};
use upesi_keys::read_limited_text;
use upesi_ledger::Role;
use upesi_types::FspId;

use super::catalogue::Settings;

/// Longest file of quote rules, in bytes.
const RULES_FILE_BYTES_MAX: u64 = 1 << 20;

/// The quote rules in the file of `quotes.rules_file`; no rules if it is empty.
///
/// # Errors
/// If the file cannot be read or contains an invalid rule.
pub fn quote_rules(file: &str) -> Result<upesi_quoting::Rules, String> {
    if file.is_empty() {
        return Ok(upesi_quoting::Rules::default());
    }
    let text = read_limited_text(file.as_ref(), RULES_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    upesi_quoting::Rules::parse(&text).map_err(|error| error.to_string())
}

// Networks and ports.

/// Parses comma-separated `NAME=NETWORK` pairs.
///
/// # Errors
/// Names the first invalid pair.
pub fn address_lists(text: &str) -> Result<AddressLists, String> {
    let mut lists = AddressLists::default();
    for item in items(text) {
        let wanted = || format!("{item:?}: give a DFSP and a network, such as greenbank=192.0.2.0/24");
        let (name, network) = item.split_once('=').ok_or_else(wanted)?;
        let name = FspId::parse(name.trim()).ok_or_else(wanted)?;
        let network: Network = network.trim().parse().map_err(|error| format!("{error}"))?;
        if network.is_ipv6() && network.prefix() > IPV6_PREFIX_MAX {
            return Err(format!(
                "{item:?}: an IPv6 network of a DFSP has a prefix of at most {IPV6_PREFIX_MAX} bits"
            ));
        }
        lists.add(name.as_str(), network);
    }
    Ok(lists)
}

pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Parses comma-separated `NUMBER=HOST:PORT` pairs.
///
/// # Errors
/// Names the first invalid pair, or a number that is listed twice.
pub fn peers(text: &str) -> Result<Vec<(u32, Origin)>, String> {
    let mut peers: Vec<(u32, Origin)> = Vec::new();
    for item in items(text) {
        let wanted = || format!("{item:?}: give a node's number and address, such as 1=hub-1.example:4003");
        let (number, place) = item.split_once('=').ok_or_else(wanted)?;
        let number = number.trim().parse().map_err(|_| wanted())?;
        let (_, port) = place.rsplit_once(':').ok_or_else(wanted)?;
        port.trim().parse::<u16>().map_err(|_| wanted())?;
        let url = format!("https://{}", place.trim());
        let target = check_address(&url).and_then(|()| Target::parse(&url));
        let target = target.map_err(|error| format!("{item:?}: {error}"))?;
        if target.path != "/" {
            return Err(wanted());
        }
        if peers.iter().any(|(other, _)| *other == number) {
            return Err(format!("{item:?}: node {number} is named twice"));
        }
        peers.push((number, target.origin));
    }
    Ok(peers)
}

/// Parses a comma-separated list of networks.
///
/// # Errors
/// Names the first invalid network.
pub fn networks(text: &str) -> Result<Vec<Network>, String> {
    items(text).map(|item| item.parse::<Network>().map_err(|error| error.to_string())).collect()
}

/// Parses comma-separated lists of networks and ports.
///
/// # Errors
/// Names the first invalid network or port.
pub fn guard_rules(allowed: &str, ports: &str) -> Result<GuardRules, String> {
    let port = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| {
            format!("{text:?} is not a port; write numbers from 1 to 65535, such as 443, 8443")
        })
    };
    Ok(GuardRules { networks: networks(allowed)?, ports: items(ports).map(port).collect::<Result<_, _>>()? })
}

// Rate limits of single DFSPs.

/// Parses rate limits such as `greenbank lookups=50 misses=5; bluebank registrations=0`. Limits that are not listed
/// have the global value. The names in the result are in lower case.
///
/// # Errors
/// Names the first invalid item.
pub fn rate_exceptions(text: &str, of_all: RateLimits) -> Result<HashMap<String, RateLimits>, String> {
    let mut exceptions = HashMap::new();
    for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, limits)) = exception(item, of_all) else {
            return Err(format!(
                "{item:?}: give a participant and its rates, such as greenbank lookups=50 misses=5"
            ));
        };
        if exceptions.insert(name, limits).is_some() {
            return Err(format!("{item:?}: this participant is listed twice"));
        }
    }
    Ok(exceptions)
}

fn exception(item: &str, of_all: RateLimits) -> Option<(String, RateLimits)> {
    let (name, rates) = item.split_once(char::is_whitespace)?;
    let (name, mut limits) = (FspId::parse(name)?, of_all);
    for word in rates.split_whitespace() {
        let (rate, value) = word.split_once('=')?;
        let value = value.parse().ok()?;
        match rate {
            "lookups" => limits.lookups = value,
            "misses" => limits.misses = value,
            "registrations" => limits.registrations = value,
            "signature_faults" => limits.signature_faults = value,
            _ => return None,
        }
    }
    Some((name.as_str().to_ascii_lowercase(), limits))
}

// Roles of an identity provider's groups.

/// Parses `group=role, other=role`; a group may have several roles.
///
/// # Errors
/// Names the first invalid item.
pub fn roles_of_groups(text: &str) -> Result<BTreeMap<String, Vec<Role>>, String> {
    let mut roles = BTreeMap::<String, Vec<Role>>::new();
    for item in listed(text) {
        let pair = item.rsplit_once('=').map(|(group, role)| (group.trim(), role.trim()));
        let (group, role) = pair
            .filter(|(group, _)| !group.is_empty())
            .ok_or_else(|| format!("{item:?}: write GROUP=ROLE, separated by commas"))?;
        let role = Role::parse(role).ok_or_else(|| {
            let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
            format!("{role:?} is not a role; the roles are {}", names.join(", "))
        })?;
        roles.entry(group.to_owned()).or_default().push(role);
    }
    Ok(roles)
}

/// The items of a comma-separated list.
pub fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

// Signature modes of participants.

/// Handling of a message without a valid signature of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureMode {
    /// Signatures are not verified.
    Off,
    /// The message is accepted and counted, so that an operator sees which participants are not ready.
    Warn,
    /// The message is rejected with 3105.
    Enforce,
}

impl SignatureMode {
    /// Its name in settings and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Enforce].into_iter().find(|mode| mode.name() == name)
    }
}

/// Default of `hub.transfer_validity_max_s` with the production profile.
const PRODUCTION_VALIDITY_S: u64 = 24 * 60 * 60;

impl Settings {
    /// The longest time until a transfer's expiration, in seconds; `None` for no limit.
    pub fn transfer_validity_max_s(&self) -> Option<u64> {
        match self.hub.transfer_validity_max_s {
            0 if self.security.profile == "production" => Some(PRODUCTION_VALIDITY_S),
            0 => None,
            limit => Some(limit),
        }
    }
}

/// When the hub accepts a message although its signature does not cover everything that it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// Never.
    Refuse,
    /// If a certificate, a token or a gateway proves the sender.
    Proven,
    /// Always.
    Accept,
}

impl Unprotected {
    /// Parses the value of a setting. Any other text means `refuse`.
    pub fn read(name: &str) -> Self {
        match name {
            "proven" => Self::Proven,
            "accept" => Self::Accept,
            _ => Self::Refuse,
        }
    }

    /// Whether it is accepted.
    pub const fn accepts(self, is_sender_proven: bool) -> bool {
        match self {
            Self::Refuse => false,
            Self::Proven => is_sender_proven,
            Self::Accept => true,
        }
    }
}

/// The signature mode of each participant.
#[derive(Clone, Debug)]
pub struct SignatureModes {
    mode: SignatureMode,
    /// By the participant's name in lower case.
    exceptions: HashMap<String, SignatureMode>,
}

impl SignatureModes {
    /// Parses the global mode and exceptions such as `greenbank=warn, bluebank=off`.
    ///
    /// # Errors
    /// Names the first invalid exception.
    pub fn read(mode: &str, exceptions: &str) -> Result<Self, String> {
        let mut modes = Self {
            mode: SignatureMode::parse(mode).unwrap_or(SignatureMode::Off),
            exceptions: HashMap::new(),
        };
        for item in exceptions.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let read = item.split_once('=').and_then(|(name, mode)| {
                let name = upesi_types::FspId::parse(name.trim())?;
                Some((name.as_str().to_ascii_lowercase(), SignatureMode::parse(mode.trim())?))
            });
            let Some((name, mode)) = read else {
                return Err(format!(
                    "{item:?}: give a participant and off, warn or enforce, such as greenbank=warn"
                ));
            };
            if modes.exceptions.insert(name, mode).is_some() {
                return Err(format!("{item:?}: this participant is listed twice"));
            }
        }
        Ok(modes)
    }

    /// The mode of a participant.
    pub fn of(&self, name: &str) -> SignatureMode {
        if self.exceptions.is_empty() {
            return self.mode;
        }
        self.exceptions.get(&name.to_ascii_lowercase()).copied().unwrap_or(self.mode)
    }

    /// Whether the signatures of any participant are verified.
    pub fn verifies_any(&self) -> bool {
        self.mode != SignatureMode::Off || self.exceptions.values().any(|mode| *mode != SignatureMode::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_as_for_all() {
        let of_all = RateLimits { lookups: 1, misses: 2, registrations: 3, signature_faults: 4 };
        let read = rate_exceptions(" GreenBank lookups=50 misses=0 ; blue registrations=7;", of_all).unwrap();
        assert_eq!(read["greenbank"], RateLimits { lookups: 50, misses: 0, ..of_all });
        assert_eq!(read["blue"], RateLimits { registrations: 7, ..of_all });
        assert_eq!(read.len(), 2);
        for wrong in
            ["greenbank lookups", "greenbank lookups=x", "greenbank lookups=-1", "a b=1", "greenbank"]
        {
            assert!(rate_exceptions(wrong, of_all).is_err(), "{wrong}");
        }
    }

    #[test]
    fn groups_have_roles() {
        let roles = roles_of_groups(" a=treasury, b c = viewer,a=viewer, x=y=auditor ").unwrap();
        let told: Vec<_> = roles.iter().map(|(group, roles)| format!("{group}: {roles:?}")).collect();
        assert_eq!(told, ["a: [Treasury, Viewer]", "b c: [Viewer]", "x=y: [Auditor]"]);
        assert_eq!(roles_of_groups("").unwrap(), BTreeMap::new());
        for (text, problem) in
            [("a", "write GROUP=ROLE"), ("=viewer", "write GROUP=ROLE"), ("a=king", "is not a role")]
        {
            assert!(roles_of_groups(text).unwrap_err().contains(problem), "{text}");
        }
    }

    #[test]
    fn exceptions_are_by_participant_however_its_name_is_written() {
        let modes = SignatureModes::read("enforce", "greenbank=warn, BlueBank = off,").unwrap();
        let found = ["GREENBANK", "bluebank", "redbank"].map(|name| modes.of(name));
        assert_eq!(found, [SignatureMode::Warn, SignatureMode::Off, SignatureMode::Enforce]);
        assert!(modes.verifies_any());
        assert!(SignatureModes::read("off", "greenbank=warn").unwrap().verifies_any());
        assert!(!SignatureModes::read("off", "greenbank=off").unwrap().verifies_any());
        assert!(!SignatureModes::read("off", "").unwrap().verifies_any());
    }

    #[test]
    fn what_is_no_exception_is_named() {
        for wrong in ["greenbank", "greenbank=on", "=warn", "greenbank=warn=off"] {
            let refused = SignatureModes::read("off", &format!("redbank=off, {wrong}")).unwrap_err();
            assert_eq!(
                refused,
                format!("{wrong:?}: give a participant and off, warn or enforce, such as greenbank=warn")
            );
        }
        let twice = SignatureModes::read("off", "greenbank=off,GREENBANK=warn").unwrap_err();
        assert_eq!(twice, "\"GREENBANK=warn\": this participant is listed twice");
    }
}
