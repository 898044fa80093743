//! Ambushes: operators change the scheme at the worst moments, which are between a transfer's reservation and its end,
//! right before a crash, and right after a start.
//!
//! All random numbers of this part come from their own stream, so a seed without ambushes produces the same events as
//! before.

use upesi_journal::sim_disk::DiskFault;
use upesi_ledger::{AdminCommand, Command, FundsDirection};
use upesi_types::TransferId;

use super::World;
use super::event::{AmbushMoment, Event};
use super::operator::{ENDPOINTS, endpoint};
use super::values::{fsp, kes, money};
use crate::message::UNITS;

/// An operator acts on one forwarded prepare in this many.
const IN_FLIGHT_ONE_IN: u64 = 6;
const BEFORE_CRASH_ONE_IN: u64 = 2;
const AFTER_START_ONE_IN: u64 = 3;
/// Maximum time from a start to an operator's action: lanes still read their backlog.
const AFTER_START_MOST_US: u64 = 2_000;
/// Maximum number of disk operations from an operator's action to the crash.
const OPERATIONS_TO_CRASH: u64 = 4;

impl World {
    fn is_ambushed(&mut self, one_in: u64) -> bool {
        self.plan.faults.ambushes && self.is_troubled() && self.mischance.one_in(one_in)
    }

    /// A prepare leaves for its payee. An operator may change one of its parties before the payee answers.
    pub(super) fn ambush_in_flight(&mut self, id: TransferId) {
        if !self.is_ambushed(IN_FLIGHT_ONE_IN) {
            return;
        }
        if let Some(spec) = self.specs.iter().find(|spec| spec.id == id) {
            let dfsp = if self.mischance.one_in(2) { spec.payer } else { spec.payee };
            let dfsp = self.liable(dfsp);
            let life = self.life;
            self.after(1, Event::Ambush { life, moment: AmbushMoment::InFlight { id, dfsp } });
        }
    }

    /// The process is started. An operator may act immediately.
    pub(super) fn ambush_after_start(&mut self) {
        if self.life > 0 && self.is_ambushed(AFTER_START_ONE_IN) {
            let (life, delay) = (self.life, 1 + self.mischance.below(AFTER_START_MOST_US));
            self.after(delay, Event::Ambush { life, moment: AmbushMoment::AfterStart });
        }
    }

    /// A crash is near. It may come while an operator's change is in progress, at any stage of it.
    pub(super) fn ambush_before_crash(&mut self) {
        if self.is_ambushed(BEFORE_CRASH_ONE_IN) && self.strike() {
            self.counts.ambushes_before_crash += 1;
            for _ in 0..self.mischance.below(3) {
                self.turn(false);
            }
        }
    }

    /// As [`Self::ambush_before_crash`], for a crash at one of the next disk operations.
    pub(super) fn ambush_before_operation(&mut self) {
        if !self.is_ambushed(BEFORE_CRASH_ONE_IN) {
            return;
        }
        let ahead = self.mischance.below(OPERATIONS_TO_CRASH);
        if self.strike() {
            self.disk.inject(self.disk.operations().len() as u64 + ahead, DiskFault::Crash);
            self.counts.ambushes_before_crash += 1;
        }
    }

    /// Acts if the transfer has not ended in the meantime.
    pub(super) fn ambush(&mut self, moment: AmbushMoment) {
        if !self.is_troubled() {
            return;
        }
        let has_struck = match moment {
            AmbushMoment::InFlight { id, dfsp } => {
                let is_open = self.hub.is_some() && self.operator_is_idle() && self.auditor.is_reserved(id);
                if is_open {
                    self.counts.ambushes_in_flight += 1;
                    self.change_scheme(dfsp);
                }
                is_open
            }
            AmbushMoment::AfterStart => {
                let has_struck = self.strike();
                self.counts.ambushes_after_start += u64::from(has_struck);
                has_struck
            }
        };
        if has_struck {
            self.note_fault();
        }
    }

    /// An operator sends the command that the last process has not answered, the next command, or the most harmful one.
    /// Returns whether a command was submitted.
    fn strike(&mut self) -> bool {
        if self.hub.is_none() || self.operator.is_submitted {
            return false;
        }
        if self.operator_is_idle() && self.strike_by_settlement() {
            return true;
        }
        if self.operator_is_idle() {
            let dfsp = self.mischance.below(self.locals() as u64) as usize;
            self.change_scheme(dfsp);
        } else {
            self.operator.current = self.operator.current.take().or_else(|| self.operator.next.pop_front());
            self.submit_operation();
        }
        true
    }

    fn change_scheme(&mut self, dfsp: usize) {
        let name = fsp(dfsp);
        let command = match self.mischance.below(7) {
            0 | 1 => {
                let on = AdminCommand::SetParticipantActivity { name, is_active: true };
                self.operator.next.push_back(Command::Admin(on));
                AdminCommand::SetParticipantActivity { name, is_active: false }
            }
            2 => {
                let account = self.operator.accounts[dfsp].0;
                let on = AdminCommand::SetAccountActivity { name, account, is_active: true };
                self.operator.next.push_back(Command::Admin(on));
                AdminCommand::SetAccountActivity { name, account, is_active: false }
            }
            3 => {
                let later = AdminCommand::SetLimit {
                    name,
                    currency: kes(),
                    net_debit_cap: money(500 + self.mischance.below(1_000) as i64),
                    alarm_basis_points: 1_000,
                };
                self.operator.next.push_back(Command::Admin(later));
                let net_debit_cap = money(self.mischance.below(2) as i64);
                AdminCommand::SetLimit { name, currency: kes(), net_debit_cap, alarm_basis_points: 1_000 }
            }
            4 => {
                // The withdrawal takes all of the cover, or nearly all.
                let cover = self.auditor.outside.cover.get(&dfsp).map_or(0, |cover| cover / UNITS) as i64;
                let units = cover - self.mischance.below(3) as i64;
                AdminCommand::PrepareFunds(self.funds(dfsp, FundsDirection::Out, units.max(1)))
            }
            5 => {
                let units = 1 + self.mischance.below(500) as i64;
                AdminCommand::PrepareFunds(self.funds(dfsp, FundsDirection::In, units))
            }
            _ => {
                let kind = ENDPOINTS[self.mischance.below(3) as usize];
                let host = format!("{}.elsewhere.example", crate::message::name(dfsp));
                self.operator.current = Some(endpoint(dfsp, kind, &host));
                return self.submit_operation();
            }
        };
        self.operator.current = Some(Command::Admin(command));
        self.submit_operation();
    }
}
