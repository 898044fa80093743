//! Snapshots: the whole state as bytes, so that a restart replays only later records.
//!
//! A snapshot is a list of sections. Each section has its own version, so that the format of one part of the state can
//! change alone.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Amount, Timestamp};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, CallbackKey, ParticipantId};
use crate::base::stored::{Stored, stored_struct};
use crate::core::config::LedgerConfig;
use crate::core::outbox::Parked;
use crate::core::state::{Ledger, Totals};
use crate::money::fee::FeeRule;
use crate::money::funds::{FundsState, FundsTransfer};
use crate::money::transfer::{Transfer, TransferState};
use crate::operators::approvals::Approvals;
use crate::operators::operator::Operators;
use crate::scheme::block::Block;
use crate::scheme::participant::Participant;
use crate::settlement::settlements::Settlement;

/// The reason why a snapshot cannot be read.
pub type SnapshotError = DecodeError;

/// Version of the format of the section list, stored in a snapshot's first byte.
const FORMAT: u8 = 3;

/// Approximate bytes of a reserved transfer and of an undelivered callback. There may be millions of them. Reserving
/// the space at once avoids copying while the buffer grows.
const TRANSFER_BYTES: usize = 136;
const CALLBACK_BYTES: usize = 14;

/// A part of the state.
struct Section {
    number: u8,
    version: u8,
    /// Whether a snapshot without the section is read as if the section were empty, because earlier versions did not
    /// write it.
    is_optional: bool,
    /// The error for a snapshot with another section or version at this position.
    mismatch: &'static str,
    write: fn(&Ledger, &mut Encoder<'_>),
    read: ReadSection,
    /// Functions that read earlier versions of the section.
    earlier: &'static [(u8, ReadSection)],
}

type ReadSection = fn(&mut Ledger, &mut Decoder<'_>) -> Decoded<()>;

impl Section {
    /// The function that reads a version of the section.
    fn read_of(&self, version: u8) -> Option<ReadSection> {
        let earlier = self.earlier.iter().find(|(known, _)| *known == version);
        if version == self.version { Some(self.read) } else { earlier.map(|(_, read)| *read) }
    }
}

/// Rows are `number name version: write, read;`, or `…, read, earlier version: read;`. A row ends with `optional` if
/// older snapshots lack the section. Sections appear in a snapshot in this order.
macro_rules! sections {
    ($(
        $number:literal $name:literal $version:literal:
            $write:path, $read:path $(, $earlier:literal: $read_earlier:path)* $(, $optional:ident)?;
    )*) => {
        const SECTIONS: &[Section] = &[$(Section {
            number: $number,
            version: $version,
            is_optional: <[&str]>::len(&[$(stringify!($optional))?]) == 1,
            mismatch: concat!(
                "its section \"", $name, "\" is missing or not of version ", $version, "; another version wrote it"
            ),
            write: $write,
            read: $read,
            earlier: &[$(($earlier, $read_earlier)),*],
        }),*];
    };
}

sections! {
    1 "progress" 4: write_progress, read_progress;
    2 "account types" 1: write_account_types, read_account_types;
    3 "settlement models" 1: write_models, read_models;
    4 "participants" 2: write_participants, read_participants;
    5 "accounts" 1: write_accounts, read_accounts;
    6 "funds" 1: write_funds, read_funds;
    7 "reserved transfers" 1: write_reserved, read_reserved;
    8 "finished transfers" 1: write_finished, read_finished;
    9 "outbox" 1: write_outbox, read_outbox;
    10 "settlement windows" 2: write_windows, read_windows;
    11 "settlements" 3: write_settlements, read_settlements, 2: read_settlements_of_version_2;
    12 "fee rules" 1: write_fee_rules, read_fee_rules;
    13 "couriers" 1: write_couriers, read_couriers;
    30 "conversions" 1: write_fx_transfers, read_fx_transfers;
    31 "ended links" 1: write_ended_links, read_ended_links, optional;
    40 "bulks" 2: write_bulks, read_bulks;
    42 "proxied participants" 1: write_proxied, read_proxied;
    43 "signature keys" 1: write_signature_keys, read_signature_keys;
    44 "blocks" 1: write_blocks, read_blocks;
    45 "creators" 1: write_creators, read_creators, optional;
    50 "audit trail" 1: write_trail, read_trail;
    51 "operators" 2: write_operators, read_operators;
    52 "approvals" 2: write_approvals, read_approvals, 1: read_approvals_of_version_1;
}

impl Ledger {
    /// Appends the state. Equal states have equal bytes.
    pub fn encode_snapshot(&self, buffer: &mut Vec<u8>) {
        let encoder = &mut Encoder(buffer);
        encoder.u8(FORMAT);
        for section in SECTIONS {
            encoder.u8(section.number);
            encoder.u8(section.version);
            encoder.sized(|encoder| (section.write)(self, encoder));
        }
    }

    /// Encodes the state without finished transfers, because ledgers may still hold more or fewer of them. Two ledgers
    /// with the same history have equal bytes.
    pub fn encode_unfinished(&self) -> Vec<u8> {
        let mut unfinished = self.clone();
        unfinished.transfers.drain_finished(u64::MAX).for_each(drop);
        unfinished.fx_transfers.drain_finished(u64::MAX).for_each(drop);
        unfinished.bulks.drain_finished(u64::MAX).for_each(drop);
        let mut bytes = Vec::new();
        unfinished.encode_snapshot(&mut bytes);
        bytes
    }

    /// Decodes a state.
    pub fn decode_snapshot(bytes: &[u8], config: LedgerConfig) -> Result<Self, SnapshotError> {
        let d = &mut Decoder(bytes);
        if d.u8()? != FORMAT {
            return Err(DecodeError("unknown snapshot format; another version wrote it"));
        }
        let mut ledger = Self::new(config);
        for section in SECTIONS {
            if section.is_optional && d.0.first() != Some(&section.number) {
                continue;
            }
            let (number, version) = (d.u8()?, d.u8()?);
            let read = section.read_of(version).filter(|_| number == section.number);
            let read = read.ok_or(DecodeError(section.mismatch))?;
            let mut content = d.sized()?;
            read(&mut ledger, &mut content)?;
            content.finish()?;
        }
        d.finish()?;
        ledger.check_references()?;
        Ok(ledger)
    }

    fn restore(&mut self, seq: u64, transfer: Transfer, is_reserved: bool) -> Decoded<()> {
        if (transfer.state == TransferState::Reserved) != is_reserved {
            return Err(DecodeError("a transfer is listed under another state"));
        }
        if self.transfers.get(transfer.id).is_some() {
            return Err(DecodeError("a transfer is listed twice"));
        }
        self.transfers.insert(seq, transfer);
        Ok(())
    }

    /// Checks that all referenced objects exist, so that the rules may index without checking.
    fn check_references(&self) -> Decoded<()> {
        let participant = |id: ParticipantId| id.index() < self.participants.len();
        let account = |id: AccountId| id.index() < self.accounts.len();
        let are_numbered = self.participants.iter().enumerate().all(|(at, item)| item.id.index() == at)
            && self.accounts.iter().enumerate().all(|(at, item)| item.id.index() == at)
            && self.account_types.iter().enumerate().all(|(at, item)| usize::from(item.id.0) == at + 1)
            && self.models.iter().enumerate().all(|(at, item)| item.id as usize == at + 1)
            && self.fee_rules.iter().enumerate().all(|(at, item)| item.id as usize == at + 1);
        if !are_numbered {
            return Err(DecodeError("its items are not numbered without gaps"));
        }
        if !self.windows.are_sound() || !are_numbered_from_1(&self.settlements) {
            return Err(DecodeError("its settlement windows contradict each other"));
        }
        let are_in_order = |item: &Participant| item.bindings.is_sorted_by(|before, after| before < after);
        if !self.participants.iter().all(are_in_order) {
            return Err(DecodeError("it has bindings twice or out of order"));
        }
        let finished = self.transfers.finished().map(|(_, transfer)| transfer);
        let mut transfers = self.transfers.reserved().chain(finished);
        let are_known = self.accounts.iter().all(|item| participant(item.participant))
            && self.participants.iter().flat_map(|item| &item.accounts).all(|item| account(item.id))
            && self.funds.values().all(|item| account(item.account) && account(item.hub_account))
            && self
                .transfers
                .reserved()
                .all(|item| item.payer_account.is_some() && item.payee_account.is_some())
            && transfers.all(|item| {
                [item.payer, item.payee].into_iter().flatten().all(participant)
                    && [item.payer_account, item.payee_account].into_iter().flatten().all(account)
            })
            && self.fx_transfers.refer_to(participant, account)
            && self.bulks.refer_to(participant)
            && self.outbox.iter().all(|(key, _)| participant(key.target))
            && self.fee_rules.iter().flat_map(FeeRule::parties).all(participant)
            && self.proxies.iter().all(|(one, proxy)| participant(*one) && participant(*proxy))
            && self.signature_keys.iter().all(|(one, _)| participant(one))
            && self.operators.iter().filter_map(|item| item.participant).all(participant)
            && self.windows.refer_to(account)
            && self.carried.keys().copied().all(account)
            && self.settlements.iter().all(|item| item.refers_to(account, self.models.len(), &self.windows));
        if are_known { Ok(()) } else { Err(DecodeError("it refers to an object that it does not contain")) }
    }
}

fn write_progress(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.u64(ledger.last_seq);
    encoder.timestamp(ledger.last_time);
    encoder.u64(ledger.removed_to);
    encoder.list(ledger.divisions.iter(), |encoder, end| encoder.u64(*end));
    ledger.totals.encode(encoder);
}

fn read_progress(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.last_seq = d.u64()?;
    ledger.last_time = d.timestamp()?;
    ledger.removed_to = d.u64()?;
    ledger.divisions = d.list(Decoder::u64)?;
    ledger.totals = Stored::decode(d)?;
    Ok(())
}

stored_struct! {
    Totals { reserved, refused, committed, aborted, expired, settled_at_once, fees, fees_not_charged }
}

/// Writes items with a count prefix, each item with a length prefix.
fn write_items<'a, T: Stored + 'a>(encoder: &mut Encoder<'_>, items: impl ExactSizeIterator<Item = &'a T>) {
    encoder.list(items, |encoder, item| encoder.sized(|encoder| item.encode(encoder)));
}

fn read_items<T: Stored>(d: &mut Decoder<'_>) -> Decoded<Vec<T>> {
    d.list(|d| T::decode(&mut d.sized()?))
}

fn write_account_types(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.account_types.iter());
}

fn read_account_types(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.account_types = read_items(d)?;
    Ok(())
}

fn write_models(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.models.iter());
}

