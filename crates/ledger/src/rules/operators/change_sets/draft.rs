//! A draft of the state. The changes of a set are decided on it, one after the other, before the hub makes them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::core::decision::Decision;
use crate::core::facts::DecisionInput;
use crate::core::outbox::Outbox;
use crate::core::state::Ledger;
use crate::money::bulk::table::Bulks;
use crate::money::fx_transfer::table::FxTransfers;
use crate::money::transfer_table::TransferTable;
use crate::operators::action::AdminAction;
use crate::operators::admin_command::{AdminCommand, ChangeSet};
use crate::operators::approvals::Approvals;
use crate::operators::operator::Operators;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::rules::operators::change::Change;
use crate::settlement::window::Windows;

/// The result of a change in a set if it were made now, after the changes before it.
#[derive(Clone, Debug)]
pub struct Preview {
    pub action: AdminAction,
    /// The change's object, with the state before and after.
    pub change: Change,
    /// The decision.
    pub outcome: Result<AdminOutcome, AdminRefusal>,
    /// Whether it changes anything. A rejected change does not.
    pub has_effect: bool,
}

impl Ledger {
    /// Decides the changes of a set from the index `first` on, each after the changes before it.
    pub fn preview(&self, set: &ChangeSet, first: usize, facts: &DecisionInput<'_>) -> Vec<Preview> {
        let mut draft = self.draft_for(set);
        let mut out = Decision::default();
        let preview = |command: &AdminCommand| {
            let (action, change) = (draft.action_of(command), Change::of(command, &draft));
            out.clear();
            let outcome = draft.decide_admin(command, facts, &mut out);
            let has_effect = outcome.is_ok() && !out.events.is_empty();
            if has_effect {
                draft.try_on(facts.now(), out.events.drain(..));
            }
            let change = outcome.as_ref().ok().and_then(|made| change.clone().made(made)).unwrap_or(change);
            Preview { action, change, outcome, has_effect }
        };
        set.changes.iter().skip(first).map(|change| &change.command).map(preview).collect()
    }

    /// Copies the state that operators' changes depend on. Transfers, FX transfers, bulk transfers and callbacks are
    /// left out, because there may be millions. Windows and settlements are included only if the set depends on them,
    /// and movements of funds only if the set names them.
    fn draft_for(&self, set: &ChangeSet) -> Self {
        let (seed, pairs) = (self.config.hash_seed, self.config.limits.pairs);
        let commands = || set.changes.iter().map(|change| &change.command);
        let needs_windows = commands().any(|command| self.is_decided_by_windows(command));
        let named = commands().flat_map(AdminCommand::named_funds);
        let funds = named.filter_map(|id| Some((id, self.funds.get(&id)?.clone()))).collect();
        let mut approvals = Approvals::default();
        approvals.set_policy(self.approvals.policy().clone());
        Self {
            config: self.config.clone(),
            participants: self.participants.clone(),
            names: self.names.clone(),
            proxies: self.proxies.clone(),
            signature_keys: self.signature_keys.clone(),
            blocks: self.blocks.clone(),
            accounts: self.accounts.clone(),
            creators: BTreeMap::new(),
            account_types: self.account_types.clone(),
            models: self.models.clone(),
            transfers: TransferTable::new(seed),
            fx_transfers: FxTransfers::new(seed),
            bulks: Bulks::new(seed),
            funds,
            withdrawals: self.withdrawals.clone(),
            windows: if needs_windows { self.windows.clone() } else { Windows::new(seed, pairs) },
            settlements: if needs_windows { self.settlements.clone() } else { Vec::new() },
            carried: self.carried.clone(),
            fee_rules: self.fee_rules.clone(),
            outbox: Outbox::default(),
            operators: Operators::default(),
            approvals,
            trail: self.trail,
            totals: self.totals,
            removed_to: self.removed_to,
            divisions: Vec::new(),
            couriers: Vec::new(),
            last_seq: self.last_seq,
            last_time: self.last_time,
        }
    }
}
