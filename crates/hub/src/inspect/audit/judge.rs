//! Whether a transfer may end as it is recorded, and whether its parties are told.

use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, AccountId, Callback, CallbackContent, Event, Granularity, ParticipantId, PublicState, Settled,
    Transfer,
};
use upesi_types::{Amount, Timestamp, TransferId};

use super::books::{Books, Movement};

/// What is wrong with how often a party was told; items of bulks are told of by their bulk.
pub(super) const fn not_due(due: usize) -> &'static str {
    if due == 1 { "not once" } else { "though it is an item of a bulk" }
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
    /// Of a reserved transfer; `None` when it lacks parties or accounts.
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

/// What is known of a record besides its content.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub seq: u64,
    pub time: Timestamp,
    pub callbacks: &'a [Callback],
    pub events: &'a [Event],
}

impl Place<'_> {
    /// Whether the record decides an item of a bulk.
    pub fn decides_item(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::BulkItemDecided { .. }))
    }

    /// How many callbacks tell `target` about a transfer in a certain way.
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
    place: Place<'_>,
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
    // An item's answer came in time, or its bulk says otherwise.
    if transfer.expires_at <= place.time && !is_item {
        find(format!("is committed although it expired at {}", transfer.expires_at));
    }
    let told = place.about(id, transfer.payer, |content| match content {
        CallbackContent::ForwardFulfil => true,
        CallbackContent::State(_, view) => view.state == PublicState::Committed && view.fulfilment.is_some(),
        _ => false,
    });
    let due = usize::from(!is_item);
    if told != due {
        find(format!("is committed and the payer is told {told} times, {}", not_due(due)));
    }
    findings
}

impl Books {
    /// Whether a commit is settled as the model says that governs its currency then; the text says how not. Without
    /// accounts of cover, or room on them, it is left to the open window.
    pub(super) fn judge_settled(
        &self,
        (debtor, creditor, units): Movement,
        settled: Settled,
    ) -> Option<String> {
        let (currency, _) = self.scheme.kind(debtor)?;
        let model =
            self.scheme.position_model(currency).filter(|model| model.granularity == Granularity::Gross);
        let cover = |account, units: i128| {
            let (owner, kind) = (self.scheme.owner(account)?, model?.settlement_account_type);
            let id = self.scheme.account_id_of(owner, currency, kind)?;
            let after = self.scheme.account_of(owner, currency, kind)?.units + units;
            // Withdrawals that are aborted may yet lower it.
            let lowest = if units < 0 { after - self.reserved_for_withdrawal(id) } else { after };
            (lowest.abs() <= i128::from(Amount::MAX.units())).then_some(id)
        };
        let accounts = cover(debtor, units).zip(cover(creditor, -units));
        let expected = accounts.map_or(Settled::InWindow, |(payer, payee)| Settled::AtOnce { payer, payee });
        (settled != expected).then(|| format!("is settled {settled:?}, by its model it is {expected:?}"))
    }
}

pub(super) fn judge_abort(
    place: Place<'_>,
    id: TransferId,
    transfer: &InFlight,
    kind: AbortKind,
    (by_operator, is_item): (bool, bool),
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
            find("is an item of a bulk, and a party is told of it alone".to_owned());
        }
        return findings;
    }
    if kind == AbortKind::Expired && transfer.payee != transfer.payer {
        let told = place.about(id, transfer.payee, |content| matches!(content, CallbackContent::Error(..)));
        if told != 1 {
            find(format!("expires and the payee is told {told} times, not once"));
        }
    }
    let told = place.about(id, transfer.payer, |content| {
        matches!(content, CallbackContent::ForwardAbort | CallbackContent::Error(..))
    });
    // A DFSP that pays itself is told as payer and as payee.
    let is_right = if transfer.payer == transfer.payee { told >= 1 } else { told == 1 };
    if !is_right {
        find(format!("is aborted and the payer is told {told} times, not once"));
    }
    findings
}
