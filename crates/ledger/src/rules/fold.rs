//! The fold: how events change the state. One arm per event.

use alloc::vec::Vec;

use upesi_types::Timestamp;

use crate::base::ids::CallbackKey;
use crate::core::callback::Callback;
use crate::core::event::Event;
use crate::core::outbox::Parked;
use crate::core::state::Ledger;
use crate::money::account::LedgerAccountType;
use crate::money::transfer::{Aborted, ChargedFee, Committed, SettlementMode};
use crate::operators::change_set::ChangeSetProgress;
use crate::operators::operator::OperatorFields;
use crate::operators::proposal::ProposalEnd;
use crate::operators::trail::AuditEntry;
use crate::scheme::binding::Binding;
use crate::scheme::participant::Limit;

impl Ledger {
    /// Applies one journal record to the state: its sequence number, time, events and callbacks.
    ///
    /// Panics if the record contradicts the state. This is a programmer error, never the fault of a request.
    pub fn evolve(
        &mut self,
        seq: u64,
        now: Timestamp,
        events: impl IntoIterator<Item = Event>,
        callbacks: &[Callback],
    ) {
        assert!(seq == self.last_seq + 1, "record {seq} follows record {}", self.last_seq);
        assert!(now > self.last_time, "record {seq} is not later than its predecessor");
        self.last_seq = seq;
        self.last_time = now;
        let mut at = now;
        let accounts_before = self.accounts.len();
        for event in events {
            match event {
                Event::DecidedAt(instant) => at = instant,
                Event::OperatorActed(entry) => {
                    self.note_creator(accounts_before, &entry);
                    self.trail.add(&entry);
                }
                event => self.apply(seq, at, event),
            }
        }
        for (index, callback) in callbacks.iter().enumerate() {
            self.outbox.insert(CallbackKey::of(callback, seq, index), None);
        }
    }

    /// Records the operator who requested the accounts of this record. The audit entry is the last event of its record.
    fn note_creator(&mut self, accounts_before: usize, entry: &AuditEntry) {
        let operator = entry.by.on_behalf_of.as_ref().unwrap_or(&entry.by.operator);
        for account in &self.accounts[accounts_before..] {
            self.creators.insert(account.id, operator.clone());
        }
    }

