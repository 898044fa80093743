//! The row of a transfer, an FX transfer or a bulk transfer in an export, for all formats: with names instead of
//! numbers, and the state as separate columns.

use std::borrow::Cow;

use upesi_ledger::{
    AccountId, Bulk, BulkItem, BulkState, Cause, ChargedFee, FxTransfer, FxTransferSide, FxTransferState,
    ItemState, LegWindows, Obligation, ObligationKind, ParticipantId, Transfer, TransferState, WindowId,
};
use upesi_types::Timestamp;

use super::value::{Row, Value};
use crate::names::Names;

/// A finished entry.
#[derive(Clone, Copy, Debug)]
pub enum Finished<'a> {
    Transfer(&'a Transfer),
    /// An FX transfer.
    FxTransfer(&'a FxTransfer),
    /// A bulk transfer.
    Bulk(&'a Bulk),
}

impl<'a> Finished<'a> {
    pub(super) fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Transfer(transfer) => transfer.completed_at(),
            Self::FxTransfer(fx_transfer) => fx_transfer.completed_at(),
            Self::Bulk(bulk) => bulk.completed_at(),
        }
    }

    /// The obligations that its commit added to a settlement window. Items of bulk transfers are transfers.
    pub(super) fn obligations(self) -> Vec<Obligation> {
        match self {
            Self::Transfer(transfer) => transfer.obligations(),
            Self::FxTransfer(fx_transfer) => fx_transfer.obligations(),
            Self::Bulk(_) => Vec::new(),
        }
    }

    /// Whether it belongs to a window or a participant. In a window, the participant is the owner of an account that
    /// owes or is owed, for itself or as a proxy. Without a window it may also be payer or payee.
    pub(super) fn is_of(self, wanted: ExportSelection, names: &Names) -> bool {
        let own = |obligation: &Obligation| match self {
            // A fee is a separate row.
            Self::Transfer(_) => obligation.kind == ObligationKind::Transfer,
            _ => true,
        };
        let is_counted =
            self.obligations().iter().filter(|one| own(one)).any(|one| wanted.matches(one, names));
        match wanted {
            ExportSelection { window: None, party: None } => true,
            ExportSelection { window: None, party: Some(party) } => is_counted || self.has_party(party),
            ExportSelection { window: Some(_), .. } => is_counted,
        }
    }

    fn has_party(self, party: ParticipantId) -> bool {
        match self {
            Self::Transfer(transfer) => transfer.has_party(party),
            Self::FxTransfer(fx_transfer) => fx_transfer.has_party(party),
            Self::Bulk(_) => false,
        }
    }

    /// Calls `add` with a row for each of its requested obligations.
    pub(super) fn obligation_rows<E>(
        self,
        wanted: ExportSelection,
        names: &Names,
        mut add: impl FnMut(Row<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = self.obligations().into_iter().filter(|one| wanted.matches(one, names));
        wanted.map(|one| of_obligation(&one, self.completed_at(), names)).try_for_each(&mut add)
    }

    /// Calls `add` with each of its rows.
    pub(super) fn rows<E>(
        self,
        names: &Names,
        mut add: impl FnMut(Row<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Transfer(transfer) => add(of_transfer(transfer, names)),
            Self::FxTransfer(fx_transfer) => add(of_fx_transfer(fx_transfer, names)),
            // A bulk transfer that was rejected as a whole has no items.
            Self::Bulk(bulk) if bulk.items.is_empty() => add(of_item(bulk, None, names)),
            Self::Bulk(bulk) => {
                let mut items = (0..).zip(&bulk.items);
                items.try_for_each(|item| add(of_item(bulk, Some(item), names)))
            }
        }
    }
}

/// The window and the participant of an export.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExportSelection {
    pub(super) window: Option<u32>,
    pub(super) party: Option<ParticipantId>,
}

