//! Queries about the state of the ledger.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use crate::account::{Account, LedgerAccountType};
use crate::approval::table::Approvals;
use crate::fee::FeeRule;
use crate::funds::FundsTransfer;
use crate::ids::{AccountId, LedgerAccountTypeId, ParticipantId, SettlementId, WindowId};
use crate::limits::LedgerConfig;
use crate::operator::Operators;
use crate::outbox::Outbox;
use crate::participant::Participant;
use crate::settlement::Settlement;
use crate::settlement_model::SettlementModel;
use crate::state::{Ledger, Totals};
use crate::trail::Trail;
use crate::transfer::Transfer;
use crate::window::{Pair, Window, WindowState};

impl Ledger {
    /// The proposals, and the policy that defines which changes need a second person.
    pub const fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The operators that the hub manages itself.
    pub const fn operators(&self) -> &Operators {
        &self.operators
    }

    /// The end of the audit trail.
    pub const fn trail(&self) -> Trail {
        self.trail
    }

    /// The scheme's policy.
    pub const fn config(&self) -> &LedgerConfig {
        &self.config
    }

    /// Journal sequence number of the last applied record; 0 before the first.
    pub const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Time of the last applied record.
    pub const fn last_time(&self) -> Timestamp {
        self.last_time
    }

    /// Totals of transfers since the ledger began.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// All participants in order of creation, the hub first.
    pub fn participants(&self) -> &[Participant] {
        &self.participants
    }

    /// A participant that is known to exist.
    pub fn participant(&self, id: ParticipantId) -> &Participant {
        &self.participants[id.index()]
    }

    /// A participant by its exact name.
    pub fn participant_named(&self, name: &FspId) -> Option<&Participant> {
        self.participant_id(name).map(|id| self.participant(id))
    }

    /// A participant's id by its exact name.
    pub fn participant_id(&self, name: &FspId) -> Option<ParticipantId> {
        self.names.get(name).copied()
    }

    /// A participant's id by its name in any case.
    pub(crate) fn participant_id_ignoring_case(&self, name: &FspId) -> Option<ParticipantId> {
        let any_case = || self.participants.iter().find(|participant| participant.name.eq_ignore_case(name));
        self.participant_id(name).or_else(|| any_case().map(|participant| participant.id))
    }

