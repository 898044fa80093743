//! The state of a world, for people.

use super::World;
use crate::message::UNITS;

impl World {
    /// The clock, the hub's state and lanes, positions and transfers in flight, a line each.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "time {:>4}.{:06}, life {}, {} calls open, {} callbacks owed",
            self.now_us / 1_000_000,
            self.now_us % 1_000_000,
            self.life,
            self.calls.len(),
            self.auditor.owed(),
        )];
        let Some(hub) = &self.hub else {
            lines.push("hub is down".to_owned());
            return lines;
        };
        let ledger = hub.ledger();
        lines.push(format!(
            "hub: record {} ({} durable), hub time {}, outbox {} ({} parked), {} finished in memory",
            ledger.last_seq(),
            hub.durable_seq(),
            ledger.last_time(),
            ledger.outbox().len(),
            ledger.outbox().parked_len(),
            ledger.finished_len(),
        ));
        lines.extend(hub.describe_lanes());
        for account in ledger.accounts() {
            let owner = ledger.participant(account.participant);
            lines.push(format!(
                "{:<8} {:<28} {:>8} units{}",
                owner.name,
                ledger.account_type_name(account.kind),
                i128::from(account.balance.units()) / UNITS,
                if account.is_active { "" } else { " (inactive)" },
            ));
        }
        for transfer in ledger.reserved_transfers() {
            lines.push(format!(
                "reserved {} {:>6} until {}",
                transfer.id, transfer.amount, transfer.expires_at
            ));
        }
        lines
    }
}
