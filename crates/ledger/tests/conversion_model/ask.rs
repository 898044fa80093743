//! What is asked of the ledger and of the model.

use proptest::prelude::*;

pub const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "faraway", "overseas"];
/// Who is behind which proxy, where there are proxies.
pub const BEHIND: [(Member, Member); 2] = [(4, 3), (5, 2)];
pub const CURRENCIES: [&str; 2] = ["KES", "TZS"];
/// Cap and cover of each member in each currency.
pub const LIMIT: i64 = 40;
pub const TRANSFERS: u8 = 4;
pub const CONVERSIONS: u8 = 6;

/// A member, a currency, by their numbers.
pub type Member = usize;
pub type Money = (i64, usize);

/// By currency: whether commits settle at once, and whether transfers are charged; whether there are proxies; and the
/// currency that each member lacks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    pub is_gross: [bool; 2],
    pub has_fees: [bool; 2],
    pub has_proxies: bool,
    pub lacks: [Option<usize>; NAMES.len()],
}

impl Setup {
    /// Who owes and is owed what a member sends and receives.
    pub fn liable(self, member: Member) -> Member {
        let proxy = BEHIND.into_iter().find(|(behind, _)| self.has_proxies && *behind == member);
        proxy.map_or(member, |(_, proxy)| proxy)
    }

    /// Whether a member, or who is liable for it, has accounts in a currency.
    pub fn has(self, member: Member, currency: usize) -> bool {
        self.lacks[self.liable(member)] != Some(currency)
    }
}

pub fn setup() -> impl Strategy<Value = Setup> {
    let flags = || [proptest::bool::weighted(0.4), proptest::bool::weighted(0.4)];
    let lacks = || proptest::option::weighted(0.2, 0..CURRENCIES.len());
    let lacks = [lacks(), lacks(), lacks(), lacks(), lacks(), lacks()];
    (flags(), flags(), proptest::bool::ANY, lacks)
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
    /// What the first conversion for a transfer buys, to whom it likes, of the initiator.
    PrepareConverted {
        id: u8,
        payee: Member,
        expires_in_ms: i64,
    },
    /// The conversion that the payee of a transfer may ask for.
    ConvertReceived {
        id: u8,
        transfer: u8,
        fxp: Member,
        units: i64,
        expires_in_ms: i64,
    },
    Fulfil {
        id: u8,
        is_right: bool,
    },
    Abort {
        id: u8,
    },
    Tick,
    CloseWindow,
    Drain,
    Restart,
}

pub fn step() -> impl Strategy<Value = (i64, Ask)> {
    let (transfer, conversion) = (|| 0..TRANSFERS, || 0..CONVERSIONS);
    let member = || 0..NAMES.len();
    let units = || prop_oneof![6 => 1..15_i64, 1 => 15..50_i64];
    let money = || (units(), 0..CURRENCIES.len());
    // Deadlines and pauses come from few values, so that requests often meet a deadline to the millisecond.
    let expiry = || proptest::sample::select(vec![-1_i64, 0, 1, 2, 40, 5_000, 5_000, 5_000]);
    let right = || proptest::bool::weighted(0.9);
    let ask = prop_oneof![
        6 => (conversion(), transfer(), member(), member(), money(), units(), expiry()).prop_map(
            |(id, transfer, initiator, fxp, source, units, expires_in_ms)| Ask::Convert {
                id, transfer, initiator, fxp, source, units, expires_in_ms
            }
        ),
        8 => (conversion(), right()).prop_map(|(id, is_right)| Ask::FulfilConversion { id, is_right }),
        1 => conversion().prop_map(|id| Ask::AbortConversion { id }),
        2 => (transfer(), member(), member(), money(), expiry()).prop_map(
            |(id, payer, payee, money, expires_in_ms)| Ask::Prepare { id, payer, payee, money, expires_in_ms }
        ),
        5 => (transfer(), member(), expiry())
            .prop_map(|(id, payee, expires_in_ms)| Ask::PrepareConverted { id, payee, expires_in_ms }),
        4 => (conversion(), transfer(), member(), units(), expiry()).prop_map(
            |(id, transfer, fxp, units, expires_in_ms)| Ask::ConvertReceived {
                id, transfer, fxp, units, expires_in_ms
            }
        ),
        6 => (transfer(), right()).prop_map(|(id, is_right)| Ask::Fulfil { id, is_right }),
        1 => transfer().prop_map(|id| Ask::Abort { id }),
        2 => Just(Ask::Tick),
        1 => Just(Ask::CloseWindow),
        1 => Just(Ask::Drain),
        1 => Just(Ask::Restart),
    ];
    (proptest::sample::select(vec![1_i64, 1, 1, 1, 2, 3, 40, 5_000]), ask)
}
