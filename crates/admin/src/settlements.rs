//! `/v2/settlements`: settlements of closed windows, the states of their accounts, and their abort.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use serde::Serialize;
use upesi_ledger::command::{
    AdvanceFault, AdvanceItem, CoverItem, NewSettlement, SettlementAbort, SettlementAdvance, SettlementCover,
};
use upesi_ledger::{
    Account, AccountId, AdminCommand, AdminOutcome, AdminRefusal, Content, Ledger, Settlement,
    SettlementAccount, SettlementId, SettlementState, Window, WindowId,
};
use upesi_types::Amount;

use super::body::Field;
use super::call::{Parameters, Segments};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Code, Decimal, Instant, ok};
use crate::settlement_windows::{ContentView, FOUND_MAX, Period, check_filters, number, one_of, positive};
use crate::transfers::REASON_CHARS_MAX;

/// Maximum length of a bank reference, in characters.
const REFERENCE_CHARS_MAX: usize = 50;
/// Maximum number of windows in a request.
const WINDOWS_MAX: usize = 1_000;
/// Maximum number of participants, or accounts of one, in a request.
const ITEMS_MAX: usize = 5_000;
/// A filter of this hub: the reason of a creation, whatever the later states of the settlement.
const CREATION_REASON: &str = "creationReason";
/// A filter of this hub: only settlements with a lower number than this, so that clients can read all of them.
const BEFORE: &str = "before";
/// Maximum number of accounts in the settlements of an answer.
const FOUND_ACCOUNTS_MAX: usize = 10_000;
const FILTERS: [&str; 9] = [
    "currency",
    "participantId",
    "settlementWindowId",
    "accountId",
    "state",
    "fromDateTime",
    "toDateTime",
    "fromSettlementWindowDateTime",
    "toSettlementWindowDateTime",
];

/// A settlement with its windows and accounts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettlementView {
    pub id: u32,
    pub settlement_model: String,
    pub state: &'static str,
    pub reason: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_reference: Option<Box<str>>,
    pub created_date: Instant,
    pub changed_date: Instant,
    pub settlement_windows: Vec<SettledWindow>,
    pub participants: Vec<Party>,
}

/// A window with the contents that belong to this settlement.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledWindow {
    pub id: u32,
    pub state: &'static str,
    pub reason: Box<str>,
    pub created_date: Instant,
    pub changed_date: Instant,
    pub content: Vec<ContentView>,
}

/// A participant of a settlement.
#[derive(Serialize)]
pub struct Party {
    pub id: u32,
    #[serde(skip)]
    pub name: String,
    pub accounts: Vec<AccountView>,
}

/// An account of a settlement.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    pub id: u32,
    pub state: &'static str,
    pub reason: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_reference: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_date: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_settlement_amount: Option<Money>,
    /// The deposit or withdrawal that moved the cover of the net.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover_transfer_id: Option<String>,
    /// Remainder of earlier settlements, below the currency's smallest unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_in: Option<Decimal>,
    /// Remainder of this settlement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_over: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_information: Option<ErrorInformation>,
}

/// An amount with its currency.
#[derive(Serialize)]
pub struct Money {
    pub amount: Decimal,
    pub currency: Code,
}

/// The reason why an account did not advance.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorInformation {
    pub error_code: String,
    pub error_description: String,
    pub error_name: &'static str,
}

impl From<AdvanceFault> for ErrorInformation {
    fn from(fault: AdvanceFault) -> Self {
        let name = ErrorName::of_advance(fault);
        Self {
            error_code: name.code().to_string(),
            error_description: name.code().describe(fault.as_str()),
            error_name: name.as_str(),
        }
    }
}

