//! Login of users in a browser by an identity provider.
//!
//! 1. [`begin_login`] seals the random values of the login in a cookie, and leads the browser to the provider.
//! 2. The provider leads the browser back, with a code.
//! 3. [`finish_login`] checks that this browser began the login, exchanges the code for an ID token, and opens a
//!    session with the roles that the token's groups map to.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use upesi_engine::Clock as _;
use upesi_ledger::command::OperatorAction;
use upesi_ledger::{AuditActor, Change};
use upesi_oidc::{Claims, LEEWAY_S, LoginFault, LoginSecrets};

use crate::access::{
    Access, BegunLogin, CredentialKind, FLOW_MS, Fault, Issuer, RenewedSession, Session, SessionOrigin,
    Token, TokenIdentity, address_of, cookie, id_of,
};
use crate::call::{Call, Parameters};
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::sessions::{OpenedSession, busy, enter, people, too_often};

/// Action in the audit trail.
const ACTION: &str = "session.open";
/// Way of authentication in the audit trail.
const KNOWN_BY: &str = "oidc";
/// Maximum length of a code, in bytes.
const CODE_BYTES_MAX: usize = 2_048;

/// A provider that logs users in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginProvider {
    /// Its name in paths, and the prefix of its users' names.
    pub label: &'static str,
    /// The host of its issuer identifier.
    pub host: String,
    /// Whether its users belong to DFSPs.
    pub is_of_dfsps: bool,
}

/// The providers that log users in.
pub fn login_providers(access: &Access) -> Vec<LoginProvider> {
    let issuers = access.issuers().filter(|issuer| issuer.provider().login_client().is_some());
    issuers
        .map(|issuer| LoginProvider {
            label: issuer.label(),
            host: host_of(issuer.provider().issuer()),
            is_of_dfsps: issuer.is_of_dfsps(),
        })
        .collect()
}

fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// The answer that leads a browser to the provider.
#[derive(Clone, Debug)]
pub struct LoginBegun {
    /// The URL at the provider.
    pub location: HeaderValue,
    /// The header `Set-Cookie` that binds the login to the browser.
    pub cookie: HeaderValue,
}

/// Begins a login by the provider with this label. `next` is the page that the user wants.
///
/// # Errors
/// There is no such provider, or its configuration cannot be fetched.
pub async fn begin_login(call: &Call, label: &str, next: &str) -> Result<LoginBegun, ApiError> {
    begin(call, issuer(call, label)?, next, None).await
}

/// Begins another login of a user whom a provider has logged in. The provider must authenticate the user again. The
/// session that it opens replaces the caller's.
///
/// # Errors
/// The caller has no session of a provider, or the provider's configuration cannot be fetched.
pub async fn begin_login_again(call: &Call, next: &str) -> Result<LoginBegun, ApiError> {
    let detail = "No identity provider has logged the caller in";
    let missing = || ApiError::new(ErrorName::SessionMissing, detail);
    let caller = &call.caller;
    let (session, label) = caller.session.as_ref().zip(caller.login_provider()).ok_or_else(missing)?;
    let renews = RenewedSession { id: session.id.to_string(), operator: session.operator.to_string() };
    begin(call, issuer(call, label)?, next, Some(renews)).await
}

fn issuer<'a>(call: &'a Call, label: &str) -> Result<&'a Issuer, ApiError> {
    let issuer = call.access.issuer(label).filter(|issuer| issuer.provider().login_client().is_some());
    issuer.ok_or_else(ApiError::unknown_path)
}

async fn begin(
    call: &Call,
    issuer: &Issuer,
    next: &str,
    renews: Option<RenewedSession>,
) -> Result<LoginBegun, ApiError> {
    let logins = call.access.provider_logins();
    let address = address_of(call.caller.address.as_deref());
    // The first login may have to fetch the provider's configuration.
    let must_fetch = !issuer.provider().has_endpoints();
    let _turn = if must_fetch { Some(logins.exchange(address).ok_or_else(busy)?) } else { None };
    let secrets = LoginSecrets::random().ok_or_else(ApiError::no_random_bits)?;
    let is_again = renews.is_some();
    let url = issuer.provider().login_url(&secrets, is_again).await;
    let url = url.map_err(|_| unavailable())?;
    let begun = BegunLogin {
        provider: issuer.label().to_owned(),
        secrets,
        next: next.to_owned(),
        begun_at_ms: call.engine.clock().now().as_ms(),
        renews,
    };
    let cookie = logins.seal(&begun).and_then(|sealed| cookie::set_login(&sealed, FLOW_MS / 1_000));
    let cookie = cookie.ok_or_else(|| ApiError::internal("The login cannot be stored in a cookie"))?;
    let location = HeaderValue::try_from(url).map_err(|_| unavailable())?;
    Ok(LoginBegun { location, cookie })
}

fn unavailable() -> ApiError {
    ApiError::new(ErrorName::ProviderUnavailable, "The identity provider does not answer")
}

