//! Journal records as JSON, one object each. Amounts are strings, as on the wire, so that no reader rounds them.

use serde_json::{Map, Value, json};
use upesi_ledger::{
    Callback, CallbackContent, CallbackKey, Event, FundsTransfer, Record, SettlementModel, Transfer,
    TransferState,
};
use upesi_types::Timestamp;

use super::names::Names;

/// A record as a JSON object. `with_payload` adds the request's headers and body, which hold personal data.
pub fn record(seq: u64, time: Timestamp, record: &Record<'_>, names: &Names, with_payload: bool) -> Value {
    let mut object = json!({
        "seq": seq,
        "time": time.to_string(),
        "timeNs": time.as_ns(),
        "events": record.events.iter().map(|event| event_json(event, names)).collect::<Vec<_>>(),
        "callbacks": record.callbacks.iter().map(|callback| callback_json(callback, names)).collect::<Vec<_>>(),
        "payload": {
            "headerBytes": record.payload.headers.len(),
            "bodyBytes": record.payload.body.len(),
        },
    });
    if with_payload {
        object["payload"]["headers"] = String::from_utf8_lossy(record.payload.headers).into();
        object["payload"]["body"] = String::from_utf8_lossy(record.payload.body).into();
    }
    object
}

fn event_json(event: &Event, names: &Names) -> Value {
    let (kind, mut fields) = fields(event, names);
    let mut object = Map::new();
    object.insert("type".to_owned(), kind.into());
    if let Some(fields) = fields.as_object_mut() {
        object.append(fields);
    }
    Value::Object(object)
}

fn fields(event: &Event, names: &Names) -> (&'static str, Value) {
    match event {
        Event::TransferPrepared(transfer) => ("transferPrepared", transfer_json(transfer, names)),
        Event::TransferCommitted { id, fulfilment, .. } => {
            ("transferCommitted", json!({"transferId": id.to_string(), "fulfilment": hex(fulfilment)}))
        }
        Event::TransferAborted { id, kind, code, description, operator_reason, .. } => (
            "transferAborted",
            json!({
                "transferId": id.to_string(),
                "kind": kind.as_str(),
                "errorCode": code.to_string(),
                "errorDescription": description,
                "operatorReason": operator_reason,
            }),
        ),
        Event::ParticipantCreated { id, name, is_proxy } => {
            ("participantCreated", json!({"id": id.number(), "name": name.as_str(), "isProxy": is_proxy}))
        }
        Event::ParticipantActivitySet { id, is_active } => {
            ("participantActivitySet", json!({"participant": names.participant(*id), "isActive": is_active}))
        }
        Event::AccountCreated { id, participant, currency, kind, is_opened } => (
            "accountCreated",
            json!({
                "id": id.number(),
                "participant": names.participant(*participant),
                "currency": currency.as_str(),
                "ledgerAccountType": names.account_type(*kind),
                "isOpened": is_opened,
            }),
        ),
        Event::AccountOpened { id } => ("accountOpened", json!({"id": id.number()})),
        Event::AccountActivitySet { id, is_active } => {
            ("accountActivitySet", json!({"id": id.number(), "isActive": is_active}))
        }
        Event::Posted { debit, credit, amount } => (
            "posted",
            json!({"debit": debit.number(), "credit": credit.number(), "amount": amount.to_string()}),
        ),
        Event::EndpointSet { participant, kind, value } => (
            "endpointSet",
            json!({"participant": names.participant(*participant), "endpointType": kind.name(), "value": value}),
        ),
        Event::LimitSet { participant, currency, value, alarm_basis_points } => (
            "limitSet",
            json!({
                "participant": names.participant(*participant),
                "currency": currency.as_str(),
                "value": value.to_string(),
                "alarmBasisPoints": alarm_basis_points,
            }),
        ),
        other => rare_fields(other, names),
    }
}

