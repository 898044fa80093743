//! Queries about accounts, transfers, FX transfers, bulk transfers, funds and fees.

use alloc::boxed::Box;

use upesi_types::{BulkId, ConversionId, TransferId};

use crate::bulk::Bulk;
use crate::bulk::table::BulkTotals;
use crate::conversion::Conversion;
use crate::conversion::ended::EndedLinks;
use crate::conversion::table::ConversionTotals;
use crate::ids::ParticipantId;
use crate::state::Ledger;

impl Ledger {
    /// An FX transfer in memory: live, or ended and not yet archived.
    pub fn conversion(&self, id: ConversionId) -> Option<&Conversion> {
        self.conversions.get(id)
    }

    /// The live FX transfers, oldest deadline first.
    pub fn live_conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.conversions.live()
    }

    /// Number of live FX transfers.
    pub fn live_conversions_len(&self) -> usize {
        self.conversions.live_len()
    }

    /// The ended FX transfers in memory, oldest first, with the sequence number of the record that ended each.
    pub fn finished_conversions(&self) -> impl ExactSizeIterator<Item = (u64, &Conversion)> {
        self.conversions.finished()
    }

    /// Number of ended FX transfers in memory that wait for the archive.
    pub fn finished_conversions_len(&self) -> usize {
        self.conversions.finished_len()
    }

    /// Removes the FX transfers that ended at or before `seq` from memory, like [`Ledger::take_finished`] for
    /// transfers.
    pub fn take_finished_conversions(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Conversion>)> {
        self.conversions.drain_finished(seq)
    }

    /// Totals of FX transfers since the ledger began.
    pub const fn conversion_totals(&self) -> ConversionTotals {
        self.conversions.totals()
    }

    /// A bulk transfer in memory: live, or ended and not yet archived.
    pub fn bulk(&self, id: BulkId) -> Option<&Bulk> {
        self.bulks.get(id)
    }

    /// The live bulk transfer to which a transfer belongs, and the position of the item, from 0.
    pub fn bulk_of(&self, transfer: TransferId) -> Option<(&Bulk, u32)> {
        self.bulks.holding(transfer)
    }

    /// The live bulk transfers, oldest request first.
    pub fn live_bulks(&self) -> impl ExactSizeIterator<Item = &Bulk> {
        self.bulks.live_by_age().map(|entry| &*entry.bulk)
    }

    /// Number of live bulk transfers.
    pub const fn live_bulks_len(&self) -> usize {
        self.bulks.live_len()
    }

    /// The ended bulk transfers in memory, oldest first, with the sequence number of the record that ended each.
    pub fn finished_bulks(&self) -> impl ExactSizeIterator<Item = (u64, &Bulk)> {
        self.bulks.finished()
    }

    /// Number of ended bulk transfers in memory that wait for the archive.
    pub fn finished_bulks_len(&self) -> usize {
        self.bulks.finished_len()
    }

    /// Removes the bulk transfers that ended at or before `seq` from memory, like [`Ledger::take_finished`] for
    /// transfers.
    pub fn take_finished_bulks(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Bulk>)> {
        self.bulks.drain_finished(seq)
    }

    /// Bytes that live bulk transfers hold until their requests are sent to the payees.
    pub const fn bulk_bytes_held(&self) -> usize {
        self.bulks.asked_bytes()
    }

    /// Totals of bulk transfers since the ledger began.
    pub const fn bulk_totals(&self) -> BulkTotals {
        self.bulks.totals()
    }

    /// Transfers whose payers' FX transfers ended before them: transfer, payer, and sequence number of the ending
    /// record.
    pub fn ended_links(&self) -> impl Iterator<Item = (TransferId, ParticipantId, u64)> {
        self.conversions.ended.iter()
    }

    /// Removes all ended links. Two ledgers with the same history may have different older links, if one of them
    /// started with a snapshot of a version that did not store links.
    pub fn forget_ended_links(&mut self) {
        self.conversions.ended = EndedLinks::default();
    }
}
