//! How a caller is known: by the token that it sends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use upesi_engine::{Clock as _, EngineHandle, Payload};
use upesi_http::{Connection, Pace, PaceLimits};
use upesi_ledger::command::{Act, Deed};
use upesi_ledger::{Attribution, Command, Role, Roles};
use upesi_types::ErrorCode;

use super::caller::{Caller, Rights, SharedCaller, unauthenticated};
use super::refusals::Refusals;
use super::{Token, bootstrap};
use crate::error::ApiError;

/// Header by which a caller says why it asks, for requests whose body has no reason.
const REASON_HEADER: &str = "upesi-reason";
/// Longest such reason, in bytes.
const REASON_BYTES_MAX: usize = 512;
/// Name in the audit trail of whoever uses the token of `upesi admin bootstrap`, and how it is known.
pub(crate) const BOOTSTRAP: &str = "bootstrap";

/// What wrong credentials of one address may come at; further ones wait, then are refused.
const WRONG_CREDENTIALS: PaceLimits = PaceLimits { rate: 2, burst: 20, wait_max: Duration::from_secs(2) };

/// How callers of the admin port are known. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_required: bool,
    /// Whether some changes need a second person.
    is_by_two: bool,
    /// Where `upesi admin bootstrap` leaves the digest of its token.
    bootstrap_file: Option<PathBuf>,
    wrong: Pace,
    refusals: Refusals,
}

impl Access {
    /// Everybody may do everything.
    pub fn open() -> Self {
        Self::new(false, false, None)
    }

    /// Callers must say who they are, and some changes need two of them. The first operators are made with the token of
    /// this file.
    pub fn required(bootstrap_file: PathBuf) -> Self {
        Self::new(true, true, Some(bootstrap_file))
    }

    /// Callers must say who they are; each may do alone what its roles allow.
    pub fn required_alone(bootstrap_file: PathBuf) -> Self {
        Self::new(true, false, Some(bootstrap_file))
    }

    fn new(is_required: bool, is_by_two: bool, bootstrap_file: Option<PathBuf>) -> Self {
        Self(Arc::new(Inner {
            is_required,
            is_by_two,
            bootstrap_file,
            wrong: Pace::new(WRONG_CREDENTIALS),
            refusals: Refusals::new(Instant::now()),
        }))
    }

    /// Whether a caller needs no second person, whatever the policy says. Who may write into the data directory owns the
    /// hub anyhow.
    pub(crate) fn acts_alone(&self, caller: &Caller) -> bool {
        !self.0.is_by_two || &*caller.known_by == BOOTSTRAP
    }

    /// Who calls when nothing is known of the caller.
    pub(crate) fn stranger(&self, address: Option<Box<str>>) -> Caller {
        if self.0.is_required { Caller::nobody(address) } else { Caller::anonymous(address) }
    }

    /// Who sent a request; a refusal if it shows a credential that is none.
    pub(crate) async fn identify(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        connection: &Connection,
    ) -> Result<SharedCaller, ApiError> {
        let address = connection.address().map(|address| address.to_string().into());
        let mut caller = match head.headers.get(AUTHORIZATION) {
            Some(_) if self.0.is_required => match self.known(engine, head, address.clone()).await? {
                Some(caller) => caller,
                None => {
                    self.refused_credential(engine, head, address).await;
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

    /// The operator whose credential a request has.
    async fn known(
        &self,
        engine: &EngineHandle,
        head: &Parts,
        address: Option<Box<str>>,
    ) -> Result<Option<Caller>, ApiError> {
        let mut values = head.headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Ok(None) };
        let Some(token) = value.to_str().ok().and_then(bearer).and_then(Token::received) else {
            return Ok(None);
        };
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
            return Ok(Some(Caller { participant, ..caller }));
        }
        if !self.is_bootstrap(token).await {
            return Ok(None);
        }
        let roles = Roles::from_iter([Role::IamAdmin]);
        Ok(Some(Caller::new(BOOTSTRAP, BOOTSTRAP, address, Rights::Roles(roles))))
    }

    async fn is_bootstrap(&self, token: Token) -> bool {
        let Some(file) = self.0.bootstrap_file.clone() else { return false };
        let look = move || bootstrap::is_token_of(&file, &token);
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }

    /// The token of `upesi admin bootstrap` has done its work.
    pub(crate) fn end_bootstrap(&self) {
        let Some(file) = &self.0.bootstrap_file else { return };
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
    async fn refused_credential(&self, engine: &EngineHandle, head: &Parts, address: Option<Box<str>>) {
        let by = Attribution {
            operator: "nobody".into(),
            known_by: "nothing".into(),
            address,
            on_behalf_of: None,
            action: "authenticate".into(),
            reason: None,
        };
        let object = format!("{} {}", head.method, head.uri.path());
        self.record_refusal(engine, by, object, "no such credential").await;
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
        self.record_failure(engine, by, object, &format!("{why}{more}")).await;
    }

    /// Keeps an attempt that failed in the audit trail.
    pub(crate) async fn record_failure(
        &self,
        engine: &EngineHandle,
        by: Attribution,
        object: String,
        why: &str,
    ) {
        tracing::warn!(operator = %by.operator, object, why, "an operator's request was refused");
        let deed = Deed::Refused { object: object.into(), why: why.into() };
        let act = Act { by, deed, is_alone: true };
        if let Err(error) = engine.submit(Command::Act(Box::new(act)), Payload::default()).await {
            tracing::error!(%error, "a refused request is not in the audit trail");
        }
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
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
