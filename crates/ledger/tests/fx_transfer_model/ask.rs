//! Requests to the ledger and to the model.

use proptest::prelude::*;

pub const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "faraway", "overseas"];
/// Members with their proxies, if there are proxies.
pub const BEHIND: [(Member, Member); 2] = [(4, 3), (5, 2)];
pub const CURRENCIES: [&str; 2] = ["XTS", "XAU"];
/// Cap and cover of each member in each currency.
pub const LIMIT: i64 = 40;
pub const TRANSFERS: u8 = 6;
pub const FX_TRANSFERS: u8 = 12;

/// A member and a currency, by their numbers.
pub type Member = usize;
pub type Money = (i64, usize);

/// By currency: whether commits settle at once, and whether transfers are charged. Also whether there are proxies, and
/// the currency that each member lacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    pub is_gross: [bool; 2],
    pub has_fees: [bool; 2],
    pub has_proxies: bool,
    pub lacks: [Option<usize>; NAMES.len()],
}

impl Setup {
    /// The member that is liable for another member's transfers.
    pub fn liable(self, member: Member) -> Member {
        let proxy = BEHIND.into_iter().find(|(behind, _)| self.has_proxies && *behind == member);
        proxy.map_or(member, |(_, proxy)| proxy)
    }

    /// Whether a member, or the member liable for it, has accounts in a currency.
    pub fn has(self, member: Member, currency: usize) -> bool {
        self.lacks[self.liable(member)] != Some(currency)
    }
}

pub fn setup() -> impl Strategy<Value = Setup> {
    let flags = |share| [proptest::bool::weighted(share), proptest::bool::weighted(share)];
    let lacks = || proptest::option::weighted(0.3, 0..CURRENCIES.len());
    let lacks = [lacks(), lacks(), lacks(), lacks(), lacks(), lacks()];
    (flags(0.4), flags(0.6), proptest::bool::ANY, lacks)
        .prop_map(|(is_gross, has_fees, has_proxies, lacks)| Setup { is_gross, has_fees, has_proxies, lacks })
}

#[derive(Clone, Debug)]
pub enum Ask {
    Convert {
        id: u8,
        transfer: u8,
        initiator: Member,
        fxp: Member,
        source: Money,
        units: i64,
        expires_in_ms: i64,
    },
    FulfilFxTransfer {
        id: u8,
        is_right: bool,
    },
    AbortFxTransfer {
        id: u8,
    },
    Prepare {
        id: u8,
        payer: Member,
        payee: Member,
        money: Money,
        expires_in_ms: i64,
    },
    /// A transfer of the amount that the first FX transfer for it buys, or more, from the initiator to any member.
    PrepareConverted {
        id: u8,
        payee: Member,
        more: i64,
        expires_in_ms: i64,
    },
    /// An FX transfer of a payee for a transfer, with the received amount or more.
    ConvertReceived {
        id: u8,
        transfer: u8,
        more: i64,
        fxp: Member,
        units: i64,
        expires_in_ms: i64,
    },
    Fulfil {
        id: u8,
        is_right: bool,
    },
    /// Any possible next request for a transfer. With random requests alone, hardly any FX transfer would reach its
    /// end.
    Proceed(Course),
    Abort {
        id: u8,
    },
    Tick,
    /// A member opens the accounts that it lacks.
    Join(Member),
    CloseWindow,
    /// All closed windows, to their end.
    Settle {
        currency: usize,
        is_fee: bool,
    },
    Drain,
    Restart,
}

/// The choices for a transfer's next request. A member without the required accounts is replaced by the next one.
#[derive(Clone, Debug)]
pub struct Course {
    pub transfer: u8,
    pub payer: Member,
    pub payee: Member,
    pub fxp: Member,
    pub money: Money,
    pub units: i64,
    pub converts: bool,
    /// The error in an amount.
    pub more: i64,
    pub answer: Answer,
    pub expires_in_ms: i64,
}