fn ended() -> ApiError {
    let detail = "This login was not begun in this browser, or took longer than 10 minutes, or was used";
    ApiError::new(ErrorName::ProviderLoginEnded, detail)
}

fn rejected(detail: &str) -> ApiError {
    ApiError { status: StatusCode::UNAUTHORIZED, ..ApiError::new(ErrorName::ProviderLoginRejected, detail) }
}

fn no_role() -> ApiError {
    let detail = "Your account at the identity provider has no role in this hub";
    ApiError { status: StatusCode::FORBIDDEN, ..ApiError::new(ErrorName::ProviderRoleMissing, detail) }
}

/// A login that has opened a session.
#[derive(Debug)]
pub struct FinishedLogin {
    pub session: OpenedSession,
    /// The page that the user wanted.
    pub next: String,
}

/// A login that has opened no session.
#[derive(Clone, Debug)]
pub struct FailedLogin {
    pub error: ApiError,
    /// The page that the user wanted, if this browser has begun a login.
    pub next: Option<String>,
}

/// The header `Set-Cookie` that removes the cookie of a login.
pub const LOGIN_COOKIE_REMOVED: HeaderValue = cookie::LOGIN_REMOVED;

/// The reason of a failed login for the audit trail, and the error for the user.
struct Failure {
    why: String,
    error: ApiError,
}

impl Failure {
    fn new(why: impl Into<String>, error: ApiError) -> Self {
        Self { why: why.into(), error }
    }
}

/// Finishes a login with the answer of the provider with this label, and opens a new session.
///
/// # Errors
/// The answer is rejected, the provider does not answer, or the hub cannot record the login.
pub async fn finish_login(
    call: &Call,
    label: &str,
    headers: &HeaderMap,
    answer: &Parameters,
) -> Result<FinishedLogin, FailedLogin> {
    let of = |error| FailedLogin { error, next: None };
    let issuer = issuer(call, label).map_err(of)?;
    let logins = call.access.provider_logins();
    let Some(begun) = cookie::login(headers).and_then(|sealed| logins.open(sealed)) else {
        failed(call, label, None, "this browser has begun no login").await;
        return Err(of(ended()));
    };
    match redeem(call, issuer, &begun, answer).await {
        Ok(session) => Ok(FinishedLogin { session, next: begun.next }),
        Err(error) => Err(FailedLogin { error, next: Some(begun.next) }),
    }
}

/// Counts the attempt like one with a password, and opens the session.
async fn redeem(
    call: &Call,
    issuer: &Issuer,
    begun: &BegunLogin,
    answer: &Parameters,
) -> Result<OpenedSession, ApiError> {
    let (label, people) = (issuer.label(), people(call)?);
    let address = address_of(call.caller.address.as_deref());
    let now = call.engine.clock().now();
    // The user is not known yet. The name is different for each address, so that no client delays others.
    let name = format!("{label} from {address}");
    if let Err(wait_s) = people.begin(&name, address, now) {
        failed(call, label, None, "too many attempts").await;
        return Err(too_often(wait_s));
    }
    let claims = match verified(call, issuer, begun, answer, address).await {
        Ok(claims) => claims,
        Err(Failure { why, error }) => {
            failed(call, label, None, &why).await;
            return Err(error);
        }
    };
    let identity = match identity(call, issuer, begun, &claims).await? {
        Ok(identity) => identity,
        Err((operator, Failure { why, error })) => {
            failed(call, label, operator.as_deref(), &why).await;
            return Err(error);
        }
    };
    let opened = open_session(call, issuer, begun, &claims, identity).await?;
    call.access.provider_logins().complete(begun);
    people.succeeded(&name, address);
    Ok(opened)
}

/// The claims of the provider's ID token, if the answer belongs to this login.
async fn verified(
    call: &Call,
    issuer: &Issuer,
    begun: &BegunLogin,
    answer: &Parameters,
    address: IpAddr,
) -> Result<Claims, Failure> {
    let logins = call.access.provider_logins();
    if begun.provider != issuer.label() {
        return Err(Failure::new("the login was begun with another provider", ended()));
    }
    if !begun.is_open(call.engine.clock().now()) {
        return Err(Failure::new("the login took too long", ended()));
    }
    if !answer.get("state").is_some_and(|state| begun.has_state(state)) {
        return Err(Failure::new("the answer has the state of another login", ended()));
    }
    if logins.is_completed(begun) {
        return Err(Failure::new("the login was completed before", ended()));
    }
    if !issuer.provider().may_have_answered(answer.get("iss")) {
        let error = rejected("The answer is of another identity provider");
        return Err(Failure::new("the answer does not name the provider as its issuer", error));
    }
    if let Some(code) = answer.get("error") {
        let why = format!("the provider answered {}", error_code(code));
        return Err(Failure::new(why, rejected("The identity provider did not log you in")));
    }
    let code = answer.get("code").filter(|code| code.len() <= CODE_BYTES_MAX);
    let not_accepted = || rejected("The hub did not accept the answer of the identity provider");
    let code = code.ok_or_else(|| Failure::new("the answer has no code", not_accepted()))?;
    let turn =
        logins.exchange(address).ok_or_else(|| Failure::new("other logins are in progress", busy()))?;
    let claims = issuer.provider().redeem(code, &begun.secrets, call.engine.clock().now()).await;
    drop(turn);
    claims.map_err(|fault| {
        let error = match &fault {
            LoginFault::NoEndpoints | LoginFault::Unavailable(_) => unavailable(),
            LoginFault::Rejected { .. } | LoginFault::NoToken | LoginFault::Token(_) => not_accepted(),
        };
        Failure::new(fault.to_string(), error)
    })
}

