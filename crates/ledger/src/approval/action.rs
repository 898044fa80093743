//! What an operator's change is, by what is there before it.

use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::command::{AdminCommand, FundsAction, FundsEnd, SettlementAdvance};
use crate::funds::FundsDirection;
use crate::settlement::SettlementState;
use crate::state::Ledger;
use crate::stored::{Stored, stored_by_number};

/// Whose approvers decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Those of operations.
    Operations,
    /// Those of the treasury.
    Treasury,
    /// Another administrator of operators.
    Iam,
}

/// Whether a change needs a second person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// Unless the policy says otherwise.
    Usually,
    /// If the policy says so.
    AsWished,
    /// Never: one person may always take the safe direction, or a rule of its own decides.
    Never,
}

/// Rows are `Name = number "name" area second;`.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal $area:ident $second:ident;)*) => {
        /// What an operator's change is: what roles allow, and what may need a second person.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum AdminAction { $($(#[$doc])* $name = $number),* }

        impl AdminAction {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As operators write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Whose approvers decide.
            pub const fn area(self) -> Area {
                match self { $(Self::$name => Area::$area),* }
            }

            const fn second(self) -> Second {
                match self { $(Self::$name => Second::$second),* }
            }
        }
    };
}

actions! {
    ParticipantCreate = 1 "participant.create" Operations Usually;
    ParticipantEnable = 2 "participant.enable" Operations Usually;
    ParticipantDisable = 3 "participant.disable" Operations Never;
    AccountCreate = 4 "account.create" Operations AsWished;
    AccountEnable = 5 "account.enable" Operations Usually;
    AccountDisable = 6 "account.disable" Operations Never;
    EndpointSet = 7 "endpoint.set" Operations Usually;
    BindingAdd = 8 "binding.add" Operations Usually;
    BindingRemove = 9 "binding.remove" Operations Never;
    LimitRaise = 10 "limit.raise" Treasury Usually;
    LimitLower = 11 "limit.lower" Treasury Never;
    FundsIn = 12 "funds.in" Treasury Usually;
    FundsOutReserve = 13 "funds.out.reserve" Treasury Usually;
    FundsOutCommit = 14 "funds.out.commit" Treasury Usually;
    FundsOutAbort = 15 "funds.out.abort" Treasury Usually;
    WindowClose = 16 "window.close" Treasury AsWished;
    SettlementCreate = 17 "settlement.create" Treasury Usually;
    SettlementAdvance = 18 "settlement.advance" Treasury Usually;
    SettlementFinalise = 19 "settlement.finalise" Treasury Usually;
    SettlementAbort = 20 "settlement.abort" Treasury Usually;
    ModelManage = 21 "model.manage" Operations AsWished;
    ProcessClock = 22 "process.clock" Operations Never;
    /// Taking rights away needs one person, unless they are an administrator's.
    IamUser = 23 "iam.user" Iam Usually;
    /// A stricter policy needs one person, a milder one two.
    ApprovalPolicy = 24 "approval.policy" Iam Never;
    /// A key by which a participant signs.
    SignatureKeyAdd = 40 "jws.add" Operations Usually;
    SignatureKeyRevoke = 41 "jws.revoke" Operations Never;
    /// Certificates, keys and participants that are let in no more.
    BlockSet = 42 "block.set" Operations Never;
    BlockLift = 43 "block.lift" Operations Usually;
}

impl AdminAction {
    /// The action of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// Whether it needs a second person unless the policy says otherwise.
    pub fn is_usually_by_two(self) -> bool {
        self.second() == Second::Usually
    }

    /// Whether a policy may have it need a second person.
    pub fn is_of_policy(self) -> bool {
        self.second() != Second::Never
    }

    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.number() == number)
    }
}

stored_by_number! {
    AdminAction: u8, "unknown action";
}

impl Ledger {
    /// What a change is, by what is there before it.
    pub fn action_of(&self, command: &AdminCommand) -> AdminAction {
        use AdminAction as A;
        match command {
            AdminCommand::CreateParticipant { .. } | AdminCommand::AddProxied { .. } => A::ParticipantCreate,
            AdminCommand::SetParticipantActivity { is_active: true, .. } => A::ParticipantEnable,
            AdminCommand::SetParticipantActivity { is_active: false, .. }
            | AdminCommand::RemoveProxied { .. } => A::ParticipantDisable,
            AdminCommand::SetEndpoint { .. } => A::EndpointSet,
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
            AdminCommand::SetOperator(_)
            | AdminCommand::AddCredential(_)
            | AdminCommand::RemoveCredential { .. } => A::IamUser,
            AdminCommand::SetApprovalPolicy(_) => A::ApprovalPolicy,
            AdminCommand::AddSignatureKey(_) => A::SignatureKeyAdd,
            AdminCommand::RevokeSignatureKey { .. } => A::SignatureKeyRevoke,
            AdminCommand::SetBlock { .. } => A::BlockSet,
            AdminCommand::LiftBlock { .. } => A::BlockLift,
        }
    }
}
