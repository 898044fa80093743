//! Bugs that are planted on purpose if the plan asks for them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use upesi_engine::{DecisionFault, EngineHandle};
use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{Access, Disk, DiskFile};
use upesi_ledger::command::{BulkCommand, FxTransferCommand, Prepare};
use upesi_ledger::{
    AbortKind, AdminCommand, CallbackContent, Cause, Command, Decision, Event, ItemOutcome, Refusal,
    SettlementMode, TransferState, WindowId,
};
use upesi_types::{Amount, FspId, TransferId};

use crate::plan::{Bug, Plan};

/// Ordinal of the callback that is dropped, counted from the start of the process.
const DROPPED: u64 = 5;

/// The state of the planted bug.
pub(super) struct Bugs {
    bug: Option<Bug>,
    lives: u64,
    taken: u64,
    /// The prepares of this life, if a bug needs them.
    prepares: BTreeMap<[u8; 17], Prepare>,
    /// Initiator and FXP of the FX transfers of this life.
    fx_transfers: BTreeMap<[u8; 17], (FspId, FspId)>,
    /// The payees of the bulk transfers of this life.
    bulks: BTreeMap<[u8; 17], FspId>,
}

impl Bugs {
    pub(super) const fn new(bug: Option<Bug>, lives: u64) -> Self {
        Self {
            bug,
            lives,
            taken: 0,
            prepares: BTreeMap::new(),
            fx_transfers: BTreeMap::new(),
            bulks: BTreeMap::new(),
        }
    }

    pub(super) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn forgets_outbox(&self) -> bool {
        self.is(Bug::ForgetsOutbox) && self.lives > 0
    }

    pub(super) fn drops_this(&mut self) -> bool {
        self.taken += 1;
        self.is(Bug::DropsCallback) && self.taken == DROPPED
    }

    pub(super) fn body(&self, body: Bytes) -> Bytes {
        if self.is(Bug::AltersBodies) && !body.is_empty() {
            return [&body[..], b" "].concat().into();
        }
        body
    }

    /// The planted mistake in decisions of settlement, if there is one.
    pub(super) fn in_decisions(&self) -> Option<DecisionFault> {
        if let Some(mistake) = in_decisions(self.bug?) {
            return Some(mistake);
        }
        let distort: fn(&mut Vec<Event>) = match self.bug? {
            Bug::SettlesOneLeg => |events| settle_one_leg(events),
            Bug::SettlesTwice => |events| settle_twice(events),
            Bug::ClosesTwice => close_twice,
            Bug::MovesTwice => move_twice,
            Bug::LeavesCapsRaised => leave_caps_raised,
            Bug::IgnoresGross => |events| ignore_gross(events),
            Bug::ForgetsFees => forget_fees,
            Bug::StrandsConversions => strand_fx_transfers,
            Bug::SplitsEnds => |events| split_ends(events),
            Bug::AltersRates => |events| alter_rates(events),
            Bug::ForgetsProxies => |events| forget_proxies(events),
            _ => return None,
        };
        Some(Box::new(move |decision| distort(&mut decision.events)))
    }

