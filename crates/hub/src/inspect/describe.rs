//! Journal records in words, one line each.

use upesi_ledger::{
    Callback, CallbackContent, CallbackKey, Event, FundsDirection, FundsTransfer, Record, Transfer,
    TransferState,
};
use upesi_types::Timestamp;

use super::names::Names;

/// Most items of a list that a line shows.
const ITEMS_SHOWN_MAX: usize = 4;

/// A record as one line: sequence, time, what changed, who is told, size of the request.
pub fn line(seq: u64, time: Timestamp, record: &Record<'_>, names: &Names) -> String {
    let mut parts: Vec<String> = record.events.iter().map(|event| describe_event(event, names)).collect();
    parts.extend(record.callbacks.iter().map(|callback| describe_callback(callback, names)));
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    let bytes = record.payload.headers.len() + record.payload.body.len();
    let payload = if bytes == 0 { String::new() } else { format!(" ({bytes} bytes)") };
    format!("{seq:>8}  {time}  {}{payload}", parts.join("; "))
}

fn describe_event(event: &Event, names: &Names) -> String {
    match event {
        Event::TransferPrepared(transfer) => prepared(transfer, names),
        Event::TransferCommitted { id, .. } => format!("transfer {id} COMMITTED"),
        Event::TransferAborted { id, kind, code, description, operator_reason, .. } => {
            let by = operator_reason.as_ref().map(|reason| format!(" by an operator: {reason:?}"));
            format!("transfer {id} {} {code} {description:?}{}", kind.as_str(), by.unwrap_or_default())
        }
        Event::DecidedAt(at) => format!("decided at {at} by the clock"),
        Event::ClockAccepted { jump_ms, reason } => {
            format!("jump of the clock by {jump_ms} ms accepted: {reason:?}")
        }
        Event::ParticipantCreated { name, is_proxy, .. } => {
            format!("participant {name} created{}", if *is_proxy { " as proxy" } else { "" })
        }
        Event::ParticipantActivitySet { id, is_active } => {
            format!("participant {} {}", names.participant(*id), activity(*is_active))
        }
        Event::AccountCreated { id, .. } => {
            format!("account {} created for {}", id.number(), names.account(*id))
        }
        Event::AccountOpened { id } => format!("account {} opened", names.account(*id)),
        Event::AccountActivitySet { id, is_active } => {
            format!("account {} {}", names.account(*id), activity(*is_active))
        }
        Event::Posted { debit, credit, amount } => {
            format!("posted {amount} from {} to {}", names.account(*credit), names.account(*debit))
        }
        Event::EndpointSet { participant, kind, value } => {
            format!("endpoint {} {} = {value}", names.participant(*participant), kind.name())
        }
        Event::LimitSet { participant, currency, value, .. } => {
            format!("limit {} {currency} {value}", names.participant(*participant))
        }
        Event::SettlementModelCreated(model) => format!("settlement model {} created", model.name),
        Event::SettlementModelActivitySet { id, is_active } => {
            format!("settlement model {id} {}", activity(*is_active))
        }
        Event::LedgerAccountTypeCreated { name, .. } => format!("ledger account type {name} created"),
        Event::FundsPrepared(funds) => funds_prepared(funds, names),
        Event::FundsEnded { id, state, reason } => format!("funds {id} {} {reason:?}", state.as_str()),
        Event::CallbacksDelivered(keys) => format!("delivered {}", keys_text(keys, names)),
        Event::CallbackParked { key, attempts, reason } => {
            format!("parked {} after {attempts} attempts: {reason}", key_text(*key, names))
        }
        Event::CallbacksRedelivered(keys) => format!("to be redelivered {}", keys_text(keys, names)),
        Event::FinishedRemoved { to_seq } => {
            format!("retention removed what finished up to record {to_seq}")
        }
    }
}

fn prepared(transfer: &Transfer, names: &Names) -> String {
    let Transfer { id, amount, currency, .. } = transfer;
    let state = match &transfer.state {
        TransferState::Reserved => format!("RESERVED until {}", transfer.expires_at),
        TransferState::Committed { .. } => "COMMITTED".to_owned(),
        TransferState::Aborted { kind, code, description, .. } => {
            format!("{} {code} {description:?}", kind.as_str())
        }
    };
    let (payer, payee) = (names.party(transfer.payer), names.party(transfer.payee));
    format!("transfer {id} {payer} → {payee} {amount} {currency} {state}")
}

fn funds_prepared(funds: &FundsTransfer, names: &Names) -> String {
    let direction = match funds.direction {
        FundsDirection::In => "in",
        FundsDirection::Out => "out",
    };
    let (owner, state) = (names.participant(funds.participant), funds.state.as_str());
    format!("funds {direction} {} {owner} {} {} {state}", funds.id, funds.amount, funds.currency)
}

fn describe_callback(callback: &Callback, names: &Names) -> String {
    let target = names.participant(callback.target);
    let what = match &callback.content {
        CallbackContent::ForwardPrepare | CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort => {
            "forwarded".to_owned()
        }
        CallbackContent::ConfirmFulfil | CallbackContent::ConfirmAbort => "confirmed".to_owned(),
        CallbackContent::State(_, view) => view.state.as_str().to_owned(),
        CallbackContent::Error(code, _) => format!("error {code}"),
    };
    format!("tell {target} {} {what}", callback.content.method())
}

fn keys_text(keys: &[CallbackKey], names: &Names) -> String {
    let mut texts: Vec<_> = keys.iter().take(ITEMS_SHOWN_MAX).map(|key| key_text(*key, names)).collect();
    if keys.len() > ITEMS_SHOWN_MAX {
        texts.push(format!("and {} more", keys.len() - ITEMS_SHOWN_MAX));
    }
    texts.join(", ")
}

fn key_text(key: CallbackKey, names: &Names) -> String {
    format!("{}.{} to {}", key.seq, key.index, names.participant(key.target))
}

fn activity(is_active: bool) -> &'static str {
    if is_active { "activated" } else { "deactivated" }
}
