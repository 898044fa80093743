//! Metrics of settlement windows and settlements.

use std::fmt::Write as _;

use upesi_ledger::{Ledger, SettlementState, WindowState};
use upesi_process::exposition::{gauge, head};
use upesi_types::Timestamp;

/// Settlement windows and settlements at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SettlementSample {
    /// By [`WindowState::ALL`].
    windows: Vec<u64>,
    /// By [`SettlementState::ALL`].
    settlements: Vec<u64>,
    open_transfers: u64,
    open_seconds: u64,
    waiting_seconds: u64,
    unchanged_seconds: u64,
    /// Objects that the ledger retains permanently, with their limits.
    kept: [LimitedCount; 3],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LimitedCount {
    what: &'static str,
    count: usize,
    max: usize,
}

impl SettlementSample {
    pub(super) fn new(ledger: &Ledger, now: Timestamp) -> Self {
        let age = |since: Timestamp| u64::try_from((now.as_ms() - since.as_ms()) / 1_000).unwrap_or(0);
        let limits = &ledger.config().limits;
        let accounts = ledger.settlements().iter().map(|settlement| settlement.accounts.len()).sum();
        let kept = |what, count, max| LimitedCount { what, count, max };
        let mut sample = Self {
            kept: [
                kept("windows", ledger.windows().len(), limits.windows),
                kept("settlements", ledger.settlements().len(), limits.settlements),
                kept("accounts", accounts, limits.settlement_accounts),
            ],
            windows: vec![0; WindowState::ALL.len()],
            settlements: vec![0; SettlementState::ALL.len()],
            open_transfers: ledger.open_window_transfers(),
            ..Self::default()
        };
        for window in ledger.windows() {
            let is_own = |state: &WindowState| *state == window.state;
            sample.windows[WindowState::ALL.iter().position(is_own).unwrap_or(0)] += 1;
            match window.state {
                WindowState::Open if sample.open_transfers > 0 => {
                    // No transfer commits before there is a model. Ledgers of earlier versions do not know when their
                    // first window opened.
                    let models = ledger.models().iter().map(|model| model.created_at).min();
                    sample.open_seconds = age(models.unwrap_or(now).max(window.created_at));
                }
                WindowState::Closed | WindowState::Aborted => {
                    sample.waiting_seconds = sample.waiting_seconds.max(age(window.changed_at));
                }
                _ => {}
            }
        }
        for settlement in ledger.settlements() {
            let is_own = |state: &SettlementState| *state == settlement.state;
            sample.settlements[SettlementState::ALL.iter().position(is_own).unwrap_or(0)] += 1;
            if !matches!(settlement.state, SettlementState::Settled | SettlementState::Aborted) {
                sample.unchanged_seconds = sample.unchanged_seconds.max(age(settlement.changed_at));
            }
        }
        sample
    }

    pub(super) fn write(&self, text: &mut String) {
        head(text, "upesi_settlement_windows", "gauge", "Settlement windows by state");
        for (state, count) in WindowState::ALL.iter().zip(&self.windows) {
            let _ = writeln!(text, "upesi_settlement_windows{{state=\"{}\"}} {count}", state.as_str());
        }
        head(text, "upesi_settlements", "gauge", "Settlements by state");
        for (state, count) in SettlementState::ALL.iter().zip(&self.settlements) {
            let _ = writeln!(text, "upesi_settlements{{state=\"{}\"}} {count}", state.as_str());
        }
        let kept = "Settlement windows, settlements and settlement accounts in the ledger";
        head(text, "upesi_settlement_kept", "gauge", kept);
        for LimitedCount { what, count, .. } in self.kept {
            let _ = writeln!(text, "upesi_settlement_kept{{what=\"{what}\"}} {count}");
        }
        head(
            text,
            "upesi_settlement_kept_max",
            "gauge",
            "Limits on settlement windows, settlements and settlement accounts in the ledger",
        );
        for LimitedCount { what, max, .. } in self.kept {
            let _ = writeln!(text, "upesi_settlement_kept_max{{what=\"{what}\"}} {max}");
        }
        for (name, help, value) in [
            (
                "upesi_settlement_open_transfers",
                "Committed transfers of the open window",
                self.open_transfers,
            ),
            (
                "upesi_settlement_open_seconds",
                "Age of the open window, 0 while it is empty",
                self.open_seconds,
            ),
            (
                "upesi_settlement_waiting_seconds",
                "Time since the oldest unsettled window was closed or aborted",
                self.waiting_seconds,
            ),
            (
                "upesi_settlement_unchanged_seconds",
                "Longest time that an unfinished settlement has been in its current state",
                self.unchanged_seconds,
            ),
        ] {
            gauge(text, name, help, value);
        }
    }
}
