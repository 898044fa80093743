//! Minimum counts of events in all runs together. They fail the test if its random runs exercise too little.

use std::collections::{BTreeMap, BTreeSet};

use super::scheme::{Deal, End, Scheme, Swap};

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
            self.add_deal(deal, of(false), of(true), is_fee_settled);
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

    fn add_deal(&mut self, deal: &Deal, of_payer: bool, of_payee: bool, is_fee_settled: bool) {
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
