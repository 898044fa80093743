//! `/transfers/{id}`: a transfer for operators, its end by an operator, and its transaction.

use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use upesi_fspiop::body::{parse_bulk_transfer, parse_prepare};
use upesi_fspiop::ilp::decode_transaction;
use upesi_fspiop::{SyncError, encode_octets};
use upesi_ledger::command::{Expire, OperatorAction};
use upesi_ledger::{AccountId, Change, Ledger, Transfer, TransferState};
use upesi_types::{FspId, TransferId};

use super::call::{Segments, transfer_id};
use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Code, Decimal, Instant, ok, raw};

/// Maximum length of a reason, in characters.
pub(crate) const REASON_CHARS_MAX: usize = 512;

/// A transfer for operators.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransferView {
    pub transfer_id: String,
    /// State that DFSPs see.
    pub transfer_state: &'static str,
    pub internal_state: &'static str,
    pub payer: Option<Party>,
    pub payee: Option<Party>,
    pub amount: Money,
    pub condition: String,
    pub fulfilment: Option<String>,
    pub expiration: Instant,
    pub prepared_date: Instant,
    pub completed_date: Option<Instant>,
    /// Journal record of the prepare.
    pub prepare_seq: u64,
    pub error_information: Option<ErrorInformation>,
    /// The operator's reason for ending it.
    pub operator_reason: Option<Box<str>>,
    pub extensions: Option<Box<RawValue>>,
    /// Whether the commit settled it. Also true if the hub version that stored it did not record windows.
    #[serde(skip)]
    pub is_committed_without_window: bool,
}

/// A participant of a transfer, with its position account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Party {
    pub name: String,
    pub account_id: Option<u32>,
}

/// An amount with its currency.
#[derive(Serialize)]
pub struct Money {
    pub amount: Decimal,
    pub currency: Code,
}

/// The cause of an abort.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorInformation {
    pub error_code: String,
    pub error_description: Box<str>,
}

pub(crate) async fn get(call: Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    show(&call, transfer_id(&id)?).await
}

/// Ends a reservation by the rules of expiry; returns the transfer after that.
pub(crate) async fn end(
    call: Call,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = transfer_id(&id)?;
    let fields = body.fields()?;
    fields.required("action")?.one_of(["expire"].iter(), |name| name)?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into_boxed_str();
    fields.only(&["action", "reason"])?;
    let expire = Expire { transfer: id, reason };
    let object = Change::of_expire(&expire).what;
    call.act(Permission::TransferEnd, OperatorAction::Expire(expire), object).await?;
    show(&call, id).await
}

async fn show(call: &Call, id: TransferId) -> Result<Response, ApiError> {
    ok(&read(call, id).await?)
}

/// A transfer, if the caller may see it.
///
/// # Errors
/// The transfer does not exist for the caller, or the engine does not answer.
pub async fn read(call: &Call, id: TransferId) -> Result<TransferView, ApiError> {
    let unknown = || ApiError::new(ErrorName::TransferNotFound, &format!("Transfer {id} does not exist"));
    let transfer = call.engine.transfer(id).await?.ok_or_else(unknown)?;
    let own = call.caller.participant;
    let shown = call.ask(move |ledger| {
        let is_own = |own: &FspId| ledger.participant_id(own).is_some_and(|own| transfer.has_party(own));
        if !own.as_ref().is_none_or(is_own) {
            return None;
        }
        let [payer, payee] = parties_of(ledger, &transfer);
        Some(view(transfer, payer, payee))
    });
    // A caller that is not a party of the transfer learns nothing of it.
    shown.await?.ok_or_else(unknown)
}

/// Payer and payee of a transfer.
pub(crate) fn parties_of(ledger: &Ledger, transfer: &Transfer) -> [Option<Party>; 2] {
    let parties = [(transfer.payer, transfer.payer_account), (transfer.payee, transfer.payee_account)];
    parties.map(|(participant, account)| {
        let name = ledger.participant(participant?).name.to_string();
        Some(Party { name, account_id: account.map(AccountId::number) })
    })
}

