//! What a hub says of a run's money, before and after it, beside the books of the DFSPs.

use std::collections::BTreeMap;

use upesi_sim::Phase;
use upesi_types::{Amount, Currency};

use crate::drive::admin_client::{AdminClient, AdminError};
use crate::drive::run::Run;
use crate::drive::settling::{Settled, commits_in_windows};
use crate::drive::system::Subject;
use crate::judge::audit::{Evidence, Originated, Side};
use crate::plan::options::Role;

/// What a hub says of one currency.
pub(crate) struct Standing {
    currency: Currency,
    positions: BTreeMap<String, Amount>,
    /// What is left of deposits, with a minus sign, where commits draw from it.
    covers: BTreeMap<String, Amount>,
    /// Commits in all settlement windows; absent where the hub is not ours.
    in_windows: Option<u64>,
}

impl Standing {
    /// What each participant owes: on its position, and beyond what it deposited.
    fn owed(&self) -> BTreeMap<String, Amount> {
        let owed = self.positions.iter().map(|(name, position)| {
            let cover = self.covers.get(name).copied().unwrap_or_default();
            (name.clone(), position.checked_add(cover).unwrap_or(*position))
        });
        owed.collect()
    }
}

impl Run<'_> {
    /// The currencies of the run.
    pub(crate) fn currencies(&self) -> Vec<Currency> {
        let options = self.options;
        let target = options.payers_convert().then(|| options.target_currency());
        [options.currency].into_iter().chain(target).chain(options.payees_currency()).collect()
    }

    /// Asks the hub; where others drive it too, about one's own DFSPs.
    pub(crate) async fn standing(
        &self,
        admin: &AdminClient,
        hub: &Subject,
    ) -> Result<Vec<Standing>, AdminError> {
        let options = self.options;
        let mut all = Vec::new();
        for currency in self.currencies() {
            let mut positions = admin.positions(currency).await?;
            if options.role == Role::Load {
                let names = &hub.generator().names;
                positions.retain(|name, _| names.iter().any(|own| own.as_str() == name));
            }
            let covers =
                if options.settlement.gross { admin.covers(currency).await? } else { BTreeMap::new() };
            let in_windows = match options.target {
                None => Some(commits_in_windows(admin, currency).await?),
                Some(_) => None,
            };
            all.push(Standing { currency, positions, covers, in_windows });
        }
        Ok(all)
    }

    /// Everything that the audit of a run looks at.
    pub(crate) fn evidence(
        &self,
        hub: &Subject,
        (before, after): (Vec<Standing>, Vec<Standing>),
        settled: Option<&Settled>,
    ) -> Evidence {
        let mut findings = settled.map_or_else(Vec::new, |settled| settled.findings.clone());
        let mut sides = Vec::new();
        for (before, after) in before.iter().zip(&after) {
            let currency = after.currency;
            let is_gross = self.options.settlement.gross;
            let is_fresh = self.options.target.is_none() && self.options.existing_transfers == 0;
            let rests = is_fresh && hub.simulator.transfer_counts().accepted == 0;
            if rests && (is_gross || settled.is_some()) {
                let left =
                    after.positions.iter().filter(|(name, left)| before.positions.get(*name) != Some(*left));
                findings.extend(left.map(|(name, left)| {
                    format!("{name}: {left} {currency} of its position were never settled")
                }));
            }
            let nets = settled.and_then(|settled| settled.nets.get(currency.as_str()));
            let in_windows = after.in_windows.zip(before.in_windows);
            sides.push(Side {
                currency,
                amount: self.options.amount,
                before: before.owed(),
                after: after.owed(),
                settled: nets.cloned().unwrap_or_default(),
                in_windows: in_windows.map(|(after, before)| after - before),
                committed: if is_gross { 0 } else { hub.simulator.committed_in(currency) },
            });
        }
        let mut originated = Originated::default();
        for phase in [Phase::Conversion, Phase::Transfer] {
            originated += hub.tally.exchanges(phase).originated() * self.options.transfers_per_operation();
        }
        Evidence {
            sides,
            expected: hub.simulator.expected_positions(),
            transfers: hub.simulator.transfer_counts(),
            counters: hub.simulator.counters(),
            originated,
            settlement: settled.map(|settled| settled.result),
            findings,
        }
    }
}