fn read_models(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.models = read_items(d)?;
    Ok(())
}

fn write_participants(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.participants.iter());
}

fn read_participants(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.participants = read_items(d)?;
    let hub = ledger.participants.first_mut().ok_or(DecodeError("a snapshot without hub"))?;
    hub.name = ledger.config.hub_name;
    ledger.names.clear();
    ledger.names.extend(ledger.participants.iter().map(|participant| (participant.name, participant.id)));
    Ok(())
}

fn write_accounts(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.accounts.iter());
}

fn read_accounts(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.accounts = read_items(d)?;
    Ok(())
}

fn write_funds(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.funds.values());
}

fn read_funds(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    let funds: Vec<FundsTransfer> = read_items(d)?;
    for funds in funds.iter().filter(|funds| funds.state == FundsState::Reserved) {
        ledger.withdrawals.open(funds);
    }
    ledger.funds = funds.into_iter().map(|funds| (funds.id, funds)).collect::<BTreeMap<_, _>>();
    Ok(())
}

fn write_reserved(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.reserve(ledger.transfers.reserved_len() * TRANSFER_BYTES);
    write_items(encoder, ledger.transfers.reserved_by_age());
}

fn read_reserved(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for transfer in read_items::<Transfer>(d)? {
        ledger.restore(transfer.prepare_seq, transfer, true)?;
    }
    Ok(())
}