impl ExportSelection {
    fn matches(self, obligation: &Obligation, names: &Names) -> bool {
        let owners = [obligation.debtor, obligation.creditor].map(|account| names.owner(account));
        self.window.is_none_or(|window| obligation.window.0 == window)
            && self.party.is_none_or(|party| owners.contains(&Some(party)))
    }
}

fn of_obligation<'a>(obligation: &Obligation, at: Option<Timestamp>, names: &Names) -> Row<'a> {
    let Obligation { kind, id, window, debtor, creditor, amount } = *obligation;
    let (currency, account_type) = names.currency_and_type(debtor).unwrap_or_default();
    vec![
        Value::Number(window.0.into()),
        Value::text(account_type),
        Value::text(currency),
        Value::text(names.party(names.owner(debtor))),
        Value::Number(debtor.number().into()),
        Value::text(names.party(names.owner(creditor))),
        Value::Number(creditor.number().into()),
        Value::Amount(amount),
        Value::text(kind.as_str()),
        Value::text(id.to_string()),
        Value::of(at, Value::Instant),
    ]
}

/// The name of the account's participant.
fn owner<'a>(account: Option<AccountId>, names: &Names) -> Value<'a> {
    Value::of(account.and_then(|account| names.owner(account)), |id| Value::text(names.participant(id)))
}

/// The fees of a transfer as a JSON array; absent if there are none.
fn fees<'a>(fees: &[ChargedFee], names: &Names) -> Value<'a> {
    let fee = |fee: &ChargedFee| {
        serde_json::json!({
            "feeRuleId": fee.rule,
            "debtorFsp": names.party(names.owner(fee.payer)),
            "creditorFsp": names.party(names.owner(fee.payee)),
            "amount": fee.amount.to_string(),
            "settlementWindowId": fee.window.0,
        })
    };
    match fees {
        [] => Value::Absent,
        fees => Value::text(serde_json::Value::from_iter(fees.iter().map(fee)).to_string()),
    }
}

/// A DFSP's name; absent if a rejected request named an unknown one.
fn party<'a>(id: Option<ParticipantId>, names: &Names) -> Value<'a> {
    Value::of(id, |id| Value::text(names.participant(id)))
}

/// Code and description.
fn error(cause: Option<&Cause>) -> [Value<'_>; 2] {
    let Some((code, description)) = cause.map(upesi_delivery::rejection::cause) else {
        return [Value::Absent, Value::Absent];
    };
    [Value::Number(code.number().into()), Value::Text(description)]
}

fn of_transfer<'a>(transfer: &'a Transfer, names: &Names) -> Row<'a> {
    let (state, cause, end) = match &transfer.state {
        TransferState::Reserved => ("RESERVED", None, None),
        TransferState::Committed(end) => ("COMMITTED", None, Some(end)),
        TransferState::Aborted(end) => (end.kind.as_str(), Some(&end.cause), None),
    };
    let (fulfilment, window) = (end.map(|end| &end.fulfilment), end.and_then(|end| end.window));
    let [code, description] = error(cause);
    vec![
        Value::text(transfer.id.to_string()),
        party(transfer.payer, names),
        party(transfer.payee, names),
        Value::Amount(transfer.amount),
        Value::text(transfer.currency.as_str()),
        Value::text(state),
        code,
        description,
        Value::Instant(transfer.prepared_at),
        Value::of(transfer.completed_at(), Value::Instant),
        Value::Instant(transfer.expires_at),
        Value::Hash(&transfer.condition),
        Value::of(fulfilment, Value::Hash),
        Value::Number(transfer.prepare_seq),
        Value::of(transfer.extensions.as_deref(), Value::text),
        Value::of(window, |window| Value::Number(window.0.into())),
        owner(transfer.payer_account, names),
        owner(transfer.payee_account, names),
        end.map_or(Value::Absent, |end| fees(&end.fees, names)),
    ]
}

