//! Authenticates a caller by its token: one of the hub, or one of a provider.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use upesi_engine::{Availability, Clock as _, EngineHandle, Payload};
use upesi_http::{Connection, Pace, PaceLimits};
use upesi_ledger::command::{AuditedCommand, Authority, OperatorAction};
use upesi_ledger::{AuditActor, Change, Command, OperatorRole, OperatorRoles};
use upesi_oidc::Provider;
use upesi_types::Timestamp;
use upesi_types::text::has_hidden;

use super::caller::{Caller, CannotApprove, Rights, SharedCaller, unauthenticated};
use super::oidc::{Issuer, TokenIdentity};
use super::provider_logins::ProviderLogins;
use super::refusals::{Budgeted, Refusals};
use super::rejected::{CredentialKind, RejectionCounts};
use super::users::{ProviderLogin, Session, SessionOrigin, UserRegistry};
use super::{Token, bootstrap, break_glass, cookie};
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::shown::shown;

/// Header with the reason of a request whose body has none.
const REASON_HEADER: &str = "upesi-reason";
/// Maximum length of such a reason, in bytes.
const REASON_BYTES_MAX: usize = 512;
/// Name in the audit trail of the user of a `upesi admin bootstrap` token, and its way of authentication.
pub(crate) const BOOTSTRAP: &str = "bootstrap";
/// Name and way of authentication of a `upesi admin break-glass` token.
const BREAK_GLASS: &str = "break-glass";

/// Rate limit of wrong credentials per address; further ones are delayed, then rejected.
const WRONG_CREDENTIALS: PaceLimits = PaceLimits { rate: 2, burst: 20, wait_max: Duration::from_secs(2) };

/// The error for a program that tries to approve.
const ONLY_PEOPLE: CannotApprove = CannotApprove {
    name: ErrorName::ApproverNotUser,
    text: "Only users may approve: log in (upesi admin login)",
};
const CODE_IS_OLD: CannotApprove = CannotApprove {
    name: ErrorName::ApproverLoginOld,
    text: "Approving needs a code from the last 5 minutes: upesi admin login --renew",
};

/// Authentication of the admin port's callers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Access(Arc<Inner>);

/// Options of authentication.
#[derive(Debug)]
pub struct AccessOptions {
    /// File with the digest of the token of `upesi admin bootstrap`, which creates the first operators.
    pub bootstrap_file: PathBuf,
    /// File with the digest of the code or token of `upesi admin break-glass`.
    pub break_glass_file: PathBuf,
    /// Whether some changes need an approval.
    pub is_by_two: bool,
    /// Whether only users approve: by a session, or by a provider's token that proves a user's login.
    pub approvers_are_people: bool,
    /// Providers whose tokens are accepted in addition to the hub's own.
    pub issuers: Vec<Issuer>,
    /// A secret outside the data directory that is mixed into the keys of users' second factors.
    pub people_secret: Option<upesi_keys::Secret>,
}

#[derive(Debug)]
struct Inner {
    /// `None` if the port has no authentication and every caller may do everything.
    required: Option<AccessOptions>,
    wrong: Pace,
    refusals: Refusals,
    rejected: RejectionCounts,
    people: UserRegistry,
    provider_logins: ProviderLogins,
    /// Digest of the break-glass token whose use is already in the audit trail.
    break_glass: Mutex<Option<[u8; 32]>>,
}

impl Access {
    /// No authentication: every caller may do everything.
    pub fn open() -> Self {
        Self::new(None)
    }

    /// Callers must authenticate.
    pub fn required(options: AccessOptions) -> Self {
        Self::new(Some(options))
    }

    fn new(required: Option<AccessOptions>) -> Self {
        let secret = required.as_ref().and_then(|options| options.people_secret.clone());
        Self(Arc::new(Inner {
            required,
            wrong: Pace::new(WRONG_CREDENTIALS),
            refusals: Refusals::new(Instant::now()),
            rejected: RejectionCounts::default(),
            people: UserRegistry::new(secret),
            provider_logins: ProviderLogins::default(),
            break_glass: Mutex::default(),
        }))
    }

