//! `/v2/settlementWindows`: settlement windows, and the close of the open one.

use std::cmp::Reverse;
use std::fmt;

use axum::response::Response;
use serde::{Serialize, Serializer};
use upesi_ledger::{
    AccountId, AdminCommand, AdminOutcome, AdminRefusal, Content, Ledger, PairSum, Sum, Window, WindowId,
    WindowState,
};
use upesi_types::{Currency, Timestamp};

use super::call::{Parameters, Segments};
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Code, Instant, number as digits, ok};
use crate::transfers::REASON_CHARS_MAX;

/// States that a filter may name; the hub's windows are never in the last two.
const STATES: [&str; 7] =
    ["OPEN", "CLOSED", "PENDING_SETTLEMENT", "SETTLED", "ABORTED", "PROCESSING", "FAILED"];
/// Maximum number of windows, or settlements, in an answer: the newest.
pub(crate) const FOUND_MAX: usize = 1_000;
const FILTERS: [&str; 5] = ["participantId", "state", "fromDateTime", "toDateTime", "currency"];
/// A filter of this hub: the reason of a close, whatever the later states of the window.
const CLOSE_REASON: &str = "closeReason";

/// A window as `/v2/settlementWindows` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowView {
    pub settlement_window_id: u32,
    pub state: &'static str,
    pub reason: Box<str>,
    pub created_date: Instant,
    pub changed_date: Instant,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ContentView>,
}

/// A content of a window.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentView {
    pub id: u32,
    pub state: &'static str,
    pub ledger_account_type: String,
    pub currency_id: Code,
    pub created_date: Instant,
    pub changed_date: Instant,
    /// Sum of its transfers.
    #[serde(skip)]
    pub sum: Sum,
    /// The settlement that contains it, or contained it last.
    #[serde(skip)]
    pub settlement: Option<u32>,
}

impl ContentView {
    pub(crate) fn of(ledger: &Ledger, content: &Content) -> Self {
        Self {
            id: content.id.0,
            state: content.state.as_str(),
            ledger_account_type: ledger.account_type_name(content.kind).to_owned(),
            currency_id: Code(content.currency),
            created_date: Instant(content.created_at),
            changed_date: Instant(content.changed_at),
            sum: content.sum,
            settlement: content.settlement.map(|settlement| settlement.0),
        }
    }
}

impl WindowView {
    fn of(ledger: &Ledger, window: &Window) -> Self {
        Self {
            settlement_window_id: window.id.0,
            state: window.state.as_str(),
            reason: window.reason.clone(),
            created_date: Instant(window.created_at),
            changed_date: Instant(window.changed_at),
            content: window.contents.iter().map(|content| ContentView::of(ledger, content)).collect(),
        }
    }
}

/// A number in a path.
pub(crate) fn number(text: &str, name: &str) -> Result<u32, ApiError> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| ApiError::malformed(&format!("\"{name}\" must be a positive number")))
}

pub(crate) async fn get(call: Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    show(&call, WindowId(number(&id, "id")?)).await
}

async fn show(call: &Call, id: WindowId) -> Result<Response, ApiError> {
    ok(&call.ask(move |ledger| window(ledger, id.0)).await??)
}

/// Closes the open window; returns the new open one.
pub(crate) async fn close(
    call: Call,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = WindowId(number(&id, "id")?);
    let fields = body.fields()?;
    fields.required("state")?.one_of(["CLOSED"].iter(), |name| name)?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    fields.only(&["state", "reason"])?;
    let command = AdminCommand::CloseWindow { id, reason };
    match call.change(command).await? {
        AdminOutcome::WindowOpened(open) => show(&call, open).await,
        other => Err(ApiError::internal(&format!("the engine answered {other:?}"))),
    }
}

/// A period in a filter, including both ends.
pub(crate) struct Period {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl Period {
    pub(crate) fn read(parameters: &Parameters, from: &str, to: &str) -> Result<Self, ApiError> {
        Ok(Self { from: parameters.instant(from)?, to: parameters.instant(to)? })
    }

    pub(crate) fn contains(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at <= to)
    }
}

/// A positive number in a filter.
pub(crate) fn positive(parameters: &Parameters, name: &str) -> Result<Option<u32>, ApiError> {
    parameters.get(name).map(|text| number(text, name)).transpose()
}