fn rare_fields(event: &Event, names: &Names) -> (&'static str, Value) {
    match event {
        Event::SettlementModelCreated(model) => ("settlementModelCreated", model_json(model, names)),
        Event::SettlementModelActivitySet { id, is_active } => {
            ("settlementModelActivitySet", json!({"id": id, "isActive": is_active}))
        }
        Event::LedgerAccountTypeCreated { id, name, .. } => {
            ("ledgerAccountTypeCreated", json!({"id": id.0, "name": name}))
        }
        Event::FundsPrepared(funds) => ("fundsPrepared", funds_json(funds, names)),
        Event::FundsEnded { id, state, reason } => {
            ("fundsEnded", json!({"transferId": id.to_string(), "state": state.as_str(), "reason": reason}))
        }
        Event::CallbacksDelivered(keys) => ("callbacksDelivered", keys_json(keys, names)),
        Event::CallbacksRedelivered(keys) => ("callbacksRedelivered", keys_json(keys, names)),
        Event::CallbackParked { key, attempts, reason } => (
            "callbackParked",
            json!({"callback": key_json(*key, names), "attempts": attempts, "reason": reason}),
        ),
        Event::FinishedRemoved { to_seq } => ("finishedRemoved", json!({"toSeq": to_seq})),
        Event::DecidedAt(at) => ("decidedAt", json!({"at": at.to_string()})),
        Event::ClockAccepted { jump_ms, reason } => {
            ("clockAccepted", json!({"jumpMs": jump_ms, "reason": reason}))
        }
        // The common ones are above.
        _ => ("unknown", json!({})),
    }
}

fn transfer_json(transfer: &Transfer, names: &Names) -> Value {
    let mut object = json!({
        "transferId": transfer.id.to_string(),
        "payer": names.party(transfer.payer),
        "payee": names.party(transfer.payee),
        "amount": transfer.amount.to_string(),
        "currency": transfer.currency.as_str(),
        "condition": hex(&transfer.condition),
        "expiration": transfer.expires_at.to_string(),
        "state": transfer.public_state().as_str(),
    });
    if let TransferState::Aborted { kind, code, description, .. } = &transfer.state {
        object["kind"] = kind.as_str().into();
        object["errorCode"] = code.to_string().into();
        object["errorDescription"] = (&**description).into();
    }
    object
}

fn funds_json(funds: &FundsTransfer, names: &Names) -> Value {
    json!({
        "transferId": funds.id.to_string(),
        "action": funds.direction.as_str(),
        "participant": names.participant(funds.participant),
        "account": funds.account.number(),
        "hubAccount": funds.hub_account.number(),
        "amount": funds.amount.to_string(),
        "currency": funds.currency.as_str(),
        "externalReference": funds.external_reference,
        "reason": funds.reason,
        "state": funds.state.as_str(),
    })
}

fn model_json(model: &SettlementModel, names: &Names) -> Value {
    json!({
        "id": model.id,
        "name": model.name,
        "settlementGranularity": model.granularity.as_str(),
        "settlementInterchange": model.interchange.as_str(),
        "settlementDelay": model.delay.as_str(),
        "currency": model.currency.map(|currency| currency.to_string()),
        "requireLiquidityCheck": model.require_liquidity_check,
        "ledgerAccountType": names.account_type(model.ledger_account_type),
        "settlementAccountType": names.account_type(model.settlement_account_type),
        "autoPositionReset": model.auto_position_reset,
    })
}

fn callback_json(callback: &Callback, names: &Names) -> Value {
    let mut object = json!({
        "target": names.participant(callback.target),
        "transferId": callback.transfer.to_string(),
        "method": callback.content.method(),
        "endpointType": callback.content.endpoint_type().name(),
        "isForwarded": matches!(
            callback.content,
            CallbackContent::ForwardPrepare | CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort
        ),
    });
    match &callback.content {
        CallbackContent::State(_, view) => object["transferState"] = view.state.as_str().into(),
        CallbackContent::Error(code, description) => {
            object["errorCode"] = code.to_string().into();
            object["errorDescription"] = (&**description).into();
        }
        _ => {}
    }
    object
}

fn keys_json(keys: &[CallbackKey], names: &Names) -> Value {
    json!({"callbacks": keys.iter().map(|key| key_json(*key, names)).collect::<Vec<_>>()})
}

fn key_json(key: CallbackKey, names: &Names) -> Value {
    json!({"target": names.participant(key.target), "seq": key.seq, "index": key.index})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
