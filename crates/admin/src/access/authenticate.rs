//! How a caller is known: by the token that it sends, the hub's own or a provider's.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use upesi_engine::{Clock as _, EngineHandle, Payload, Serving};
use upesi_http::{Connection, Pace, PaceLimits};
use upesi_ledger::command::{Act, Deed};
use upesi_ledger::{Attribution, Change, Command, Role, Roles};
use upesi_oidc::Provider;
use upesi_types::ErrorCode;

use super::caller::{Caller, Rights, SharedCaller, unauthenticated};
use super::oidc::{Issuer, Vouched};
use super::people::People;
use super::{Token, bootstrap, break_glass};
use crate::error::ApiError;

/// Header by which a caller says why it asks, for requests whose body has no reason.
const REASON_HEADER: &str = "upesi-reason";
/// Longest such reason, in bytes.
const REASON_BYTES_MAX: usize = 512;
/// Name in the audit trail of whoever uses the token of `upesi admin bootstrap`, and how it is known.
pub(crate) const BOOTSTRAP: &str = "bootstrap";
/// The same of whoever uses that of `upesi admin break-glass`.
const BREAK_GLASS: &str = "break-glass";

/// What wrong credentials of one address may come at; further ones wait, then are refused.
const WRONG_CREDENTIALS: PaceLimits = PaceLimits { rate: 2, burst: 20, wait_max: Duration::from_secs(2) };

/// Why a caller does not approve.
const ONLY_PEOPLE: &str = "Only people approve here: log in (upesi admin login)";
const CODE_IS_OLD: &str = "Approving needs a code of the last 5 minutes: upesi admin login --renew";

/// How callers of the admin port are known. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Access(Arc<Inner>);

/// How callers are known who must say who they are.
#[derive(Debug)]
pub struct AccessOptions {
    /// Where `upesi admin bootstrap` leaves the digest of its token, by which the first operators are made.
    pub bootstrap_file: PathBuf,
    /// Where `upesi admin break-glass` keeps the digest of its code or token.
    pub break_glass_file: PathBuf,
    /// Whether some changes need a second person.
    pub is_by_two: bool,
    /// Whether only people approve: by a session, or by a provider's token that proves a person's log-in.
    pub approvers_are_people: bool,
    /// Providers whose tokens are taken beside the hub's own.
    pub issuers: Vec<Issuer>,
    /// What is mixed into the keys of second factors of people: a secret that is not in the data directory.
    pub people_secret: Option<upesi_keys::Secret>,
}

#[derive(Debug)]
struct Inner {
    /// `None` if everybody may do everything.
    required: Option<AccessOptions>,
    wrong: Pace,
    refusals: Refusals,
    people: People,
    /// Digest of the token of break-glass whose use is in the audit trail.
    break_glass: Mutex<Option<[u8; 32]>>,
}

impl Access {
    /// Everybody may do everything.
    pub fn open() -> Self {
        Self::new(None)
    }

    /// Callers must say who they are.
    pub fn required(options: AccessOptions) -> Self {
        Self::new(Some(options))
    }

    fn new(required: Option<AccessOptions>) -> Self {
        let secret = required.as_ref().and_then(|options| options.people_secret.clone());
        Self(Arc::new(Inner {
            required,
            wrong: Pace::new(WRONG_CREDENTIALS),
            refusals: Refusals::new(Instant::now()),
            people: People::new(secret),
            break_glass: Mutex::default(),
        }))
    }