impl AccountView {
    fn of(account: &Account, item: &SettlementAccount) -> Self {
        Self {
            id: item.account.number(),
            state: item.state.as_str(),
            reason: item.reason.clone(),
            external_reference: item.external_reference.clone(),
            created_date: Some(Instant(item.created_at)),
            net_settlement_amount: Some(Money {
                amount: Decimal(item.net),
                currency: Code(account.currency),
            }),
            cover_transfer_id: item.funds.map(|funds| funds.to_string()),
            carried_in: Some(Decimal(item.carried_in)).filter(|carried| carried.0 != Amount::ZERO),
            carried_over: Some(Decimal(item.carried_over)).filter(|carried| carried.0 != Amount::ZERO),
            error_information: None,
        }
    }

    /// A requested account that the settlement does not have.
    fn unknown(item: &AdvanceItem) -> Self {
        Self {
            id: item.account,
            state: item.state.as_str(),
            reason: item.reason.clone(),
            external_reference: item.external_reference.clone(),
            created_date: None,
            net_settlement_amount: None,
            cover_transfer_id: None,
            carried_in: None,
            carried_over: None,
            error_information: None,
        }
    }
}

/// The accounts of a settlement in a view.
#[derive(Clone, Copy, Default)]
struct AccountFilter {
    participant: Option<u32>,
    account: Option<u32>,
}

impl AccountFilter {
    fn contains(self, account: &Account) -> bool {
        self.participant.is_none_or(|number| account.participant.number() == number)
            && self.account.is_none_or(|number| account.id.number() == number)
    }
}

/// The account of each entry of a settlement.
fn accounts<'a>(
    ledger: &'a Ledger,
    settlement: &'a Settlement,
) -> impl Iterator<Item = (&'a Account, &'a SettlementAccount)> {
    settlement.accounts.iter().filter_map(|item| Some((ledger.account(item.account)?, item)))
}

fn windows_of<'a>(ledger: &'a Ledger, settlement: &Settlement) -> Vec<&'a Window> {
    let mut ids: Vec<_> = settlement.contents.iter().map(|place| place.window).collect();
    ids.dedup();
    ids.into_iter().filter_map(|id| ledger.window(id)).collect()
}

impl SettlementView {
    fn of(ledger: &Ledger, settlement: &Settlement, part: AccountFilter) -> Self {
        let mut participants = BTreeMap::<u32, (String, Vec<AccountView>)>::new();
        for (account, item) in accounts(ledger, settlement).filter(|(account, _)| part.contains(account)) {
            let name = || ledger.participant(account.participant).name.to_string();
            let entry = participants.entry(account.participant.number());
            entry.or_insert_with(|| (name(), Vec::new())).1.push(AccountView::of(account, item));
        }
        let model = ledger.models().iter().find(|model| model.id == settlement.model);
        Self {
            id: settlement.id.0,
            settlement_model: model.map_or_else(String::new, |model| model.name.to_string()),
            state: settlement.state.as_str(),
            reason: settlement.reason.clone(),
            external_reference: settlement.external_reference.clone(),
            created_date: Instant(settlement.created_at),
            changed_date: Instant(settlement.changed_at),
            settlement_windows: settled_windows(ledger, settlement, |_| true),
            participants: participants
                .into_iter()
                .map(|(id, (name, accounts))| Party { id, name, accounts })
                .collect(),
        }
    }
}

/// The windows of a settlement with the requested contents.
fn settled_windows(
    ledger: &Ledger,
    settlement: &Settlement,
    is_wanted: impl Fn(&Content) -> bool,
) -> Vec<SettledWindow> {
    let view = |window: &Window| {
        let is_settled = |content: &&Content| {
            settlement.contents.iter().any(|place| place.content == content.id) && is_wanted(content)
        };
        let mut contents = window.contents.iter().filter(is_settled).peekable();
        contents.peek()?;
        Some(SettledWindow {
            id: window.id.0,
            state: window.state.as_str(),
            reason: window.reason.clone(),
            created_date: Instant(window.created_at),
            changed_date: Instant(window.changed_at),
            content: contents.map(|content| ContentView::of(ledger, content)).collect(),
        })
    };
    windows_of(ledger, settlement).into_iter().filter_map(view).collect()
}

