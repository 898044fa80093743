//! `/callbacks`: undelivered callbacks, and their redelivery.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_delivery::owed::resource_of;
use upesi_fspiop::uri::write_path;
use upesi_ledger::command::OperatorAction;
use upesi_ledger::{
    AdminOutcome, AdminRefusal, Callback, CallbackKey, Change, Ledger, OutboxEntry, ParticipantId,
};
use upesi_types::FspId;

use super::call::{Parameters, Segments, participant_name};
use crate::access::Permission;
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::change::log_entry;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, json, ok};
use crate::parts::Lanes;

/// Default number of callbacks per page.
const PAGE_DEFAULT: usize = 100;
/// Maximum number of callbacks per page.
const PAGE_MAX: usize = 1_000;
/// Maximum number of callbacks in one request, and in one command, for redelivery.
const REDELIVERED_MAX: usize = 10_000;
/// Number of callbacks whose content is read from the journal together: their bodies are in memory at the same time.
const CONTENTS_READ_AT_ONCE: usize = 16;

/// A callback's key in the API: `target-sequence-index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub(crate) CallbackKey);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.0.target.number(), self.0.seq, self.0.index)
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let mut next =
            || parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit())).ok_or(());
        let target = ParticipantId::new(next()?.parse().map_err(drop)?).ok_or(())?;
        let seq = next()?.parse().map_err(drop)?;
        let index = next()?.parse().map_err(drop)?;
        if parts.next().is_some() { Err(()) } else { Ok(Self(CallbackKey { target, seq, index })) }
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An undelivered callback.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallbackView {
    pub key: Key,
    pub participant: String,
    pub state: &'static str,
    /// Description of the message; absent if the journal no longer contains it.
    pub message: Option<String>,
    pub transfer_id: Option<String>,
    pub created_date: Option<Instant>,
    /// Number of attempts and the last failure; absent without failures.
    pub attempts: Option<u32>,
    pub reason: Option<Box<str>>,
    pub parked_date: Option<Instant>,
}

impl CallbackView {
    fn of(ledger: &Ledger, key: CallbackKey, entry: OutboxEntry<'_>) -> Self {
        let parked = entry.parked;
        Self {
            key: Key(key),
            participant: ledger.participant(key.target).name.to_string(),
            state: if parked.is_some() { "parked" } else { "pending" },
            message: None,
            transfer_id: None,
            created_date: None,
            attempts: parked.map(|parked| parked.attempts),
            reason: parked.map(|parked| parked.reason.clone()),
            parked_date: parked.map(|parked| Instant(parked.at)),
        }
    }
}

/// Description of a callback's message.
pub(crate) fn message_of(callback: &Callback) -> String {
    let path_id = (callback.content.method() != "POST").then_some("{ID}");
    let mut message = format!("{} ", callback.content.method());
    write_path(resource_of(callback.subject.resource), path_id, callback.is_error(), &mut message);
    message
}

/// A page of undelivered callbacks.
#[derive(Serialize)]
pub struct Page {
    pub callbacks: Vec<CallbackView>,
    /// Value of `after` for the next page; absent on the last one.
    pub next: Option<Key>,
    pub totals: Totals,
}

/// Totals of all participants.
#[derive(Serialize)]
pub struct Totals {
    pub pending: usize,
    pub parked: usize,
}

/// The requested callbacks.
#[derive(Clone, Copy)]
struct Selection {
    parked: Option<bool>,
    participant: Option<FspId>,
    after: Option<CallbackKey>,
}

impl Selection {
    fn of(parameters: &Parameters) -> Result<Self, ApiError> {
        let parked = match parameters.get("state") {
            None => None,
            Some("parked") => Some(true),
            Some("pending") => Some(false),
            Some(_) => return Err(ApiError::malformed("\"state\" must be one of [parked, pending]")),
        };
        let after = parameters.get("after").map(str::parse::<Key>).transpose();
        let after = after.map_err(|()| ApiError::malformed("\"after\" must be the key of a callback"))?;
        let participant = parameters.get("fsp").map(participant_name).transpose()?;
        Ok(Self { parked, participant, after: after.map(|key| key.0) })
    }