    /// The providers whose tokens are taken.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.0.required.iter().flat_map(|options| &options.issuers).map(Issuer::provider)
    }

    /// The hub's own people, if callers say who they are.
    pub(crate) fn people(&self) -> Option<&People> {
        self.0.required.is_some().then_some(&self.0.people)
    }

    /// Whether a caller needs no second person, whatever the policy says. Who may write into the data directory owns
    /// the hub anyhow.
    pub(crate) fn acts_alone(&self, caller: &Caller) -> bool {
        self.0.required.as_ref().is_none_or(|options| !options.is_by_two)
            || &*caller.known_by == BOOTSTRAP
            || caller.rights == Rights::Emergency
    }

    /// Who calls when nothing is known of the caller.
    pub(crate) fn stranger(&self, address: Option<Box<str>>) -> Caller {
        if self.0.required.is_some() { Caller::nobody(address) } else { Caller::anonymous(address) }
    }

    /// Who sent a request; a refusal if it shows a credential that is none.
    pub(crate) async fn identify(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        connection: &Connection,
    ) -> Result<SharedCaller, ApiError> {
        let address = connection.address().map(|address| address.to_string().into());
        let mut caller = match (head.headers.get(AUTHORIZATION), &self.0.required) {
            (Some(_), Some(options)) => match self.known(options, engine, head, address.clone()).await? {
                Ok(caller) => caller,
                Err(why) => {
                    self.refused_credential(engine, head, address, &why).await;
                    if self.0.wrong.keep(connection).await.is_err() {
                        return Err(too_many());
                    }
                    return Err(unauthenticated());
                }
            },
            _ => self.stranger(address),
        };
        caller.reason = reason(head);
        Ok(Arc::new(caller))
    }

    /// The operator whose credential a request has, or why it is none: the audit trail says so, and no answer.
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
            if !operator.is_active || credential.has_expired(now) {
                return None;
            }
            let participant = operator.participant.map(|id| ledger.participant(id).name);
            Some((operator.name.clone(), credential.id, operator.roles, participant))
        });
        if let Some((name, credential, roles, participant)) = found.await? {
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
                    Rights::Roles(Roles::from_iter([Role::IamAdmin])),
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

    /// The first use of a token of break-glass is in the audit trail before anything is done by it.
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
        let act = Act { by, deed: Deed::Elsewhere(change), is_alone: true };
        engine.submit(Command::Act(Box::new(act)), Payload::default()).await?;
        tracing::error!(
            address = caller.address.as_deref(),
            "break-glass is in use: who opened it, and why?"
        );
        *self.0.break_glass.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Ok(())
    }

    /// The person of a session. It ends if the operator or the password is not what it was when it was opened.
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
        let name = session.operator.clone();
        let found = engine.read(move |ledger| {
            let operator = ledger.operators().named(&name).filter(|operator| operator.is_active)?;
            let participant = operator.participant.map(|id| ledger.participant(id).name);
            Some((operator.roles, operator.person?.id, participant))
        });
        let is_same = |(roles, credential, _): &(Roles, u32, _)| {
            *roles == session.roles && *credential == session.credential
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

    /// The token of `upesi admin bootstrap` has done its work.
    pub(crate) fn end_bootstrap(&self) {
        let Some(options) = &self.0.required else { return };
        let file = &options.bootstrap_file;
        match std::fs::remove_file(file) {
            Ok(()) => {
                tracing::warn!("the token of `upesi admin bootstrap` was used, and is good for nothing now")
            }
            Err(error) => {
                tracing::error!(%error, file = %file.display(), "remove this file: its token is used")
            }
        }
    }

    /// A wrong credential in the audit trail.
    async fn refused_credential(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        address: Option<Box<str>>,
        why: &str,
    ) {
        let by = Attribution {
            operator: "nobody".into(),
            known_by: "nothing".into(),
            address,
            on_behalf_of: None,
            action: "authenticate".into(),
            reason: None,
        };
        let object = format!("{} {}", head.method, head.uri.path());
        self.record_refusal(engine, by, object, why).await;
    }

    /// Keeps a refused attempt in the audit trail, unless there were too many of late.
    pub(crate) async fn record_refusal(
        &self,
        engine: &EngineHandle,
        by: Attribution,
        object: String,
        why: &str,
    ) {
        let Some(passed_over) = self.0.refusals.keep(Instant::now()) else { return };
        let more = match passed_over {
            0 => String::new(),
            count => format!(" ({count} refusals before it were not recorded)"),
        };
        self.keep(engine, by, object, &format!("{why}{more}"), passed_over).await;
    }

    /// Keeps an attempt that failed in the audit trail.
    pub(crate) async fn record_failure(
        &self,
        engine: &EngineHandle,
        by: Attribution,
        object: String,
        why: &str,
    ) {
        self.keep(engine, by, object, why, 0).await;
    }

    /// What cannot be written, as on a full disk, is told by the next entry that can be, with those before it that were
    /// to be told of.
    async fn keep(&self, engine: &EngineHandle, by: Attribution, object: String, why: &str, before: u64) {
        tracing::warn!(operator = %by.operator, object, why, "an operator's request was refused");
        if engine.status().serving == Serving::Following {
            // Only the node that leads writes; the line above is all that is kept of it.
            return;
        }
        let deed = Deed::Refused { object: object.into(), why: why.into() };
        let act = Act { by, deed, is_alone: true };
        if let Err(error) = engine.submit(Command::Act(Box::new(act)), Payload::default()).await {
            self.0.refusals.lose(before + 1);
            tracing::error!(%error, "a refused request is not in the audit trail");
        }
    }
}

