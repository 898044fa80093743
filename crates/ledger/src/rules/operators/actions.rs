//! The action of an operator's change, given the state before the change.

use alloc::vec::Vec;

use upesi_types::Amount;

use crate::base::ids::AccountId;
use crate::core::state::Ledger;
use crate::money::changes::{FundsAction, FundsEnd};
use crate::money::funds::FundsDirection;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::AdminCommand;
use crate::settlement::changes::{CoverItem, SettlementAdvance, SettlementCover};
use crate::settlement::settlements::SettlementState;

impl Ledger {
    /// The action of a command, given the current state.
    pub fn action_of(&self, command: &AdminCommand) -> AdminAction {
        use AdminAction as A;
        match command {
            AdminCommand::CreateParticipant { .. } | AdminCommand::AddProxied { .. } => A::ParticipantCreate,
            AdminCommand::SetParticipantActivity { is_active: true, .. } => A::ParticipantEnable,
            AdminCommand::SetParticipantActivity { is_active: false, .. }
            | AdminCommand::RemoveProxied { .. } => A::ParticipantDisable,
            AdminCommand::SetEndpoint { .. } | AdminCommand::SetEndpoints { .. } => A::EndpointSet,
            AdminCommand::AddBinding { .. } => A::BindingAdd,
            AdminCommand::RemoveBinding { .. } => A::BindingRemove,
            AdminCommand::OpenAccounts { .. } => A::LimitRaise,
            AdminCommand::SetLimit { name, currency, net_debit_cap, .. } => {
                let participant = self.participant_named(name);
                let before = participant.and_then(|found| found.limit(*currency)).map(|limit| limit.value);
                let is_lower = before.is_some_and(|before| *net_debit_cap <= before);
                if is_lower { A::LimitLower } else { A::LimitRaise }
            }
            AdminCommand::CreateHubAccount { .. } => A::AccountCreate,
            AdminCommand::SetAccountActivity { is_active: true, .. } => A::AccountEnable,
            AdminCommand::SetAccountActivity { is_active: false, .. } => A::AccountDisable,
            AdminCommand::PrepareFunds(funds) => match funds.direction {
                FundsDirection::In => A::FundsIn,
                FundsDirection::Out => A::FundsOutReserve,
            },
            AdminCommand::Deposit(_) => A::FundsIn,
            AdminCommand::EndFunds(FundsEnd { action: FundsAction::Commit, .. }) => A::FundsOutCommit,
            AdminCommand::EndFunds(FundsEnd { action: FundsAction::Abort, .. }) => A::FundsOutAbort,
            AdminCommand::AcceptClock { .. } => A::ProcessClock,
            AdminCommand::CreateSettlementModel(_)
            | AdminCommand::SetSettlementModelActivity { .. }
            | AdminCommand::CreateFeeRule(_)
            | AdminCommand::EndFeeRule { .. }
            | AdminCommand::CreateLedgerAccountType { .. } => A::ModelManage,
            AdminCommand::CloseWindow { .. } => A::WindowClose,
            AdminCommand::CreateSettlement(_) => A::SettlementCreate,
            AdminCommand::AdvanceSettlement(SettlementAdvance { items, .. }) => {
                let is_final = items.iter().any(|item| item.state == SettlementState::Settled);
                if is_final { A::SettlementFinalise } else { A::SettlementAdvance }
            }
            AdminCommand::AbortSettlement(_) => A::SettlementAbort,
            AdminCommand::MoveCover(cover) => self.action_of_cover(cover),
            AdminCommand::SetOperator(_)
            | AdminCommand::AddCredential(_)
            | AdminCommand::RemoveCredential { .. } => A::IamUser,
            AdminCommand::SetApprovalPolicy(_) => A::ApprovalPolicy,
            AdminCommand::AddSignatureKey(_) => A::SignatureKeyAdd,
            AdminCommand::RevokeSignatureKey { .. } => A::SignatureKeyRevoke,
            AdminCommand::SetBlock { .. } => A::BlockSet,
            AdminCommand::LiftBlock { .. } => A::BlockLift,
            AdminCommand::ChangeSet(_) => A::ChangeSet,
        }
    }

    /// Cover that moves with a settlement is both a stage of the settlement and a movement of funds. It needs a second
    /// person if either of them does.
    fn action_of_cover(&self, cover: &SettlementCover) -> AdminAction {
        use AdminAction as A;
        let settlement = self.settlement(cover.id);
        let net = |item: &CoverItem| {
            let account = AccountId::new(item.account)?;
            Some(settlement?.account(account)?.net)
        };
        let nets = || cover.items.iter().filter_map(net);
        let mut parts = Vec::from([A::SettlementAdvance]);
        if nets().any(|net| net > Amount::ZERO) {
            parts.extend([A::FundsOutReserve, A::FundsOutCommit]);
        }
        if nets().any(Amount::is_negative) {
            parts.push(A::FundsIn);
        }
        let policy = self.approvals().policy();
        parts.into_iter().find(|action| policy.needs_second(*action)).unwrap_or(A::SettlementAdvance)
    }
}