    /// Changes a command on its way to the engine, or adds others.
    pub(super) fn distort(&mut self, command: &mut Command, handle: &EngineHandle) {
        if self.bug.is_none() {
            return;
        }
        match command {
            Command::Prepare(prepare) => {
                self.prepares.insert(prepare.id.to_bytes(), prepare.clone());
            }
            Command::Fulfil(fulfil) => {
                let prepare = fulfil.transfer.id().and_then(|id| self.prepares.get(&id.to_bytes()));
                let Some(prepare) = prepare.cloned() else { return };
                if self.is(Bug::BelievesStrangers) {
                    (fulfil.source, fulfil.destination) = (prepare.payee, Some(prepare.payer));
                }
                if self.is(Bug::PaysTwice) && fulfil.source == prepare.payee {
                    let mut bytes = [0; 16];
                    bytes.copy_from_slice(&prepare.id.to_bytes()[1..]);
                    bytes[0] ^= 1;
                    let id = TransferId::from_random_bytes(bytes);
                    let again = Prepare { id, ..prepare };
                    let fulfilled = upesi_ledger::command::Fulfil { transfer: id.into(), ..fulfil.clone() };
                    let _ = handle.submit_quietly(Command::Prepare(again));
                    let _ = handle.submit_quietly(Command::Fulfil(fulfilled));
                }
            }
            Command::Bulk(BulkCommand::Prepare(prepare)) => {
                self.bulks.insert(prepare.id.id().to_bytes(), prepare.payee);
            }
            Command::Bulk(BulkCommand::Fulfil(fulfil)) if self.is(Bug::BelievesAnyPayee) => {
                let payee = fulfil.bulk.id().and_then(|id| self.bulks.get(&id.to_bytes()));
                fulfil.source = payee.copied().unwrap_or(fulfil.source);
            }
            Command::FxTransfer(FxTransferCommand::Prepare(prepare)) => {
                let parties = (prepare.initiator, prepare.counter_party);
                self.fx_transfers.insert(prepare.id.id().to_bytes(), parties);
            }
            Command::FxTransfer(FxTransferCommand::Fulfil(fulfil)) if self.is(Bug::BelievesAnyFxp) => {
                let id = fulfil.fx_transfer.id();
                if let Some((initiator, fxp)) = id.and_then(|id| self.fx_transfers.get(&id.to_bytes())) {
                    (fulfil.source, fulfil.destination) = (*fxp, Some(*initiator));
                }
            }
            Command::Admin(AdminCommand::SetLimit { net_debit_cap, .. }) if self.is(Bug::IgnoresCaps) => {
                *net_debit_cap = Amount::from_units(1_000_000_000).unwrap_or(*net_debit_cap);
            }
            _ => {}
        }
    }
}

fn settle_one_leg(events: &mut [Event]) {
    if let [Event::SettlementCreated { accounts, .. }, ..] = &mut events[..]
        && let Some(recipient) = accounts.iter_mut().find(|account| account.net.is_negative())
    {
        recipient.net = Amount::ZERO;
    }
}

fn settle_twice(events: &mut [Event]) {
    let [Event::SettlementCreated { accounts, .. }, ..] = &mut events[..] else { return };
    let Some(transfer) = accounts.iter().map(|account| account.net).max() else { return };
    if let [first, .., last] = &mut accounts[..] {
        first.net = first.net.checked_add(transfer).unwrap_or(first.net);
        last.net = last.net.checked_sub(transfer).unwrap_or(last.net);
    }
}

fn close_twice(events: &mut Vec<Event>) {
    if let [Event::WindowClosed { next, .. }] = events[..] {
        let (id, next) = (next, WindowId(next.0 + 1));
        events.push(Event::WindowClosed { id, next, reason: "".into(), contents: Vec::new() });
    }
}

fn move_twice(events: &mut Vec<Event>) {
    if let [Event::SettlementAdvanced { .. }, .., posted @ Event::Posted { .. }] = &events[..] {
        events.push(posted.clone());
    }
}

fn ignore_gross(events: &mut [Event]) {
    if let [Event::TransferCommitted { settled, .. }, ..] = &mut events[..] {
        *settled = SettlementMode::InWindow;
    }
}

fn forget_fees(events: &mut Vec<Event>) {
    events.retain(|event| !matches!(event, Event::FeeCharged { .. }));
}

/// Books a prepare of a DFSP behind a proxy on its payee's account. In this plan's scheme the hub comes first, then
/// four DFSPs, then those behind the proxy.
fn forget_proxies(events: &mut [Event]) {
    let first_remote = 1 + Plan::default().dfsps as u32 + 1;
    for event in events {
        if let Event::TransferPrepared(transfer) = event
            && transfer.payer.is_some_and(|payer| payer.number() >= first_remote)
            && transfer.state == TransferState::Reserved
        {
            transfer.payer_account = transfer.payee_account;
        }
    }
}