/// The settlements up to the first with which the answer has enough accounts.
fn within_accounts_max<'a>(
    settlements: impl Iterator<Item = &'a Settlement>,
) -> impl Iterator<Item = &'a Settlement> {
    let mut accounts_len = 0;
    settlements.take_while(move |settlement| {
        let is_room = accounts_len < FOUND_ACCOUNTS_MAX;
        accounts_len += settlement.accounts.len();
        is_room
    })
}

/// The newest settlements whose numbers are below `before`, newest first, and the number to continue before. The number
/// of accounts is bounded as in the JSON API.
pub fn newest_settlements(
    ledger: &Ledger,
    before: Option<u32>,
    max: usize,
) -> (Vec<SettlementView>, Option<u32>) {
    let is_before = |settlement: &&Settlement| before.is_none_or(|before| settlement.id.0 < before);
    let newest = ledger.settlements().iter().rev().filter(is_before);
    let view = |settlement| SettlementView::of(ledger, settlement, AccountFilter::default());
    let page: Vec<_> = within_accounts_max(newest.clone().take(max)).map(view).collect();
    let next = newest.clone().nth(page.len()).and(page.last()).map(|last| last.id);
    (page, next)
}

/// A settlement.
///
/// # Errors
/// The settlement does not exist.
pub fn settlement(ledger: &Ledger, id: u32) -> Result<SettlementView, ApiError> {
    let found = ledger.settlement(SettlementId(id));
    let view = found.map(|settlement| SettlementView::of(ledger, settlement, AccountFilter::default()));
    view.ok_or_else(|| unknown(SettlementId(id)))
}

fn unknown(id: SettlementId) -> ApiError {
    ApiError::new(ErrorName::SettlementNotFound, &format!("Settlement with ID '{id}' not found"))
}

async fn show(call: &Call, id: SettlementId, part: AccountFilter) -> Result<Response, ApiError> {
    let view = call.ask(move |ledger| {
        ledger.settlement(id).map(|settlement| SettlementView::of(ledger, settlement, part))
    });
    let view = view.await?.ok_or_else(|| unknown(id))?;
    if view.participants.is_empty() {
        let (name, detail) = match part {
            AccountFilter { account: Some(account), .. } => {
                (ErrorName::SettlementAccountNotFound, format!("Account {account} not in settlement {id}"))
            }
            AccountFilter { participant, account: None } => (
                ErrorName::SettlementParticipantNotFound,
                format!("Participant {} not in settlement {id}", participant.unwrap_or(0)),
            ),
        };
        return Err(ApiError::new(name, &detail));
    }
    ok(&view)
}

pub(crate) async fn get(call: Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    show(&call, SettlementId(number(&id, "id")?), AccountFilter::default()).await
}