/// An FXP's or payee's answer.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Fulfil,
    FulfilWrong,
    Decline,
}

fn course() -> impl Strategy<Value = Course> {
    let parties = (0..NAMES.len(), 0..NAMES.len(), 0..NAMES.len());
    let money = (units(), 0..CURRENCIES.len(), units());
    let how =
        prop_oneof![14 => Just(Answer::Fulfil), 1 => Just(Answer::FulfilWrong), 1 => Just(Answer::Decline)];
    let expiry = proptest::sample::select(vec![2_i64, 40, 5_000, 60_000, 60_000, 60_000, 60_000, 60_000]);
    // Few transfers at a time, so that they progress.
    let transfer = prop_oneof![3 => 0..2_u8, 1 => 0..TRANSFERS];
    (transfer, parties, money, (proptest::bool::weighted(0.6), more(), how), expiry).prop_map(
        |(
            transfer,
            (payer, payee, fxp),
            (sold, currency, units),
            (converts, more, answer),
            expires_in_ms,
        )| {
            let money = (sold, currency);
            Course { transfer, payer, payee, fxp, money, units, converts, more, answer, expires_in_ms }
        },
    )
}

fn more() -> impl Strategy<Value = i64> {
    prop_oneof![14 => Just(0_i64), 1 => 1..3_i64]
}

fn units() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1..15_i64, 1 => 15..50_i64]
}

pub fn step() -> impl Strategy<Value = (i64, Ask)> {
    let (transfer, fx_transfer) = (|| 0..TRANSFERS, || 0..FX_TRANSFERS);
    let member = || 0..NAMES.len();
    let money = || (units(), 0..CURRENCIES.len());
    // Deadlines and pauses are chosen from few values, so that requests often meet a deadline to the millisecond.
    let expiry = || proptest::sample::select(vec![-1_i64, 0, 1, 2, 40, 5_000, 60_000, 60_000]);
    let right = || proptest::bool::weighted(0.9);
    let ask = prop_oneof![
        2 => (fx_transfer(), transfer(), member(), member(), money(), units(), expiry()).prop_map(
            |(id, transfer, initiator, fxp, source, units, expires_in_ms)| Ask::Convert {
                id, transfer, initiator, fxp, source, units, expires_in_ms
            }
        ),
        3 => (fx_transfer(), right()).prop_map(|(id, is_right)| Ask::FulfilFxTransfer { id, is_right }),
        1 => fx_transfer().prop_map(|id| Ask::AbortFxTransfer { id }),
        1 => (transfer(), member(), member(), money(), expiry()).prop_map(
            |(id, payer, payee, money, expires_in_ms)| Ask::Prepare { id, payer, payee, money, expires_in_ms }
        ),
        2 => (transfer(), member(), more(), expiry()).prop_map(
            |(id, payee, more, expires_in_ms)| Ask::PrepareConverted { id, payee, more, expires_in_ms }
        ),
        3 => (fx_transfer(), transfer(), member(), (units(), more()), expiry()).prop_map(
            |(id, transfer, fxp, (units, more), expires_in_ms)| Ask::ConvertReceived {
                id, transfer, fxp, units, more, expires_in_ms
            }
        ),
        40 => course().prop_map(Ask::Proceed),
        3 => (transfer(), right()).prop_map(|(id, is_right)| Ask::Fulfil { id, is_right }),
        1 => transfer().prop_map(|id| Ask::Abort { id }),
        2 => Just(Ask::Tick),
        1 => member().prop_map(Ask::Join),
        4 => Just(Ask::CloseWindow),
        6 => (0..CURRENCIES.len(), proptest::bool::weighted(0.3))
            .prop_map(|(currency, is_fee)| Ask::Settle { currency, is_fee }),
        1 => Just(Ask::Drain),
        1 => Just(Ask::Restart),
    ];
    (proptest::sample::select(vec![1_i64, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 40, 5_000]), ask)
}
