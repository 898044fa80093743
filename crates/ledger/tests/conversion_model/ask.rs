//! Requests to the ledger and to the model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::scheme::{Deal, End, Scheme, Swap};

pub const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "faraway", "overseas"];
/// Members with their proxies, if there are proxies.
pub const BEHIND: [(Member, Member); 2] = [(4, 3), (5, 2)];
pub const CURRENCIES: [&str; 2] = ["XTS", "XAU"];
/// Cap and cover of each member in each currency.
pub const LIMIT: i64 = 40;
pub const TRANSFERS: u8 = 6;
pub const CONVERSIONS: u8 = 12;

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
    FulfilConversion {
        id: u8,
        is_right: bool,
    },
    AbortConversion {
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
    let (transfer, conversion) = (|| 0..TRANSFERS, || 0..CONVERSIONS);
    let member = || 0..NAMES.len();
    let money = || (units(), 0..CURRENCIES.len());
    // Deadlines and pauses are chosen from few values, so that requests often meet a deadline to the millisecond.
    let expiry = || proptest::sample::select(vec![-1_i64, 0, 1, 2, 40, 5_000, 60_000, 60_000]);
    let right = || proptest::bool::weighted(0.9);
    let ask = prop_oneof![
        2 => (conversion(), transfer(), member(), member(), money(), units(), expiry()).prop_map(
            |(id, transfer, initiator, fxp, source, units, expires_in_ms)| Ask::Convert {
                id, transfer, initiator, fxp, source, units, expires_in_ms
            }
        ),
        3 => (conversion(), right()).prop_map(|(id, is_right)| Ask::FulfilConversion { id, is_right }),
        1 => conversion().prop_map(|id| Ask::AbortConversion { id }),
        1 => (transfer(), member(), member(), money(), expiry()).prop_map(
            |(id, payer, payee, money, expires_in_ms)| Ask::Prepare { id, payer, payee, money, expires_in_ms }
        ),
        2 => (transfer(), member(), more(), expiry()).prop_map(
            |(id, payee, more, expires_in_ms)| Ask::PrepareConverted { id, payee, more, expires_in_ms }
        ),
        3 => (conversion(), transfer(), member(), (units(), more()), expiry()).prop_map(
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

// Counts of events in all runs together, so that the test cannot become one in which nothing happens.

/// Minimum counts of events in 256 runs: at most a quarter of the usual counts.
const LEAST: [(&str, usize); 31] = [
    ("payer's committed", 60),
    ("payee's committed", 40),
    ("transfers converted on both sides", 15),
    ("payer's refused INVALID", 12),
    ("payer's refused ABORTED_REJECTED", 10),
    ("payee's refused INVALID", 80),
    ("payee's refused ABORTED_REJECTED", 5),
    ("payer's ABORTED_ERROR alone", 7),
    ("payer's ABORTED_ERROR with its transfer", 4),
    ("payer's ABORTED_INVALID_FULFIL alone", 8),
    ("payer's ABORTED_INVALID_FULFIL with its transfer", 4),
    ("payer's ABORTED_REJECTED with its transfer", 4),
    ("payer's INVALID with its transfer", 12),
    ("payer's EXPIRED_RESERVED alone", 30),
    ("payer's EXPIRED_RESERVED with its transfer", 18),
    ("payee's ABORTED_ERROR alone", 3),
    ("payee's ABORTED_ERROR with its transfer", 3),
    ("payee's ABORTED_INVALID_FULFIL alone", 4),
    ("payee's ABORTED_INVALID_FULFIL with its transfer", 4),
    ("payee's EXPIRED_RESERVED alone", 15),
    ("payee's EXPIRED_RESERVED with its transfer", 15),
    ("through a proxy", 20),
    ("fees of converted transfers", 35),
    ("fees of converted transfers without an account", 8),
    ("converted transfers without fees", 25),
    ("legs settled at once", 75),
    ("legs in the open window", 75),
    ("legs in closed windows", 80),
    ("legs in settled windows", 25),
    ("fees of converted transfers in settled windows", 5),
    ("different amounts", 60),
];

#[derive(Default)]
pub struct Tried {
    counts: BTreeMap<String, usize>,
    /// Amounts sold and bought by committed FX transfers.
    amounts: BTreeSet<(i64, i64)>,
}

impl Tried {
    pub fn add(&mut self, scheme: &Scheme) {
        for swap in scheme.swaps.values() {
            self.count(&format!("{} {}", side(swap.is_of_payee), how(swap)));
            if swap.end.window().is_some() {
                self.amounts.insert((swap.source.0, swap.target.0));
                let is_behind = [swap.initiator, swap.fxp].iter().any(|of| scheme.setup.liable(*of) != *of);
                self.count_if(is_behind, "through a proxy");
            }
        }
        for (id, deal) in &scheme.deals {
            let of = |is_of_payee| {
                let mut swaps = scheme.swaps.values();
                swaps.any(|swap| {
                    (swap.transfer, swap.is_of_payee) == (*id, is_of_payee) && swap.end.window().is_some()
                })
            };
            let settled_fees = scheme.unsettled[deal.money.1][1];
            let is_fee_settled = deal.end.window().is_some_and(|window| window < settled_fees);
            self.add_deal(deal, (of(false), of(true)), is_fee_settled);
        }
        for movement in scheme.movements() {
            let is_of_swap = scheme.swaps.values().any(|swap| {
                let legs = [(swap.initiator, swap.source), (swap.fxp, swap.target)];
                legs.contains(&(movement.debtor, movement.money)) && swap.end.window() == movement.window
            });
            let Some(window) = movement.window.filter(|_| is_of_swap && !movement.is_fee) else { continue };
            self.count(match () {
                () if scheme.is_at_once(&movement) => "legs settled at once",
                () if scheme.is_settled(&movement) => "legs in settled windows",
                () if window < scheme.window => "legs in closed windows",
                () => "legs in the open window",
            });
        }
    }

    fn add_deal(&mut self, deal: &Deal, (of_payer, of_payee): (bool, bool), is_fee_settled: bool) {
        self.count_if(of_payer && of_payee, "transfers converted on both sides");
        if of_payer || of_payee {
            match deal.is_charged {
                Some(true) => {
                    self.count("fees of converted transfers");
                    self.count_if(is_fee_settled, "fees of converted transfers in settled windows");
                }
                Some(false) => self.count("fees of converted transfers without an account"),
                None => self.count("converted transfers without fees"),
            }
        }
    }

    fn count_if(&mut self, happened: bool, what: &str) {
        if happened {
            self.count(what);
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Checks the counts for this number of runs.
    pub fn check(mut self, runs: u32) {
        self.counts.insert("different amounts".into(), self.amounts.len());
        for (what, least) in LEAST {
            let found = self.counts.get(what).copied().unwrap_or(0);
            let least = least * runs as usize / 256;
            // More runs do not lead to many more different amounts.
            let least = if what == "different amounts" { least.min(200) } else { least };
            assert!(
                found >= least,
                "{what}: {found} times, but at least {least} are usual: {:#?}",
                self.counts
            );
        }
    }
}

fn side(is_of_payee: bool) -> &'static str {
    if is_of_payee { "payee's" } else { "payer's" }
}

fn how(swap: &Swap) -> String {
    match swap.end {
        End::Open | End::Fulfilled => "live".into(),
        End::Committed(_) => "committed".into(),
        End::Aborted(kind) if !swap.was_reserved => format!("refused {}", kind.as_str()),
        End::Aborted(kind) if swap.ends_with_transfer => format!("{} with its transfer", kind.as_str()),
        End::Aborted(kind) => format!("{} alone", kind.as_str()),
    }
}