fn write_finished(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.u32(ledger.transfers.finished_len() as u32);
    for (seq, transfer) in ledger.transfers.finished() {
        encoder.u64(seq);
        encoder.sized(|encoder| transfer.encode(encoder));
    }
}

fn read_finished(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (seq, transfer) in d.list(|d| Ok((d.u64()?, Transfer::decode(&mut d.sized()?)?)))? {
        ledger.restore(seq, transfer, false)?;
    }
    Ok(())
}

fn write_outbox(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.reserve(ledger.outbox.len() * CALLBACK_BYTES);
    encoder.u32(ledger.outbox.len() as u32);
    for (key, entry) in ledger.outbox.iter() {
        key.encode(encoder);
        encoder.option(entry.parked, |encoder, parked| parked.encode(encoder));
    }
}

fn read_outbox(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (key, parked) in d.list(<(CallbackKey, Option<Parked>)>::decode)? {
        ledger.outbox.insert(key, parked);
    }
    Ok(())
}

/// Before the first record, only a running hub knows when the first window opened; a replay does not. The time is
/// therefore left out.
fn write_windows(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    if ledger.last_seq > 0 || ledger.windows.all.len() > 1 {
        return ledger.windows.encode(encoder);
    }
    let mut windows = ledger.windows.clone();
    windows.set_first_opened(Timestamp::EPOCH);
    windows.encode(encoder);
}

