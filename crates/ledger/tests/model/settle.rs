//! Settlement in the naive model: nets are recomputed from the list of deals when they are needed.

use std::collections::{BTreeMap, BTreeSet};

use super::ask::{Ask, NAMES, Name};
use super::scheme::{Scheme, done, refused};

/// The states of a settlement, in order. An account never has the fifth state.
const STATES: [&str; 7] = [
    "PENDING_SETTLEMENT",
    "PS_TRANSFERS_RECORDED",
    "PS_TRANSFERS_RESERVED",
    "PS_TRANSFERS_COMMITTED",
    "SETTLING",
    "SETTLED",
    "ABORTED",
];
const RESERVED: usize = 2;
const COMMITTED: usize = 3;
const SETTLING: usize = 4;
const SETTLED: usize = 5;
const ABORTED: usize = 6;

/// A settlement and its parties.
pub struct Settling {
    windows: BTreeSet<u32>,
    pub is_fee: bool,
    state: usize,
    pub parties: BTreeMap<Name, Party>,
}

/// State of a party, and the increase of its cap.
#[derive(Default)]
pub struct Party {
    state: usize,
    pub raised_by: i64,
}

impl Settling {
    pub fn state(&self) -> &'static str {
        STATES[self.state]
    }
}

impl Party {
    pub fn state(&self) -> &'static str {
        STATES[self.state]
    }
}

/// A closed window, with the states of its contents for positions and for fees.
pub struct Closed {
    pub contents: [Option<&'static str>; 2],
}

impl Closed {
    pub fn state(&self) -> &'static str {
        let states: Vec<_> = self.contents.iter().flatten().copied().collect();
        let all = |state| states.iter().all(|known| *known == state);
        let any = |state| states.contains(&state);
        match () {
            () if all("SETTLED") => "SETTLED",
            () if any("PENDING_SETTLEMENT") => "PENDING_SETTLEMENT",
            () if any("ABORTED") => "ABORTED",
            () if any("SETTLED") => "PENDING_SETTLEMENT",
            () => "CLOSED",
        }
    }
}

impl Scheme {
    /// A party's net of some windows, for transfers or for fees, if it took part.
    pub fn net(&self, name: Name, windows: &BTreeSet<u32>, is_fee: bool) -> Option<i64> {
        let flows = self.flows().filter(|flow| {
            flow.is_fee == is_fee && flow.window.is_some_and(|window| windows.contains(&window))
        });
        let of_name: Vec<_> = flows.filter(|flow| flow.from == name || flow.to == name).collect();
        let sign = |is_party, units: i64| if is_party { units } else { 0 };
        let sum = of_name
            .iter()
            .map(|flow| sign(flow.from == name, flow.units) - sign(flow.to == name, flow.units))
            .sum();
        (!of_name.is_empty()).then_some(sum)
    }

    pub fn net_in(&self, name: Name, settling: &Settling) -> i64 {
        self.net(name, &settling.windows, settling.is_fee).expect("a party of the settlement")
    }

    /// Amounts that settlements added to a position, or to an account for fees.
    pub fn settled(&self, name: Name, is_fee: bool) -> i64 {
        let moved =
            self.settlings.iter().filter(|settling| settling.is_fee == is_fee).filter_map(|settling| {
                let party = settling.parties.get(name)?;
                let net = self.net_in(name, settling);
                let at = if net < 0 { RESERVED } else { COMMITTED };
                (at..=SETTLED).contains(&party.state).then_some(-net)
            });
        moved.sum()
    }

    /// Balance of the hub's multilateral settlement account.
    pub fn multilateral(&self) -> i64 {
        let answers_for =
            |name| self.begins_with(name) + self.settled(name, false) + self.settled(name, true);
        -NAMES.into_iter().map(answers_for).sum::<i64>()
    }

    pub fn close(&mut self, number: Option<u8>) -> String {
        let open = self.windows.len() as u32 + 1;
        let number = number.map_or(open, u32::from);
        let has = |is_fee| self.flows().any(|flow| flow.window == Some(open) && flow.is_fee == is_fee);
        let contents = [has(false), has(true)].map(|is_there| is_there.then_some("CLOSED"));
        if number != open || contents == [None; 2] {
            return refused(3100);
        }
        self.windows.push(Closed { contents });
        format!("= window {}", open + 1)
    }

    /// Settles by the model of positions or of fees. Without numbers, settles all windows that are not settled yet.
    pub fn settle(&mut self, windows: Option<&[u8]>, is_fee: bool) -> String {
        let content = |window: &u32| {
            self.windows.get((*window as usize).checked_sub(1)?)?.contents[usize::from(is_fee)]
        };
        let can_be_settled = |window: &u32| matches!(content(window), Some("CLOSED" | "ABORTED"));
        let windows: BTreeSet<u32> = match windows {
            Some(windows) => windows.iter().copied().map(u32::from).collect(),
            None => (1..=self.windows.len() as u32).filter(can_be_settled).collect(),
        };
        let has_model = if is_fee { self.has_fee_model } else { !self.is_model_off };
        if !has_model || windows.is_empty() || !windows.iter().all(can_be_settled) {
            return refused(3100);
        }
        for window in &windows {
            self.windows[*window as usize - 1].contents[usize::from(is_fee)] = Some("PENDING_SETTLEMENT");
        }
        let parties = NAMES.into_iter().filter(|name| self.net(name, &windows, is_fee).is_some());
        let parties = parties.map(|name| (name, Party::default())).collect();
        self.settlings.push(Settling { windows, is_fee, state: 0, parties });
        format!("= settlement {}", self.settlings.len())
    }

