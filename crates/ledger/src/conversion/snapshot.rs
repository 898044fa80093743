//! The section of conversions in a snapshot.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::table::ConversionTotals;
use super::{Conversion, ConversionSide};
use crate::account::AccountId;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::ParticipantId;
use crate::state::Ledger;
use crate::stored::{Stored, stored_struct};

stored_struct! {
    ConversionTotals { reserved, refused, committed, aborted, expired, committed_legs }
}

/// Totals, the live ones oldest first, the ended ones with the records that ended them.
pub(crate) fn write(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    ledger.conversions.totals().encode(encoder);
    encoder.list(ledger.conversions.live_by_age(), |encoder, item| {
        encoder.sized(|encoder| item.encode(encoder));
    });
    encoder.list(ledger.conversions.finished(), |encoder, (seq, item)| {
        encoder.u64(seq);
        encoder.sized(|encoder| item.encode(encoder));
    });
}

pub(crate) fn read(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    ledger.conversions.totals = Stored::decode(d)?;
    let live: Vec<Conversion> = d.list(|d| Conversion::decode(&mut d.sized()?))?;
    for conversion in live {
        restore(ledger, conversion.prepare_seq, conversion, true)?;
    }
    for (seq, conversion) in d.list(|d| Ok((d.u64()?, Conversion::decode(&mut d.sized()?)?)))? {
        restore(ledger, seq, conversion, false)?;
    }
    Ok(())
}

fn restore(ledger: &mut Ledger, seq: u64, conversion: Conversion, is_live: bool) -> Decoded<()> {
    if conversion.is_live() != is_live {
        return Err(DecodeError("a conversion is listed under another state"));
    }
    let is_known = ledger.conversion(conversion.id).is_some();
    let is_linked = conversion.determining_transfer.is_some_and(|transfer| {
        is_live && ledger.conversions.linked(transfer, conversion.side, conversion.initiator).is_some()
    });
    if is_known || is_linked {
        return Err(DecodeError("a conversion is listed twice"));
    }
    if is_live && !is_whole(&conversion) {
        return Err(DecodeError("a live conversion lacks a party, an account or its transfer"));
    }
    ledger.conversions.insert(seq, Box::new(conversion));
    Ok(())
}

fn is_whole(conversion: &Conversion) -> bool {
    let is_payees = conversion.side == ConversionSide::Payee;
    conversion.determining_transfer.is_some()
        && conversion.initiator.is_some()
        && conversion.fxp.is_some()
        && conversion.accounts.is_some_and(|accounts| accounts.initiator_target.is_some() == is_payees)
}

/// Whether all participants and accounts that conversions name are known.
pub(crate) fn are_references_known(
    ledger: &Ledger,
    is_participant: impl Fn(ParticipantId) -> bool,
    is_account: impl Fn(AccountId) -> bool,
) -> bool {
    let mut all =
        ledger.live_conversions().chain(ledger.finished_conversions().map(|(_, conversion)| conversion));
    all.all(|conversion| {
        let accounts = conversion.accounts.iter().flat_map(|accounts| {
            let all = [Some(accounts.initiator_source), accounts.initiator_target];
            all.into_iter().flatten().chain([accounts.fxp_source, accounts.fxp_target])
        });
        [conversion.initiator, conversion.fxp].into_iter().flatten().all(&is_participant)
            && accounts.into_iter().all(&is_account)
    })
}
