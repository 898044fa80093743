//! Settlement windows: groups of committed transfers that are settled together.
//!
//! Exactly one window is open. When a commit is applied, its amount is added to the open window's sum for the pair of
//! accounts, which covers both legs. A transfer is therefore in exactly one window, and closing a window reads no
//! transfer.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{Amount, Currency, Timestamp};

use crate::base::codec::{Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, ContentId, LedgerAccountTypeId, SettlementId, WindowId};
use crate::base::show::{PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct, wire_enum};
use crate::money::account::Account;

/// Maximum number of transfers that a stored sum may state. It guarantees that adding sums does not exceed 128 bits.
const TRANSFERS_MAX: u64 = 1 << 40;

wire_enum! {
    /// The state of a window or of one of its contents.
    WindowState {
        /// Commits are added to the window.
        Open = 1 "OPEN",
        /// Closed, and not in a settlement yet.
        Closed = 2 "CLOSED",
        /// Part of a settlement.
        Pending = 3 "PENDING_SETTLEMENT",
        /// Settled. Final.
        Settled = 4 "SETTLED",
        /// The settlement was aborted; the window can be settled again.
        Aborted = 5 "ABORTED",
    }
}

impl WindowState {
    /// Whether a content in this state can enter a settlement.
    pub const fn can_be_settled(self) -> bool {
        matches!(self, Self::Closed | Self::Aborted)
    }
}

/// A settlement window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub id: WindowId,
    /// The state. After the close it follows from the states of the contents.
    pub state: WindowState,
    /// Reason of the last change, from the operator or the hub.
    pub reason: Box<str>,
    /// Time when the window was opened.
    pub created_at: Timestamp,
    /// Time of the last change of its state.
    pub changed_at: Timestamp,
    /// The operator's reason for closing the window. It stays the same, while [`Self::reason`] follows the settlements.
    pub close_reason: Option<Box<str>>,
    /// One content for each currency and ledger account type that its transfers used; empty while the window is open.
    pub contents: Vec<Content>,
    /// The amount that each account owes each other account, ordered by account. Empty while the window is open; `None`
    /// after the sums were dropped ([`Limits::pairs`](crate::Limits::pairs)).
    pub pairs: Option<Vec<PairSum>>,
}

/// The part of a closed window in one currency and ledger account type. It is settled as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub id: ContentId,
    /// Currency of its accounts.
    pub currency: Currency,
    pub kind: LedgerAccountTypeId,
    /// The state; never OPEN.
    pub state: WindowState,
    /// Time when the window was closed.
    pub created_at: Timestamp,
    /// Time of the last change of its state.
    pub changed_at: Timestamp,
    /// The settlement that contains it, or that contained it last.
    pub settlement: Option<SettlementId>,
    /// Sum of all its transfers.
    pub sum: Sum,
    /// The net amounts that accounts owe (positive) or are owed (negative), ordered by account. Empty after the
    /// window's pairs were dropped.
    pub nets: Vec<Net>,
}

/// Total amount and number of transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The amount in ten-thousandths. It is wider than [`Amount`], because the same money may move several times within
    /// a window.
    pub units: i128,
    pub transfers: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.units += other.units;
        self.transfers += other.transfers;
    }
}

impl fmt::Display for Sum {
    /// The shortest exact decimal text of the amount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let (whole, fraction) = (self.units.unsigned_abs() / 10_000, self.units.unsigned_abs() % 10_000);
        write!(f, "{sign}{whole}")?;
        match fraction {
            0 => Ok(()),
            n if n % 1000 == 0 => write!(f, ".{}", n / 1000),
            n if n % 100 == 0 => write!(f, ".{:02}", n / 100),
            n if n % 10 == 0 => write!(f, ".{:03}", n / 10),
            n => write!(f, ".{n:04}"),
        }
    }
}

/// The committed transfers of a window from one account to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSum {
    /// The account that owes.
    pub payer: AccountId,
    /// The account that the amount is owed to.
    pub payee: AccountId,
    /// Total amount and number of the transfers.
    pub sum: Sum,
}

