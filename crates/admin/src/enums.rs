//! `GET /enums`: names and their numbers, for portals.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{EndpointType, LedgerAccountType, ParticipantId};

use crate::call::Call;
use crate::error::ApiError;
use crate::json::{Flag, Instant, ok};
use crate::limits::NET_DEBIT_CAP;

const LEDGER_ENTRY_TYPES: [&str; 10] = [
    "PRINCIPLE_VALUE",
    "INTERCHANGE_FEE",
    "HUB_FEE",
    "POSITION_DEPOSIT",
    "POSITION_WITHDRAWAL",
    "SETTLEMENT_NET_RECIPIENT",
    "SETTLEMENT_NET_SENDER",
    "SETTLEMENT_NET_ZERO",
    "RECORD_FUNDS_IN",
    "RECORD_FUNDS_OUT",
];

const ROLE_TYPES: [&str; 7] = [
    "PAYER_DFSP",
    "PAYEE_DFSP",
    "HUB",
    "DFSP_SETTLEMENT",
    "DFSP_POSITION",
    "INITIATING_FSP",
    "COUNTER_PARTY_FSP",
];

/// Internal states, and the states that DFSPs see. This hub uses some of them; portals know all.
const TRANSFER_STATES: [(&str, &str); 16] = [
    ("RECEIVED_PREPARE", "RECEIVED"),
    ("INVALID", "ABORTED"),
    ("RESERVED", "RESERVED"),
    ("RESERVED_FORWARDED", "RESERVED"),
    ("RECEIVED_FULFIL", "RESERVED"),
    ("RECEIVED_FULFIL_DEPENDENT", "RESERVED"),
    ("COMMITTED", "COMMITTED"),
    ("RECEIVED_ERROR", "RESERVED"),
    ("ABORTED_ERROR", "ABORTED"),
    ("RECEIVED_REJECT", "RESERVED"),
    ("ABORTED_REJECTED", "ABORTED"),
    ("RESERVED_TIMEOUT", "RESERVED"),
    ("EXPIRED_RESERVED", "ABORTED"),
    ("EXPIRED_PREPARED", "ABORTED"),
    ("FAILED", "ABORTED"),
    ("SETTLED", "SETTLED"),
];

const BULK_PROCESSING_STATES: [&str; 11] = [
    "RECEIVED",
    "RECEIVED_DUPLICATE",
    "RECEIVED_INVALID",
    "ACCEPTED",
    "PROCESSING",
    "FULFIL_DUPLICATE",
    "FULFIL_INVALID",
    "COMPLETED",
    "REJECTED",
    "EXPIRED",
    "ABORTING",
];

const BULK_TRANSFER_STATES: [(&str, &str); 12] = [
    ("RECEIVED", "RECEIVED"),
    ("PENDING_PREPARE", "PENDING"),
    ("PENDING_INVALID", "PENDING"),
    ("ACCEPTED", "ACCEPTED"),
    ("PROCESSING", "PROCESSING"),
    ("PENDING_FULFIL", "PROCESSING"),
    ("EXPIRING", "PROCESSING"),
    ("ABORTING", "PROCESSING"),
    ("COMPLETED", "COMPLETED"),
    ("EXPIRED", "COMPLETED"),
    ("REJECTED", "REJECTED"),
    ("INVALID", "REJECTED"),
];

type Numbers = BTreeMap<String, u32>;
type Names = BTreeMap<&'static str, &'static str>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Enums {
    endpoint_type: Numbers,
    hub_participant: HubParticipant,
    ledger_account_type: Numbers,
    ledger_entry_type: Numbers,
    participant_limit_type: Numbers,
    transfer_participant_role_type: Numbers,
    transfer_state: Names,
    transfer_state_enum: Names,
    bulk_processing_state: Numbers,
    bulk_transfer_state: Names,
    bulk_transfer_state_enum: Names,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HubParticipant {
    participant_id: u32,
    name: String,
    is_active: Flag,
    created_date: Instant,
}

/// Numbers the names from 1 in their order.
fn numbered(names: impl IntoIterator<Item = impl ToString>) -> Numbers {
    names.into_iter().zip(1..).map(|(name, number)| (name.to_string(), number)).collect()
}

fn to_themselves(states: &[(&'static str, &'static str)]) -> Names {
    states.iter().map(|(name, _)| (*name, *name)).collect()
}

pub(crate) async fn get(call: Call) -> Result<Response, ApiError> {
    let enums = call.ask(|ledger| {
        let hub = ledger.participant(ParticipantId::HUB);
        let number = |kind: &LedgerAccountType| (kind.name.to_string(), u32::from(kind.id.0));
        Enums {
            endpoint_type: numbered(EndpointType::all().map(EndpointType::name)),
            hub_participant: HubParticipant {
                participant_id: hub.id.number(),
                name: hub.name.to_string(),
                is_active: Flag(hub.is_active),
                created_date: Instant(hub.created_at),
            },
            ledger_account_type: ledger.account_types().iter().map(number).collect(),
            ledger_entry_type: numbered(LEDGER_ENTRY_TYPES),
            participant_limit_type: numbered([NET_DEBIT_CAP]),
            transfer_participant_role_type: numbered(ROLE_TYPES),
            transfer_state: to_themselves(&TRANSFER_STATES),
            transfer_state_enum: TRANSFER_STATES.into_iter().collect(),
            bulk_processing_state: numbered(BULK_PROCESSING_STATES),
            bulk_transfer_state: to_themselves(&BULK_TRANSFER_STATES),
            bulk_transfer_state_enum: BULK_TRANSFER_STATES.into_iter().collect(),
        }
    });
    ok(&enums.await?)
}
