//! What a token says, and what of it counts here.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use upesi_ledger::{Role, Roles};
use upesi_types::{FspId, Timestamp};

use super::IssuerConfig;

/// How far the provider's clock may be from the hub's.
const LEEWAY_S: i64 = 60;
/// Longest time from now until a token ends: it cannot be taken back.
const LIFE_S_MAX: i64 = 24 * 3_600;
/// Longest name of an operator, and of a DFSP.
const NAME_BYTES_MAX: usize = 120;
/// Groups of a token that are looked at.
const GROUPS_MAX: usize = 500;

/// Why a token is not taken. Only the audit trail says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the token is malformed")]
    Malformed,
    #[error("the token's algorithm is not one of its key, or of none that is taken")]
    Algorithm,
    #[error("the token names no key of the provider")]
    Key,
    #[error("the token's signature does not match")]
    Signature,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token was given to an application that is not in the list")]
    Client,
    #[error("the token has no end")]
    NoEnd,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not good yet, or was made in the future")]
    Early,
    #[error("the token is good for more than a day")]
    Long,
    #[error("the token has no name of an operator")]
    Name,
    #[error("its groups give the roles {0} and {1}, which no operator has together")]
    Roles(&'static str, &'static str),
    #[error("its groups give roles of DFSPs to others, or other roles to a DFSP's people")]
    Scope,
    #[error("the token has no name of a DFSP")]
    Participant,
}

/// Whom a token vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vouched {
    /// The provider and the name.
    pub(crate) name: String,
    pub(crate) roles: Roles,
    pub(crate) participant: Option<FspId>,
    /// Why it may not approve now, whatever its roles.
    pub(crate) cannot_approve: Option<&'static str>,
}

/// The claims of a token.
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    pub(super) fn read(json: &[u8]) -> Result<Self, Fault> {
        serde_json::from_slice(json).map(Self).map_err(|_| Fault::Malformed)
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.0.get("iss")?.as_str()
    }

    /// A claim; dots lead into others.
    fn find(&self, path: &str) -> Option<&Value> {
        if let Some(found) = self.0.get(path) {
            return Some(found);
        }
        let mut parts = path.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_object()?.get(part))
    }

    /// Texts of a list, or of a text with blanks between them.
    fn texts(&self, path: &str) -> Vec<&str> {
        match self.find(path) {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).take(GROUPS_MAX).collect(),
            _ => Vec::new(),
        }
    }

    /// Whom they vouch for at a time.
    pub(super) fn judge(&self, config: &IssuerConfig, now: Timestamp) -> Result<Vouched, Fault> {
        if self.issuer() != Some(&*config.issuer) {
            return Err(Fault::Issuer);
        }
        self.check_audience(config)?;
        self.check_time(now.as_ms().div_euclid(1_000))?;
        let name = self.find(&config.name_claim).and_then(Value::as_str).ok_or(Fault::Name)?;
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Name);
        }
        let roles = self.roles(config)?;
        let participant = match &config.participant_claim {
            None => None,
            Some(claim) => {
                let name = self.find(claim).and_then(Value::as_str).and_then(FspId::parse);
                Some(name.ok_or(Fault::Participant)?)
            }
        };
        let cannot_approve = self.cannot_approve(config, now.as_ms().div_euclid(1_000));
        Ok(Vouched { name: format!("{}:{name}", config.label), roles, participant, cannot_approve })
    }

    /// An approval may need a recent log-in, and one by a second factor.
    fn cannot_approve(&self, config: &IssuerConfig, now_s: i64) -> Option<&'static str> {
        if let Some(age_s) = config.approval_age_s {
            let at = self.0.get("auth_time").and_then(Value::as_i64);
            let is_recent = |at: i64| at >= now_s.saturating_sub(age_s.saturating_add(LEEWAY_S));
            if !at.is_some_and(is_recent) {
                return Some("Log in again: approving needs a recent log-in");
            }
        }
        let methods = self.texts("amr");
        let is_listed = |method: &String| methods.contains(&&**method);
        let is_fine = config.approval_methods.is_empty() || config.approval_methods.iter().any(is_listed);
        (!is_fine).then_some("Log in by another method: approving needs a second factor")
    }

    fn check_audience(&self, config: &IssuerConfig) -> Result<(), Fault> {
        let audiences: Vec<_> = match self.0.get("aud") {
            Some(Value::String(one)) => vec![&**one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !audiences.contains(&&*config.audience) {
            return Err(Fault::Audience);
        }
        let client = self.0.get("azp").or_else(|| self.0.get("client_id")).and_then(Value::as_str);
        let is_listed = |client: &str| config.clients.iter().any(|known| known == client);
        match config.clients.is_empty() || client.is_some_and(is_listed) {
            true => Ok(()),
            false => Err(Fault::Client),
        }
    }

    fn check_time(&self, now_s: i64) -> Result<(), Fault> {
        let whole =
            |name: &str| self.0.get(name).map(|value| value.as_i64().ok_or(Fault::Malformed)).transpose();
        let end = whole("exp")?.ok_or(Fault::NoEnd)?;
        if end <= now_s.saturating_sub(LEEWAY_S) {
            return Err(Fault::Expired);
        }
        if end.saturating_sub(now_s) > LIFE_S_MAX + LEEWAY_S {
            return Err(Fault::Long);
        }
        let starts = [whole("nbf")?, whole("iat")?];
        match starts.into_iter().flatten().all(|start| start <= now_s.saturating_add(LEEWAY_S)) {
            true => Ok(()),
            false => Err(Fault::Early),
        }
    }

    /// What the groups give. Groups change outside, so what excludes each other is looked at again here.
    fn roles(&self, config: &IssuerConfig) -> Result<Roles, Fault> {
        let groups: BTreeSet<_> = self.texts(&config.groups_claim).into_iter().collect();
        let given = groups.iter().filter_map(|group| config.roles.get(*group)).flatten().copied();
        let roles: Roles = given.collect();
        if let Some((one, other)) = roles.excluded() {
            return Err(Fault::Roles(one.name(), other.name()));
        }
        let is_of_dfsps = config.participant_claim.is_some();
        let fits = |role: Role| role.is_of_dfsp() == is_of_dfsps;
        if roles.iter().all(fits) { Ok(roles) } else { Err(Fault::Scope) }
    }
}