pub(crate) async fn get_participant(
    call: Call,
    Segments((id, participant)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let part = AccountFilter { participant: Some(number(&participant, "participantId")?), account: None };
    show(&call, SettlementId(number(&id, "id")?), part).await
}

pub(crate) async fn get_account(
    call: Call,
    Segments((id, participant, account)): Segments<(String, String, String)>,
) -> Result<Response, ApiError> {
    let part = AccountFilter {
        participant: Some(number(&participant, "participantId")?),
        account: Some(number(&account, "accountId")?),
    };
    show(&call, SettlementId(number(&id, "id")?), part).await
}

/// The settlements that match all filters, newest first. None is an error, as portals expect it.
pub(crate) async fn list(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    check_filters(&parameters, &FILTERS, &[CREATION_REASON, BEFORE])?;
    let part = AccountFilter {
        participant: positive(&parameters, "participantId")?,
        account: positive(&parameters, "accountId")?,
    };
    let window = positive(&parameters, "settlementWindowId")?.map(WindowId);
    let states: Vec<_> = SettlementState::ALL.iter().map(|state| state.as_str()).collect();
    let state = one_of(&parameters, "state", &states)?;
    let created = Period::read(&parameters, "fromDateTime", "toDateTime")?;
    let opened = Period::read(&parameters, "fromSettlementWindowDateTime", "toSettlementWindowDateTime")?;
    let currency = parameters.currency()?;
    let creation_reason = parameters.get(CREATION_REASON).map(str::to_owned);
    let before = positive(&parameters, BEFORE)?;
    let found = call.ask(move |ledger| {
        let is_wanted = |settlement: &&Settlement| {
            state.is_none_or(|state| settlement.state.as_str() == state)
                && before.is_none_or(|before| settlement.id.0 < before)
                && creation_reason.as_deref().is_none_or(|reason| *settlement.creation_reason == *reason)
                && created.contains(settlement.created_at)
                && windows_of(ledger, settlement).iter().any(|one| {
                    opened.contains(one.created_at) && window.is_none_or(|window| one.id == window)
                })
                && accounts(ledger, settlement).any(|(account, _)| {
                    part.contains(account) && currency.is_none_or(|currency| account.currency == currency)
                })
        };
        let wanted = ledger.settlements().iter().rev().filter(is_wanted).take(FOUND_MAX);
        within_accounts_max(wanted)
            .map(|settlement| SettlementView::of(ledger, settlement, part))
            .collect::<Vec<_>>()
    });
    let found = found.await?;
    if found.is_empty() {
        return Err(ApiError::new(ErrorName::NothingFound, "Settlements not found"));
    }
    ok(&found)
}

pub(crate) async fn create(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let model = fields.required("settlementModel")?.text_of(2, 30)?.into();
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    let list = fields.required("settlementWindows")?;
    let mut windows = Vec::new();
    for item in list.array(WINDOWS_MAX)? {
        let item = item.object()?;
        windows.push(WindowId(read_id(&item)?));
        item.only(&["id"])?;
    }
    if windows.is_empty() {
        return Err(list.refuse("must contain at least 1 items"));
    }
    fields.only(&["settlementModel", "reason", "settlementWindows"])?;
    let command = AdminCommand::CreateSettlement(NewSettlement { model, reason, windows });
    match call.change(command).await? {
        AdminOutcome::SettlementCreated(id) => show(&call, id, AccountFilter::default()).await,
        other => Err(unexpected(&other)),
    }
}

fn read_id(fields: &Fields<'_>) -> Result<u32, ApiError> {
    let field = fields.required("id")?;
    let number = field.decimal()?.to_string().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| field.refuse("must be a positive number"))
}

fn unexpected(outcome: &AdminOutcome) -> ApiError {
    ApiError::internal(&format!("the engine answered {outcome:?}"))
}

fn invalid(detail: &str) -> ApiError {
    ApiError::new(ErrorName::SettlementChangeInvalid, detail)
}

/// `PUT /v2/settlements/{id}`: states of accounts, or the abort.
pub(crate) async fn update(
    call: Call,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = SettlementId(number(&id, "id")?);
    let fields = body.fields()?;
    if let Some(participants) = fields.optional("participants") {
        if fields.only(&["participants"]).is_err() {
            return Err(invalid("No other properties are allowed when participants is provided"));
        }
        return advance_accounts(&call, id, read_participants(&participants, read_advance)?).await;
    }
    let (state, reason) = (fields.optional("state"), fields.optional("reason"));
    let (state, reason) = match (state, reason) {
        (Some(state), Some(reason)) => (state, reason.text_of(1, REASON_CHARS_MAX)?.into()),
        (None, None) => return Err(invalid("Invalid request payload input")),
        _ => return Err(ApiError::new(ErrorName::ElementMissing, "State and reason are mandatory")),
    };
    let external_reference = read_reference(&fields)?;
    if fields.only(&["state", "reason", "externalReference"]).is_err() {
        return Err(invalid("Invalid request payload input"));
    }
    if read_state(&state)? != SettlementState::Aborted {
        let exists = call.ask(move |ledger| ledger.settlement(id).is_some()).await?;
        let refusal =
            if exists { AdminRefusal::SettlementStateChange } else { AdminRefusal::SettlementUnknown };
        return Err(refusal.into());
    }
    let abort = SettlementAbort { id, reason, external_reference };
    call.change(AdminCommand::AbortSettlement(abort)).await?;
    show(&call, id, AccountFilter::default()).await
}