fn strand_fx_transfers(events: &mut Vec<Event>) {
    if matches!(events[..], [Event::TransferCommitted { .. }, ..]) {
        events.retain(|event| !matches!(event, Event::FxTransferCommitted { .. }));
    }
}

fn split_ends(events: &mut [Event]) {
    for event in events {
        if let Event::FxTransferCommitted { id, .. } = event {
            let cause = Cause::Hub(Refusal::Expired);
            *event = Event::FxTransferAborted { id: *id, kind: AbortKind::Expired, cause, answer: None };
        }
    }
}

fn alter_rates(events: &mut [Event]) {
    if let [Event::FxTransferPrepared(fx_transfer)] = events
        && fx_transfer.is_live()
    {
        let amount = &mut fx_transfer.target.amount;
        *amount = Amount::from_units(amount.units() + 1).unwrap_or(*amount);
    }
}

fn leave_caps_raised(events: &mut Vec<Event>) {
    if let [Event::SettlementAborted { .. }, ..] = &events[..] {
        events.retain(|event| !matches!(event, Event::CapReturned { .. }));
    }
}

/// The planted mistake in decisions about bulk transfers, if there is one.
fn in_decisions(bug: Bug) -> Option<DecisionFault> {
    Some(Box::new(match bug {
        Bug::AltersItems => alter_items,
        Bug::HidesItems => hide_items,
        Bug::LosesResults => lose_results,
        Bug::ExpiresAnswered => expire_answered,
        Bug::TellsPayerOnly => tell_payer_only,
        Bug::TellsOtherwise => tell_otherwise,
        _ => return None,
    }))
}

fn alter_items(decision: &mut Decision) {
    if let [Event::TransferPrepared(transfer), Event::BulkItemDecided { refused: None, .. }] =
        &mut decision.events[..]
    {
        transfer.amount = Amount::from_units(transfer.amount.units() + 1).unwrap_or(transfer.amount);
    }
}

fn hide_items(decision: &mut Decision) {
    for callback in &mut decision.callbacks {
        if let CallbackContent::BulkRequest(request) = &mut callback.content {
            request.items.pop();
        }
    }
}

fn lose_results(decision: &mut Decision) {
    if let [Event::BulkAnswered { results, .. }] = &mut decision.events[..] {
        results.pop_last();
    }
}

/// A commit that owes no callback is the commit of an item.
fn expire_answered(decision: &mut Decision) {
    if let ([Event::TransferCommitted { id, .. }, ..], []) = (&decision.events[..], &decision.callbacks[..]) {
        decision.events = vec![Event::TransferAborted {
            id: *id,
            kind: AbortKind::Expired,
            cause: Cause::Hub(Refusal::Expired),
            operator_reason: None,
            fingerprint: None,
        }];
    }
}

fn tell_payer_only(decision: &mut Decision) {
    if let [Event::BulkEnded { .. }] = decision.events[..] {
        decision.callbacks.truncate(1);
    }
}

fn tell_otherwise(decision: &mut Decision) {
    if let [Event::BulkEnded { .. }] = decision.events[..]
        && let Some(CallbackContent::BulkState(view)) =
            decision.callbacks.first_mut().map(|callback| &mut callback.content)
    {
        for (_, outcome) in &mut view.items {
            if matches!(outcome, ItemOutcome::Fulfilled { .. }) {
                *outcome = ItemOutcome::Failed(Cause::Hub(Refusal::Expired));
            }
        }
    }
}

/// A disk that skips every sync of a file.
#[derive(Debug)]
pub(crate) struct LyingDisk(pub(crate) SimDisk);

#[derive(Debug)]
struct LyingFile(Arc<dyn DiskFile>);

fn lying(file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
    file.map(|file| Arc::new(LyingFile(file)) as Arc<dyn DiskFile>)
}

impl Disk for LyingDisk {
    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        lying(self.0.create(path))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        lying(self.0.open(path, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.0.sync_directory(directory)
    }
}

impl DiskFile for LyingFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