/// The net amount of an account at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    pub account: AccountId,
    /// The amount in ten-thousandths; positive if the account owes it.
    pub units: i128,
}

/// A content that is created when a window is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewContent {
    pub id: ContentId,
    /// Currency of its accounts.
    pub currency: Currency,
    pub kind: LedgerAccountTypeId,
}

/// Refers to a content of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRef {
    pub window: WindowId,
    pub content: ContentId,
}

stored_struct! {
    Sum { units, transfers }
    PairSum { payer, payee, sum }
    Net { account, units }
    NewContent { id, currency, kind }
    ContentRef { window, content }
    Content { id, currency, kind, state, created_at, changed_at, settlement, sum, nets }
    Window { id, state, reason, created_at, changed_at, close_reason, contents, pairs }
}

/// All windows, and the sums of the open one.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    pub(crate) all: Vec<Window>,
    open: HashMap<(AccountId, AccountId), Sum, FixedState>,
    contents_len: u32,
    /// Number of pairs of closed windows that are not settled, and of settled windows.
    unsettled_pairs: usize,
    settled_pairs: usize,
    /// Every window before this index is settled and its pairs were dropped.
    dropped_before: usize,
    pub(crate) pairs_kept_max: usize,
}

impl Windows {
    /// Creates the first window, open and empty. [`Self::set_first_opened`] sets its opening time.
    pub(crate) fn new(hash_seed: u64, pairs_kept_max: usize) -> Self {
        let open = HashMap::with_hasher(FixedState::with_seed(hash_seed));
        let mut windows = Self {
            all: Vec::new(),
            open,
            contents_len: 0,
            unsettled_pairs: 0,
            settled_pairs: 0,
            dropped_before: 0,
            pairs_kept_max,
        };
        windows.begin(WindowId(1), Timestamp::EPOCH);
        windows
    }

    /// Sets the opening time of the first window, which must be open.
    pub(crate) fn set_first_opened(&mut self, at: Timestamp) {
        let [first] = &mut self.all[..] else { panic!("the first window is open before there are others") };
        (first.created_at, first.changed_at) = (at, at);
    }

    fn begin(&mut self, id: WindowId, at: Timestamp) {
        assert!(id.index() == self.all.len(), "windows are numbered without gaps");
        self.all.push(Window {
            id,
            state: WindowState::Open,
            reason: "".into(),
            created_at: at,
            changed_at: at,
            close_reason: None,
            contents: Vec::new(),
            pairs: Some(Vec::new()),
        });
    }

    pub(crate) fn open_id(&self) -> WindowId {
        self.all.last().map_or(WindowId(1), |window| window.id)
    }

    /// Adds a committed transfer to the open window. The sum covers both legs.
    pub(crate) fn add(&mut self, payer: AccountId, payee: AccountId, amount: Amount) {
        let transfer = Sum { units: i128::from(amount.units()), transfers: 1 };
        self.open.entry((payer, payee)).or_default().add(transfer);
    }

    /// The sums of the open window, ordered by account.
    pub(crate) fn open_pairs(&self) -> Vec<PairSum> {
        let pairs = self.open.iter().map(|(&(payer, payee), &sum)| PairSum { payer, payee, sum });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable_by_key(|pair| (pair.payer, pair.payee));
        pairs
    }

    pub(crate) fn get(&self, id: WindowId) -> Option<&Window> {
        self.all.get(id.index())
    }

    pub(crate) fn open_transfers(&self) -> u64 {
        self.open.values().map(|sum| sum.transfers).sum()
    }

    pub(crate) fn is_open_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the unsettled windows have the maximum number of sums.
    pub(crate) const fn are_unsettled_full(&self) -> bool {
        self.unsettled_pairs >= self.pairs_kept_max
    }

    pub(crate) const fn contents_len(&self) -> u32 {
        self.contents_len
    }

