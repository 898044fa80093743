//! The figures of a settlement: the obligations between accounts, window by window.

use std::collections::{BTreeMap, BTreeSet};

use crate::settlement::api::{Account, Pair, Settlement, Window};
use crate::settlement::cell::decimal;

/// An account of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::settlement) struct Party {
    pub(in crate::settlement) name: String,
    pub(in crate::settlement) participant: u32,
    pub(in crate::settlement) currency: String,
    /// The net of the settlement, in ten-thousandths; positive if it owes.
    pub(in crate::settlement) net: i128,
    /// Remainders of earlier settlements, and of this one: parts of the currency's smallest unit.
    pub(super) carried_in: i128,
    pub(super) carried_over: i128,
}

impl Party {
    pub(super) const fn has_remainder(&self) -> bool {
        self.carried_in != 0 || self.carried_over != 0
    }

    /// The required sum of its transfers in the settlement's windows.
    const fn net_of_windows(&self) -> i128 {
        self.net + self.carried_over - self.carried_in
    }
}

/// Money from one account to another in one window, in ten-thousandths.
#[derive(Clone, Copy, Debug)]
struct Flow {
    window: u32,
    units: i128,
    transfers: u64,
}

pub(in crate::settlement) struct SettlementFigures {
    pub(in crate::settlement) id: u32,
    pub(super) model: String,
    pub(in crate::settlement) state: String,
    pub(in crate::settlement) changed: String,
    pub(super) windows: Vec<u32>,
    pub(super) opened: String,
    pub(super) closed: String,
    pub(in crate::settlement) parties: BTreeMap<u32, Party>,
    flows: BTreeMap<(u32, u32), Vec<Flow>>,
}

impl SettlementFigures {
    /// The accounts and nets of a settlement, without flows yet.
    pub(super) fn new(settlement: &Settlement, names: &BTreeMap<u32, String>) -> Self {
        let party = |participant, account: &Account| {
            let net = account.net_settlement_amount.as_ref()?;
            let party = Party {
                name: names.get(&account.id).cloned().unwrap_or_default(),
                participant,
                currency: net.currency.clone(),
                net: net.amount.0.units().into(),
                carried_in: account.carried_in.map_or(0, |carried| carried.0.units().into()),
                carried_over: account.carried_over.map_or(0, |carried| carried.0.units().into()),
            };
            Some((account.id, party))
        };
        let windows = &settlement.settlement_windows;
        let closes = windows.iter().flat_map(|window| &window.content).map(|content| &content.created_date);
        Self {
            id: settlement.id,
            model: settlement.settlement_model.clone(),
            state: settlement.state.clone(),
            changed: settlement.changed_date.clone(),
            windows: windows.iter().map(|window| window.id).collect(),
            opened: windows.iter().map(|window| &window.created_date).min().cloned().unwrap_or_default(),
            closed: closes.max().cloned().unwrap_or_default(),
            parties: settlement.accounts().filter_map(|(id, account)| party(id, account)).collect(),
            flows: BTreeMap::new(),
        }
    }

    /// Adds a pair of a window, if its content belongs to the settlement.
    pub(super) fn add(&mut self, window: &Window, pair: &Pair) {
        let is_own = window.content.iter().any(|content| {
            content.currency_id == pair.currency && content.ledger_account_type == pair.ledger_account_type
        });
        if is_own {
            let flow = Flow { window: window.id, units: pair.amount.0, transfers: pair.transfers };
            self.flows.entry((pair.payer.account_id, pair.payee.account_id)).or_default().push(flow);
        }
    }

    /// Checks that the pairs of the windows agree with the settlement's nets.
    ///
    /// # Errors
    /// The contradictions.
    pub(in crate::settlement) fn check(&self) -> Result<(), String> {
        let mut nets = BTreeMap::<u32, i128>::new();
        for ((payer, payee), flows) in &self.flows {
            let units: i128 = flows.iter().map(|flow| flow.units).sum();
            *nets.entry(*payer).or_default() += units;
            *nets.entry(*payee).or_default() -= units;
        }
        let mut mistakes = Vec::new();
        let accounts: BTreeSet<u32> = nets.keys().chain(self.parties.keys()).copied().collect();
        for account in accounts {
            let by_pairs = nets.get(&account).copied();
            let party = self.parties.get(&account);
            let settled = party.map(Party::net_of_windows);
            // An account may be included only for its remainder.
            let is_without_pairs = by_pairs.is_none() && party.is_some_and(Party::has_remainder);
            if by_pairs != settled && !(is_without_pairs && settled == Some(0)) {
                let shown = |units: Option<i128>| units.map_or_else(|| "none".to_owned(), decimal);
                let (by_pairs, settled) = (shown(by_pairs), shown(settled));
                mistakes.push(format!(
                    "account {account}: net of its pairs is {by_pairs}, net of the settlement is {settled}"
                ));
            }
        }
        for currency in self.currencies() {
            let nets =
                self.parties.values().filter(|party| party.currency == currency).map(|party| party.net);
            let sum: i128 = nets.sum();
            if sum != 0 {
                mistakes.push(format!("the nets in {currency} sum to {}, not 0", decimal(sum)));
            }
        }
        match mistakes.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("settlement {}: the figures are inconsistent\n{}", self.id, mistakes.join("\n")))
            }
        }
    }

    pub(super) fn currencies(&self) -> BTreeSet<&str> {
        self.parties.values().map(|party| &*party.currency).collect()
    }

    /// The accounts of a currency, by name.
    pub(super) fn accounts_in(&self, currency: &str) -> Vec<(u32, &Party)> {
        let mut accounts: Vec<_> = self
            .parties
            .iter()
            .filter(|(_, party)| party.currency == currency)
            .map(|(account, party)| (*account, party))
            .collect();
        accounts.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        accounts
    }

    /// The amount from one account to another, in one window or all of them.
    pub(super) fn sent(&self, payer: u32, payee: u32, window: Option<u32>) -> i128 {
        let flows = self.flows.get(&(payer, payee)).into_iter().flatten();
        flows.filter(|flow| window.is_none_or(|window| flow.window == window)).map(|flow| flow.units).sum()
    }

    /// Whether there are amounts between two accounts, in one window or any.
    pub(super) fn have_dealt(&self, one: u32, other: u32, window: Option<u32>) -> bool {
        [(one, other), (other, one)].iter().any(|pair| {
            let flows = self.flows.get(pair).into_iter().flatten();
            flows.into_iter().any(|flow| window.is_none_or(|window| flow.window == window))
        })
    }

    pub(super) fn transfers(&self) -> u64 {
        self.flows.values().flatten().map(|flow| flow.transfers).sum()
    }
}
