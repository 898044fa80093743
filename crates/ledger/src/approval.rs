//! Two-person approval: which changes need it, and the proposals that wait for it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::{Amount, Timestamp};

use crate::action::AdminAction;
use crate::admin_command::{AdminCommand, ChangeSet};
use crate::codec::{Decoded, Decoder, Encoder};
use crate::funds::FundsDirection;
use crate::ids::AccountId;
use crate::money_changes::{FundsAction, FundsEnd};
use crate::settlement::SettlementState;
use crate::settlement_changes::{CoverItem, SettlementAdvance, SettlementCover};
use crate::settlement_model::wire_enum;
use crate::show::{Names, Show, Shown, shown_as_word};
use crate::state::Ledger;
use crate::stored::{Stored, stored_struct};

pub(crate) mod table;

/// Minimum length of a proposal's reason, in characters.
pub const PROPOSAL_REASON_CHARS_MIN: usize = 10;

// The action of an operator's change, given the state before the change.

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
}

impl Ledger {
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

// Proposals: changes that wait for a second person, or that were decided.

wire_enum! {
    /// The state of a proposal: waiting, being applied, stopped, or ended.
    ProposalState {
        /// The proposal waits for a second person.
        Pending = 1 "pending",
        /// The proposal was approved, and the change was made in the same record.
        Executed = 2 "executed",
        /// The proposal was approved, but the rules rejected the change.
        Failed = 3 "failed",
        /// The second person rejected the proposal.
        Rejected = 4 "rejected",
        /// The proposal was not decided in time.
        Expired = 5 "expired",
        /// The maker withdrew the proposal.
        Withdrawn = 6 "withdrawn",
        /// A change set was approved, and the hub is applying its changes.
        Applying = 7 "applying",
        /// The rules rejected a change while the set was applied. The set can be continued.
        Stopped = 8 "stopped",
    }
}

/// The end of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalEnd {
    /// The final state.
    pub state: ProposalState,
    /// Time of the end.
    pub at: Timestamp,
    /// The operator who decided; `None` if the proposal expired.
    pub by: Option<Box<str>>,
    /// The operator's comment.
    pub comment: Option<Box<str>>,
    /// The outcome of the change, or the reason why it failed.
    pub result: Option<Box<str>>,
}

/// A proposed change. A proposal never changes, except that it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Number of the proposal, from 1.
    pub id: u64,
    /// The proposed change; dropped when the proposal ends.
    pub command: Option<AdminCommand>,
    /// SHA-256 of the stored form of the change.
    pub digest: [u8; 32],
    /// The kind of the change.
    pub action: AdminAction,
    /// The object that is changed.
    pub object: Box<str>,
    /// The object's state when the change was proposed. If the state is different when the proposal is approved, the
    /// change is not made.
    pub before: Box<str>,
    /// The object's state after the change.
    pub after: Box<str>,
    /// The maker's reason.
    pub reason: Box<str>,
    /// The operator who proposed the change.
    pub maker: Box<str>,
    /// Time of the proposal.
    pub created_at: Timestamp,
    /// Time from which the proposal can no longer be approved.
    pub expires_at: Timestamp,
    /// The end of the proposal, if it has ended.
    pub end: Option<ProposalEnd>,
}

stored_struct! {
    ProposalEnd { state, at, by, comment, result }
    Proposal {
        id, command, digest, action, object, before, after, reason, maker, created_at, expires_at, end,
    }
}

impl Proposal {
    /// The state of the proposal.
    pub fn state(&self) -> ProposalState {
        self.end.as_ref().map_or(ProposalState::Pending, |end| end.state)
    }

    /// The change set, if the proposal contains one and has not ended.
    pub fn set(&self) -> Option<&ChangeSet> {
        match &self.command {
            Some(AdminCommand::ChangeSet(set)) => Some(set),
            _ => None,
        }
    }

    /// The digest of a change. The digest of a change set covers its changes, but not the states before them.
    pub(crate) fn digest_of(command: &AdminCommand) -> [u8; 32] {
        let mut bytes = Vec::new();
        let encoder = &mut Encoder(&mut bytes);
        match command {
            AdminCommand::ChangeSet(set) => set.encode_content(encoder),
            command => command.encode(encoder),
        }
        Sha256::digest(&bytes).into()
    }

    /// Length of the stored form of a change, in bytes.
    pub(crate) fn bytes_of(command: &AdminCommand) -> usize {
        let mut bytes = Vec::new();
        command.encode(&mut Encoder(&mut bytes));
        bytes.len()
    }
}

impl Stored for Box<Proposal> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        Proposal::encode(self, encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Proposal::decode(decoder).map(Self::new)
    }
}

impl Show for Box<Proposal> {
    fn show(&self) -> Shown<'_> {
        let change = self.command.as_ref().map_or(Shown::Absent, |command| Shown::Fields(command.fields()));
        Shown::Fields(vec![
            ("approvalId", self.id.show()),
            ("action", Shown::Text(self.action.name().into())),
            ("object", self.object.show()),
            ("before", self.before.show()),
            ("after", self.after.show()),
            ("change", change),
            ("digest", self.digest.show()),
            ("reason", self.reason.show()),
            ("maker", self.maker.show()),
            ("expiration", self.expires_at.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let Proposal { id, action, object, before, after, reason, maker, .. } = &**self;
        write!(f, "approval {id} wanted by {maker}: {}, {object}: {before} → {after}", action.name())?;
        write!(f, " \"{reason}\"")
    }
}

shown_as_word!(ProposalState: as_str);