fn of_fx_transfer<'a>(fx_transfer: &'a FxTransfer, names: &Names) -> Row<'a> {
    let (state, cause) = match &fx_transfer.state {
        FxTransferState::Reserved | FxTransferState::Fulfilled => ("RESERVED", None),
        FxTransferState::Committed { .. } => ("COMMITTED", None),
        FxTransferState::Aborted { kind, cause, .. } => (kind.as_str(), Some(cause)),
    };
    let [code, description] = error(cause);
    // On the payer's side the reserved movement has the source amount, on the payee's side the target amount.
    let windows = match fx_transfer.state {
        FxTransferState::Committed { windows, .. } => windows.unwrap_or_default(),
        _ => LegWindows::default(),
    };
    let (source_window, target_window) = match fx_transfer.side {
        FxTransferSide::Payer => (windows.reserved, None),
        FxTransferSide::Payee => (windows.further, windows.reserved),
    };
    let number = |window: WindowId| Value::Number(window.0.into());
    let accounts = fx_transfer.accounts;
    // On the payer's side the transfer pays the target amount.
    let target = accounts.and_then(|accounts| Some((accounts.fxp_target, accounts.initiator_target?)));
    vec![
        Value::text(fx_transfer.id.to_string()),
        Value::of(fx_transfer.determining_transfer, |id| Value::text(id.to_string())),
        Value::text(fx_transfer.side.as_str()),
        party(fx_transfer.initiator, names),
        party(fx_transfer.fxp, names),
        Value::Amount(fx_transfer.source.amount),
        Value::text(fx_transfer.source.currency.as_str().to_owned()),
        Value::Amount(fx_transfer.target.amount),
        Value::text(fx_transfer.target.currency.as_str().to_owned()),
        Value::text(state),
        code,
        description,
        Value::Instant(fx_transfer.prepared_at),
        Value::of(fx_transfer.completed_at(), Value::Instant),
        Value::Instant(fx_transfer.expires_at),
        Value::Hash(&fx_transfer.condition),
        Value::of(fx_transfer.fulfilment.as_ref(), Value::Hash),
        Value::Number(fx_transfer.prepare_seq),
        Value::of(source_window, number),
        owner(accounts.map(|accounts| accounts.initiator_source), names),
        owner(accounts.map(|accounts| accounts.fxp_source), names),
        Value::of(target_window, number),
        owner(target.map(|(debtor, _)| debtor), names),
        owner(target.map(|(_, creditor)| creditor), names),
    ]
}

/// An item with its number in its bulk transfer, or a bulk transfer without items.
fn of_item<'a>(bulk: &'a Bulk, item: Option<(u32, &'a BulkItem)>, names: &Names) -> Row<'a> {
    let refused = match &bulk.state {
        BulkState::Rejected { cause, .. } => cause.as_ref(),
        _ => None,
    };
    let (state, cause) = match item.map(|(_, item)| &item.state) {
        None => ("REFUSED", refused),
        Some(ItemState::Waiting) => ("RECEIVED", None),
        Some(ItemState::Accepted) => ("ACCEPTED", None),
        Some(ItemState::Refused(cause)) => ("REFUSED", Some(cause)),
        Some(ItemState::Committed { .. }) => ("COMMITTED", None),
        Some(ItemState::Aborted(cause)) => ("ABORTED", Some(cause)),
    };
    let [code, description] = error(cause);
    vec![
        Value::text(bulk.id.to_string()),
        Value::text(bulk.quote.to_string()),
        Value::of(item, |(place, _)| Value::Number(place.into())),
        Value::of(item, |(_, item)| Value::text(item.transfer.to_string())),
        party(bulk.payer, names),
        party(bulk.payee, names),
        Value::text(Cow::Borrowed(bulk.public_state().as_str())),
        Value::text(state),
        code,
        description,
        Value::Instant(bulk.received_at),
        Value::of(bulk.completed_at(), Value::Instant),
        Value::Instant(bulk.expires_at),
        Value::Number(bulk.prepare_seq),
    ]
}
