//! Settlements: the net amounts that accounts of closed windows owe, and the progress of their payment.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use upesi_types::{Amount, Timestamp, TransferId};

use crate::base::codec::{Decoded, Decoder};
use crate::base::ids::{AccountId, SettlementId};
use crate::base::show::{PrintedValue, Show, shown_as_word};
use crate::base::stored::{Stored, stored_struct, wire_enum};
use crate::settlement::window::{ContentRef, WindowState, Windows};

const SOME_SETTLED: &str = "Some settlement accounts are SETTLED";
const ALL_SETTLED: &str = "All settlement accounts are SETTLED";

wire_enum! {
    /// The state of a settlement or of one of its accounts.
    SettlementState {
        /// Created.
        Pending = 1 "PENDING_SETTLEMENT",
        /// The movement is recorded.
        Recorded = 2 "PS_TRANSFERS_RECORDED",
        /// Recipients' positions are reset.
        Reserved = 3 "PS_TRANSFERS_RESERVED",
        /// Senders' positions are reset.
        Committed = 4 "PS_TRANSFERS_COMMITTED",
        /// Some accounts are settled. Only a settlement has this state, not an account.
        Settling = 5 "SETTLING",
        /// Paid. Final.
        Settled = 6 "SETTLED",
        /// Aborted; the windows can be settled again. Final.
        Aborted = 7 "ABORTED",
    }
}

impl SettlementState {
    /// The next state of an account.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Pending => Some(Self::Recorded),
            Self::Recorded => Some(Self::Reserved),
            Self::Reserved => Some(Self::Committed),
            Self::Committed => Some(Self::Settled),
            Self::Settling | Self::Settled | Self::Aborted => None,
        }
    }
}

/// A settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub id: SettlementId,
    /// Number of the settlement model.
    pub model: u32,
    /// The state of the account with the least progress.
    pub state: SettlementState,
    /// Reason of the last change, from the operator or the hub.
    pub reason: Box<str>,
    pub external_reference: Option<Box<str>>,
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// The operator's reason for creating the settlement. It stays the same, while [`Self::reason`] follows the
    /// accounts.
    pub creation_reason: Box<str>,
    /// The window contents that it settles, ordered by window.
    pub contents: Vec<ContentRef>,
    /// The accounts in these contents, in order.
    pub accounts: Vec<SettlementAccount>,
}

/// An account in a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementAccount {
    pub account: AccountId,
    /// The net amount that it owes (positive) or is owed (negative).
    pub net: Amount,
    pub state: SettlementState,
    /// Reason of the last change.
    pub reason: Box<str>,
    /// The bank's reference.
    pub external_reference: Option<Box<str>>,
    /// Time when the settlement was created.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// The net debit cap after the liquidity check of this settlement, if an earlier version raised it.
    pub cap_raised_to: Option<Amount>,
    /// The increase of the net debit cap by the liquidity check, unless an operator has set another cap since.
    pub cap_raised_by: Option<Amount>,
    /// The deposit or withdrawal that moved the cover of the net amount.
    pub funds: Option<TransferId>,
    /// The remainder from earlier settlements, less than the currency's smallest unit. The net amount includes it.
    pub carried_in: Amount,
    /// The remainder that this settlement leaves to the next one.
    pub carried_over: Amount,
}

/// The net amount of an account when a settlement is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlementNet {
    pub account: AccountId,
    /// The net amount; positive if the account owes it.
    pub net: Amount,
}

/// A state that an account of a settlement reached, or that was recorded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementStage {
    pub account: AccountId,
    pub state: SettlementState,
    pub reason: Box<str>,
    /// The bank's reference.
    pub external_reference: Option<Box<str>>,
    /// The net debit cap after the liquidity check, in records of earlier versions.
    pub cap_raised_to: Option<Amount>,
}

/// The remainders that an account of a settlement takes over from earlier settlements and leaves to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedRemainder {
    pub account: AccountId,
    /// The remainder from earlier settlements.
    pub carried_in: Amount,
    /// The remainder that this settlement leaves.
    pub carried_over: Amount,
}

