//! What operators read of settlements, answer by answer: nets, stages, raised caps.

use std::collections::BTreeMap;

use upesi_ledger::{Ledger, LedgerAccountTypeId, Settlement, SettlementAccount, SettlementState};

use super::Findings;
use super::books::currency_of;
use super::settling::Asked;
use crate::message::number;

/// A DFSP's account of a type, in a currency.
type Account = (usize, u8, u8);

/// An account in a settlement, as it was read last.
#[derive(Debug)]
struct Stage {
    net: i128,
    state: SettlementState,
    cap_raised_to: Option<i128>,
    /// Whether its movement is made and stands.
    is_moved: bool,
}

/// What operators know of settlements.
#[derive(Debug, Default)]
pub(crate) struct Treasurer {
    pub(crate) asked: Asked,
    stages: BTreeMap<(u32, Account), Stage>,
}

impl Treasurer {
    /// An operator reads all settlements after an answer. Caps that the hub changed are known from here on.
    pub(crate) fn read(
        &mut self,
        ledger: &Ledger,
        caps: &mut BTreeMap<usize, i128>,
        findings: &mut Findings,
    ) {
        for settlement in ledger.settlements() {
            for account in &settlement.accounts {
                let Some(key) = owner(ledger, account) else { continue };
                self.read_account(ledger, settlement, (key, account), caps, findings);
            }
        }
    }

    fn read_account(
        &mut self,
        ledger: &Ledger,
        settlement: &Settlement,
        (key, account): (Account, &SettlementAccount),
        caps: &mut BTreeMap<usize, i128>,
        findings: &mut Findings,
    ) {
        let (id, net) = (settlement.id, i128::from(account.net.units()));
        let first = Stage { net, state: SettlementState::Pending, cap_raised_to: None, is_moved: false };
        let stage = self.stages.entry((id.0, key)).or_insert(first);
        if stage.net != net {
            findings.add(format!("settlement {id}: the net of {key:?} was {}, and is {net}", stage.net));
        }
        if stage.state == account.state {
            return;
        }
        let model = ledger.models().get(settlement.model as usize - 1);
        let resets = model.is_some_and(|model| model.auto_position_reset);
        // A stage in between may have passed unread: its answer came as the leader left.
        match account.state {
            SettlementState::Reserved | SettlementState::Committed | SettlementState::Settled if net < 0 => {
                stage.is_moved = resets;
            }
            SettlementState::Committed | SettlementState::Settled if net > 0 => stage.is_moved = resets,
            SettlementState::Aborted => {
                let (raised, was_moved) = (stage.cap_raised_to.take(), stage.is_moved);
                stage.is_moved = false;
                let cap = caps.get_mut(&key.0).filter(|_| key.2 == 0);
                if let Some(cap) = cap.filter(|cap| was_moved && raised == Some(**cap)) {
                    *cap += net;
                }
            }
            _ => {}
        }
        let raised = account.cap_raised_to.map(|cap| i128::from(cap.units()));
        if let Some(raised) = raised.filter(|_| raised != stage.cap_raised_to) {
            // Of the other currency nobody ever changes one.
            let before = if key.2 == 0 { caps.insert(key.0, raised) } else { None };
            if before.is_some_and(|before| before - net != raised) {
                findings.add(format!("settlement {id}: the cap of {key:?} goes from {before:?} to {raised}"));
            }
            stage.cap_raised_to = Some(raised);
        }
        stage.state = account.state;
    }

    /// What settlements have added to a DFSP's account of a type, in a currency.
    pub(crate) fn added_to(&self, dfsp: usize, kind: LedgerAccountTypeId, currency: u8) -> i128 {
        let account = (dfsp, kind.0, currency);
        let stages = self.stages.iter().filter(|((_, key), stage)| *key == account && stage.is_moved);
        stages.map(|(_, stage)| -stage.net).sum()
    }
}

fn owner(ledger: &Ledger, account: &SettlementAccount) -> Option<Account> {
    let account = ledger.account(account.account)?;
    let owner = number(ledger.participant(account.participant).name.as_str())?;
    Some((owner, account.kind.0, currency_of(account.currency)))
}
