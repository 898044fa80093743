//! The permissions, and which of them a change of the ledger needs.

use upesi_ledger::command::{FundsAction, FundsEnd, SettlementAdvance};
use upesi_ledger::{AdminCommand, FundsDirection, Ledger, SettlementState};

/// Rows are `Name "name";`.
macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// What an operation needs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Permission {
            $($(#[$doc])* $name,)*
        }

        impl Permission {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As documents and the audit trail have it.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

permissions! {
    ParticipantRead "participant.read";
    ParticipantCreate "participant.create";
    ParticipantEnable "participant.enable";
    ParticipantDisable "participant.disable";
    /// Accounts of the hub.
    AccountCreate "account.create";
    AccountEnable "account.enable";
    AccountDisable "account.disable";
    EndpointSet "endpoint.set";
    BindingAdd "binding.add";
    BindingRemove "binding.remove";
    /// A higher net debit cap, or the first one.
    LimitRaise "limit.raise";
    LimitLower "limit.lower";
    FundsIn "funds.in";
    FundsOutReserve "funds.out.reserve";
    FundsOutCommit "funds.out.commit";
    FundsOutAbort "funds.out.abort";
    SettlementRead "settlement.read";
    WindowClose "window.close";
    SettlementCreate "settlement.create";
    SettlementAdvance "settlement.advance";
    SettlementFinalise "settlement.finalise";
    SettlementAbort "settlement.abort";
    /// Settlement models, ledger account types, fee rules.
    ModelManage "model.manage";
    TransferSearch "transfer.search";
    TransferRead "transfer.read";
    /// What was sent: quotes and ILP packets, with personal data.
    TransferMessages "transfer.messages";
    TransferEnd "transfer.end";
    DirectoryRead "directory.read";
    /// Who serves a party.
    PartyRead "party.read";
    PartyManage "party.manage";
    OracleManage "oracle.manage";
    CallbackRead "callback.read";
    CallbackRedeliver "callback.redeliver";
    ProcessRead "process.read";
    ProcessMetrics "process.metrics";
    ProcessProfile "process.profile";
    ProcessLog "process.log";
    ProcessClock "process.clock";
    AuditRead "audit.read";
    IamRead "iam.read";
    /// Operators, their roles and credentials.
    IamUser "iam.user";
}

/// What a change needs, by what is there before it.
pub(crate) fn permission_of(command: &AdminCommand, ledger: &Ledger) -> Permission {
    use Permission as P;
    match command {
        AdminCommand::CreateParticipant { .. } => P::ParticipantCreate,
        AdminCommand::SetParticipantActivity { is_active: true, .. } => P::ParticipantEnable,
        AdminCommand::SetParticipantActivity { is_active: false, .. } => P::ParticipantDisable,
        AdminCommand::SetEndpoint { .. } => P::EndpointSet,
        AdminCommand::AddBinding { .. } => P::BindingAdd,
        AdminCommand::RemoveBinding { .. } => P::BindingRemove,
        AdminCommand::AddProxied { .. } => P::ParticipantCreate,
        AdminCommand::RemoveProxied { .. } => P::ParticipantDisable,
        AdminCommand::OpenAccounts { .. } => P::LimitRaise,
        AdminCommand::SetLimit { name, currency, net_debit_cap, .. } => {
            let participant = ledger.participant_named(name);
            let before = participant.and_then(|found| found.limit(*currency)).map(|limit| limit.value);
            if before.is_some_and(|before| *net_debit_cap <= before) { P::LimitLower } else { P::LimitRaise }
        }
        AdminCommand::CreateHubAccount { .. } => P::AccountCreate,
        AdminCommand::SetAccountActivity { is_active: true, .. } => P::AccountEnable,
        AdminCommand::SetAccountActivity { is_active: false, .. } => P::AccountDisable,
        AdminCommand::PrepareFunds(funds) => match funds.direction {
            FundsDirection::In => P::FundsIn,
            FundsDirection::Out => P::FundsOutReserve,
        },
        AdminCommand::EndFunds(FundsEnd { action: FundsAction::Commit, .. }) => P::FundsOutCommit,
        AdminCommand::EndFunds(FundsEnd { action: FundsAction::Abort, .. }) => P::FundsOutAbort,
        AdminCommand::AcceptClock { .. } => P::ProcessClock,
        AdminCommand::CreateSettlementModel(_)
        | AdminCommand::SetSettlementModelActivity { .. }
        | AdminCommand::CreateFeeRule(_)
        | AdminCommand::EndFeeRule { .. }
        | AdminCommand::CreateLedgerAccountType { .. } => P::ModelManage,
        AdminCommand::CloseWindow { .. } => P::WindowClose,
        AdminCommand::CreateSettlement(_) => P::SettlementCreate,
        AdminCommand::AdvanceSettlement(SettlementAdvance { items, .. }) => {
            let is_final = items.iter().any(|item| item.state == SettlementState::Settled);
            if is_final { P::SettlementFinalise } else { P::SettlementAdvance }
        }
        AdminCommand::AbortSettlement(_) => P::SettlementAbort,
        AdminCommand::SetOperator(_)
        | AdminCommand::AddCredential(_)
        | AdminCommand::RemoveCredential { .. } => P::IamUser,
    }
}
