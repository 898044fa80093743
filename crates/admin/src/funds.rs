//! Funds in and out: `/participants/{name}/accounts/{id}` and `…/transfers/{transferId}`.

use std::cmp::Reverse;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use upesi_fspiop::fingerprint;
use upesi_ledger::command::{Deposit, FundsAction, FundsEnd, FundsPrepare};
use upesi_ledger::{AdminCommand, AdminRefusal, FundsDirection, FundsState, FundsTransfer, Ledger};
use upesi_types::{Amount, Currency, FspId, Timestamp};

use super::body::Field;
use super::call::{Segments, account_id, participant_name, transfer_id};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{Decimal, Instant, empty, ok, raw};
use crate::transfers::REASON_CHARS_MAX;

/// Maximum length of a bank reference, and of a key or value of an extension, in characters.
const EXTENSION_CHARS_MAX: usize = 128;
/// Maximum number of extensions of a movement of funds.
const EXTENSIONS_MAX: usize = 16;

/// Used instead of an account's number in the path of a deposit: the account of this type.
const SETTLEMENT: &str = "SETTLEMENT";

const PREPARE_ACTIONS: [(&str, FundsDirection); 2] =
    [("recordFundsIn", FundsDirection::In), ("recordFundsOutPrepareReserve", FundsDirection::Out)];
const END_ACTIONS: [(&str, FundsAction); 2] =
    [("recordFundsOutCommit", FundsAction::Commit), ("recordFundsOutAbort", FundsAction::Abort)];

