//! The state of a world as text: one line for each item, which names the item before the first colon.

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
    /// One line each for the clock, the hub, the disk with its files and armed faults, the archive, the DFSPs, the
    /// operator, and messages in transit. The time is left out because it changes with every event. This call changes
    /// nothing.
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
                bytes => format!("{} bytes free", bytes.saturating_sub(disk.used_bytes)),
            },
            disk.operations,
            disk.reads,
            if disk.is_crashed { ", stands still" } else { "" },
            if self.is_rotten { ", rotten" } else { "" },
        ));
        lines.extend(disk.files.iter().map(describe_file));
        describe_armed(&disk, lines);
    }

    /// The condition of each DFSP, and the number of lies among the PUTs that it has yet to send.
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

    /// Describes a message in transit, if the event is its arrival.
    fn describe_message(&self, at_us: u64, event: &Event) -> Option<String> {
        let (what, contents) = match event {
            Event::Arrive { call: number } => {
                let call = self.calls.get(number);
                let call =
                    call.map_or_else(|| "its sender no longer waits".to_owned(), |call| call.describe());
                (format!("request {number}"), call)
            }
            Event::Answered { call, status } => {
                let status =
                    status.map_or_else(|| "no hub is running".to_owned(), |status| status.to_string());
                (format!("answer to request {call}"), status)
            }
            Event::Callback { number, request, .. } => {
                (format!("callback {number}"), format!("{} {}", request.method, request.path))
            }
            // The hub's timeout is not a message.
            Event::CallbackAnswered { done: Done::Unreachable(_), .. } => return None,
            Event::CallbackAnswered { life, number, done } => {
                let gone = if *life == self.life { "" } else { ", for a process that has ended" };
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
        (0, false) => ", different on the medium".to_owned(),
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

/// Counts of the events of a world, as evidence that faults occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub starts: u64,
    pub starts_failed: u64,
    /// Crashes at a disk operation that was drawn when the previous process ended. They hit the start, or the time
    /// directly after it.
    pub starts_cut_off: u64,
    pub quick_restarts: u64,
    pub kills: u64,
    pub power_losses: u64,
    /// Kills that hit a process at work, at an independent moment.
    pub sudden_kills: u64,
    /// Power losses that hit a process at work, at an independent moment.
    pub sudden_power_losses: u64,
    /// Crashes in the middle of a disk operation, without the crashes of starts that were cut off.
    pub crashes_at_operation: u64,
    /// Processes that stopped because of a failing disk.
    pub disk_stops: u64,
    pub full_disks: u64,
    pub broken_operations: u64,
    pub broken_reads: u64,
    /// Writes and syncs of the archive that failed although it was not full.
    pub broken_archives: u64,
    pub clock_jumps: u64,
    pub clock_drifts: u64,
    pub clock_freezes: u64,
    pub dead_dfsps: u64,
    pub slow_dfsps: u64,
    pub failing_dfsps: u64,
    /// Requests, answers and callbacks that were lost in transit.
    pub messages_lost: u64,
    /// Messages that arrived twice.
    pub messages_doubled: u64,
    /// Messages that were delayed, so that others overtook them.
    pub messages_delayed: u64,
    pub callback_answers_lost: u64,
    pub faults: u64,
    /// Faults that were followed by a safety check.
    pub faults_checked: u64,
    pub checks: u64,
    /// Safety checks that also compared the state with a replay.
    pub replays_compared: u64,
    pub rotten_bits: u64,
    pub lost_writes: u64,
    /// Writes that reported success and went to another place.
    pub misdirected_writes: u64,
    /// Writes that reported success and left a sector unchanged.
    pub stale_writes: u64,
    /// Worlds that ended because a start detected such damage and refused it, 0 or 1.
    pub rot_found: u64,
    /// Damage that running hubs and readers detected.
    pub rot_met: u64,
    /// Starts that skipped a damaged newest snapshot.
    pub snapshots_passed_over: u64,
    /// Worlds that ended because the newest frame was lost without a trace, which cannot be detected, 0 or 1.
    pub rot_unseen: u64,
    /// Worlds with a callback that stayed owed to the end because its request is damaged, 0 or 1.
    pub rot_withheld: u64,
    /// Worlds that reached their end with damage that nothing depended on, 0 or 1.
    pub rot_harmless: u64,
    pub requests: u64,
    pub acknowledged: u64,
    pub refused: u64,
    /// Lies of DFSPs, including queries about other DFSPs' transfers.
    pub lies: u64,
    /// Lies: payees' PUTs with a wrong fulfilment, destination or error code.
    pub false_endings: u64,
    /// PUTs from senders that are not the payee.
    pub strangers_endings: u64,
    /// Prepares that are sent again with another amount.
    pub altered_prepares: u64,
    /// Prepares that are sent again by another DFSP.
    pub copied_prepares: u64,
    /// New prepares in another payer's name.
    pub forged_prepares: u64,
    /// Prepares with invalid amounts or truncated bodies.
    pub oddities: u64,
    pub strangers_questions: u64,
    /// PUTs for transfers that do not exist.
    pub endings_of_nothing: u64,
    /// Transfers that their payee both aborts and fulfils. They are not counted among the lies.
    pub contradictions: u64,
    pub replays: u64,
    /// Replays at a hub that was restarted in the meantime.
    pub replays_after_restart: u64,
    /// Changes that operators made.
    pub operations: u64,
    /// Change sets that were applied completely.
    pub change_sets: u64,
    /// Change sets that stopped at a rejected change.
    pub change_sets_stopped: u64,
    pub jumps_accepted: u64,
    pub ended_by_operator: u64,
    /// Changes of a party of a transfer between its prepare and its end.
    pub ambushes_in_flight: u64,
    /// Changes a moment before a crash.
    pub ambushes_before_crash: u64,
    /// Changes a moment after a start.
    pub ambushes_after_start: u64,
    /// Callbacks that left the hub, including repeated ones.
    pub callbacks: u64,
    pub callbacks_taken: u64,
    /// Parked callbacks that operators sent again.
    pub recalled: u64,
    pub removals: u64,
    pub removed: u64,
    /// Prepares that were sent again after their transfer had been removed.
    pub resent_after_removal: u64,
    /// Archives that were lost between two lives and are rebuilt.
    pub lost_archives: u64,
    pub windows_closed: u64,
    pub settlements: u64,
    pub settled: u64,
    pub settlements_aborted: u64,
    /// Stages that only some accounts of a settlement reached at once.
    pub stages_in_pieces: u64,
    pub caps_raised: u64,
    /// Caps that were lowered again because their settlement was aborted.
    pub caps_lowered: u64,
    pub settled_at_once: u64,
    pub fees: u64,
    /// Transfers committed with a party behind a proxy.
    pub committed_through_proxy: u64,
    pub fx_transfers_committed: u64,
    /// FX transfers that were reserved and then aborted, including expired ones.
    pub fx_transfers_aborted: u64,
    /// FX transfers that expired, by themselves or with their transfer.
    pub fx_transfers_expired: u64,
    /// Reserved FX transfers on the payee's side.
    pub fx_transfers_of_payees: u64,
    /// Determining transfers that came before the fulfilment of their FX transfer, or before the FX transfer itself.
    pub determining_early: u64,
    pub determining_never: u64,
    /// Lies about FX transfers, and FXPs that break the rules.
    pub fx_transfer_lies: u64,
    /// Bulk transfers with committed items.
    pub bulks_completed: u64,
    /// Accepted bulk transfers without a committed item.
    pub bulks_rejected: u64,
    /// Bulk transfers with both committed and uncommitted items.
    pub bulks_in_part: u64,
    /// Bulk transfers that were accepted and take more than one slice of steps.
    pub bulks_in_slices: u64,
    pub items_committed: u64,
    /// Items of bulk transfers that expired, or that an operator ended.
    pub items_expired: u64,
    /// Bulk transfers that no hub may accept: without items, with too many, or with one twice.
    pub bulks_invalid: u64,
    /// Starts in the middle of a bulk transfer, between two of its items.
    pub bulks_interrupted: u64,
    /// Answers to bulk transfers close to their deadline.
    pub bulk_answers_late: u64,
    /// Lies about bulk transfers, and payees that break the rules.
    pub bulk_lies: u64,
    /// Operators' requests that were rejected because a limit of the ledger was reached.
    pub limits_met: u64,
    /// Operators' requests about windows and settlements that were rejected.
    pub settlements_refused: u64,
    /// Starts of a leader that was not leader before.
    pub fail_overs: u64,
    pub hand_overs: u64,
    /// Leaders that were frozen and resumed when another node was leader.
    pub former_leaders: u64,
    /// Changes of the nodes that deliver callbacks, and ends of such nodes.
    pub courier_troubles: u64,
    /// Times that a node followed the log and was not leader.
    pub followed: u64,
    /// Entries that did not arrive, or whose acknowledgement did not.
    pub entries_lost: u64,
    /// Entries that came twice, or after later ones.
    pub entries_late: u64,
    /// Entries that were deleted because no node needed them.
    pub entries_deleted: u64,
    /// Copies that were compared at the end.
    pub nodes_compared: u64,
    pub committed: u64,
    /// Transfers that were reserved and then aborted, including expired ones.
    pub aborted: u64,
    pub expired: u64,
}

impl Counts {
    pub const fn clock_faults(&self) -> u64 {
        self.clock_jumps + self.clock_drifts + self.clock_freezes
    }

    pub const fn outages(&self) -> u64 {
        self.dead_dfsps + self.slow_dfsps + self.failing_dfsps
    }
}
