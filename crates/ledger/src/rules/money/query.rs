//! Queries about accounts, transfers, FX transfers, bulk transfers, funds and fees.

use alloc::boxed::Box;

use upesi_types::{Amount, BulkId, Currency, FxTransferId, Timestamp, TransferId};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::callback::ResourceId;
use crate::core::facts::{ArchiveLookupNeeded, Archived, DecisionInput};
use crate::core::state::Ledger;
use crate::money::account::{Account, LedgerAccountType};
use crate::money::bulk::Bulk;
use crate::money::bulk::table::BulkTotals;
use crate::money::fee::FeeRule;
use crate::money::funds::FundsTransfer;
use crate::money::fx_transfer::FxTransfer;
use crate::money::fx_transfer::ended::EndedLinks;
use crate::money::fx_transfer::table::FxTransferTotals;
use crate::money::transfer::Transfer;
use crate::scheme::participant::Participant;
use crate::settlement::model::SettlementModel;

impl Ledger {
    /// Finds a transfer in memory or in the archive's answer. Fails if the archive must be queried first.
    pub(crate) fn find<'a>(
        &'a self,
        transfer: &ResourceId,
        facts: &DecisionInput<'a>,
    ) -> Result<Option<&'a Transfer>, ArchiveLookupNeeded> {
        let Some(id) = transfer.id() else { return Ok(None) };
        if let Some(transfer) = self.transfer(id) {
            return Ok(Some(transfer));
        }
        match facts.archived {
            Archived::Unknown => Err(ArchiveLookupNeeded),
            Archived::Absent | Archived::FxTransfer { .. } | Archived::Bulk { .. } => Ok(None),
            Archived::Found(transfer) => {
                debug_assert_eq!(transfer.id, id);
                Ok(Some(transfer))
            }
        }
    }

    /// All accounts in order of creation.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// An account, if it exists.
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.index())
    }

    pub(crate) fn account_ref(&self, id: AccountId) -> &Account {
        &self.accounts[id.index()]
    }

    pub fn account_types(&self) -> &[LedgerAccountType] {
        &self.account_types
    }

    pub fn account_type_named(&self, name: &str) -> Option<&LedgerAccountType> {
        self.account_types.iter().find(|kind| &*kind.name == name)
    }

    pub fn account_type_name(&self, id: LedgerAccountTypeId) -> &str {
        self.account_types.get(usize::from(id.0).wrapping_sub(1)).map_or("UNKNOWN", |kind| &kind.name)
    }

    /// The operator who requested an account; `None` if its record does not state it.
    pub fn creator_of(&self, account: AccountId) -> Option<&str> {
        self.creators.get(&account).map(|operator| &**operator)
    }

    /// The liquidity cover of a participant's position in a currency: the funds on its account of the type that the
    /// model for positions names. Zero without a model or without such an account. Prepares are decided with this
    /// amount.
    pub fn cover(&self, participant: &Participant, currency: Currency) -> Amount {
        self.position_model(currency)
            .map_or(Amount::ZERO, |model| self.cover_by(model, participant, currency))
    }

    /// Like [`Self::cover`], for a known model.
    pub(crate) fn cover_by(
        &self,
        model: &SettlementModel,
        participant: &Participant,
        currency: Currency,
    ) -> Amount {
        let account = participant.account(currency, model.settlement_account_type);
        account.map_or(Amount::ZERO, |id| self.account_ref(id).balance.negated())
    }

    /// A transfer in memory: in flight, or finished and not yet archived.
    pub fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.transfers.get(id)
    }

    /// Loads the table entries of several transfers from memory into the processor's caches at once. Otherwise each
    /// decision would wait for its own memory access.
    pub fn fetch(&self, ids: impl Iterator<Item = TransferId>) {
        self.transfers.fetch(ids);
    }

    /// Number of reserved transfers.
    pub fn reserved_len(&self) -> usize {
        self.transfers.reserved_len()
    }

    /// Number of finished transfers in memory that wait for the archive.
    pub fn finished_len(&self) -> usize {
        self.transfers.finished_len()
    }

    /// The reserved transfers, oldest deadline first.
    pub fn reserved_transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.reserved()
    }

    /// The sequence number of the record that prepared the oldest reserved transfer or live FX transfer.
    pub fn oldest_reserved_seq(&self) -> Option<u64> {
        let fx_transfers = self.fx_transfers.oldest_live_seq();
        [self.transfers.oldest_reserved_seq(), fx_transfers].into_iter().flatten().min()
    }

    /// The finished transfers in memory, oldest first.
    pub fn finished_transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.finished().map(|(_, transfer)| transfer)
    }

    /// The reserved transfers after a position, oldest deadline first, with the position of each.
    pub fn reserved_behind(
        &self,
        place: Option<(Timestamp, u32)>,
    ) -> impl Iterator<Item = ((Timestamp, u32), &Transfer)> {
        self.transfers.reserved_behind(place)
    }

    /// The finished transfers in memory after a position, oldest first, with the position of each. A position consists
    /// of the journal sequence number that finished the transfer, and its number among those with this sequence number,
    /// from 1.
    pub fn finished_behind(&self, place: (u64, u32)) -> impl Iterator<Item = ((u64, u32), &Transfer)> {
        self.transfers.finished_behind(place)
    }

    /// Turns this into a ledger that only applies records: it no longer keeps reserved transfers in order of their
    /// deadlines. Queries return the same results, but queries in that order are slower.
    #[must_use]
    pub fn without_order_of_deadlines(mut self) -> Self {
        self.transfers.count_deadlines();
        self
    }

    /// Removes the transfers that finished at or before `seq` from memory. The archive contains them, or is about to.
    pub fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = Transfer> {
        self.take_finished(seq).map(|(_, transfer)| transfer)
    }

    /// Like [`Ledger::drain_finished`], with the sequence number of the record that finished each transfer.
    pub fn take_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Transfer)> {
        self.transfers.drain_finished(seq)
    }

    /// The sequence number of the record that finished the transfer at this index, counted from the oldest finished one
    /// in memory. Returns 0 if there are fewer.
    pub fn finished_seq(&self, index: usize) -> u64 {
        self.transfers.finished_seq(index)
    }

    pub(crate) fn due_transfers(&self, now: Timestamp) -> impl Iterator<Item = &Transfer> {
        self.transfers.due(now)
    }

    /// All movements of funds, by id.
    pub fn all_funds(&self) -> impl Iterator<Item = &FundsTransfer> {
        self.funds.values()
    }

    /// A movement of funds.
    pub fn funds(&self, id: TransferId) -> Option<&FundsTransfer> {
        self.funds.get(&id)
    }

    pub(crate) fn funds_len(&self) -> usize {
        self.funds.len()
    }

    pub(crate) fn due_funds(&self, now: Timestamp) -> impl Iterator<Item = &FundsTransfer> {
        let due = self.withdrawals.deadlines().take_while(move |(deadline, _)| *deadline < now);
        due.filter_map(|(_, id)| self.funds.get(&id))
    }

    /// All interchange fee rules in order of creation.
    pub fn fee_rules(&self) -> &[FeeRule] {
        &self.fee_rules
    }

    /// An interchange fee rule by name.
    pub fn fee_rule_named(&self, name: &str) -> Option<&FeeRule> {
        self.fee_rules.iter().find(|rule| &*rule.terms.name == name)
    }

    /// An FX transfer in memory: live, or ended and not yet archived.
    pub fn fx_transfer(&self, id: FxTransferId) -> Option<&FxTransfer> {
        self.fx_transfers.get(id)
    }

    /// The live FX transfers, oldest deadline first.
    pub fn live_fx_transfers(&self) -> impl Iterator<Item = &FxTransfer> {
        self.fx_transfers.live()
    }

    /// Number of live FX transfers.
    pub fn live_fx_transfers_len(&self) -> usize {
        self.fx_transfers.live_len()
    }

    /// The ended FX transfers in memory, oldest first, with the sequence number of the record that ended each.
    pub fn finished_fx_transfers(&self) -> impl ExactSizeIterator<Item = (u64, &FxTransfer)> {
        self.fx_transfers.finished()
    }

    /// Number of ended FX transfers in memory that wait for the archive.
    pub fn finished_fx_transfers_len(&self) -> usize {
        self.fx_transfers.finished_len()
    }

    /// Removes the FX transfers that ended at or before `seq` from memory, like [`Ledger::take_finished`] for
    /// transfers.
    pub fn take_finished_fx_transfers(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<FxTransfer>)> {
        self.fx_transfers.drain_finished(seq)
    }

    /// Totals of FX transfers since the ledger began.
    pub const fn fx_transfer_totals(&self) -> FxTransferTotals {
        self.fx_transfers.totals()
    }

    /// A bulk transfer in memory: live, or ended and not yet archived.
    pub fn bulk(&self, id: BulkId) -> Option<&Bulk> {
        self.bulks.get(id)
    }

    /// The live bulk transfer that contains a transfer, and the position of the item, from 0.
    pub fn bulk_of(&self, transfer: TransferId) -> Option<(&Bulk, u32)> {
        self.bulks.holding(transfer)
    }

    /// The live bulk transfers, oldest request first.
    pub fn live_bulks(&self) -> impl ExactSizeIterator<Item = &Bulk> {
        self.bulks.live_by_age().map(|entry| &*entry.bulk)
    }

    /// Number of live bulk transfers.
    pub const fn live_bulks_len(&self) -> usize {
        self.bulks.live_len()
    }

    /// The ended bulk transfers in memory, oldest first, with the sequence number of the record that ended each.
    pub fn finished_bulks(&self) -> impl ExactSizeIterator<Item = (u64, &Bulk)> {
        self.bulks.finished()
    }

    /// Number of ended bulk transfers in memory that wait for the archive.
    pub fn finished_bulks_len(&self) -> usize {
        self.bulks.finished_len()
    }

    /// Removes the bulk transfers that ended at or before `seq` from memory, like [`Ledger::take_finished`] for
    /// transfers.
    pub fn take_finished_bulks(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Bulk>)> {
        self.bulks.drain_finished(seq)
    }

    /// Bytes that live bulk transfers hold until their requests are sent to the payees.
    pub const fn bulk_bytes_held(&self) -> usize {
        self.bulks.asked_bytes()
    }

    /// Totals of bulk transfers since the ledger began.
    pub const fn bulk_totals(&self) -> BulkTotals {
        self.bulks.totals()
    }

    /// Transfers whose payers' FX transfers ended before them: transfer, payer, and sequence number of the ending
    /// record.
    pub fn ended_links(&self) -> impl Iterator<Item = (TransferId, ParticipantId, u64)> {
        self.fx_transfers.ended.iter()
    }

    /// Removes all ended links. Two ledgers with the same history may have different older links, if one of them
    /// started with a snapshot of a version that did not store links.
    pub fn forget_ended_links(&mut self) {
        self.fx_transfers.ended = EndedLinks::default();
    }
}
