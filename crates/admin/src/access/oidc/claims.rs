//! What of a token's claims counts on the admin port.

use std::collections::BTreeSet;

use upesi_ledger::{Role, Roles};
use upesi_oidc::{Claims, LEEWAY_S};
use upesi_types::{FspId, Timestamp};

use super::IssuerConfig;

/// Longest name of an operator, and of a DFSP.
const NAME_BYTES_MAX: usize = 120;

/// Why a token is not taken. Only the audit trail says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Token(#[from] upesi_oidc::Fault),
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

/// Whom claims that were verified vouch for at a time.
pub(super) fn judge(claims: &Claims, config: &IssuerConfig, now: Timestamp) -> Result<Vouched, Fault> {
    let name = claims.text(&config.name_claim).ok_or(Fault::Name)?;
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Fault::Name);
    }
    let roles = roles_of(claims, config)?;
    let participant = match &config.participant_claim {
        None => None,
        Some(claim) => Some(claims.text(claim).and_then(FspId::parse).ok_or(Fault::Participant)?),
    };
    let cannot_approve = cannot_approve(claims, config, now.as_ms().div_euclid(1_000));
    Ok(Vouched { name: format!("{}:{name}", config.label), roles, participant, cannot_approve })
}

/// An approval may need a recent log-in, and one by a second factor.
fn cannot_approve(claims: &Claims, config: &IssuerConfig, now_s: i64) -> Option<&'static str> {
    if let Some(age_s) = config.approval_age_s {
        let at = claims.find("auth_time").and_then(serde_json::Value::as_i64);
        let is_recent = |at: i64| at >= now_s.saturating_sub(age_s.saturating_add(LEEWAY_S));
        if !at.is_some_and(is_recent) {
            return Some("Log in again: approving needs a recent log-in");
        }
    }
    let methods = claims.texts("amr");
    let is_listed = |method: &String| methods.contains(&&**method);
    let is_fine = config.approval_methods.is_empty() || config.approval_methods.iter().any(is_listed);
    (!is_fine).then_some("Log in by another method: approving needs a second factor")
}

/// What the groups give. Groups change outside, so what excludes each other is looked at again here.
fn roles_of(claims: &Claims, config: &IssuerConfig) -> Result<Roles, Fault> {
    let groups: BTreeSet<_> = claims.texts(&config.groups_claim).into_iter().collect();
    let given = groups.iter().filter_map(|group| config.roles.get(*group)).flatten().copied();
    let roles: Roles = given.collect();
    if let Some((one, other)) = roles.excluded() {
        return Err(Fault::Roles(one.name(), other.name()));
    }
    let is_of_dfsps = config.participant_claim.is_some();
    let fits = |role: Role| role.is_of_dfsp() == is_of_dfsps;
    if roles.iter().all(fits) { Ok(roles) } else { Err(Fault::Scope) }
}
