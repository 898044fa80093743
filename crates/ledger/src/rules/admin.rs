//! Decides operators' changes of the ledger: one arm per change.

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::facts::DecisionInput;
use crate::core::state::Ledger;
use crate::operators::admin_command::AdminCommand;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;

impl Ledger {
    pub(crate) fn decide_change(
        &self,
        command: &AdminCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let reply = self.decide_admin(command, facts, out);
        out.answer(reply);
    }

    pub(crate) fn decide_admin(
        &self,
        command: &AdminCommand,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        match command {
            AdminCommand::CreateParticipant { name, currency, is_proxy } => {
                self.decide_create_participant(*name, *currency, *is_proxy, out)
            }
            AdminCommand::SetParticipantActivity { name, is_active } => {
                self.decide_participant_activity(name, *is_active, out)
            }
            AdminCommand::SetEndpoint { name, kind, value } => {
                self.decide_set_endpoint(name, *kind, value, out)
            }
            AdminCommand::SetEndpoints { name, endpoints } => self.decide_set_endpoints(name, endpoints, out),
            // A change set is proposed as a whole, and its changes are decided one by one.
            AdminCommand::ChangeSet(_) => Err(AdminRefusal::ChangeSetKind),
            AdminCommand::AddBinding { name, kind, value } => {
                self.decide_add_binding(name, *kind, value, out)
            }
            AdminCommand::RemoveBinding { name, kind, value } => {
                self.decide_remove_binding(name, *kind, value, out)
            }
            AdminCommand::AddProxied { proxy, name } => self.decide_add_proxied(proxy, name, out),
            AdminCommand::RemoveProxied { proxy, name } => self.decide_remove_proxied(proxy, name, out),
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position } => {
                self.decide_open_accounts(name, *currency, *net_debit_cap, *initial_position, out)
            }
            AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points } => {
                self.decide_set_limit(name, *currency, *net_debit_cap, *alarm_basis_points, out)
            }
            AdminCommand::CreateHubAccount { name, currency, kind } => {
                self.decide_create_hub_account(name, *currency, kind, out)
            }
            AdminCommand::SetAccountActivity { name, account, is_active } => {
                self.decide_account_activity(name, *account, *is_active, out)
            }
            AdminCommand::PrepareFunds(funds) => self.decide_prepare_funds(funds, facts, out),
            AdminCommand::Deposit(deposit) => self.decide_deposit(deposit, facts, out),
            AdminCommand::EndFunds(end) => self.decide_end_funds(end, facts.now(), out),
            AdminCommand::AcceptClock { .. } if facts.clock_jump_ms == 0 => Ok(AdminOutcome::AlreadyDone),
            AdminCommand::AcceptClock { reason } => {
                let jump_ms = facts.clock_jump_ms;
                out.events.push(Event::ClockAccepted { jump_ms, reason: reason.clone() });
                Ok(AdminOutcome::Done)
            }
            AdminCommand::CreateSettlementModel(model) => self.decide_create_model(model, facts.now(), out),
            AdminCommand::SetSettlementModelActivity { name, is_active } => {
                self.decide_model_activity(name, *is_active, out)
            }
            AdminCommand::CloseWindow { id, reason } => self.decide_close_window(*id, reason, out),
            AdminCommand::CreateSettlement(new) => self.decide_create_settlement(new, out),
            AdminCommand::AdvanceSettlement(advance) => self.decide_advance_settlement(advance, out),
            AdminCommand::AbortSettlement(abort) => self.decide_abort_settlement(abort, out),
            AdminCommand::MoveCover(cover) => self.decide_move_cover(cover, facts.now(), out),
            AdminCommand::CreateFeeRule(new) => self.decide_create_fee_rule(new, facts.now(), out),
            AdminCommand::EndFeeRule { name, until } => {
                self.decide_end_fee_rule(name, *until, facts.now(), out)
            }
            AdminCommand::CreateLedgerAccountType { name, description, is_active, is_settleable } => {
                self.decide_create_account_type(name, description, *is_active, *is_settleable, out)
            }
            AdminCommand::SetOperator(new) => self.decide_set_operator(new, out),
            AdminCommand::AddCredential(new) => self.decide_add_credential(new, facts.now(), out),
            AdminCommand::RemoveCredential { name, id } => self.decide_remove_credential(name, *id, out),
            AdminCommand::SetApprovalPolicy(policy) => self.decide_set_policy(policy, out),
            AdminCommand::AddSignatureKey(new) => self.decide_add_signature_key(new, facts.now(), out),
            AdminCommand::RevokeSignatureKey { name, sha256 } => {
                self.decide_revoke_signature_key(name, *sha256, out)
            }
            AdminCommand::SetBlock { block } => self.decide_set_block(*block, out),
            AdminCommand::LiftBlock { block } => self.decide_lift_block(*block, out),
        }
    }
}