fn read_windows(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.windows.decode(d)
}

fn write_settlements(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.settlements.iter());
    let carried: Vec<_> = ledger.carried.iter().map(|(account, amount)| (*account, *amount)).collect();
    carried.encode(encoder);
}

fn read_settlements(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.settlements = read_items(d)?;
    ledger.carried = Vec::<(AccountId, Amount)>::decode(d)?.into_iter().collect();
    Ok(())
}

/// Reads settlements without carried remainders.
fn read_settlements_of_version_2(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.settlements = d.list(|d| Settlement::decode_of_version_2(&mut d.sized()?))?;
    Ok(())
}

fn write_fee_rules(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.fee_rules.iter());
}

fn read_fee_rules(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.fee_rules = read_items(d)?;
    Ok(())
}

fn write_creators(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.list(ledger.creators.iter(), |encoder, (account, operator)| {
        account.encode(encoder);
        operator.encode(encoder);
    });
}

fn read_creators(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.creators = d.list(<(AccountId, Box<str>)>::decode)?.into_iter().collect();
    Ok(())
}

fn write_trail(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.trail.encode(encoder);
}

fn read_trail(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.trail = Stored::decode(d)?;
    Ok(())
}

fn write_operators(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    write_items(encoder, ledger.operators.iter());
}

fn read_operators(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.operators = Operators::restore(read_items(d)?)?;
    Ok(())
}

fn are_numbered_from_1(settlements: &[Settlement]) -> bool {
    settlements.iter().enumerate().all(|(at, item)| item.id.index() == at)
}

fn write_blocks(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.list(ledger.blocks.iter(), |encoder, (block, at)| {
        block.encode(encoder);
        at.encode(encoder);
    });
}

fn read_blocks(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (block, at) in d.list(<(Block, Timestamp)>::decode)? {
        if ledger.blocks.insert(block, at).is_some() {
            return Err(DecodeError("it has a block twice"));
        }
    }
    Ok(())
}

fn write_proxied(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    let proxied: Vec<_> = ledger.proxies.iter().map(|(participant, proxy)| (*participant, *proxy)).collect();
    encoder.list(proxied.iter(), |encoder, pair| pair.encode(encoder));
}

fn read_proxied(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (participant, proxy) in d.list(<(ParticipantId, ParticipantId)>::decode)? {
        if ledger.proxies.insert(participant, proxy).is_some() {
            return Err(DecodeError("it has a participant behind two proxies"));
        }
    }
    Ok(())
}

fn write_couriers(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.list(ledger.couriers.iter(), |encoder, node| encoder.u32(*node));
}

fn read_couriers(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    let nodes: Vec<u32> = d.list(Decoder::u32)?;
    if !nodes.is_sorted_by(|before, after| before < after) {
        return Err(DecodeError("it has couriers twice or out of order"));
    }
    ledger.couriers = nodes;
    Ok(())
}

fn write_fx_transfers(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.fx_transfers.encode(encoder);
}

fn read_fx_transfers(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.fx_transfers.decode(d)
}

fn write_ended_links(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.fx_transfers.ended.encode(encoder);
}

fn read_ended_links(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.fx_transfers.ended = Stored::decode(d)?;
    Ok(())
}

fn write_bulks(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.bulks.encode(encoder);
}

fn read_bulks(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    let Ledger { bulks, transfers, .. } = ledger;
    bulks.decode(d, |id| transfers.get(id).is_some_and(|transfer| transfer.state == TransferState::Reserved))
}

fn write_signature_keys(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.signature_keys.encode(encoder);
}

fn read_signature_keys(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.signature_keys = Stored::decode(d)?;
    Ok(())
}

fn write_approvals(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.approvals.encode(encoder);
}

fn read_approvals(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.approvals = Approvals::decode(d)?;
    Ok(())
}

fn read_approvals_of_version_1(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.approvals = Approvals::decode_of_version_1(d)?;
    Ok(())
}