stored_struct! {
    SettlementNet { account, net }
    SettlementStage { account, state, reason, external_reference, cap_raised_to }
    CarriedRemainder { account, carried_in, carried_over }
    SettlementAccount {
        account, net, state, reason, external_reference, created_at, changed_at, cap_raised_to, cap_raised_by, funds,
        carried_in, carried_over,
    }
    Settlement {
        id, model, state, reason, external_reference, created_at, changed_at, creation_reason, contents, accounts,
    }
}

impl SettlementAccount {
    /// Reads an account from a snapshot of version 2.
    fn decode_of_version_2(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            account: Stored::decode(decoder)?,
            net: Stored::decode(decoder)?,
            state: Stored::decode(decoder)?,
            reason: Stored::decode(decoder)?,
            external_reference: Stored::decode(decoder)?,
            created_at: Stored::decode(decoder)?,
            changed_at: Stored::decode(decoder)?,
            cap_raised_to: Stored::decode(decoder)?,
            cap_raised_by: None,
            funds: None,
            carried_in: Amount::ZERO,
            carried_over: Amount::ZERO,
        })
    }

    /// Whether the account owes and the withdrawal of its net amount is not recorded.
    pub fn is_unpaid(&self) -> bool {
        self.net > Amount::ZERO && self.funds.is_none()
    }
}

