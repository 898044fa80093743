//! Users and programs that an OpenID Connect provider authenticates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use upesi_ledger::{OperatorRole, OperatorRoles};
use upesi_oidc::{Claims, LEEWAY_S, Provider, ProviderConfig};
use upesi_types::{FspId, Timestamp};

use super::CannotApprove;
use super::users::{FACTOR_MS, ProviderLogin};
use crate::error_name::ErrorName;

/// A provider, and the meaning of its tokens' claims.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// Prefix of its users' names in the audit trail, such as `staff`.
    pub label: &'static str,
    /// The provider, and the audience of its tokens.
    pub provider: ProviderConfig,
    pub name_claim: String,
    /// The claim that lists groups; dots name a claim inside another.
    pub groups_claim: String,
    /// The roles of each group.
    pub roles: BTreeMap<String, Vec<OperatorRole>>,
    /// The claim with the name of the operator's DFSP; without it, the operator belongs to the hub.
    pub participant_claim: Option<String>,
    /// Maximum age in seconds of the login (`auth_time`) of an approver; without it any age.
    pub approval_age_s: Option<i64>,
    /// Login methods (`amr`) of an approver, such as `mfa`; if empty, any method.
    pub approval_methods: Vec<String>,
}

/// A provider whose tokens the admin port accepts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer {
    config: Arc<IssuerConfig>,
    provider: Provider,
}

impl Issuer {
    /// Creates a provider. Its keys must be kept current by a separate task.
    pub fn new(config: IssuerConfig) -> Self {
        let provider = Provider::new(config.provider.clone());
        Self { config: Arc::new(config), provider }
    }

    /// Prefix of its users' names.
    pub fn label(&self) -> &'static str {
        self.config.label
    }

    /// Whether its users belong to DFSPs.
    pub(crate) fn is_of_dfsps(&self) -> bool {
        self.config.participant_claim.is_some()
    }

    /// The provider's keys and tokens.
    pub const fn provider(&self) -> &Provider {
        &self.provider
    }

    /// The identity that a token asserts. `approvers_are_people`: whether only users may approve.
    pub(crate) async fn verify(
        &self,
        text: &str,
        approvers_are_people: bool,
        now: Timestamp,
    ) -> Result<TokenIdentity, Fault> {
        let claims = self.provider.verify(text, now).await?;
        let identity = self.identity_of(&claims)?;
        let now_s = now.as_ms().div_euclid(1_000);
        let age_s = self.config.approval_age_s;
        let cannot_approve = cannot_approve(&proof_of(&claims), &self.config, age_s, now_s);
        let is_program = approvers_are_people && !is_of_person(&claims, now_s);
        Ok(TokenIdentity {
            cannot_approve: if is_program { Some(NOT_A_USER) } else { cannot_approve },
            ..identity
        })
    }

    /// The identity that verified claims assert.
    pub(crate) fn identity_of(&self, claims: &Claims) -> Result<TokenIdentity, Fault> {
        judge_claims(claims, &self.config)
    }

    /// The login that verified claims prove, for a session.
    pub(crate) fn login_of(&self, claims: &Claims, participant: Option<FspId>) -> ProviderLogin {
        let LoginProof { at, methods } = proof_of(claims);
        let methods = methods.into_iter().map(Box::from).collect();
        ProviderLogin { provider: self.config.label, participant, authenticated_at_s: at, methods }
    }

    /// The reason why the user of a session may not approve now. Also without a setting, the login must be as recent
    /// as a code of the hub's own users.
    pub(crate) fn cannot_approve_in_session(
        &self,
        login: &ProviderLogin,
        now: Timestamp,
    ) -> Option<CannotApprove> {
        let methods = login.methods.iter().map(|method| &**method).collect();
        let proof = LoginProof { at: login.authenticated_at_s, methods };
        let age_s = self.config.approval_age_s.unwrap_or(FACTOR_MS / 1_000);
        cannot_approve(&proof, &self.config, Some(age_s), now.as_ms().div_euclid(1_000))
    }
}

/// The error for a token that does not prove the login of a user.
const NOT_A_USER: CannotApprove = CannotApprove {
    name: ErrorName::ApproverNotUser,
    text: "Only users may approve: the token has no auth_time or amr of a login",
};

// The claims of a token that the admin port uses.