/// One of several names in a filter.
pub(crate) fn one_of(
    parameters: &Parameters,
    name: &str,
    known: &[&'static str],
) -> Result<Option<&'static str>, ApiError> {
    let Some(text) = parameters.get(name) else { return Ok(None) };
    let found = known.iter().copied().find(|known| *known == text);
    found
        .map(Some)
        .ok_or_else(|| ApiError::malformed(&format!("\"{name}\" must be one of [{}]", known.join(", "))))
}

/// Rejects a search without filters, or with unknown ones. `own` are filters that Mojaloop does not have.
pub(crate) fn check_filters(parameters: &Parameters, names: &[&str], own: &[&str]) -> Result<(), ApiError> {
    parameters.only(&[names, own].concat())?;
    if names.iter().chain(own).any(|name| parameters.get(name).is_some()) {
        return Ok(());
    }
    let detail = format!("Use at least one parameter: {}", names.join(", "));
    Err(ApiError::new(ErrorName::FilterRequired, &detail))
}

/// The windows that match all filters, newest change first. None is an error, as portals expect it.
pub(crate) async fn list(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    check_filters(&parameters, &FILTERS, &[CLOSE_REASON])?;
    let participant = positive(&parameters, "participantId")?;
    let state = one_of(&parameters, "state", &STATES)?;
    let period = Period::read(&parameters, "fromDateTime", "toDateTime")?;
    let currency = parameters.currency()?;
    let close_reason = parameters.get(CLOSE_REASON).map(str::to_owned);
    let found = call.ask(move |ledger| {
        let windows = ledger.windows().iter().filter(|window| {
            state.is_none_or(|state| window.state.as_str() == state)
                && period.contains(window.created_at)
                && (close_reason.is_none() || window.close_reason.as_deref() == close_reason.as_deref())
        });
        let windows = newest_first(windows);
        let windows = windows.into_iter().filter(|window| uses(ledger, window, participant, currency));
        windows.take(FOUND_MAX).map(|window| WindowView::of(ledger, window)).collect::<Vec<_>>()
    });
    let found = found.await?;
    if found.is_empty() {
        return Err(ApiError::new(ErrorName::NothingFound, "settlementWindow by filters not found"));
    }
    ok(&found)
}

/// Windows, newest change first.
fn newest_first<'a>(windows: impl Iterator<Item = &'a Window>) -> Vec<&'a Window> {
    let mut windows: Vec<_> = windows.collect();
    windows.sort_unstable_by_key(|window| Reverse((window.changed_at, window.id)));
    windows
}

/// The windows with the highest numbers below `before`, the highest first, and the number to continue before.
pub fn newest_windows(ledger: &Ledger, before: Option<u32>, max: usize) -> (Vec<WindowView>, Option<u32>) {
    let is_before = |window: &&Window| before.is_none_or(|before| window.id.0 < before);
    let mut windows = ledger.windows().iter().rev().filter(is_before);
    let page: Vec<_> = windows.by_ref().take(max).map(|window| WindowView::of(ledger, window)).collect();
    let next = windows.next().and(page.last()).map(|last| last.settlement_window_id);
    (page, next)
}

/// A window.
///
/// # Errors
/// The window does not exist.
pub fn window(ledger: &Ledger, id: u32) -> Result<WindowView, ApiError> {
    let window = ledger.window(WindowId(id)).map(|window| WindowView::of(ledger, window));
    window.ok_or_else(|| ApiError::from(AdminRefusal::WindowUnknown { window: WindowId(id) }))
}

/// Whether an account of the participant, in the currency, took part in a window.
fn uses(ledger: &Ledger, window: &Window, participant: Option<u32>, currency: Option<Currency>) -> bool {
    if participant.is_none() && currency.is_none() {
        return true;
    }
    let is_wanted = |id: AccountId| {
        ledger.account(id).is_some_and(|account| {
            participant.is_none_or(|number| account.participant.number() == number)
                && currency.is_none_or(|currency| account.currency == currency)
        })
    };
    match ledger.window_pairs(window) {
        Some(pairs) => pairs.iter().any(|pair| is_wanted(pair.payer) || is_wanted(pair.payee)),
        // The pairs of an old window are dropped; its settlements still name the accounts.
        None => window.contents.iter().filter_map(|content| content.settlement).any(|id| {
            let accounts = ledger.settlement(id).into_iter().flat_map(|settlement| &settlement.accounts);
            accounts.into_iter().any(|item| is_wanted(item.account))
        }),
    }
}

const _: () = assert!(STATES.len() == WindowState::ALL.len() + 2);

// `/v2/settlementWindows/{id}/pairs`: the obligations between the DFSPs of a window, pair by pair.