impl Settlement {
    /// Reads a settlement from a snapshot of version 2.
    pub(crate) fn decode_of_version_2(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: Stored::decode(decoder)?,
            model: Stored::decode(decoder)?,
            state: Stored::decode(decoder)?,
            reason: Stored::decode(decoder)?,
            external_reference: Stored::decode(decoder)?,
            created_at: Stored::decode(decoder)?,
            changed_at: Stored::decode(decoder)?,
            creation_reason: Stored::decode(decoder)?,
            contents: Stored::decode(decoder)?,
            accounts: decoder.list(SettlementAccount::decode_of_version_2)?,
        })
    }

    /// Creates a settlement of closed windows.
    pub(crate) fn new(
        id: SettlementId,
        model: u32,
        at: Timestamp,
        reason: &str,
        contents: Vec<ContentRef>,
        nets: &[SettlementNet],
    ) -> Self {
        let account = |net: &SettlementNet| SettlementAccount {
            account: net.account,
            net: net.net,
            state: SettlementState::Pending,
            reason: reason.into(),
            external_reference: None,
            created_at: at,
            changed_at: at,
            cap_raised_to: None,
            cap_raised_by: None,
            funds: None,
            carried_in: Amount::ZERO,
            carried_over: Amount::ZERO,
        };
        Self {
            id,
            model,
            state: SettlementState::Pending,
            reason: reason.into(),
            external_reference: None,
            created_at: at,
            changed_at: at,
            creation_reason: reason.into(),
            contents,
            accounts: nets.iter().map(account).collect(),
        }
    }

    /// An account of the settlement.
    pub fn account(&self, id: AccountId) -> Option<&SettlementAccount> {
        let at = self.accounts.binary_search_by_key(&id, |account| account.account).ok()?;
        Some(&self.accounts[at])
    }

    pub(crate) fn account_mut(&mut self, id: AccountId) -> Option<&mut SettlementAccount> {
        let at = self.accounts.binary_search_by_key(&id, |account| account.account).ok()?;
        Some(&mut self.accounts[at])
    }

    /// Whether it is settled or aborted.
    pub const fn is_final(&self) -> bool {
        matches!(self.state, SettlementState::Settled | SettlementState::Aborted)
    }

    /// Whether all objects that a stored settlement references exist.
    pub(crate) fn refers_to(
        &self,
        is_account: impl Fn(AccountId) -> bool,
        models_len: usize,
        windows: &Windows,
    ) -> bool {
        (1..=models_len).contains(&(self.model as usize))
            && self.contents.iter().all(|place| windows.content(*place).is_some())
            && self.accounts.iter().all(|account| is_account(account.account))
            && self.accounts.is_sorted_by(|one, next| one.account < next.account)
    }

    /// Whether an account may be set to a state now. The state must be the account's current one, or its next one while
    /// the settlement is in the state just before.
    pub(crate) fn may_advance(&self, account: &SettlementAccount, state: SettlementState) -> bool {
        if account.state == state {
            return true;
        }
        let is_last = account.state == SettlementState::Committed && self.state == SettlementState::Settling;
        account.state.next() == Some(state) && (account.state == self.state || is_last)
    }

    /// Records states of accounts, and the resulting states of the settlement, its contents and windows.
    pub(crate) fn advance(&mut self, at: Timestamp, stages: Vec<SettlementStage>, windows: &mut Windows) {
        let mut settles = false;
        for stage in stages {
            let found = self.accounts.binary_search_by_key(&stage.account, |account| account.account);
            let index = found.unwrap_or_else(|_| panic!("settlement {} has no such account", self.id));
            let account = &mut self.accounts[index];
            settles |= stage.state == SettlementState::Settled && account.state != stage.state;
            account.state = stage.state;
            account.reason = stage.reason;
            if stage.external_reference.is_some() {
                account.external_reference = stage.external_reference;
            }
            account.changed_at = at;
            account.cap_raised_to = stage.cap_raised_to.or(account.cap_raised_to);
        }
        let (state, reason) = self.state_of_accounts();
        if state != self.state {
            (self.state, self.reason, self.changed_at) = (state, reason.into(), at);
        }
        if settles {
            self.settle_contents(at, windows);
        }
    }

    fn state_of_accounts(&self) -> (SettlementState, &'static str) {
        use SettlementState as S;
        let states = self.accounts.iter().map(|account| account.state);
        match states.clone().min_by_key(|state| state.number()).unwrap_or(self.state) {
            S::Settled => (S::Settled, ALL_SETTLED),
            _ if states.clone().any(|state| state == S::Settled) => (S::Settling, SOME_SETTLED),
            S::Recorded => (S::Recorded, "All settlement accounts are PS_TRANSFERS_RECORDED"),
            S::Reserved => (S::Reserved, "All settlement accounts are PS_TRANSFERS_RESERVED"),
            S::Committed => (S::Committed, "All settlement accounts are PS_TRANSFERS_COMMITTED"),
            _ => (self.state, ""),
        }
    }

    /// Settles each content if all its accounts are settled.
    fn settle_contents(&self, at: Timestamp, windows: &mut Windows) {
        let is_settled = |account: &&SettlementAccount| account.state == SettlementState::Settled;
        let settled: BTreeSet<_> =
            self.accounts.iter().filter(is_settled).map(|account| account.account).collect();
        for place in &self.contents {
            let content = windows.content(*place);
            let is_complete = content.is_some_and(|content| {
                content.state == WindowState::Pending
                    && content.nets.iter().all(|net| settled.contains(&net.account))
            });
            if is_complete {
                windows.set_state(*place, WindowState::Settled, self.id, at, ALL_SETTLED);
            }
        }
    }

    /// Aborts the settlement, or records another reason for the abort.
    pub(crate) fn abort(
        &mut self,
        at: Timestamp,
        reason: Box<str>,
        external_reference: Option<Box<str>>,
        windows: &mut Windows,
    ) {
        if self.state != SettlementState::Aborted {
            for account in &mut self.accounts {
                account.state = SettlementState::Aborted;
                account.reason = reason.clone();
                account.changed_at = at;
                account.cap_raised_to = None;
            }
            for place in &self.contents {
                windows.set_state(*place, WindowState::Aborted, self.id, at, &reason);
            }
        }
        (self.state, self.reason, self.changed_at) = (SettlementState::Aborted, reason, at);
        if external_reference.is_some() {
            self.external_reference = external_reference;
        }
    }
}

shown_as_word!(SettlementState: as_str);

impl Show for SettlementNet {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![("account", self.account.show()), ("netSettlementAmount", self.net.show())])
    }
}

impl Show for CarriedRemainder {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("account", self.account.show()),
            ("carriedIn", self.carried_in.show()),
            ("carriedOver", self.carried_over.show()),
        ])
    }
}

impl Show for SettlementStage {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("account", self.account.show()),
            ("state", self.state.show()),
            ("reason", self.reason.show()),
            ("externalReference", self.external_reference.show()),
            ("netDebitCapRaisedTo", self.cap_raised_to.show()),
        ])
    }
}