/// Maximum length of an operator's and of a DFSP's name, in bytes.
const NAME_BYTES_MAX: usize = 120;

/// Reason why a token is rejected. Only the audit trail shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Token(#[from] upesi_oidc::TokenFault),
    #[error("the token does not name an operator")]
    Name,
    #[error("its groups map to the roles {0} and {1}, which cannot be combined")]
    Roles(&'static str, &'static str),
    #[error(
        "its groups map to roles of DFSPs, but this provider is for the scheme's operators, or the reverse"
    )]
    Scope,
    #[error("the token does not name a DFSP")]
    Participant,
}

/// The identity that a token asserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenIdentity {
    /// The prefix of the provider and the name.
    pub(crate) name: String,
    pub(crate) roles: OperatorRoles,
    pub(crate) participant: Option<FspId>,
    /// The reason why it may not approve now, whatever its roles.
    pub(crate) cannot_approve: Option<CannotApprove>,
}

/// The identity that verified claims assert. Whether it may approve is not decided.
fn judge_claims(claims: &Claims, config: &IssuerConfig) -> Result<TokenIdentity, Fault> {
    let name = claims.text(&config.name_claim).ok_or(Fault::Name)?;
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Fault::Name);
    }
    let roles = roles_of(claims, config)?;
    let participant = match &config.participant_claim {
        None => None,
        Some(claim) => Some(claims.text(claim).and_then(FspId::parse).ok_or(Fault::Participant)?),
    };
    Ok(TokenIdentity { name: format!("{}:{name}", config.label), roles, participant, cannot_approve: None })
}

/// When and how a user has logged in at the provider.
struct LoginProof<'a> {
    /// Seconds since 1970.
    at: Option<i64>,
    methods: Vec<&'a str>,
}

fn proof_of(claims: &Claims) -> LoginProof<'_> {
    let at = claims.find("auth_time").and_then(serde_json::Value::as_i64);
    LoginProof { at, methods: claims.texts("amr") }
}

/// Whether the claims are of a user who has logged in. The token of a program has no login time (`auth_time`) and no
/// method (`amr`).
fn is_of_person(claims: &Claims, now_s: i64) -> bool {
    let LoginProof { at, methods } = proof_of(claims);
    at.is_some_and(|at| is_past(at, now_s)) && !methods.iter().all(|method| method.is_empty())
}

const fn is_past(at: i64, now_s: i64) -> bool {
    at <= now_s.saturating_add(LEEWAY_S)
}

/// Approvals may require a recent login, and a second factor.
fn cannot_approve(
    proof: &LoginProof<'_>,
    config: &IssuerConfig,
    age_s: Option<i64>,
    now_s: i64,
) -> Option<CannotApprove> {
    if let Some(age_s) = age_s {
        let is_recent =
            |at: i64| is_past(at, now_s) && at >= now_s.saturating_sub(age_s.saturating_add(LEEWAY_S));
        if !proof.at.is_some_and(is_recent) {
            return Some(CannotApprove {
                name: ErrorName::ApproverLoginOld,
                text: "Log in again: approving needs a recent login",
            });
        }
    }
    let is_listed = |method: &String| proof.methods.contains(&&**method);
    let is_fine = config.approval_methods.is_empty() || config.approval_methods.iter().any(is_listed);
    (!is_fine).then_some(CannotApprove {
        name: ErrorName::ApproverFactorMissing,
        text: "Log in by another method: approving needs a second factor",
    })
}

/// The roles of the groups. Groups change at the provider, so roles that exclude each other are checked here again.
fn roles_of(claims: &Claims, config: &IssuerConfig) -> Result<OperatorRoles, Fault> {
    let groups: BTreeSet<_> = claims.texts(&config.groups_claim).into_iter().collect();
    let given = groups.iter().filter_map(|group| config.roles.get(*group)).flatten().copied();
    let roles: OperatorRoles = given.collect();
    if let Some((one, other)) = roles.excluded() {
        return Err(Fault::Roles(one.name(), other.name()));
    }
    let is_of_dfsps = config.participant_claim.is_some();
    let fits = |role: OperatorRole| role.is_of_dfsp() == is_of_dfsps;
    if roles.iter().all(fits) { Ok(roles) } else { Err(Fault::Scope) }
}