    /// Applies events to a draft, without a record.
    pub(crate) fn try_on(&mut self, now: Timestamp, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.apply(self.last_seq, now, event));
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    fn apply(&mut self, seq: u64, now: Timestamp, event: Event) {
        match event {
            Event::TransferPrepared(transfer) => self.apply_prepared(seq, now, transfer),
            Event::TransferCommitted { id, fulfilment, fingerprint, extensions, settled } => {
                let window = (settled == SettlementMode::InWindow).then(|| self.windows.open_id());
                let end = Committed { fulfilment, fingerprint, at: now, window, fees: Vec::new() };
                self.end_transfer(seq, now, id, end.into(), extensions, settled);
            }
            Event::TransferAborted { id, kind, cause, fingerprint, operator_reason } => {
                let end = Aborted { kind, cause, fingerprint, operator_reason, at: now };
                self.end_transfer(seq, now, id, end.into(), None, SettlementMode::InWindow);
            }
            Event::ParticipantCreated { id, name, is_proxy } => {
                self.add_participant(now, id, name, is_proxy);
            }
            Event::ParticipantActivitySet { id, is_active } => self.participant_mut(id).is_active = is_active,
            Event::AccountCreated { id, participant, currency, kind, is_opened } => {
                self.add_account(now, id, participant, currency, kind, is_opened);
            }
            Event::AccountOpened { id } => self.open_account(now, id),
            Event::AccountActivitySet { id, is_active } => self.account_mut(id).is_active = is_active,
            Event::Posted { debit, credit, amount } => {
                self.post(debit, amount, now);
                self.post(credit, amount.negated(), now);
            }
            Event::EndpointSet { participant, kind, value } => {
                self.set_endpoint(participant, kind, value);
            }
            Event::BindingAdded { participant, kind, value } => {
                self.add_binding(participant, Binding { kind, value });
            }
            Event::BindingRemoved { participant, kind, value } => {
                self.remove_binding(participant, &Binding { kind, value });
            }
            Event::ProxiedAdded { participant, proxy } => self.add_proxied(participant, proxy),
            Event::ProxiedRemoved { participant, proxy } => self.remove_proxied(participant, proxy),
            Event::LimitSet { participant, currency, value, alarm_basis_points } => {
                self.set_limit(participant, Limit { currency, value, alarm_basis_points });
                self.forget_cap_raises(participant, currency);
            }
            Event::SettlementModelCreated(model) => self.add_model(model),
            Event::SettlementModelActivitySet { id, is_active } => {
                self.models[id as usize - 1].is_active = is_active
            }
            Event::LedgerAccountTypeCreated { id, name, description, is_active, is_settleable } => {
                self.add_account_type(LedgerAccountType { id, name, description, is_active, is_settleable });
            }
            Event::FundsPrepared(funds) => self.apply_funds_prepared(now, funds),
            Event::FundsEnded { id, state, reason } => self.apply_funds_ended(now, id, state, reason),
            Event::FirstWindowOpened(at) => self.windows.set_first_opened(at),
            Event::WindowClosed { id, next, reason, contents } => {
                self.windows.close(now, id, next, reason, contents, &self.accounts);
            }
            Event::SettlementCreated { id, model, reason, contents, accounts } => {
                self.add_settlement(now, id, model, &reason, contents, &accounts);
            }
            Event::SettlementAdvanced { id, accounts } => {
                self.apply_settlement_advanced(now, id, accounts);
            }
            Event::SettlementAborted { id, reason, external_reference } => {
                self.apply_settlement_aborted(now, id, reason, external_reference);
            }
            Event::CapRaised { id, account, amount } => {
                self.raise_cap(id, account, amount);
            }
            Event::CapReturned { id, account, amount } => {
                self.return_cap(id, account, amount);
            }
            Event::CoverMoved { id, account, funds } => {
                self.settled_account_mut(id, account).funds = Some(funds);
            }
            Event::RemaindersCarried { id, accounts } => self.apply_remainders(id, &accounts),
            Event::FeeRuleCreated(rule) => self.add_fee_rule(rule),
            Event::FeeRuleEnded { id, until } => self.fee_rules[id as usize - 1].until = Some(until),
            Event::FeeCharged { transfer, rule, payer, payee, amount } => {
                let fee = ChargedFee { rule, payer, payee, amount, window: self.windows.open_id() };
                self.charge_fee(now, transfer, fee);
            }
            Event::FeeNotCharged { .. } => self.totals.fees_not_charged += 1,
            Event::ClockAccepted { .. } => {}
            Event::ArchiveDivided => self.divisions.push(seq),
            Event::CallbacksDelivered(keys) => keys.into_iter().for_each(|key| self.outbox.remove(key)),
            Event::CallbackParked { key, attempts, reason } => {
                self.outbox.set_parked(key, Some(Parked { at: now, attempts, reason }));
            }
            Event::CallbacksRedelivered(keys) => {
                keys.into_iter().for_each(|key| self.outbox.set_parked(key, None))
            }
            Event::CouriersSet { nodes } => self.couriers = nodes,
            Event::FinishedRemoved { to_seq } => {
                self.removed_to = to_seq;
                self.divisions.retain(|end| *end > to_seq);
                // A ledger that applies records late may still contain the removed transfers. From now on their ids may
                // be used again.
                self.transfers.drain_finished(to_seq).for_each(drop);
                self.fx_transfers.drain_finished(to_seq).for_each(drop);
                self.fx_transfers.ended.forget_to(to_seq);
                self.bulks.drain_finished(to_seq).for_each(drop);
            }
            Event::FxTransferPrepared(fx_transfer) => self.apply_fx_transfer_prepared(seq, now, fx_transfer),
            Event::FxTransferFulfilled { id, fulfilment, answer } => {
                self.apply_fx_transfer_fulfilled(id, fulfilment, answer);
            }
            Event::FxTransferCommitted { id, settled, further } => {
                self.apply_fx_transfer_committed(seq, now, id, settled, further);
            }
            Event::FxTransferAborted { id, kind, cause, answer } => {
                self.apply_fx_transfer_aborted(seq, now, id, kind, cause, answer);
            }
            Event::BulkReceived(bulk) => self.apply_bulk_received(seq, bulk),
            Event::BulkItemDecided { id, place, refused } => self.apply_bulk_item(id, place, refused),
            Event::BulkAccepted { id } => self.apply_bulk_accepted(id),
            Event::BulkAnswered { id, answer, results, ignored } => {
                self.bulks.totals.results_ignored += u64::from(ignored);
                self.apply_bulk_answered(id, answer, results);
            }
            Event::BulkEnded { id, cause } => self.apply_bulk_ended(seq, now, id, cause),
            Event::DecidedAt(_) | Event::OperatorActed(_) => unreachable!("evolve takes them"),
            Event::OperatorSet { name, roles, participant, is_active } => {
                self.operators.set(now, OperatorFields { name, roles, participant, is_active });
            }
            Event::CredentialAdded { name, credential } => self.operators.add_credential(&name, credential),
            Event::CredentialRemoved { name, credential } => {
                self.operators.remove_credential(&name, credential);
            }
            Event::ProposalMade(proposal) => self.approvals.add(*proposal),
            Event::ProposalEnded { id, state, by, comment, result } => {
                self.approvals.end(id, ProposalEnd { state, at: now, by, comment, result });
            }
            Event::ChangeSetApproved { id, operator, known_by, address, comment } => {
                let by = ChangeSetProgress { operator, known_by, address, comment, made: 0, stopped: None };
                self.approvals.begin(id, by);
            }
            Event::ChangeSetStepped { id, number } => self.approvals.step(id, number),
            Event::ChangeSetStopped { id, why, .. } => self.approvals.stop(id, why),
            Event::ApprovalPolicySet(policy) => self.approvals.set_policy(policy),
            Event::PersonSet { name, person } => self.operators.set_person(&name, person),
            Event::CodeUsed { name, code_step } => self.operators.use_code(&name, code_step),
            Event::SignatureKeyAdded { participant, key, others_end_at } => {
                self.signature_keys.add(now, participant, key, others_end_at);
            }
            Event::SignatureKeyRevoked { participant, sha256 } => {
                self.signature_keys.revoke(now, participant, sha256);
            }
            Event::BlockSet { block } => self.set_block(now, block),
            Event::BlockLifted { block } => self.lift_block(&block),
        }
    }
}
