//! Changes that need a second person: which do, and the proposals that wait for one.

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

/// Least characters of the reason of a proposal.
pub const PROPOSAL_REASON_CHARS_MIN: usize = 10;

// What an operator's change is, by what is there before it.

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
    /// Several changes. Each needs its own permission and, maybe, a second person of its own area.
    ChangeSet = 44 "change.set" Operations Never;
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
    /// Cover that moves with a settlement is a stage of the settlement and a movement of funds: it needs a second
    /// person if one of them does.
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

// Which changes need a second person.

/// Most currencies in which deposits are waived.
pub const WAIVERS_MAX: usize = 200;

/// Which changes need a second person. It is the ledger's, so that it changes like everything else: one person makes it
/// stricter, two make it milder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// The actions that need one.
    pub second: BTreeSet<AdminAction>,
    /// Deposits up to these amounts need none.
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

    /// Whether a deposit needs none.
    pub fn waives(&self, amount: Amount, currency: Currency) -> bool {
        self.waived.get(&currency).is_some_and(|most| amount <= *most)
    }

    /// Whether whatever needs a second person by another policy does so by this one.
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

// A change that waits for a second person, or waited for one.

wire_enum! {
    /// Where a proposal stands. It waits, is applied or has stopped, or has ended.
    ProposalState {
        /// It waits for a second person.
        Pending = 1 "pending",
        /// It was approved, and the change was made in the same record.
        Executed = 2 "executed",
        /// It was approved, and the rules refused the change.
        Failed = 3 "failed",
        /// The second person said no.
        Rejected = 4 "rejected",
        /// Nobody decided in time.
        Expired = 5 "expired",
        /// Its maker took it back.
        Withdrawn = 6 "withdrawn",
        /// A change set was approved, and the hub makes its changes.
        Applying = 7 "applying",
        /// The rules refused a change of a set that is applied: it can be continued.
        Stopped = 8 "stopped",
    }
}

/// How a proposal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalEnd {
    /// The state it ended in.
    pub state: ProposalState,
    /// When.
    pub at: Timestamp,
    /// Who decided; `None` if time did.
    pub by: Option<Box<str>>,
    /// What they said to it.
    pub comment: Option<Box<str>>,
    /// What came of the change, or why it failed.
    pub result: Option<Box<str>>,
}

/// A change that waits for a second person, or waited for one. Nothing of it changes but its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its number, from 1.
    pub id: u64,
    /// The change; dropped when the proposal ends.
    pub command: Option<AdminCommand>,
    /// SHA-256 of the stored form of the change.
    pub digest: [u8; 32],
    /// What it is.
    pub action: AdminAction,
    /// What is changed.
    pub object: Box<str>,
    /// What it was when this was proposed. If it is something else when this is approved, the change is not made.
    pub before: Box<str>,
    /// What it is to be.
    pub after: Box<str>,
    /// Its maker's reason.
    pub reason: Box<str>,
    /// Who proposed it.
    pub maker: Box<str>,
    /// When.
    pub created_at: Timestamp,
    /// From when on it cannot be approved.
    pub expires_at: Timestamp,
    /// How it ended.
    pub end: Option<ProposalEnd>,
}

stored_struct! {
    ProposalEnd { state, at, by, comment, result }
    Proposal {
        id, command, digest, action, object, before, after, reason, maker, created_at, expires_at, end,
    }
}

impl Proposal {
    /// Where it stands.
    pub fn state(&self) -> ProposalState {
        self.end.as_ref().map_or(ProposalState::Pending, |end| end.state)
    }

    /// The change set, while it waits or is applied.
    pub fn set(&self) -> Option<&ChangeSet> {
        match &self.command {
            Some(AdminCommand::ChangeSet(set)) => Some(set),
            _ => None,
        }
    }

    /// The digest of a change. The digest of a set covers its changes, and not the states before them.
    pub(crate) fn digest_of(command: &AdminCommand) -> [u8; 32] {
        let mut bytes = Vec::new();
        let encoder = &mut Encoder(&mut bytes);
        match command {
            AdminCommand::ChangeSet(set) => set.encode_content(encoder),
            command => command.encode(encoder),
        }
        Sha256::digest(&bytes).into()
    }

    /// How many bytes a change takes.
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
