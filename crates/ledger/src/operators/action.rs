//! The kinds of operators' changes, and whether a change needs a second person.

use crate::base::stored::stored_by_number;

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
    /// The action needs a second operator only if the approval policy requires it.
    AsWished,
    /// Never, because the change is in the safe direction, or the action has a rule of its own.
    Never,
}

/// Rows are `Name = number "name" area second;`.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal $area:ident $second:ident;)*) => {
        /// The kind of an operator's change. Roles permit actions, and some actions need a second person.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

        const _: () = { $(assert!($number < AdminActions::NUMBERS, "a set has a bit for each number");)* };
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
    /// A public key that a participant signs messages with.
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

/// A set of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminActions(u64);

impl AdminActions {
    /// Number of different action numbers that a set can hold.
    const NUMBERS: u32 = u64::BITS;
    /// Every action.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether the set contains an action.
    pub const fn contains(self, action: AdminAction) -> bool {
        self.0 & (1 << action.number()) != 0
    }
}

impl FromIterator<AdminAction> for AdminActions {
    fn from_iter<I: IntoIterator<Item = AdminAction>>(actions: I) -> Self {
        Self(actions.into_iter().fold(0, |bits, action| bits | (1 << action.number())))
    }
}

stored_by_number! {
    AdminAction: u8, "unknown action";
}