pub(crate) async fn update_participant(
    call: Call,
    Segments((id, participant)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let items = read_accounts(number(&participant, "participantId")?, &fields, read_advance)?;
    fields.only(&["accounts"])?;
    advance_accounts(&call, SettlementId(number(&id, "id")?), items).await
}

pub(crate) async fn update_account(
    call: Call,
    Segments((id, participant, account)): Segments<(String, String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let item = read_item(number(&participant, "participantId")?, number(&account, "accountId")?, &fields)?;
    fields.only(&["state", "reason", "externalReference"])?;
    advance_accounts(&call, SettlementId(number(&id, "id")?), vec![item]).await
}

/// `PUT /v2/settlements/{id}/cover`: sets accounts to COMMITTED and records the amounts that the bank moved, together.
pub(crate) async fn move_cover(
    call: Call,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = SettlementId(number(&id, "id")?);
    let fields = body.fields()?;
    let items = read_participants(&fields.required("participants")?, read_cover)?;
    fields.only(&["participants"])?;
    // The answer shows the accounts after the change.
    let asked = items.iter().map(|item| AdvanceItem {
        participant: item.participant,
        account: item.account,
        state: SettlementState::Committed,
        reason: item.reason.clone(),
        external_reference: item.external_reference.clone(),
    });
    let asked = asked.collect();
    advance(&call, id, AdminCommand::MoveCover(SettlementCover { id, items }), asked).await
}

fn read_cover(participant: u32, fields: &Fields<'_>) -> Result<CoverItem, ApiError> {
    let item = CoverItem {
        participant,
        account: read_id(fields)?,
        funds: fields.required("transferId")?.transfer_id()?,
        reason: fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into(),
        external_reference: read_reference(fields)?,
    };
    fields.only(&["id", "transferId", "reason", "externalReference"])?;
    Ok(item)
}

/// The accounts of all participants of a request; `read` reads each from its participant and its fields.
fn read_participants<T>(participants: &Field<'_>, read: ReadAccount<T>) -> Result<Vec<T>, ApiError> {
    let mut items = Vec::new();
    for participant in participants.array(ITEMS_MAX)? {
        let fields = participant.object()?;
        items.extend(read_accounts(read_id(&fields)?, &fields, read)?);
        fields.only(&["id", "accounts"])?;
    }
    if items.is_empty() { Err(participants.refuse("must contain at least 1 items")) } else { Ok(items) }
}

type ReadAccount<T> = fn(participant: u32, account: &Fields<'_>) -> Result<T, ApiError>;

fn read_accounts<T>(participant: u32, fields: &Fields<'_>, read: ReadAccount<T>) -> Result<Vec<T>, ApiError> {
    let accounts = fields.required("accounts")?;
    let list = accounts.array(ITEMS_MAX)?;
    if list.is_empty() {
        return Err(accounts.refuse("must contain at least 1 items"));
    }
    list.iter().map(|account| read(participant, &account.object()?)).collect()
}

fn read_advance(participant: u32, account: &Fields<'_>) -> Result<AdvanceItem, ApiError> {
    let item = read_item(participant, read_id(account)?, account)?;
    account.only(&["id", "state", "reason", "externalReference"])?;
    Ok(item)
}

fn read_item(participant: u32, account: u32, fields: &Fields<'_>) -> Result<AdvanceItem, ApiError> {
    let state = read_state(&fields.required("state")?)?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    Ok(AdvanceItem { participant, account, state, reason, external_reference: read_reference(fields)? })
}

fn read_state(field: &Field<'_>) -> Result<SettlementState, ApiError> {
    field.one_of(SettlementState::ALL.iter(), |state| state.as_str()).copied()
}

fn read_reference(fields: &Fields<'_>) -> Result<Option<Box<str>>, ApiError> {
    let field = fields.optional("externalReference");
    field.map(|field| Ok(field.text_of(1, REFERENCE_CHARS_MAX)?.into())).transpose()
}

/// The settlement with only the accounts of the request, in its order, each with its fault, and with their windows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdvancedView {
    id: u32,
    state: &'static str,
    created_date: Instant,
    settlement_windows: Vec<SettledWindow>,
    participants: Vec<Party>,
}

async fn advance_accounts(
    call: &Call,
    id: SettlementId,
    items: Vec<AdvanceItem>,
) -> Result<Response, ApiError> {
    let command = AdminCommand::AdvanceSettlement(SettlementAdvance { id, items: items.clone() });
    advance(call, id, command, items).await
}

async fn advance(
    call: &Call,
    id: SettlementId,
    command: AdminCommand,
    items: Vec<AdvanceItem>,
) -> Result<Response, ApiError> {
    let faults = match call.change(command).await? {
        AdminOutcome::SettlementAdvanced { faults } => faults,
        other => return Err(unexpected(&other)),
    };
    let view = call.ask(move |ledger| {
        let settlement = ledger.settlement(id)?;
        Some(AdvancedView {
            id: settlement.id.0,
            state: settlement.state.as_str(),
            created_date: Instant(settlement.created_at),
            settlement_windows: affected_windows(ledger, settlement, &items, &faults),
            participants: answers(ledger, settlement, &items, &faults),
        })
    });
    ok(&view.await?.ok_or_else(|| ApiError::from(AdminRefusal::SettlementUnknown))?)
}

/// The windows and contents of the accounts without a fault.
fn affected_windows(
    ledger: &Ledger,
    settlement: &Settlement,
    items: &[AdvanceItem],
    faults: &[(u32, AdvanceFault)],
) -> Vec<SettledWindow> {
    let faulty: BTreeSet<u32> = faults.iter().map(|(at, _)| *at).collect();
    let items = items.iter().zip(0..).filter(|(_, at)| !faulty.contains(at));
    let accounts: BTreeSet<_> = items.filter_map(|(item, _)| AccountId::new(item.account)).collect();
    settled_windows(ledger, settlement, |content| {
        // The nets of windows that were settled long ago are not retained.
        let is_kept = !content.nets.is_empty();
        let has_part = content.nets.iter().any(|net| accounts.contains(&net.account));
        !accounts.is_empty() && (has_part || !is_kept)
    })
}

fn answers(
    ledger: &Ledger,
    settlement: &Settlement,
    items: &[AdvanceItem],
    faults: &[(u32, AdvanceFault)],
) -> Vec<Party> {
    let mut faults = faults.iter().peekable();
    let mut participants: Vec<Party> = Vec::new();
    for (item, index) in items.iter().zip(0_u32..) {
        let found = AccountId::new(item.account).and_then(|id| settlement.account(id));
        let known = found.and_then(|found| Some(AccountView::of(ledger.account(found.account)?, found)));
        let mut view = known.unwrap_or_else(|| AccountView::unknown(item));
        view.error_information =
            faults.next_if(|(at, _)| *at == index).map(|(_, fault)| ErrorInformation::from(*fault));
        match participants.last_mut().filter(|party| party.id == item.participant) {
            Some(party) => party.accounts.push(view),
            None => {
                participants.push(Party { id: item.participant, name: String::new(), accounts: vec![view] })
            }
        }
    }
    participants
}