    /// Whether tokens of an identity provider are accepted.
    pub fn has_provider(&self) -> bool {
        self.providers().next().is_some()
    }

    /// The provider with a label.
    pub(crate) fn issuer(&self, label: &str) -> Option<&Issuer> {
        self.issuers().find(|issuer| issuer.label() == label)
    }

    /// The identity providers.
    pub(crate) fn issuers(&self) -> impl Iterator<Item = &Issuer> {
        self.0.required.iter().flat_map(|options| &options.issuers)
    }

    /// The logins by identity providers that are in progress.
    pub(crate) fn provider_logins(&self) -> &ProviderLogins {
        &self.0.provider_logins
    }

    /// The providers whose tokens are accepted.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.issuers().map(Issuer::provider)
    }

    /// Whether callers must authenticate.
    pub fn is_required(&self) -> bool {
        self.0.required.is_some()
    }

    /// Whether some changes need an approval.
    pub fn is_by_two(&self) -> bool {
        self.0.required.as_ref().is_some_and(|options| options.is_by_two)
    }

    /// The hub's own users, if callers must authenticate.
    pub(crate) fn people(&self) -> Option<&UserRegistry> {
        self.0.required.is_some().then_some(&self.0.people)
    }

    /// Ends the sessions of the hub's own users, because this node is no longer the leader.
    pub fn end_sessions(&self) {
        self.0.people.end_sessions(|_| true);
    }

    /// Number of rejected credentials since the start, by kind.
    pub fn rejected_credentials(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.rejected.counts()
    }

    pub(crate) fn count_rejected(&self, kind: CredentialKind) {
        self.0.rejected.count(kind);
    }

    /// Whether a caller needs no approval, whatever the policy: a user who can write to the data directory controls the
    /// hub anyway.
    pub(crate) fn acts_alone(&self, caller: &Caller) -> bool {
        self.0.required.as_ref().is_none_or(|options| !options.is_by_two)
            || &*caller.known_by == BOOTSTRAP
            || caller.rights == Rights::Emergency
    }

    /// A caller without credentials.
    pub(crate) fn stranger(&self, address: Option<Box<str>>) -> Caller {
        if self.0.required.is_some() { Caller::nobody(address) } else { Caller::anonymous(address) }
    }

    /// The caller of a request; an error if its credential is invalid.
    pub(crate) async fn identify(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        connection: &Connection,
    ) -> Result<SharedCaller, ApiError> {
        let address = text_of_address(connection);
        let caller = match (head.headers.get(AUTHORIZATION), &self.0.required) {
            (Some(_), Some(options)) => match self.known(options, engine, head, address).await? {
                Ok(caller) => caller,
                Err(why) => {
                    self.count_rejected(kind(options, head));
                    self.reject_credential(engine, head, connection, &why).await?;
                    return Err(unauthenticated());
                }
            },
            _ => self.stranger(address),
        };
        Ok(Arc::new(Caller { reason: reason(head), ..caller }))
    }

    /// Whether the session cookie identifies the caller of a page: the request has one, and names no other credential.
    pub(crate) fn is_by_cookie(&self, headers: &HeaderMap) -> bool {
        self.is_required() && cookie::is_sent(headers) && !headers.contains_key(AUTHORIZATION)
    }

    /// The caller of a request for a page. A cookie without a session is recorded as a wrong credential, and its caller
    /// is not authenticated, so that the browser gets the login page.
    pub(crate) async fn identify_in_browser(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        connection: &Connection,
    ) -> Result<SharedCaller, ApiError> {
        if !self.is_by_cookie(&head.headers) {
            return self.identify(engine, head, connection).await;
        }
        let address = text_of_address(connection);
        let known = match cookie::token(&head.headers) {
            Some(token) => self.in_session(engine, &token, address.clone()).await?,
            None => Err("the session cookie is malformed".to_owned()),
        };
        let caller = match known {
            Ok(caller) => caller,
            Err(why) => {
                self.count_rejected(CredentialKind::Session);
                self.reject_credential(engine, head, connection, &why).await?;
                self.stranger(address)
            }
        };
        Ok(Arc::new(Caller { reason: reason(head), ..caller }))
    }

    /// Records a wrong credential in the audit trail, and delays its client.
    ///
    /// # Errors
    /// The address has sent too many.
    async fn reject_credential(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        connection: &Connection,
        why: &str,
    ) -> Result<(), ApiError> {
        self.refused_credential(engine, head, text_of_address(connection), why).await;
        self.0.wrong.keep(connection).await.map_err(|_| too_many())
    }

    /// The operator of a request's credential, or the reason why the credential is invalid. The reason is recorded in
    /// the audit trail, and never answered.
    async fn known(
        &self,
        options: &AccessOptions,
        engine: &EngineHandle,
        head: &Parts,
        address: Option<Box<str>>,
    ) -> Result<Result<Caller, String>, ApiError> {
        let refused = || Ok(Err("no such credential".to_owned()));
        let mut values = head.headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return refused() };
        let Some(text) = value.to_str().ok().and_then(bearer) else { return refused() };
        let Some(token) = Token::received(text) else {
            return match options.issuers.iter().find(|issuer| issuer.provider().may_have_made(text)) {
                Some(issuer) => vouched(issuer, options, engine, text, address).await,
                None => refused(),
            };
        };
        if token.is_of_session() {
            return self.in_session(engine, &token, address).await;
        }
        let digest = token.digest();
        let now = engine.clock().now();
        let found = engine.read(move |ledger| {
            let (operator, credential) = ledger.operators().by_token(&digest)?;
            if !operator.is_active {
                return None;
            }
            if credential.has_expired(now) {
                return Some(Err(format!("the token {} of {} has expired", credential.id, operator.name)));
            }
            let participant = operator.participant.map(|id| ledger.participant(id).name);
            Some(Ok((operator.name.clone(), credential.id, operator.roles, participant)))
        });
        if let Some(known) = found.await? {
            let (name, credential, roles, participant) = match known {
                Ok(known) => known,
                Err(why) => return Ok(Err(why)),
            };
            let known_by = format!("token {credential}");
            let caller = Caller::new(&name, &known_by, address, Rights::Roles(roles));
            let cannot_approve = options.approvers_are_people.then_some(ONLY_PEOPLE);
            return Ok(Ok(Caller { participant, cannot_approve, ..caller }));
        }
        let file = options.bootstrap_file.clone();
        let break_glass_file = options.break_glass_file.clone();
        let look = move || {
            if bootstrap::is_token_of(&file, &token) {
                return Some(Caller::new(
                    BOOTSTRAP,
                    BOOTSTRAP,
                    address,
                    Rights::Roles(OperatorRoles::from_iter([OperatorRole::IamAdmin])),
                ));
            }
            let is_emergency = break_glass::is_token_of(&break_glass_file, &token);
            is_emergency.then(|| Caller::new(BREAK_GLASS, BREAK_GLASS, address, Rights::Emergency))
        };
        let Some(caller) = tokio::task::spawn_blocking(look).await.unwrap_or_default() else {
            return refused();
        };
        if caller.rights == Rights::Emergency {
            self.enter_emergency(engine, &caller, digest).await?;
        }
        Ok(Ok(caller))
    }

    /// Records the first use of a break-glass token in the audit trail before any action.
    async fn enter_emergency(
        &self,
        engine: &EngineHandle,
        caller: &Caller,
        digest: [u8; 32],
    ) -> Result<(), ApiError> {
        let is_entered =
            || *self.0.break_glass.lock().unwrap_or_else(PoisonError::into_inner) == Some(digest);
        if is_entered() {
            return Ok(());
        }
        let change = Change::new("break-glass", "sealed", "in use");
        let by = caller.attribution_of("open", None);
        let act =
            AuditedCommand { by, action: OperatorAction::External(change), authority: Authority::ALONE };
        engine.submit(Command::Audited(Box::new(act)), Payload::default()).await?;
        tracing::error!(
            address = caller.address.as_deref(),
            "break-glass token used; confirm who opened it and why"
        );
        *self.0.break_glass.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Ok(())
    }

    /// The user of a session. The session ends if the operator or the password has changed since it was opened.
    async fn in_session(
        &self,
        engine: &EngineHandle,
        token: &Token,
        address: Option<Box<str>>,
    ) -> Result<Result<Caller, String>, ApiError> {
        let now = engine.clock().now();
        let Some(session) = self.0.people.session(token, now) else {
            return Ok(Err("no such session, or it ended".to_owned()));
        };
        let session_credential = match &session.origin {
            SessionOrigin::Password(credential) => *credential,
            SessionOrigin::Provider(login) => {
                let caller = self.in_provider_session(&session, login, address, now);
                return Ok(caller.ok_or_else(|| "the provider of the session is not configured".to_owned()));
            }
        };
        let name = session.operator.clone();
        let found = engine.read(move |ledger| {
            let operator = ledger.operators().named(&name).filter(|operator| operator.is_active)?;
            let participant = operator.participant.map(|id| ledger.participant(id).name);
            Some((operator.roles, operator.person?.id, participant))
        });
        let is_same = |(roles, credential, _): &(OperatorRoles, u32, _)| {
            *roles == session.roles && *credential == session_credential
        };
        let Some((roles, _, participant)) = found.await?.filter(is_same) else {
            self.0.people.end_sessions(|known| known.id == session.id);
            return Ok(Err("the operator of the session was changed".to_owned()));
        };
        let known_by = format!("session {}", session.id);
        let caller = Caller::new(&session.operator, &known_by, address, Rights::Roles(roles));
        let cannot_approve = (!session.may_approve(now)).then_some(CODE_IS_OLD);
        Ok(Ok(Caller { participant, cannot_approve, session: Some(session), ..caller }))
    }

    /// The user of a session that an identity provider has opened. The login determines the roles.
    fn in_provider_session(
        &self,
        session: &Session,
        login: &ProviderLogin,
        address: Option<Box<str>>,
        now: Timestamp,
    ) -> Option<Caller> {
        let issuer = self.issuer(login.provider)?;
        let known_by = format!("session {}", session.id);
        let caller = Caller::new(&session.operator, &known_by, address, Rights::Roles(session.roles));
        let cannot_approve = issuer.cannot_approve_in_session(login, now);
        Some(Caller {
            participant: login.participant,
            cannot_approve,
            session: Some(session.clone()),
            ..caller
        })
    }

    /// Invalidates the token of `upesi admin bootstrap` after its use.
    pub(crate) fn end_bootstrap(&self) {
        let Some(options) = &self.0.required else { return };
        let file = &options.bootstrap_file;
        match std::fs::remove_file(file) {
            Ok(()) => {
                tracing::warn!("the token of `upesi admin bootstrap` was used and is no longer valid")
            }
            Err(error) => {
                tracing::error!(%error, file = %file.display(), "cannot remove the file of a used bootstrap token; remove it")
            }
        }
    }

    /// Records a wrong credential in the audit trail.
    async fn refused_credential(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        address: Option<Box<str>>,
        why: &str,
    ) {
        let by = AuditActor {
            operator: "nobody".into(),
            known_by: "nothing".into(),
            address,
            on_behalf_of: None,
            action: "authenticate".into(),
            reason: None,
        };
        let object = format!("{} {}", head.method, shown(head.uri.path()));
        self.record_refusal(engine, false, by, object, why).await;
    }

    /// Records a rejected attempt in the audit trail, unless the same operator, or unauthenticated clients together,
    /// had too many. Each attempt of an authenticated operator is logged.
    pub(crate) async fn record_refusal(
        &self,
        engine: &EngineHandle,
        is_proven: bool,
        by: AuditActor,
        object: String,
        why: &str,
    ) {
        let operator = by.operator.clone();
        let whose = if is_proven { Budgeted::Operator(&operator) } else { Budgeted::Unauthenticated };
        let Some(passed_over) = self.0.refusals.keep(whose, Instant::now()) else {
            if is_proven {
                log_refusal(&by, &object, why);
            }
            return;
        };
        let more = match passed_over {
            0 => String::new(),
            count => format!(" ({count} earlier rejections were not recorded)"),
        };
        if !self.keep(engine, by, object, &format!("{why}{more}")).await {
            self.0.refusals.lose(whose, passed_over + 1, Instant::now());
        }
    }

    /// Records a failed attempt in the audit trail.
    pub(crate) async fn record_failure(
        &self,
        engine: &EngineHandle,
        by: AuditActor,
        object: String,
        why: &str,
    ) {
        let operator = by.operator.clone();
        if !self.keep(engine, by, object, why).await {
            self.0.refusals.lose(Budgeted::Operator(&operator), 1, Instant::now());
        }
    }

    /// Logs an attempt and records it in the audit trail; `false` if it cannot be written, for example on a full disk.
    /// The next entry of the same budget then reports it.
    async fn keep(&self, engine: &EngineHandle, by: AuditActor, object: String, why: &str) -> bool {
        log_refusal(&by, &object, why);
        if engine.status().serving == Availability::Following {
            // Only the leader writes the audit trail, so a follower only logs the attempt.
            return true;
        }
        let action = OperatorAction::Refused { object: object.into(), why: why.into() };
        let act = AuditedCommand { by, action, authority: Authority::ALONE };
        let entered = engine.submit(Command::Audited(Box::new(act)), Payload::default()).await;
        if let Err(error) = &entered {
            tracing::error!(%error, "cannot record a rejected request in the audit trail");
        }
        entered.is_ok()
    }
}