    /// Advances parties to a state, an index in [`STATES`]. Without names all parties advance, without a state to the
    /// next one.
    pub fn advance(&mut self, number: Option<u8>, names: Option<&[Name]>, state: Option<u8>) -> String {
        let number = number.map_or(self.settlings.len(), usize::from);
        let Some(index) = number.checked_sub(1).filter(|index| *index < self.settlings.len()) else {
            return refused(3100);
        };
        let mut settling = self.settlings.remove(index);
        let before = settling.state;
        let state = state.map_or(next(before), usize::from);
        let all: Vec<Name> = settling.parties.keys().copied().collect();
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, place) in names.unwrap_or(&all).iter().copied().zip(0..) {
            let fault = match settling.parties.get_mut(name) {
                None => "AccountUnknown",
                Some(_) if !seen.insert(name) => "AccountRepeated",
                Some(party) if party.state == state => continue,
                Some(party) => {
                    let is_next = state != SETTLING && state == next(party.state) && party.state < SETTLED;
                    let is_due = party.state == before || (party.state, before) == (COMMITTED, SETTLING);
                    if is_next && is_due {
                        self.raise_cap(name, &mut settling, state);
                        continue;
                    }
                    "StateNotAllowed"
                }
            };
            faults.push(format!("{place} {fault}"));
        }
        let states: Vec<_> = settling.parties.values().map(|party| party.state).collect();
        let least = states.iter().copied().min().unwrap_or(0);
        settling.state = if least < SETTLED && states.contains(&SETTLED) { SETTLING } else { least };
        for window in &settling.windows {
            if settling.state == SETTLED || self.is_settled(*window, &settling) {
                self.windows[*window as usize - 1].contents[usize::from(settling.is_fee)] = Some("SETTLED");
            }
        }
        self.settlings.insert(index, settling);
        format!("= advanced {}", faults.join(", "))
    }

    /// Whether all parties of a window are settled, although other parties of the settlement may not be.
    fn is_settled(&self, window: u32, settling: &Settling) -> bool {
        let window = BTreeSet::from([window]);
        let took_part = |name: Name| self.net(name, &window, settling.is_fee).is_some();
        let mut states =
            settling.parties.iter().filter(|(name, _)| took_part(name)).map(|(_, party)| party.state);
        states.next().is_some_and(|first| first == SETTLED && states.all(|state| state == SETTLED))
    }

    fn raise_cap(&mut self, name: Name, settling: &mut Settling, state: usize) {
        let paid = -self.net_in(name, settling);
        let party = settling.parties.get_mut(name).expect("a party of the settlement");
        // Fees have no cap.
        if state == RESERVED && paid > 0 && !settling.is_fee {
            // The settlement is currently out of the list, with everything that it moved before, but nothing of this
            // party.
            let position = self.position(name);
            let cap = self.cap(name);
            if position + paid > cap {
                self.members.get_mut(name).expect("a member").set_cap(cap + paid);
                party.raised_by = paid;
            }
        }
        party.state = state;
    }

    pub fn abort_settlement(&mut self, number: Option<u8>) -> String {
        let number = number.map_or(self.settlings.len(), usize::from);
        let Some(index) = number.checked_sub(1).filter(|index| *index < self.settlings.len()) else {
            return refused(3100);
        };
        let settling = &self.settlings[index];
        let is_committed = settling.parties.values().any(|party| party.state == COMMITTED);
        if is_committed || (COMMITTED..=SETTLED).contains(&settling.state) {
            return refused(3100);
        }
        let mut settling = self.settlings.remove(index);
        if settling.state != ABORTED {
            for window in &settling.windows {
                self.windows[*window as usize - 1].contents[usize::from(settling.is_fee)] = Some("ABORTED");
            }
        }
        for (name, party) in &mut settling.parties {
            if party.raised_by != 0 {
                let cap = self.cap(name) - party.raised_by;
                self.members.get_mut(name).expect("a member").set_cap(cap);
            }
            *party = Party { state: ABORTED, raised_by: 0 };
        }
        settling.state = ABORTED;
        self.settlings.insert(index, settling);
        done()
    }

    /// An operator's request about windows or settlements.
    pub fn operate_settlement(&mut self, ask: &Ask) -> String {
        match ask {
            Ask::CloseWindow(number) => self.close(*number),
            Ask::Settle { windows, is_fee } => self.settle(windows.as_deref(), *is_fee),
            Ask::Advance { id, names, state } => self.advance(*id, names.as_deref(), *state),
            Ask::AbortSettlement(id) => self.abort_settlement(*id),
            other => panic!("{other:?} is not about settlement"),
        }
    }
}

/// The state of an account after another one.
fn next(state: usize) -> usize {
    match state {
        COMMITTED | SETTLING => SETTLED,
        SETTLED | ABORTED => state,
        earlier => earlier + 1,
    }
}