    /// Closes the open window and opens the next one.
    pub(crate) fn close(
        &mut self,
        at: Timestamp,
        id: WindowId,
        next: WindowId,
        reason: Box<str>,
        contents: Vec<NewContent>,
        accounts: &[Account],
    ) {
        let pairs = self.open_pairs();
        self.open.clear();
        let mut entries = Entries::new(contents, at);
        for pair in &pairs {
            let account = &accounts[pair.payer.index()];
            entries.add(pair, account.currency, account.kind);
        }
        let window = self.all.last_mut().unwrap_or_else(|| unreachable!("there is an open window"));
        assert!(window.id == id && window.state == WindowState::Open, "window {id} is closed, but not open");
        self.unsettled_pairs += pairs.len();
        window.close_reason = Some(reason.clone());
        (window.state, window.reason, window.changed_at) = (WindowState::Closed, reason, at);
        window.contents = entries.into_contents();
        window.pairs = Some(pairs);
        for content in &window.contents {
            self.contents_len += 1;
            assert!(content.id.0 == self.contents_len, "contents are numbered without gaps");
        }
        self.begin(next, at);
    }

    pub(crate) fn content(&self, at: ContentRef) -> Option<&Content> {
        self.get(at.window)?.contents.iter().find(|content| content.id == at.content)
    }

    /// Changes the state of a content, and so of its window.
    pub(crate) fn set_state(
        &mut self,
        place: ContentRef,
        state: WindowState,
        settlement: SettlementId,
        at: Timestamp,
        reason: &str,
    ) {
        let window = &mut self.all[place.window.index()];
        let content = window.contents.iter_mut().find(|content| content.id == place.content);
        let content = content.unwrap_or_else(|| panic!("window {} has no such content", place.window));
        (content.state, content.changed_at, content.settlement) = (state, at, Some(settlement));
        let state = window.state_of_contents();
        if state == WindowState::Settled && window.state != state {
            let pairs = window.pairs.as_ref().map_or(0, Vec::len);
            self.unsettled_pairs -= pairs;
            self.settled_pairs += pairs;
        }
        (window.state, window.changed_at, window.reason) = (state, at, reason.into());
        self.drop_old_pairs();
    }

    fn drop_old_pairs(&mut self) {
        let mut index = self.dropped_before;
        while self.unsettled_pairs + self.settled_pairs > self.pairs_kept_max && index < self.all.len() {
            let window = &mut self.all[index];
            if window.state == WindowState::Settled {
                self.settled_pairs -= window.pairs.take().map_or(0, |pairs| pairs.len());
                window.contents.iter_mut().for_each(|content| content.nets = Vec::new());
                if index == self.dropped_before {
                    self.dropped_before += 1;
                }
            }
            index += 1;
        }
    }

    /// Whether windows and contents are numbered without gaps, exactly the last window is open, states agree, and sums
    /// have a size that transfers can have.
    pub(crate) fn are_sound(&self) -> bool {
        let Some((open, closed)) = self.all.split_last() else { return false };
        let are_numbered = self.all.iter().enumerate().all(|(at, window)| window.id.index() == at);
        let mut contents = self.all.iter().flat_map(|window| &window.contents).enumerate();
        let mut sums = contents.clone().map(|(_, content)| content.sum);
        let pairs = closed.iter().filter_map(|window| window.pairs.as_ref()).flatten();
        are_numbered
            && contents.all(|(at, content)| content.id.index() == at && content.is_sound())
            && open.state == WindowState::Open
            && open.contents.is_empty()
            && closed.iter().all(|window| !window.contents.is_empty() && window.is_sound())
            && sums.all(Sum::is_sound)
            && pairs.map(|pair| pair.sum).chain(self.open.values().copied()).all(Sum::is_sound)
    }