/// An error code of the provider, which anyone can write into a URL.
fn error_code(text: &str) -> String {
    text.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(40).collect()
}

/// The user of the claims, or the user's name and the reason why there is no session for the user.
async fn identity(
    call: &Call,
    issuer: &Issuer,
    begun: &BegunLogin,
    claims: &Claims,
) -> Result<Result<TokenIdentity, (Option<String>, Failure)>, ApiError> {
    let not_accepted = || rejected("The hub did not accept the answer of the identity provider");
    let identity = match issuer.identity_of(claims) {
        Ok(identity) => identity,
        Err(fault) => {
            let error = match fault {
                Fault::Roles(..) | Fault::Scope | Fault::Participant => no_role(),
                Fault::Token(_) | Fault::Name => not_accepted(),
            };
            return Ok(Err((None, Failure::new(fault.to_string(), error))));
        }
    };
    let failure = |why: &str, error| Ok(Err((Some(identity.name.clone()), Failure::new(why, error))));
    if let Some(dfsp) = identity.participant
        && !call.ask(move |ledger| ledger.participant_named(&dfsp).is_some()).await?
    {
        return failure("the token names a DFSP that does not exist", no_role());
    }
    if identity.roles.iter().next().is_none() {
        return failure("no group of the user maps to a role", no_role());
    }
    if let Some(renewed) = &begun.renews {
        if renewed.operator != identity.name {
            return failure("another user logged in again", rejected("Another user has logged in"));
        }
        let begun_at_s = begun.begun_at_ms.div_euclid(1_000);
        let at = issuer.login_of(claims, None).authenticated_at_s;
        if at.is_none_or(|at| at < begun_at_s.saturating_sub(LEEWAY_S)) {
            let error = rejected("The identity provider did not ask you to log in again");
            return failure("the token does not prove a new login (auth_time)", error);
        }
    }
    Ok(Ok(identity))
}

/// Opens a session with a new token, and records it. The session that it renews ends.
async fn open_session(
    call: &Call,
    issuer: &Issuer,
    begun: &BegunLogin,
    claims: &Claims,
    identity: TokenIdentity,
) -> Result<OpenedSession, ApiError> {
    let people = people(call)?;
    let now = call.engine.clock().now();
    let token = Token::session().ok_or_else(ApiError::no_random_bits)?;
    let login = issuer.login_of(claims, identity.participant);
    let factor_at = login.authenticated_at_s.and_then(|at_s| at_s.checked_mul(1_000));
    let factor_at = factor_at.map_or(now, |at_ms| upesi_types::Timestamp::from_ms(at_ms).min(now));
    let session = Session {
        id: id_of(&token),
        operator: identity.name.into(),
        origin: SessionOrigin::Provider(login),
        roles: identity.roles,
        address: address_of(call.caller.address.as_deref()),
        opened_at: now,
        used_at: now,
        factor_at,
    };
    let before = begun.renews.as_ref().map_or_else(|| "none".to_owned(), |old| format!("session {}", old.id));
    let object = format!("session {} of operator {}", session.id, session.operator);
    let by = actor(call, Some(&session.operator));
    enter(call, by, OperatorAction::External(Change::new(object, before, "open")))
        .await?
        .map_err(ApiError::from)?;
    people.open_session(&token, session.clone());
    if let Some(old) = &begun.renews {
        people.end_sessions(|known| *known.id == *old.id && known.operator == session.operator);
    }
    Ok(OpenedSession::new(token, session))
}

/// The attribution of a login. An unknown user is `nobody`.
fn actor(call: &Call, operator: Option<&str>) -> AuditActor {
    let (operator, known_by) = operator.map_or(("nobody", "nothing"), |operator| (operator, KNOWN_BY));
    AuditActor {
        operator: operator.into(),
        known_by: known_by.into(),
        ..call.caller.attribution_of(ACTION, None)
    }
}

/// Counts the failure, and records it in the audit trail.
async fn failed(call: &Call, label: &str, operator: Option<&str>, why: &str) {
    call.access.count_rejected(CredentialKind::Provider);
    let object = match operator {
        Some(operator) => format!("login of operator {operator}"),
        None => format!("login by the identity provider {label}"),
    };
    let by = actor(call, operator);
    call.access.record_refusal(&call.engine, false, by, object, why).await;
}
