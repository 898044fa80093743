//! The operators' view of settlements, answer by answer: nets, stages, raised caps.

use std::collections::BTreeMap;

use upesi_ledger::{Ledger, LedgerAccountTypeId, Settlement, SettlementAccount, SettlementState};

use super::Findings;
use super::account::currency_of;
use super::settling::OperatorRequests;
use crate::message::number;

/// A DFSP's account of a type, in a currency.
type Account = (usize, u8, u8);

/// An account in a settlement, as it was read last.
#[derive(Debug)]
struct AccountProgress {
    net: i128,
    state: SettlementState,
    cap_raised_by: Option<i128>,
    /// Whether its cover has moved.
    is_paid: bool,
    /// Whether its movement was made and not reversed.
    is_moved: bool,
}

/// Caps and cover of the DFSPs, as an observer outside the hub knows them.
pub(crate) struct ObservedLimits<'a> {
    pub(crate) caps: &'a mut BTreeMap<usize, i128>,
    pub(crate) cover: &'a mut BTreeMap<usize, i128>,
}

/// The data about settlements that operators of the simulated scheme have.
#[derive(Debug, Default)]
pub(crate) struct Treasurer {
    pub(crate) asked: OperatorRequests,
    stages: BTreeMap<(u32, Account), AccountProgress>,
}

impl Treasurer {
    /// An operator reads all settlements after an answer, and so sees the caps that the hub changed.
    pub(crate) fn read(
        &mut self,
        ledger: &Ledger,
        mut observed: ObservedLimits<'_>,
        findings: &mut Findings,
    ) {
        for settlement in ledger.settlements() {
            for account in &settlement.accounts {
                let Some(key) = owner(ledger, account) else { continue };
                self.read_account(ledger, settlement, key, account, &mut observed, findings);
            }
        }
    }

    fn read_account(
        &mut self,
        ledger: &Ledger,
        settlement: &Settlement,
        key: Account,
        account: &SettlementAccount,
        observed: &mut ObservedLimits<'_>,
        findings: &mut Findings,
    ) {
        let ObservedLimits { caps, cover } = observed;
        let (id, net) = (settlement.id, i128::from(account.net.units()));
        let first = AccountProgress {
            net,
            state: SettlementState::Pending,
            cap_raised_by: None,
            is_paid: false,
            is_moved: false,
        };
        let stage = self.stages.entry((id.0, key)).or_insert(first);
        if stage.net != net {
            findings.add(format!("settlement {id}: the net of {key:?} was {}, and is {net}", stage.net));
        }
        if account.funds.is_some() && !stage.is_paid {
            stage.is_paid = true;
            if key.2 != 0 {
                findings.add(format!("settlement {id}: no operator requested the cover of {key:?}"));
            }
            *cover.entry(key.0).or_default() -= net;
        }
        if stage.state == account.state {
            // An operator has set another cap since then, and that cap stays.
            stage.cap_raised_by = stage.cap_raised_by.filter(|_| account.cap_raised_by.is_some());
            return;
        }
        let model = ledger.models().get(settlement.model as usize - 1);
        let resets = model.is_some_and(|model| model.auto_position_reset);
        // A stage in between may be missing here, because its answer arrived when the leader changed.
        match account.state {
            SettlementState::Reserved | SettlementState::Committed | SettlementState::Settled if net < 0 => {
                stage.is_moved = resets;
            }
            SettlementState::Committed | SettlementState::Settled if net > 0 => stage.is_moved = resets,
            SettlementState::Aborted => {
                stage.is_moved = false;
                let cap = caps.get_mut(&key.0).filter(|_| key.2 == 0);
                if let Some((cap, by)) = cap.zip(stage.cap_raised_by.take()) {
                    *cap -= by;
                }
            }
            _ => {}
        }
        let raised = account.cap_raised_by.map(|by| i128::from(by.units()));
        if let Some(by) = raised.filter(|_| stage.cap_raised_by.is_none()) {
            // No operator ever changes a cap in the other currency.
            if let Some(cap) = caps.get_mut(&key.0).filter(|_| key.2 == 0) {
                *cap += by;
            }
            if by != -net {
                findings.add(format!("settlement {id}: the cap of {key:?} rises by {by}, its net is {net}"));
            }
            stage.cap_raised_by = Some(by);
        }
        stage.state = account.state;
    }

    /// Notes that an operator set a DFSP's cap. An abort no longer lowers this cap.
    pub(crate) fn forget_raises(&mut self, dfsp: usize) {
        let own = self.stages.iter_mut().filter(|((_, key), _)| key.0 == dfsp && key.2 == 0);
        own.for_each(|(_, stage)| stage.cap_raised_by = None);
    }

    /// The amount that settlements have added to a DFSP's account of a type, in a currency.
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