    /// Whether all accounts of all windows are known.
    pub(crate) fn refer_to(&self, is_account: impl Fn(AccountId) -> bool) -> bool {
        let pairs = self.all.iter().filter_map(|window| window.pairs.as_ref()).flatten();
        let pairs = pairs.map(|pair| (pair.payer, pair.payee)).chain(self.open.keys().copied());
        let mut nets = self.all.iter().flat_map(|window| &window.contents).flat_map(|content| &content.nets);
        pairs.into_iter().all(|(payer, payee)| is_account(payer) && is_account(payee))
            && nets.all(|net| is_account(net.account))
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.all.iter(), |encoder, window| encoder.sized(|encoder| window.encode(encoder)));
        self.open_pairs().encode(encoder);
    }

    pub(crate) fn decode(&mut self, decoder: &mut Decoder<'_>) -> Decoded<()> {
        self.all = decoder.list(|decoder| Window::decode(&mut decoder.sized()?))?;
        let open = Vec::<PairSum>::decode(decoder)?;
        self.open.clear();
        self.open.extend(open.into_iter().map(|pair| ((pair.payer, pair.payee), pair.sum)));
        self.contents_len = self.all.iter().map(|window| window.contents.len() as u32).sum();
        let pairs = |is_settled: bool| {
            let windows =
                self.all.iter().filter(move |window| (window.state == WindowState::Settled) == is_settled);
            windows.filter_map(|window| Some(window.pairs.as_ref()?.len())).sum()
        };
        (self.unsettled_pairs, self.settled_pairs) = (pairs(false), pairs(true));
        let is_dropped = |window: &Window| window.state == WindowState::Settled && window.pairs.is_none();
        self.dropped_before =
            self.all.iter().position(|window| !is_dropped(window)).unwrap_or(self.all.len());
        Ok(())
    }
}

impl Sum {
    /// Whether this number of transfers can have this sum.
    fn is_sound(self) -> bool {
        let most = i128::from(Amount::MAX.units()) * i128::from(self.transfers);
        self.transfers <= TRANSFERS_MAX && (0..=most).contains(&self.units)
    }
}

impl Content {
    fn is_sound(&self) -> bool {
        self.state != WindowState::Open && self.nets.iter().all(|net| net.units.abs() <= self.sum.units.abs())
    }
}

impl Window {
    fn is_sound(&self) -> bool {
        self.state == self.state_of_contents()
    }

    /// The window's state: settled if all contents are, pending if one is, otherwise aborted if one is. A partly
    /// settled window stays pending.
    fn state_of_contents(&self) -> WindowState {
        let is_any = |state| self.contents.iter().any(|content| content.state == state);
        if self.contents.iter().all(|content| content.state == WindowState::Settled) {
            WindowState::Settled
        } else if is_any(WindowState::Pending) {
            WindowState::Pending
        } else if is_any(WindowState::Aborted) {
            WindowState::Aborted
        } else if is_any(WindowState::Settled) {
            WindowState::Pending
        } else {
            WindowState::Closed
        }
    }
}

/// Contents while their sums are computed.
struct Entries(Vec<(Content, BTreeMap<AccountId, i128>)>);

impl Entries {
    fn new(contents: Vec<NewContent>, at: Timestamp) -> Self {
        let empty = |new: NewContent| Content {
            id: new.id,
            currency: new.currency,
            kind: new.kind,
            state: WindowState::Closed,
            created_at: at,
            changed_at: at,
            settlement: None,
            sum: Sum::default(),
            nets: Vec::new(),
        };
        Self(contents.into_iter().map(|new| (empty(new), BTreeMap::new())).collect())
    }

    fn add(&mut self, pair: &PairSum, currency: Currency, kind: LedgerAccountTypeId) {
        let entry =
            self.0.iter_mut().find(|(content, _)| (content.currency, content.kind) == (currency, kind));
        let (content, nets) =
            entry.unwrap_or_else(|| panic!("a settlement window is closed without its {currency}"));
        content.sum.add(pair.sum);
        *nets.entry(pair.payer).or_default() += pair.sum.units;
        *nets.entry(pair.payee).or_default() -= pair.sum.units;
    }

    fn into_contents(self) -> Vec<Content> {
        let contents = self.0.into_iter().map(|(mut content, nets)| {
            content.nets = nets.into_iter().map(|(account, units)| Net { account, units }).collect();
            content
        });
        contents.collect()
    }
}

impl Show for NewContent {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("id", self.id.show()),
            ("currency", self.currency.show()),
            ("ledgerAccountType", self.kind.show()),
        ])
    }
}

impl Show for ContentRef {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![("settlementWindowId", self.window.show()), ("id", self.content.show())])
    }
}