fn octets(bytes: &[u8; 32]) -> String {
    encode_octets(bytes).iter().copied().map(char::from).collect()
}

pub(crate) fn view(transfer: Transfer, payer: Option<Party>, payee: Option<Party>) -> TransferView {
    let (internal_state, fulfilment, error_information, operator_reason) = match &transfer.state {
        TransferState::Reserved => ("RESERVED", None, None, None),
        TransferState::Committed(end) => ("COMMITTED", Some(octets(&end.fulfilment)), None, None),
        TransferState::Aborted(end) => {
            let (code, description) = upesi_delivery::rejection::cause(&end.cause);
            let error = ErrorInformation {
                error_code: code.to_string(),
                error_description: description.into_owned().into(),
            };
            (end.kind.as_str(), None, Some(error), end.operator_reason.clone())
        }
    };
    let is_committed_without_window =
        matches!(&transfer.state, TransferState::Committed(end) if end.window.is_none());
    TransferView {
        transfer_id: transfer.id.to_string(),
        transfer_state: transfer.public_state().as_str(),
        internal_state,
        payer,
        payee,
        amount: Money { amount: Decimal(transfer.amount), currency: Code(transfer.currency) },
        condition: octets(&transfer.condition),
        fulfilment,
        expiration: Instant(transfer.expires_at),
        prepared_date: Instant(transfer.prepared_at),
        completed_date: transfer.completed_at().map(Instant),
        prepare_seq: transfer.prepare_seq,
        error_information,
        operator_reason,
        extensions: transfer.extensions.as_deref().and_then(raw),
        is_committed_without_window,
    }
}

// `GET /transactions/{id}`: the transaction in a transfer's ILP packet. The id is the transfer's.

pub(crate) async fn get_transaction(
    call: Call,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let id = transfer_id(&id)?;
    let not_found =
        || ApiError::new(ErrorName::TransactionNotFound, &format!("Transfer {id} does not exist"));
    let transfer = call.engine.transfer(id).await?.ok_or_else(not_found)?;
    let packet = packet_of(&call, &transfer).await?;
    let transaction = decode_transaction(&packet).map_err(|error| unreadable(&error.to_string()))?;
    let transaction = RawValue::from_string(transaction)
        .map_err(|_| unreadable("the data of the ILP packet is not JSON"))?;
    ok(&transaction)
}

/// The packet of the request: the transfer's own, or the bulk transfer's that contains it.
async fn packet_of(call: &Call, transfer: &Transfer) -> Result<String, ApiError> {
    let refuse = |error: SyncError| unreadable(&error.description);
    if let Some((bulk, place)) = call.engine.item_of(transfer.prepare_seq).await? {
        let bulk = call.engine.bulk(bulk).await?.ok_or_else(gone)?;
        let body = body_of(call, bulk.prepare_seq).await?;
        let request = parse_bulk_transfer(&body).map_err(refuse)?;
        let mut items = request.items.into_iter();
        let item = items.nth(place as usize).filter(|(id, _)| *id == transfer.id);
        return item
            .map(|(_, item)| item.ilp_packet.into())
            .ok_or_else(|| unreadable("the bulk transfer does not contain it"));
    }
    let body = body_of(call, transfer.prepare_seq).await?;
    Ok(parse_prepare(&body).map_err(refuse)?.ilp_packet.into_owned())
}

/// The body of a request. The journal stores none of rejected requests.
async fn body_of(call: &Call, seq: u64) -> Result<Vec<u8>, ApiError> {
    let payload = call.engine.payload(seq).await?.ok_or_else(gone)?;
    if payload.body.is_empty() {
        return Err(ApiError::new(
            ErrorName::RequestNotRetained,
            "The journal does not store the bodies of rejected requests",
        ));
    }
    Ok(payload.body.into())
}

fn gone() -> ApiError {
    ApiError::new(ErrorName::RequestNotRetained, "The journal no longer holds the request of this transfer")
}

fn unreadable(what: &str) -> ApiError {
    ApiError::internal(&format!("The transaction of this transfer cannot be shown: {what}"))
}