const PAIRS_DEFAULT: usize = 1_000;
const PAIRS_MAX: usize = 10_000;

/// A page of the obligations of a window.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairsView {
    pub settlement_window_id: u32,
    pub pairs: Vec<PairView>,
    pub next: Option<PairKey>,
}

/// The committed transfers from one account to another.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairView {
    pub payer: PartyView,
    pub payee: PartyView,
    pub currency: Code,
    pub ledger_account_type: String,
    pub amount: WideDecimal,
    pub transfers: u64,
}

/// A participant with its account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartyView {
    pub name: String,
    pub participant_id: u32,
    pub account_id: u32,
}

/// A sum as a JSON number; it may have more digits than an amount.
#[derive(Clone, Copy, Debug)]
pub struct WideDecimal(pub Sum);

impl Serialize for WideDecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        digits(self.0.to_string(), serializer)
    }
}

/// A pair of accounts, such as `3-5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairKey(AccountId, AccountId);

impl PairKey {
    fn of(pair: &PairSum) -> Self {
        Self(pair.payer, pair.payee)
    }

    /// Reads the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (payer, payee) = text.split_once('-')?;
        Some(Self(AccountId::new(payer.parse().ok()?)?, AccountId::new(payee.parse().ok()?)?))
    }
}

impl fmt::Display for PairKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.number(), self.1.number())
    }
}

impl Serialize for PairKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A page of a window's pairs, ordered by account. Pairs of the open window may grow meanwhile.
pub(crate) async fn list_pairs(
    call: Call,
    Segments(id): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.only(&["limit", "after"])?;
    let id = WindowId(number(&id, "id")?);
    let limit = parameters.count("limit", PAIRS_DEFAULT, PAIRS_MAX)?;
    let malformed = || ApiError::malformed("\"after\" must be the \"next\" of the page before");
    let after = parameters.get("after").map(|text| PairKey::parse(text).ok_or_else(malformed)).transpose()?;
    let page = call.ask(move |ledger| pairs_after(ledger, id, after, limit));
    ok(&page.await??)
}

/// The pairs of a window behind a pair, or the first ones.
///
/// # Errors
/// The window does not exist, or its sums were dropped.
pub fn pairs_behind(
    ledger: &Ledger,
    id: u32,
    after: Option<PairKey>,
    max: usize,
) -> Result<PairsView, ApiError> {
    pairs_after(ledger, WindowId(id), after, max)
}

fn pairs_after(
    ledger: &Ledger,
    id: WindowId,
    after: Option<PairKey>,
    limit: usize,
) -> Result<PairsView, ApiError> {
    let Some(window) = ledger.window(id) else {
        return Err(ApiError::from(AdminRefusal::WindowUnknown { window: id }));
    };
    let pairs = ledger.window_pairs(window);
    let pairs = pairs.ok_or_else(|| {
        let detail = format!("The sums of window {id} are no longer retained");
        ApiError::new(ErrorName::WindowPairsNotRetained, &detail)
    })?;
    Ok(page_of_pairs(ledger, id, &pairs, after, limit))
}

fn page_of_pairs(
    ledger: &Ledger,
    id: WindowId,
    pairs: &[PairSum],
    after: Option<PairKey>,
    limit: usize,
) -> PairsView {
    let begin = after.map_or(0, |after| pairs.partition_point(|pair| PairKey::of(pair) <= after));
    let rest = &pairs[begin..];
    let shown = &rest[..limit.min(rest.len())];
    PairsView {
        settlement_window_id: id.0,
        pairs: shown.iter().filter_map(|pair| PairView::of(ledger, pair)).collect(),
        next: shown.last().filter(|_| shown.len() < rest.len()).map(PairKey::of),
    }
}

impl PairView {
    fn of(ledger: &Ledger, pair: &PairSum) -> Option<Self> {
        let account = ledger.account(pair.payer)?;
        Some(Self {
            payer: PartyView::of(ledger, pair.payer)?,
            payee: PartyView::of(ledger, pair.payee)?,
            currency: Code(account.currency),
            ledger_account_type: ledger.account_type_name(account.kind).to_owned(),
            amount: WideDecimal(pair.sum),
            transfers: pair.sum.transfers,
        })
    }
}

impl PartyView {
    fn of(ledger: &Ledger, id: AccountId) -> Option<Self> {
        let participant = ledger.account(id)?.participant;
        let name = ledger.participant(participant).name.to_string();
        Some(Self { name, participant_id: participant.number(), account_id: id.number() })
    }
}
