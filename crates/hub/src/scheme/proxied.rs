//! Who is behind which proxy: those of the file and no others.

use std::collections::BTreeSet;

use super::file::{Dfsp, Scheme};
use super::plan::{Change, Plan};
use super::state::{HubState, ParticipantState};

impl Plan {
    /// Who goes from one proxy to another leaves the first one before.
    pub(super) fn move_proxied(&mut self, scheme: &Scheme, state: &HubState) {
        let is_wanted = |dfsp: &Dfsp, name: &str| dfsp.proxied.iter().flatten().any(|wanted| wanted == name);
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.proxied.is_some()) {
            let present = state.participants.get(&dfsp.name).and_then(|present| present.proxied.as_ref());
            for name in present.into_iter().flatten() {
                if !is_wanted(dfsp, name) && scheme.dfsps.iter().any(|other| is_wanted(other, name)) {
                    self.changes.push(Change::Unproxied { proxy: dfsp.name.clone(), name: name.clone() });
                }
            }
        }
    }

    pub(super) fn proxied(&mut self, dfsp: &Dfsp, exists: bool, present: &ParticipantState) {
        let Some(wanted) = &dfsp.proxied else { return };
        let proxy = &dfsp.name;
        if exists && present.proxied.is_none() {
            let place = &dfsp.place;
            self.conflicts.push(format!(
                "{place}: this hub knows no DFSPs behind proxies, which {proxy} has in the file"
            ));
            return;
        }
        let none = BTreeSet::new();
        let present = present.proxied.as_ref().unwrap_or(&none);
        for name in wanted {
            self.need(!present.contains(name), || Change::Proxied {
                proxy: proxy.clone(),
                name: name.clone(),
            });
        }
        for name in present.iter().filter(|name| !wanted.contains(name)) {
            let leaves = Change::Unproxied { proxy: proxy.clone(), name: name.clone() };
            if !self.changes.contains(&leaves) {
                self.changes.push(leaves);
            }
        }
    }
}
