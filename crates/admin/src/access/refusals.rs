//! Rejected attempts: limits their number in the audit trail. Each operator has a budget. Unauthenticated clients share
//! a separate one, so that they cannot hide the attempts of an operator.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of rejections of a burst that are recorded.
pub(super) const REFUSALS_BURST: u32 = 30;
/// Interval after which a further one is recorded.
pub(super) const REFUSALS_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of operators with a budget of their own; further ones share one.
const OPERATORS_MAX: usize = 1_024;

/// The budget of a rejected attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budgeted<'a> {
    /// An authenticated operator.
    Operator(&'a str),
    Unauthenticated,
}

/// Decides which rejections the audit trail records, so that no client fills the disk.
#[derive(Debug)]
pub(super) struct Refusals(Mutex<Budgets>);

#[derive(Debug)]
struct Budgets {
    unauthenticated: Budget,
    operators: BTreeMap<Box<str>, Budget>,
    /// Shared by further operators.
    others: Budget,
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    left: u32,
    since: Instant,
    passed_over: u64,
}

impl Budget {
    const fn full(now: Instant) -> Self {
        Self { left: REFUSALS_BURST, since: now, passed_over: 0 }
    }

    fn refill(&mut self, now: Instant) {
        let intervals = now.saturating_duration_since(self.since).as_millis() / REFUSALS_INTERVAL.as_millis();
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(intervals).min(REFUSALS_BURST);
        self.since = match self.left {
            REFUSALS_BURST => now,
            _ => self.since + REFUSALS_INTERVAL * intervals,
        };
    }

    fn keep(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if self.left == 0 {
            self.passed_over += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.passed_over))
    }

    /// Whether it is equivalent to a new one.
    fn is_unused(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left == REFUSALS_BURST && self.passed_over == 0
    }
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        let full = Budget::full(now);
        Self(Mutex::new(Budgets { unauthenticated: full, operators: BTreeMap::new(), others: full }))
    }

    /// Whether this rejection is recorded; then the number of earlier ones of the same budget that were not.
    pub(super) fn keep(&self, whose: Budgeted<'_>, now: Instant) -> Option<u64> {
        self.budgets().of(whose, now).keep(now)
    }

    /// Counts rejections that could not be recorded: the next one of the budget reports them.
    pub(super) fn lose(&self, whose: Budgeted<'_>, count: u64, now: Instant) {
        self.budgets().of(whose, now).passed_over += count;
    }

    fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budgets {
    fn of(&mut self, whose: Budgeted<'_>, now: Instant) -> &mut Budget {
        let Budgeted::Operator(name) = whose else { return &mut self.unauthenticated };
        if !self.operators.contains_key(name) {
            if self.operators.len() >= OPERATORS_MAX {
                self.operators.retain(|_, budget| !budget.is_unused(now));
            }
            if self.operators.len() >= OPERATORS_MAX {
                return &mut self.others;
            }
        }
        self.operators.entry(name.into()).or_insert_with(|| Budget::full(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMINA: Budgeted<'_> = Budgeted::Operator("amina");

    #[test]
    fn burst_of_rejections_is_recorded_then_one_per_interval() {
        for whose in [AMINA, Budgeted::Unauthenticated] {
            let start = Instant::now();
            let refusals = Refusals::new(start);
            let keep = |at| refusals.keep(whose, at);
            let kept = (0..100).filter(|_| keep(start).is_some()).count();
            assert_eq!(kept, REFUSALS_BURST as usize);
            assert_eq!(keep(start + REFUSALS_INTERVAL / 2), None);
            // The count contains the 70 attempts of the burst that were not recorded, and the attempt after them.
            assert_eq!(keep(start + REFUSALS_INTERVAL), Some(71));
            assert_eq!(keep(start + REFUSALS_INTERVAL), None);
            assert_eq!(keep(start + 1_000 * REFUSALS_INTERVAL), Some(1));
            refusals.lose(whose, 3, start + 1_000 * REFUSALS_INTERVAL);
            assert_eq!(keep(start + 1_001 * REFUSALS_INTERVAL), Some(3));
            assert_eq!(keep(start + 1_002 * REFUSALS_INTERVAL), Some(0));
        }
    }

    #[test]
    fn unauthenticated_clients_and_operators_have_separate_budgets() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let kept = |whose| (0..100).filter(|_| refusals.keep(whose, start).is_some()).count();
        assert_eq!(kept(Budgeted::Unauthenticated), REFUSALS_BURST as usize);
        assert_eq!(kept(AMINA), REFUSALS_BURST as usize);
        assert_eq!(kept(Budgeted::Operator("baraka")), REFUSALS_BURST as usize);
    }

    #[test]
    fn budgets_are_limited_and_used_ones_are_retained() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let kept = |name: &str, at| refusals.keep(Budgeted::Operator(name), at).is_some();
        for index in 0..3 * OPERATORS_MAX {
            kept(&format!("operator-{index}"), start);
        }
        assert_eq!(refusals.budgets().operators.len(), OPERATORS_MAX);
        assert!(!kept("one-more", start), "those beyond share a budget");
        // The limits of the first ones are full again after an interval, and their entries are replaced.
        assert!(kept("one-more", start + REFUSALS_INTERVAL));
        assert_eq!(refusals.budgets().operators.len(), 1);
    }
}
