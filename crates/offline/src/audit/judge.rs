//! Checks whether a transfer may end as recorded, and whether its parties receive callbacks.

use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, AccountId, Callback, CallbackContent, Event, ParticipantId, PublicState, Transfer,
};
use upesi_types::{Timestamp, TransferId};

/// The fault in the number of callbacks to a party; for items, the bulk transfer has the callbacks.
pub(super) const fn not_due(due: usize) -> &'static str {
    if due == 1 { "not once" } else { "though it is an item of a bulk transfer" }
}

/// A transfer in flight.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub payer: ParticipantId,
    pub payee: ParticipantId,
    pub payer_account: AccountId,
    pub payee_account: AccountId,
    pub units: i128,
    pub condition: [u8; 32],
    pub expires_at: Timestamp,
}

impl InFlight {
    /// From a reserved transfer; `None` if it lacks parties or accounts.
    pub fn of(transfer: &Transfer) -> Option<Self> {
        Some(Self {
            payer: transfer.payer?,
            payee: transfer.payee?,
            payer_account: transfer.payer_account?,
            payee_account: transfer.payee_account?,
            units: i128::from(transfer.amount.units()),
            condition: transfer.condition,
            expires_at: transfer.expires_at,
        })
    }
}

/// Data about a record in addition to its content.
#[derive(Clone, Copy)]
pub(super) struct RecordContext<'a> {
    pub seq: u64,
    pub time: Timestamp,
    pub callbacks: &'a [Callback],
    pub events: &'a [Event],
}

impl RecordContext<'_> {
    /// Whether the record decides an item of a bulk transfer.
    pub fn decides_item(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::BulkItemDecided { .. }))
    }

    /// Number of callbacks of a certain kind to `target` about a transfer.
    pub fn about(
        &self,
        id: TransferId,
        target: ParticipantId,
        is_right: impl Fn(&CallbackContent) -> bool,
    ) -> usize {
        let matches = |callback: &&Callback| {
            callback.target == target
                && callback.subject.transfer_id() == Some(id)
                && is_right(&callback.content)
        };
        self.callbacks.iter().filter(matches).count()
    }
}

pub(super) fn judge_commit(
    place: RecordContext<'_>,
    id: TransferId,
    transfer: &InFlight,
    fulfilment: &[u8; 32],
    is_item: bool,
) -> Vec<String> {
    let mut findings = Vec::new();
    let mut find = |text: String| findings.push(format!("record {}: transfer {id} {text}", place.seq));
    if Sha256::digest(fulfilment).as_slice() != transfer.condition {
        find("is committed with a fulfilment that is not the condition's preimage".to_owned());
    }
    // The time of an item's answer is the time of its bulk transfer's answer, which is checked elsewhere.
    if transfer.expires_at <= place.time && !is_item {
        find(format!("is committed although it expired at {}", transfer.expires_at));
    }
    let callbacks = place.about(id, transfer.payer, |content| match content {
        CallbackContent::ForwardFulfil => true,
        CallbackContent::State(_, view) => view.state == PublicState::Committed && view.fulfilment.is_some(),
        _ => false,
    });
    let due = usize::from(!is_item);
    if callbacks != due {
        find(format!("is committed, but the payer is notified {callbacks} times, {}", not_due(due)));
    }
    findings
}

pub(super) fn judge_abort(
    place: RecordContext<'_>,
    id: TransferId,
    transfer: &InFlight,
    kind: AbortKind,
    by_operator: bool,
    is_item: bool,
) -> Vec<String> {
    let mut findings = Vec::new();
    let mut find = |text: String| findings.push(format!("record {}: transfer {id} {text}", place.seq));
    if matches!(kind, AbortKind::Invalid | AbortKind::Rejected) {
        find(format!("was reserved, but is aborted as {}", kind.as_str()));
    }
    if by_operator && kind != AbortKind::Expired {
        find(format!("is ended by an operator, but as {}", kind.as_str()));
    }
    if kind == AbortKind::Expired && !by_operator && transfer.expires_at > place.time {
        find(format!("expires before its time, {}", transfer.expires_at));
    }
    if is_item {
        if place.callbacks.iter().any(|callback| callback.subject.transfer_id() == Some(id)) {
            find("is an item of a bulk transfer, but a party is notified of it separately".to_owned());
        }
        return findings;
    }
    if kind == AbortKind::Expired && transfer.payee != transfer.payer {
        let callbacks =
            place.about(id, transfer.payee, |content| matches!(content, CallbackContent::Error(..)));
        if callbacks != 1 {
            find(format!("expires, but the payee is notified {callbacks} times, not once"));
        }
    }
    let callbacks = place.about(id, transfer.payer, |content| {
        matches!(content, CallbackContent::ForwardAbort | CallbackContent::Error(..))
    });
    // A DFSP that pays itself gets callbacks as payer and as payee.
    let is_right = if transfer.payer == transfer.payee { callbacks >= 1 } else { callbacks == 1 };
    if !is_right {
        find(format!("is aborted, but the payer is notified {callbacks} times, not once"));
    }
    findings
}