fn read_action<T: Copy>(field: &Field<'_>, known: &'static [(&'static str, T)]) -> Result<T, ApiError> {
    field.one_of(known.iter(), |(name, _)| name).map(|(_, action)| *action)
}

fn read_amount(field: &Field<'_>) -> Result<Amount, ApiError> {
    let amount = field.decimal()?;
    if amount > Amount::ZERO { Ok(amount) } else { Err(field.refuse("must be greater than 0")) }
}

#[derive(Serialize)]
struct Extension {
    key: String,
    value: String,
}

/// Reads `extensionList` as the JSON text of its array.
fn read_extensions(fields: &Fields<'_>) -> Result<Option<Box<str>>, ApiError> {
    let Some(list) = fields.optional("extensionList") else { return Ok(None) };
    let list = list.object()?;
    let mut extensions = Vec::new();
    for item in list.required("extension")?.array(EXTENSIONS_MAX)? {
        let item = item.object()?;
        let text = |name| item.required(name)?.text_of(1, EXTENSION_CHARS_MAX);
        extensions.push(Extension { key: text("key")?, value: text("value")? });
        item.only(&["key", "value"])?;
    }
    list.only(&["extension"])?;
    let text = serde_json::to_string(&extensions);
    Ok(Some(text.map_err(|error| ApiError::internal(&error.to_string()))?.into()))
}

/// A deposit, or the first step of a withdrawal. A withdrawal that exceeds the cover is recorded as rejected, although
/// the request is accepted; [`show`] returns its state.
pub(crate) async fn prepare(
    call: Call,
    Segments((name, account)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let account = if account == SETTLEMENT { None } else { Some(account_id(&account)?) };
    let fields = body.fields()?;
    let id = fields.required("transferId")?.transfer_id()?;
    let external_reference = fields.required("externalReference")?.text_of(1, EXTENSION_CHARS_MAX)?.into();
    let direction = read_action(&fields.required("action")?, &PREPARE_ACTIONS)?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    let money = fields.required("amount")?.object()?;
    let amount = read_amount(&money.required("amount")?)?;
    let currency = money.required("currency")?.currency()?;
    money.only(&["amount", "currency"])?;
    let extensions = read_extensions(&fields)?;
    fields.only(&["transferId", "externalReference", "action", "reason", "amount", "extensionList"])?;
    let fingerprint = fingerprint(&body.0);
    let Some(account) = account else {
        if direction != FundsDirection::In {
            return Err(ApiError::malformed("\"id\" must be a positive number, except for funds in"));
        }
        let deposit =
            Deposit { id, name, amount, currency, external_reference, reason, extensions, fingerprint };
        call.change(AdminCommand::Deposit(deposit)).await?;
        return empty(StatusCode::ACCEPTED);
    };
    let funds = FundsPrepare {
        direction,
        id,
        name,
        account,
        amount,
        currency,
        external_reference,
        reason,
        extensions,
        fingerprint,
    };
    call.change(AdminCommand::PrepareFunds(funds)).await?;
    empty(StatusCode::ACCEPTED)
}

/// The second step of a withdrawal.
pub(crate) async fn end(
    call: Call,
    Segments((name, account, id)): Segments<(String, String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (name, account, id) = (participant_name(&name)?, account_id(&account)?, transfer_id(&id)?);
    let fields = body.fields()?;
    let action = read_action(&fields.required("action")?, &END_ACTIONS)?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    fields.only(&["action", "reason"])?;
    call.change(AdminCommand::EndFunds(FundsEnd { action, id, name, account, reason })).await?;
    empty(StatusCode::ACCEPTED)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FundsView {
    transfer_id: String,
    action: &'static str,
    transfer_state: &'static str,
    amount: Money,
    external_reference: Box<str>,
    reason: Box<str>,
    created_date: Instant,
    changed_date: Instant,
    /// Time at which the hub releases a reserved withdrawal that was not committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension_list: Option<ExtensionList>,
}

#[derive(Serialize)]
struct Money {
    amount: Decimal,
    currency: String,
}

#[derive(Serialize)]
struct ExtensionList {
    extension: Box<RawValue>,
}

impl FundsView {
    fn of(funds: &FundsTransfer) -> Self {
        let is_pending = funds.state == FundsState::Reserved;
        Self {
            transfer_id: funds.id.to_string(),
            action: funds.direction.as_str(),
            transfer_state: funds.state.as_str(),
            amount: Money { amount: Decimal(funds.amount), currency: funds.currency.to_string() },
            external_reference: funds.external_reference.clone(),
            reason: funds.reason.clone(),
            created_date: Instant(funds.created_at),
            changed_date: Instant(funds.changed_at),
            expiration: is_pending.then_some(Instant(funds.expires_at)),
            extension_list: funds
                .extensions
                .as_deref()
                .and_then(raw)
                .map(|extension| ExtensionList { extension }),
        }
    }
}

/// The state of a movement of funds.
pub(crate) async fn show(
    call: Call,
    Segments((name, account, id)): Segments<(String, String, String)>,
) -> Result<Response, ApiError> {
    let (name, account, id) = (participant_name(&name)?, account_id(&account)?, transfer_id(&id)?);
    let answer = call.ask(move |ledger| {
        let participant =
            ledger.participant_named(&name).ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
        let is_here =
            |funds: &&FundsTransfer| funds.participant == participant.id && funds.account == account;
        let found = ledger.funds(id).filter(is_here).map(FundsView::of);
        found.ok_or_else(|| ApiError::from(AdminRefusal::FundsUnknown))
    });
    ok(&answer.await??)
}

/// A movement of funds, for a list.
pub struct MovementView {
    pub id: String,
    pub participant: String,
    pub account: u32,
    pub direction: FundsDirection,
    pub state: FundsState,
    pub amount: Amount,
    pub currency: Currency,
    pub external_reference: Box<str>,
    pub reason: Box<str>,
    pub created: Timestamp,
    pub changed: Timestamp,
    /// Time at which the hub releases a reserved withdrawal.
    pub expires: Option<Timestamp>,
}

/// Withdrawals that the bank has to pay, and all movements, newest first.
pub struct FundsLists {
    pub reserved: Vec<MovementView>,
    pub newest: Vec<MovementView>,
    /// Whether there are more.
    pub has_more: bool,
}

/// The movements of a participant, or of all.
pub fn newest_funds(ledger: &Ledger, participant: Option<&FspId>, max: usize) -> FundsLists {
    let wanted = participant.map(|name| ledger.participant_named(name).map(|participant| participant.id));
    let is_wanted = |funds: &&FundsTransfer| wanted.is_none_or(|wanted| wanted == Some(funds.participant));
    let mut all: Vec<&FundsTransfer> = ledger.all_funds().filter(is_wanted).collect();
    all.sort_unstable_by_key(|funds| (Reverse(funds.created_at), funds.id));
    let view = |funds: &&FundsTransfer| MovementView {
        id: funds.id.to_string(),
        participant: ledger.participant(funds.participant).name.to_string(),
        account: funds.account.0.get(),
        direction: funds.direction,
        state: funds.state,
        amount: funds.amount,
        currency: funds.currency,
        external_reference: funds.external_reference.clone(),
        reason: funds.reason.clone(),
        created: funds.created_at,
        changed: funds.changed_at,
        expires: (funds.state == FundsState::Reserved).then_some(funds.expires_at),
    };
    let reserved = all.iter().filter(|funds| funds.state == FundsState::Reserved);
    FundsLists {
        reserved: reserved.take(max).map(view).collect(),
        newest: all.iter().take(max).map(view).collect(),
        has_more: all.len() > max,
    }
}