/// Whom the token of a provider vouches for, or why for nobody.
async fn vouched(
    issuer: &Issuer,
    engine: &EngineHandle,
    text: &str,
    address: Option<Box<str>>,
) -> Result<Result<Caller, String>, ApiError> {
    let Vouched { name, roles, participant, cannot_approve } =
        match issuer.verify(text, options.approvers_are_people, engine.clock().now()).await {
            Ok(vouched) => vouched,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
    if let Some(dfsp) = participant
        && !engine.read(move |ledger| ledger.participant_named(&dfsp).is_some()).await?
    {
        return Ok(Err(format!("the token is of a DFSP that does not exist, {dfsp}")));
    }
    let caller = Caller::new(&name, "oidc", address, Rights::Roles(roles));
    Ok(Ok(Caller { participant, cannot_approve, ..caller }))
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    options: &AccessOptions,
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn reason(head: &Parts) -> Option<Box<str>> {
    let text = head.headers.get(REASON_HEADER)?.to_str().ok()?.trim();
    (!text.is_empty() && text.len() <= REASON_BYTES_MAX).then(|| text.into())
}

fn too_many() -> ApiError {
    let error = ApiError::new(ErrorCode::SERVER_BUSY, "Too many wrong credentials from this address");
    ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..error }
}

// Attempts that were refused: counted, and a bounded number of them kept in the audit trail.

/// Refusals of a burst that are kept.
const REFUSALS_BURST: u32 = 30;
/// How long it takes until a further one is kept.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(2);

/// Decides which refusals are kept, so that whoever is refused cannot fill the disk.
#[derive(Debug)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Debug)]
struct State {
    left: u32,
    since: Instant,
    passed_over: u64,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { left: REFUSALS_BURST, since: now, passed_over: 0 }))
    }

    /// Whether this one is kept: with the number of those before it that were not.
    pub(super) fn keep(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.left < REFUSALS_BURST && now.saturating_duration_since(state.since) >= REFUSALS_INTERVAL {
            state.left += 1;
            state.since += REFUSALS_INTERVAL;
        }
        if state.left == REFUSALS_BURST {
            state.since = now;
        }
        if state.left == 0 {
            state.passed_over += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.passed_over))
    }

    /// So many that were to be kept could not be: the next one that is tells of them.
    pub(super) fn lose(&self, count: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).passed_over += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_kept_then_one_per_interval() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let kept = (0..100).filter(|_| refusals.keep(start).is_some()).count();
        assert_eq!(kept, REFUSALS_BURST as usize);
        assert_eq!(refusals.keep(start + REFUSALS_INTERVAL / 2), None);
        // 70 of the burst, and the one after it.
        assert_eq!(refusals.keep(start + REFUSALS_INTERVAL), Some(71));
        assert_eq!(refusals.keep(start + REFUSALS_INTERVAL), None);
        assert_eq!(refusals.keep(start + 1_000 * REFUSALS_INTERVAL), Some(1));
        refusals.lose(3);
        assert_eq!(refusals.keep(start + 1_001 * REFUSALS_INTERVAL), Some(3));
        assert_eq!(refusals.keep(start + 1_002 * REFUSALS_INTERVAL), Some(0));
    }
}
