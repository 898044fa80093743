//! What an export tells of a transfer, whatever the format.

use std::borrow::Cow;

use upesi_ledger::{Transfer, TransferState};
use upesi_types::Timestamp;

use crate::inspect::names::Names;

/// The columns, in order: of the same meaning in all formats.
pub const COLUMNS: [&str; 15] = [
    "transferId",
    "payerFsp",
    "payeeFsp",
    "amount",
    "currency",
    "state",
    "errorCode",
    "errorDescription",
    "preparedAt",
    "completedAt",
    "expiration",
    "condition",
    "fulfilment",
    "prepareRecord",
    "extensions",
];

/// A transfer with names in place of numbers, and its state taken apart.
pub(super) struct Row<'a> {
    pub(super) transfer: &'a Transfer,
    pub(super) id: String,
    /// Absent where a refused prepare named an unknown DFSP.
    pub(super) payer: Option<String>,
    pub(super) payee: Option<String>,
    pub(super) state: &'static str,
    /// Of an abort.
    pub(super) error_code: Option<u16>,
    pub(super) error_description: Option<Cow<'a, str>>,
    pub(super) completed_at: Option<Timestamp>,
    pub(super) fulfilment: Option<&'a [u8; 32]>,
}

impl<'a> Row<'a> {
    pub(super) fn of(transfer: &'a Transfer, names: &Names) -> Self {
        let name = |id: Option<upesi_ledger::ParticipantId>| id.map(|id| names.participant(id));
        let (state, error_code, error_description, fulfilment) = match &transfer.state {
            TransferState::Reserved => ("RESERVED", None, None, None),
            TransferState::Committed { fulfilment, .. } => ("COMMITTED", None, None, Some(fulfilment)),
            TransferState::Aborted { kind, cause, .. } => {
                let (code, description) = upesi_fspiop::refusal::cause(cause);
                (kind.as_str(), Some(code.number()), Some(description), None)
            }
        };
        Self {
            transfer,
            id: transfer.id.to_string(),
            payer: name(transfer.payer),
            payee: name(transfer.payee),
            state,
            error_code,
            error_description,
            completed_at: transfer.completed_at(),
            fulfilment,
        }
    }
}
