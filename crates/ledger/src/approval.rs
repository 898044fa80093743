//! Two-person approval: which changes need it, and the proposals that wait for it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::{Amount, Currency, Timestamp};

use crate::account::AccountId;
use crate::change_set::ChangeSet;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::command::{AdminCommand, CoverItem, FundsAction, FundsEnd, SettlementAdvance, SettlementCover};
use crate::funds::FundsDirection;
use crate::settlement::SettlementState;
use crate::settlement_model::wire_enum;
use crate::show::{Names, Show, Shown};
use crate::state::Ledger;
use crate::stored::{Stored, stored_by_number, stored_struct};

mod table;

pub use table::{Approvals, PROPOSAL_BYTES_MAX, PROPOSALS_ENDED_MAX, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX};
pub(crate) use table::{read, read_of_version_1, write};

/// Minimum length of a proposal's reason, in characters.
pub const PROPOSAL_REASON_CHARS_MIN: usize = 10;

// The action of an operator's change, given the state before the change.

/// The area of administration whose approvers decide about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Approvers of operations.
    Operations,
    /// Approvers of the treasury.
    Treasury,
    /// Another administrator of operators.
    Iam,
}

/// Whether a change needs a second person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// Yes, unless the policy exempts it.
    Usually,
    /// Only if the policy requires it.
    AsWished,
    /// Never. One person may always take the safe direction, or the action has its own rule.
    Never,
}

/// Rows are `Name = number "name" area second;`.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal $area:ident $second:ident;)*) => {
        /// The kind of an operator's change. Roles permit actions, and some actions need a second person.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum AdminAction { $($(#[$doc])* $name = $number),* }

        impl AdminAction {
            /// Every action.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The action's name, as operators write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The area whose approvers decide.
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
    /// One person may revoke rights, unless they are the rights of an administrator.
    IamUser = 23 "iam.user" Iam Usually;
    /// One person may make the policy stricter. A more lenient policy needs two persons.
    ApprovalPolicy = 24 "approval.policy" Iam Never;
    /// A key with which a participant signs.
    SignatureKeyAdd = 40 "jws.add" Operations Usually;
    SignatureKeyRevoke = 41 "jws.revoke" Operations Never;
    /// Blocked certificates, keys and participants.
    BlockSet = 42 "block.set" Operations Never;
    BlockLift = 43 "block.lift" Operations Usually;
    /// A set of changes. Each change needs its own permission, and possibly a second person of its own area.
    ChangeSet = 44 "change.set" Operations Never;
}

impl AdminAction {
    /// Finds the action with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// Whether the action needs a second person unless the policy exempts it.
    pub fn is_usually_by_two(self) -> bool {
        self.second() == Second::Usually
    }

    /// Whether a policy can require a second person for the action.
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

// The policy of two-person approval.

/// Maximum number of currencies with a waiver for deposits.
pub const WAIVERS_MAX: usize = 200;

/// Defines which changes need a second person. The policy is part of the ledger, so it changes by commands like all
/// other state. One person can make it stricter; making it more lenient takes two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// The actions that need a second person.
    pub second: BTreeSet<AdminAction>,
    /// Deposits up to these amounts need no second person.
    pub waived: BTreeMap<Currency, Amount>,
}

impl Default for ApprovalPolicy {
    fn default() -> Self {
        let usual = AdminAction::ALL.iter().copied().filter(|action| action.is_usually_by_two());
        Self { second: usual.collect(), waived: BTreeMap::new() }
    }
}

impl ApprovalPolicy {
    /// Whether an action needs a second person.
    pub fn needs_second(&self, action: AdminAction) -> bool {
        self.second.contains(&action)
    }

    /// Whether a deposit of this amount needs no second person.
    pub fn waives(&self, amount: Amount, currency: Currency) -> bool {
        self.waived.get(&currency).is_some_and(|most| amount <= *most)
    }

    /// Whether this policy requires a second person for every change for which the other policy does.
    pub fn is_as_strict_as(&self, other: &Self) -> bool {
        let keeps = |(currency, most): (&Currency, &Amount)| {
            other.waived.get(currency).is_some_and(|known| most <= known)
        };
        self.second.is_superset(&other.second) && self.waived.iter().all(keeps)
    }
}

impl Display for ApprovalPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("two for ")?;
        if self.second.is_empty() {
            f.write_str("nothing")?;
        }
        for (index, action) in self.second.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, action.name())?;
        }
        for (currency, amount) in &self.waived {
            write!(f, "; one for funds.in up to {amount} {currency}")?;
        }
        Ok(())
    }
}

impl Stored for ApprovalPolicy {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.second.iter(), |encoder, action| action.encode(encoder));
        encoder.list(self.waived.iter(), |encoder, (currency, amount)| {
            currency.encode(encoder);
            amount.encode(encoder);
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let second = decoder.list(AdminAction::decode)?;
        let waived = decoder.list(<(Currency, Amount)>::decode)?;
        Ok(Self { second: second.into_iter().collect(), waived: waived.into_iter().collect() })
    }
}

impl Show for ApprovalPolicy {
    fn show(&self) -> Shown<'_> {
        let second = self.second.iter().map(|action| Shown::Text(action.name().into()));
        let waived = self.waived.iter().map(|(currency, amount)| {
            Shown::Fields(vec![("currency", currency.show()), ("amount", amount.show())])
        });
        Shown::Fields(vec![
            ("secondPerson", Shown::List(second.collect())),
            ("waived", Shown::List(waived.collect())),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<&ApprovalPolicy> for String {
    fn from(policy: &ApprovalPolicy) -> Self {
        alloc::format!("{policy}")
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
