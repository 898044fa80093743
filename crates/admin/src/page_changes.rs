//! Changes that pages request. Each is a request to an operation of the API, so it needs the same permission and the
//! same approval, and has the same entry in the audit trail.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use tower_service::Service as _;
use upesi_engine::Clock as _;
use upesi_ledger::command::Preview;
use upesi_ledger::{AdminCommand, ChangeSet, DecisionInput, FundsDirection, Ledger, SetChange};
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::access::Caller;
use crate::accounts::position_summaries_of;
use crate::call::Call;
use crate::change_sets::Operations;
use crate::collector::Collector;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::rejection;

/// A request to an operation that changes something.
#[derive(Clone, Debug)]
pub struct PageChange {
    pub method: Method,
    pub path: String,
    pub body: Value,
    /// The operator's reason, for operations without a field for it.
    pub reason: Option<String>,
}

/// The effect of a change, if it was made now.
#[derive(Clone, Debug)]
pub struct ChangePreview {
    pub object: String,
    pub before: String,
    pub after: String,
    /// Why the hub would reject it.
    pub refused: Option<String>,
    /// Whether it would be a proposal for a second operator.
    pub needs_second: bool,
    /// The liquidity of the participant before and after, if the change concerns it.
    pub liquidity: Option<LiquidityEffect>,
}

/// The liquidity of a participant before and after a change.
#[derive(Clone, Copy, Debug)]
pub struct LiquidityEffect {
    pub currency: Currency,
    /// The amount that the participant owes, which the change leaves as it is.
    pub position: Amount,
    pub cover: [Amount; 2],
    pub cap: [Option<Amount>; 2],
}

impl LiquidityEffect {
    /// The effect of a movement of funds, or of another cap.
    fn of(command: &AdminCommand, ledger: &Ledger) -> Option<Self> {
        let (name, currency) = match command {
            AdminCommand::Deposit(deposit) => (deposit.name, deposit.currency),
            AdminCommand::PrepareFunds(funds) => (funds.name, funds.currency),
            AdminCommand::SetLimit { name, currency, .. } => (*name, *currency),
            _ => return None,
        };
        let mut positions = position_summaries_of(ledger, ledger.participant_named(&name)?);
        let now = positions.find(|position| position.currency.0 == currency)?;
        let (cover, cap) = (now.cover.0, now.cap.map(|cap| cap.0));
        let (cover_after, cap_after) = match command {
            AdminCommand::Deposit(deposit) => (cover.checked_add(deposit.amount)?, cap),
            AdminCommand::PrepareFunds(funds) => match funds.direction {
                FundsDirection::In => (cover.checked_add(funds.amount)?, cap),
                FundsDirection::Out => (cover.checked_sub(funds.amount)?, cap),
            },
            AdminCommand::SetLimit { net_debit_cap, .. } => (cover, Some(*net_debit_cap)),
            _ => return None,
        };
        Some(Self { currency, position: now.position.0, cover: [cover, cover_after], cap: [cap, cap_after] })
    }

    /// What the participant may still send, before and after, in ten-thousandths.
    pub fn free(&self) -> [i128; 2] {
        [0, 1].map(|at| {
            let bound = self.cap[at].map_or(self.cover[at], |cap| cap.min(self.cover[at]));
            i128::from(bound.units()) - i128::from(self.position.units())
        })
    }
}

impl ChangePreview {
    /// Decides the change on a copy of the state that it concerns.
    pub(crate) fn of(
        command: AdminCommand,
        ledger: &Ledger,
        now: Timestamp,
        needs_second: bool,
    ) -> Option<Self> {
        let liquidity = LiquidityEffect::of(&command, ledger);
        let set = ChangeSet { name: "".into(), changes: vec![SetChange::new(command)] };
        let Preview { change, outcome, .. } = ledger.preview(&set, 0, &DecisionInput::at(now)).pop()?;
        Some(Self {
            object: change.what,
            before: change.from,
            after: change.to,
            refused: outcome.err().map(|refusal| rejection::describe(&refusal)),
            needs_second,
            liquidity,
        })
    }
}