fn log_refusal(by: &AuditActor, object: &str, why: &str) {
    tracing::warn!(operator = %by.operator, object, why, "an operator's request was rejected");
}

/// The identity that a provider's token asserts, or the reason why it is invalid.
async fn vouched(
    issuer: &Issuer,
    options: &AccessOptions,
    engine: &EngineHandle,
    text: &str,
    address: Option<Box<str>>,
) -> Result<Result<Caller, String>, ApiError> {
    let TokenIdentity { name, roles, participant, cannot_approve } =
        match issuer.verify(text, options.approvers_are_people, engine.clock().now()).await {
            Ok(vouched) => vouched,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
    if let Some(dfsp) = participant
        && !engine.read(move |ledger| ledger.participant_named(&dfsp).is_some()).await?
    {
        return Ok(Err(format!("the token names a DFSP that does not exist, {dfsp}")));
    }
    let caller = Caller::new(&name, "oidc", address, Rights::Roles(roles));
    Ok(Ok(Caller { participant, cannot_approve, ..caller }))
}

fn text_of_address(connection: &Connection) -> Option<Box<str>> {
    connection.address().map(|address| address.to_string().into())
}

fn kind(options: &AccessOptions, head: &Parts) -> CredentialKind {
    let value = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(text) = value.and_then(bearer) else { return CredentialKind::Unknown };
    match Token::received(text) {
        Some(token) if token.is_of_session() => CredentialKind::Session,
        Some(_) => CredentialKind::Token,
        None if options.issuers.iter().any(|issuer| issuer.provider().may_have_made(text)) => {
            CredentialKind::Provider
        }
        None => CredentialKind::Unknown,
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn reason(head: &Parts) -> Option<Box<str>> {
    let text = head.headers.get(REASON_HEADER)?.to_str().ok()?.trim();
    (!text.is_empty() && text.len() <= REASON_BYTES_MAX && !has_hidden(text)).then(|| text.into())
}

fn too_many() -> ApiError {
    let error =
        ApiError::new(ErrorName::TooManyWrongCredentials, "Too many wrong credentials from this address");
    ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..error }
}