    pub(crate) fn next_participant_id(&self) -> ParticipantId {
        ParticipantId::new(self.participants.len() as u32 + 1)
            .unwrap_or_else(|| unreachable!("participants count from 1"))
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

    /// All ledger account types.
    pub fn account_types(&self) -> &[LedgerAccountType] {
        &self.account_types
    }

    /// A ledger account type by name.
    pub fn account_type_named(&self, name: &str) -> Option<&LedgerAccountType> {
        self.account_types.iter().find(|kind| &*kind.name == name)
    }

    /// The name of a ledger account type.
    pub fn account_type_name(&self, id: LedgerAccountTypeId) -> &str {
        self.account_types.get(usize::from(id.0).wrapping_sub(1)).map_or("UNKNOWN", |kind| &kind.name)
    }

    /// All settlement models in order of creation.
    pub fn models(&self) -> &[SettlementModel] {
        &self.models
    }

    /// A settlement model by name.
    pub fn model_named(&self, name: &str) -> Option<&SettlementModel> {
        self.models.iter().find(|model| &*model.name == name)
    }

    /// The active models that govern a currency: its own models, or the default models if it has none.
    pub fn models_governing(&self, currency: Currency) -> Vec<&SettlementModel> {
        let active_for = |wanted: Option<Currency>| {
            self.models
                .iter()
                .filter(move |model| model.is_active && model.currency == wanted)
                .collect::<Vec<_>>()
        };
        let own = active_for(Some(currency));
        if own.is_empty() { active_for(None) } else { own }
    }

    /// The model that governs positions in a currency.
    pub(crate) fn position_model(&self, currency: Currency) -> Option<&SettlementModel> {
        let mut has_own = false;
        let mut default = None;
        for model in self.models.iter().filter(|model| model.is_active) {
            let is_position = model.ledger_account_type == LedgerAccountTypeId::POSITION;
            if model.currency == Some(currency) {
                has_own = true;
                if is_position {
                    return Some(model);
                }
            } else if model.currency.is_none() && is_position {
                default = Some(model);
            }
        }
        default.filter(|_| !has_own)
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
        let conversions = self.conversions.oldest_live_seq();
        [self.transfers.oldest_reserved_seq(), conversions].into_iter().flatten().min()
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

    /// The record up to which retention has removed finished transfers; 0 if it has removed none.
    pub const fn removed_to(&self) -> u64 {
        self.removed_to
    }

    /// The last record up to `to_seq` that ends a division of the archive which was not removed.
    pub fn division_up_to(&self, to_seq: u64) -> Option<u64> {
        self.divisions.iter().rev().find(|end| **end <= to_seq).copied()
    }

    pub(crate) fn due_transfers(&self, now: Timestamp) -> impl Iterator<Item = &Transfer> {
        self.transfers.due(now)
    }

    /// All movements of funds, by id.
    pub fn all_funds(&self) -> impl Iterator<Item = &FundsTransfer> {
        self.funds.values()
    }

    /// The operator who requested an account; `None` if its record does not state it.
    pub fn creator_of(&self, account: AccountId) -> Option<&str> {
        self.creators.get(&account).map(|operator| &**operator)
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

    /// The earliest deadline of a transfer, FX transfer, withdrawal or proposal.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let funds = self.withdrawals.deadlines().next().map(|(deadline, _)| deadline);
        let conversions = self.conversions.next_deadline();
        let proposals = self.approvals.next_deadline();
        [self.transfers.next_deadline(), funds, conversions, proposals].into_iter().flatten().min()
    }

    /// All settlement windows in order of opening; the last one is open.
    pub fn windows(&self) -> &[Window] {
        &self.windows.all
    }

    /// A settlement window.
    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(id)
    }

    /// The opening time of the oldest window with unsettled obligations; `None` if there is none.
    pub fn unsettled_since(&self) -> Option<Timestamp> {
        let is_unsettled = |window: &&Window| match window.state {
            WindowState::Open => !self.windows.is_open_empty(),
            WindowState::Settled => false,
            WindowState::Closed | WindowState::Pending | WindowState::Aborted => !window.contents.is_empty(),
        };
        self.windows().iter().find(is_unsettled).map(|window| window.created_at)
    }

    /// Number of committed transfers in the open window.
    pub fn open_window_transfers(&self) -> u64 {
        self.windows.open_transfers()
    }

    /// The amount that each account owes each other account through a window's transfers, ordered by account. For the
    /// open window, the amounts so far. Returns `None` if a settled window's sums were dropped.
    pub fn window_pairs<'a>(&'a self, window: &'a Window) -> Option<Cow<'a, [Pair]>> {
        match window.state {
            WindowState::Open => Some(Cow::Owned(self.windows.open_pairs())),
            _ => window.pairs.as_deref().map(Cow::Borrowed),
        }
    }

    /// All settlements in order of creation.
    pub fn settlements(&self) -> &[Settlement] {
        &self.settlements
    }

    /// A settlement.
    pub fn settlement(&self, id: SettlementId) -> Option<&Settlement> {
        self.settlements.get(id.index())
    }

    /// The amounts below their currency's smallest unit that settled accounts owe (positive) or are owed, ordered by
    /// account. The next settlement of the currency takes them over.
    pub fn carried(&self) -> impl Iterator<Item = (AccountId, Amount)> {
        self.carried.iter().map(|(account, amount)| (*account, *amount))
    }

    /// All interchange fee rules in order of creation.
    pub fn fee_rules(&self) -> &[FeeRule] {
        &self.fee_rules
    }

    /// An interchange fee rule by name.
    pub fn fee_rule_named(&self, name: &str) -> Option<&FeeRule> {
        self.fee_rules.iter().find(|rule| &*rule.terms.name == name)
    }

    /// The undelivered callbacks.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The nodes that deliver callbacks, in order. The list is empty while the leader delivers all callbacks.
    pub fn couriers(&self) -> &[u32] {
        &self.couriers
    }
}