/// A change that the hub has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is made.
    Made,
    /// It waits for a second operator, as this proposal.
    Proposed(u64),
}

/// The operations of the API, for changes by pages.
#[derive(Clone)]
pub struct PageOperations(Option<Operations>);

impl fmt::Debug for PageOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageOperations").finish_non_exhaustive()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PageOperations {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

impl PageOperations {
    /// The effect of a change, without making it.
    ///
    /// # Errors
    /// The operation rejects the request, or the caller lacks the permission for it.
    pub async fn preview(
        &self,
        call: &Call,
        context: &AdminContext,
        change: &PageChange,
    ) -> Result<ChangePreview, ApiError> {
        let collector = Collector::default();
        let caller = Caller { collector: Some(collector.clone()), ..(*call.caller).clone() };
        let response = self.send(caller, change).await?;
        let Some(command) = collector.take() else {
            return Err(
                error_of(&response).unwrap_or_else(|| ApiError::internal("The change has no preview"))
            );
        };
        let acts_alone = call.access.acts_alone(&call.caller);
        let (operator, now) = (call.caller.operator.clone(), call.engine.clock().now());
        // The preview occupies the deciding thread, so one is computed at a time.
        let permit = context.diffs.0.acquire().await;
        let _permit = permit.map_err(|error| ApiError::internal(&error.to_string()))?;
        let preview = call.ask(move |ledger| {
            let needs_second = !acts_alone && ledger.needs_second(&operator, &command);
            ChangePreview::of(command, ledger, now, needs_second)
        });
        preview.await?.ok_or_else(|| ApiError::internal("The change has no preview"))
    }

    /// Makes a change, or proposes it.
    ///
    /// # Errors
    /// The operation rejects the request, or the caller lacks the permission for it.
    pub async fn make(&self, call: &Call, change: &PageChange) -> Result<Accepted, ApiError> {
        let response = self.send((*call.caller).clone(), change).await?;
        match error_of(&response) {
            None => Ok(Accepted::Made),
            Some(error) => {
                error.waiting.as_ref().map(|waiting| Accepted::Proposed(waiting.approval)).ok_or(error)
            }
        }
    }

    /// The same, for an approver whose last code is old: first, password and code are verified.
    ///
    /// # Errors
    /// As [`make`](Self::make), and if password or code is wrong, or there were too many attempts.
    pub async fn make_with_code(
        &self,
        call: &Call,
        (password, code): (&str, &str),
        change: &PageChange,
    ) -> Result<Accepted, ApiError> {
        let renewal = PageChange {
            method: Method::POST,
            path: "/sessions/current/code".to_owned(),
            body: json!({"password": password, "code": code}),
            reason: None,
        };
        self.make(call, &renewal).await?;
        let caller = Caller { cannot_approve: None, ..(*call.caller).clone() };
        self.make(&Call { caller: Arc::new(caller), ..call.clone() }, change).await
    }

    /// Passes the request to the handler of its operation.
    async fn send(&self, caller: Caller, change: &PageChange) -> Result<Response, ApiError> {
        let operations = self.0.as_ref().ok_or_else(|| ApiError::internal("The page has no operations"))?;
        let uri: Uri =
            change.path.parse().map_err(|_| ApiError::malformed("the path of the change is too long"))?;
        let mut request = Request::new(Body::from(change.body.to_string()));
        *request.method_mut() = change.method.clone();
        *request.uri_mut() = uri;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let reason = change.reason.as_deref().map(Into::into).or_else(|| caller.reason.clone());
        request.extensions_mut().insert(Arc::new(Caller { reason, ..caller }));
        // A router is always ready and never fails.
        let Ok(response) = operations.0.clone().call(request).await;
        Ok(response)
    }
}

/// A new identifier of a movement of funds. A form contains it, so that the movement is made once, however often the
/// form is sent.
///
/// # Errors
/// The system has no random bits.
pub fn new_funds_id() -> Result<TransferId, ApiError> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).map_err(|_| ApiError::no_random_bits())?;
    Ok(TransferId::from_random_bytes(bits))
}

fn error_of(response: &Response) -> Option<ApiError> {
    response.extensions().get::<ApiError>().cloned()
}
