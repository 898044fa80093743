//! The state of a world, for people: a line for each thing, with what it is about before the first colon.

use upesi_delivery::lanes::Done;
use upesi_journal::sim_disk::{DiskView, FileView};

use super::World;
use super::dfsp::Dfsp;
use super::event::Event;
use crate::hub::Hub;
use crate::message::UNITS;

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

impl World {
    /// Clock, hub, disk with its files and armed faults, archive, DFSPs, operator, and messages in flight, a line each.
    /// The time is left out: every event has another one. Looking changes nothing.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "world: {:?}, life {}, {} calls open, {} callbacks owed, {} faults unchecked",
                self.phase,
                self.life,
                self.calls.len(),
                self.auditor.owed(),
                self.faults_unchecked,
            ),
            format!("clock: {}", self.clock.describe(self.now_us)),
        ];
        match &self.hub {
            Some(hub) => describe_hub(hub, &mut lines),
            None => lines.push("hub: down".to_owned()),
        }
        self.describe_disk(&mut lines);
        lines.push(format!("archive: {}", self.archive.describe()));
        self.describe_dfsps(&mut lines);
        lines.push(self.describe_operator());
        lines.extend(self.schedule.iter().filter_map(|(at_us, event)| self.describe_message(at_us, event)));
        lines
    }

    fn describe_disk(&self, lines: &mut Vec<String>) {
        let disk = self.disk.view();
        lines.push(format!(
            "disk: {} bytes, {}, {} operations, {} reads{}{}",
            disk.used_bytes,
            match disk.capacity_bytes {
                u64::MAX => "no limit".to_owned(),
                bytes => format!("room for {} more", bytes.saturating_sub(disk.used_bytes)),
            },
            disk.operations,
            disk.reads,
            if disk.is_crashed { ", stands still" } else { "" },
            if self.is_rotten { ", rotten" } else { "" },
        ));
        lines.extend(disk.files.iter().map(describe_file));
        describe_armed(&disk, lines);
    }

    /// How each DFSP is, and how many of the PUTs that it has yet to send are lies.
    fn describe_dfsps(&self, lines: &mut Vec<String>) {
        let mut lies = vec![0_u64; self.dfsps.len()];
        for (_, event) in self.schedule.iter() {
            if let Event::Put { by, is_right: false, .. } = event {
                lies[*by] += 1;
            }
        }
        for (number, (dfsp, lies)) in self.dfsps.iter().zip(lies).enumerate() {
            lines.push(format!("dfsp{number}: {}", describe_dfsp(dfsp, self.now_us, lies)));
        }
    }

    fn describe_operator(&self) -> String {
        let waiting = self.operator.next.len();
        match &self.operator.current {
            None => format!("operator: idle, {waiting} to come"),
            Some(command) => {
                let submitted = if self.operator.is_submitted { "waits for" } else { "is about to do" };
                format!("operator: {submitted} {command:?}, {waiting} to come")
            }
        }
    }

    /// A message on its way, if the event is the end of that.
    fn describe_message(&self, at_us: u64, event: &Event) -> Option<String> {
        let (what, contents) = match event {
            Event::Arrive { call: number } => {
                let call = self.calls.get(number);
                let call = call.map_or_else(|| "its sender has given up".to_owned(), |call| call.describe());
                (format!("request {number}"), call)
            }
            Event::Answered { call, status } => {
                let status = status.map_or_else(|| "nobody is there".to_owned(), |status| status.to_string());
                (format!("answer to request {call}"), status)
            }
            Event::Callback { number, request, .. } => {
                (format!("callback {number}"), format!("{} {}", request.method, request.path))
            }
            // The end of the hub's patience is no message.
            Event::CallbackAnswered { done: Done::Unreachable(_), .. } => return None,
            Event::CallbackAnswered { life, number, done } => {
                let gone = if *life == self.life { "" } else { ", for a process that is gone" };
                (format!("answer to callback {number}"), format!("{done:?}{gone}"))
            }
            _ => return None,
        };
        Some(format!("{what} in flight: {contents}, arrives at {}", seconds(at_us)))
    }
}

fn describe_hub(hub: &Hub, lines: &mut Vec<String>) {
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
            "account {} {} {}: {} units{}",
            owner.name,
            ledger.account_type_name(account.kind),
            account.currency,
            i128::from(account.balance.units()) / UNITS,
            if account.is_active { "" } else { ", inactive" },
        ));
    }
    for transfer in ledger.reserved_transfers() {
        let (id, amount, currency) = (transfer.id, transfer.amount, transfer.currency);
        lines.push(format!("reserved {id}: {amount} {currency} until {}", transfer.expires_at));
    }
    for bulk in ledger.live_bulks() {
        let (id, items, state) = (bulk.id, bulk.items.len(), bulk.public_state().as_str());
        lines.push(format!("bulk {id}: {state}, {items} items until {}", bulk.expires_at));
    }
}

fn describe_file(file: &FileView) -> String {
    let bytes = file.bytes.map_or_else(|| "removed".to_owned(), |bytes| format!("{bytes} bytes"));
    let medium = match (file.unsynced_changes, file.is_on_medium) {
        (0, true) => String::new(),
        (0, false) => ", not so on the medium".to_owned(),
        (changes, _) => format!(", {} unsynced in {changes} changes", file.unsynced_bytes),
    };
    let name = if file.is_name_synced { "" } else { ", name not synced" };
    let lies = if file.lies == 0 { String::new() } else { format!(", {} writes lied about", file.lies) };
    format!("file {}: {bytes}{medium}{name}{lies}", file.path)
}

fn describe_armed(disk: &DiskView, lines: &mut Vec<String>) {
    for (ordinal, fault) in &disk.armed_operations {
        lines.push(format!("armed at operation {ordinal}: {fault:?}"));
    }
    for ordinal in &disk.armed_reads {
        lines.push(format!("armed at read {ordinal}: Broken"));
    }
    for armed in &disk.armed_writes {
        let (part, fault, skip) = (&armed.part, armed.fault, armed.skip);
        lines.push(format!("armed in files {part}: {fault:?} after {skip} writes"));
    }
}

fn describe_dfsp(dfsp: &Dfsp, now_us: u64, lies: u64) -> String {
    let conditions = [
        ("dead", dfsp.dead_until_us),
        ("slow", dfsp.slow_until_us),
        ("answering 503", dfsp.failing_until_us),
    ];
    let present = conditions.iter().filter(|(_, until_us)| now_us < *until_us);
    let mut words: Vec<_> =
        present.map(|(name, until_us)| format!("{name} until {}", seconds(*until_us))).collect();
    if words.is_empty() {
        words.push("well".to_owned());
    }
    if lies > 0 {
        words.push(format!("{lies} lies to come"));
    }
    words.join(", ")
}