    /// The selected callbacks, ordered by key.
    fn select(
        self,
        ledger: &Ledger,
    ) -> Result<impl Iterator<Item = (CallbackKey, OutboxEntry<'_>)>, ApiError> {
        let target = match self.participant {
            None => None,
            Some(name) => {
                let id = ledger.participant_id(&name);
                Some(id.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
            }
        };
        let entries = ledger.outbox().iter_after(self.after);
        Ok(entries.filter(move |(key, entry)| {
            target.is_none_or(|target| key.target == target)
                && self.parked.is_none_or(|parked| entry.parked.is_some() == parked)
        }))
    }
}

pub(crate) async fn list(
    call: Call,
    State(lanes): State<Arc<dyn Lanes>>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    ok(&find(&call, &lanes, &parameters).await?)
}

/// Undelivered callbacks with the parameters of `GET /callbacks`.
///
/// # Errors
/// A parameter is invalid, or the engine does not answer.
pub async fn find(call: &Call, lanes: &Arc<dyn Lanes>, parameters: &Parameters) -> Result<Page, ApiError> {
    let limit = parameters.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let selection = Selection::of(parameters)?;
    let page = call.ask(move |ledger| -> Result<Page, ApiError> {
        let selected = selection.select(ledger)?.take(limit + 1);
        let mut callbacks: Vec<_> =
            selected.map(|(key, entry)| CallbackView::of(ledger, key, entry)).collect();
        let has_more = callbacks.len() > limit;
        callbacks.truncate(limit);
        let next = callbacks.last().map(|callback| callback.key).filter(|_| has_more);
        let parked = ledger.outbox().parked_len();
        Ok(Page { callbacks, next, totals: Totals { pending: ledger.outbox().len() - parked, parked } })
    });
    let mut page = page.await??;
    add_failures(&**lanes, &mut page.callbacks);
    read_contents(call, &mut page.callbacks).await?;
    Ok(page)
}

pub(crate) async fn get(
    call: Call,
    State(lanes): State<Arc<dyn Lanes>>,
    Segments(key): Segments<String>,
) -> Result<Response, ApiError> {
    let not_found = || ApiError::new(ErrorName::CallbackNotFound, "No undelivered callback has this key");
    let Key(key) = key.parse().map_err(|()| not_found())?;
    let view = call
        .ask(move |ledger| ledger.outbox().get(key).map(|entry| CallbackView::of(ledger, key, entry)))
        .await?;
    let mut views = [view.ok_or_else(not_found)?];
    add_failures(&*lanes, &mut views);
    read_contents(&call, &mut views).await?;
    ok(&views[0])
}

/// Adds the lanes' failed attempts to pending callbacks.
fn add_failures(lanes: &dyn Lanes, callbacks: &mut [CallbackView]) {
    let pending = callbacks.iter().filter(|callback| callback.attempts.is_none());
    let keys: Vec<_> = pending.map(|callback| callback.key.0).collect();
    let failures = lanes.failures(&keys);
    let failures: BTreeMap<_, _> = failures.into_iter().map(|failure| (failure.key, failure)).collect();
    for callback in callbacks.iter_mut().filter(|callback| callback.attempts.is_none()) {
        if let Some(failure) = failures.get(&callback.key.0) {
            callback.attempts = Some(failure.attempts);
            callback.reason = Some(failure.reason.as_str().into());
        }
    }
}

/// Adds the journal's contents to callbacks.
async fn read_contents(call: &Call, callbacks: &mut [CallbackView]) -> Result<(), ApiError> {
    for chunk in callbacks.chunks_mut(CONTENTS_READ_AT_ONCE) {
        let keys = chunk.iter().map(|callback| callback.key.0).collect();
        for pending in call.engine.callbacks(keys).await? {
            if let Some(callback) = chunk.iter_mut().find(|callback| callback.key.0 == pending.key) {
                callback.message = Some(message_of(pending.callback()));
                callback.transfer_id = Some(pending.callback().subject.id.to_string());
                callback.created_date = Some(Instant(pending.record.time));
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct RedeliveryAnswer {
    /// Number of callbacks that are sent again.
    redelivered: usize,
    /// Number of callbacks of the selection that are still parked because the hub was busy; repeat the request for
    /// them.
    remaining: usize,
}

/// `{"keys": […]}`, or `{"all": true}` with or without `"fsp"`.
pub(crate) async fn redeliver(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let redelivered = match fields.optional("keys") {
        Some(_) => {
            let keys = read_keys(&fields)?;
            let redelivered = if keys.is_empty() { 0 } else { redeliver_these(&call, keys).await?? };
            RedeliveryAnswer { redelivered, remaining: 0 }
        }
        None => redeliver_all(&call, read_selection(&fields)?).await?,
    };
    json(StatusCode::ACCEPTED, &redelivered)
}

/// Returns how many of these were parked and are sent again; an error if none was.
async fn redeliver_these(
    call: &Call,
    keys: Vec<CallbackKey>,
) -> Result<Result<usize, AdminRefusal>, ApiError> {
    let object = Change::of_redelivery(keys.len()).what;
    match call.try_act(Permission::CallbackRedeliver, OperatorAction::Redeliver(keys), object).await? {
        Ok((AdminOutcome::Redelivered(count), entry)) => {
            entry.iter().for_each(log_entry);
            Ok(Ok(count))
        }
        Err(refusal) => Ok(Err(refusal)),
        Ok(_) => Err(ApiError::internal("The engine did not answer an operator's command")),
    }
}

/// Redelivers the whole selection, a limited number at a time. Callbacks that could not be accepted are counted as
/// remaining.
async fn redeliver_all(call: &Call, mut selection: Selection) -> Result<RedeliveryAnswer, ApiError> {
    let mut redelivered = 0;
    loop {
        let keys = call.ask(move |ledger| -> Result<Vec<_>, ApiError> {
            Ok(selection.select(ledger)?.map(|(key, _)| key).take(REDELIVERED_MAX).collect())
        });
        let keys = keys.await??;
        let Some(last) = keys.last().copied() else {
            return Ok(RedeliveryAnswer { redelivered, remaining: 0 });
        };
        match redeliver_these(call, keys).await {
            // Another operator has redelivered them meanwhile.
            Ok(Err(_)) => {}
            Ok(Ok(count)) => redelivered += count,
            Err(error) if redelivered == 0 => return Err(error),
            Err(_) => {
                let count = move |ledger: &Ledger| Ok(selection.select(ledger)?.count());
                let remaining: Result<usize, ApiError> = call.ask(count).await?;
                return Ok(RedeliveryAnswer { redelivered, remaining: remaining? });
            }
        }
        selection.after = Some(last);
    }
}

fn read_keys(fields: &Fields<'_>) -> Result<Vec<CallbackKey>, ApiError> {
    let items = fields.required("keys")?.array(REDELIVERED_MAX)?;
    fields.only(&["keys"])?;
    let key = |item: super::body::Field<'_>| {
        let Key(key) = item.text()?.parse().map_err(|()| item.refuse("must be the key of a callback"))?;
        Ok(key)
    };
    let mut keys = items.into_iter().map(key).collect::<Result<Vec<_>, ApiError>>()?;
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// All parked callbacks, or one participant's.
fn read_selection(fields: &Fields<'_>) -> Result<Selection, ApiError> {
    let all = fields.required("all")?;
    if !all.flag()? {
        return Err(all.refuse("must be true, or \"keys\" must be given"));
    }
    let participant = fields.optional("fsp").map(|field| participant_name(&field.text()?)).transpose()?;
    fields.only(&["all", "fsp"])?;
    Ok(Selection { parked: Some(true), participant, after: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_keys_round_trip() {
        for text in ["1-1-0", "10000-18446744073709551615-255"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        for text in
            ["", "1-1", "0-1-0", "1-1-256", "1-1-0-0", "a-1-0", "1--0", "+1-1-0", "1-18446744073709551616-0"]
        {
            assert_eq!(text.parse::<Key>(), Err(()), "{text}");
        }
    }
}
