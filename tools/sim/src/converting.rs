//! The initiator's side of conversions: the payer buys the currency of its transfer before it sends the transfer.

use std::time::Instant;

use tokio::sync::oneshot;
use upesi_http::Bytes;
use upesi_types::{Amount, Currency, TransferId};

use crate::books::{IncomingState, OutgoingState};
use crate::dfsp::count;
use crate::message::{self, Family, IdText};
use crate::money;
use crate::payer::{OriginateError, Originator, Pending, Sending, terms, transfer_id};
use crate::settings::mix;
use crate::simulator::Shared;
use crate::upstream::Resource;

/// Separates the ids of conversions from those of transfers.
const CONVERSIONS: u64 = 0x636f_6e76_6572_7400;

/// What the conversions of an originator have in common.
#[derive(Clone, Debug)]
pub struct ConversionOptions {
    /// The currency of the transfers. Their payers have that of the originator.
    pub target: Currency,
    /// What a thousand units are worth in it.
    pub rate_per_mille: u32,
    /// Indexes of the FXPs, which take turns.
    pub fxps: Vec<usize>,
}

/// A conversion that was accepted.
#[derive(Debug)]
pub struct PendingConversion {
    pub id: TransferId,
    /// When the FXP's fulfilment came. Errors when the conversion has ended without.
    pub fulfilled: oneshot::Receiver<Instant>,
}

/// [`ConversionOptions`] as messages need them.
pub(crate) struct Converting {
    options: ConversionOptions,
    /// The part of all bodies between the FXP's name and the condition, and that of the transfers.
    terms: Vec<u8>,
    transfer_terms: Vec<u8>,
}

impl Originator {
    /// Sets what conversions need; `None` when there is no FXP, or the amount is worth nothing, or too much.
    #[must_use]
    pub fn with_conversions(mut self, options: ConversionOptions) -> Option<Self> {
        let (amount, currency) = (self.options.amount, self.options.currency);
        let bought = money::bought(amount, options.rate_per_mille, options.target);
        let bought = bought.filter(|bought| *bought > Amount::ZERO && !options.fxps.is_empty())?;
        let target = options.target;
        let conversion = conversion_terms((amount, currency), (bought, target));
        let transfer_terms = terms((bought, target), 0);
        self.converting = Some(Converting { options, terms: conversion, transfer_terms });
        Some(self)
    }

    /// Asks an FXP for what transfer `number` of a DFSP (by index) needs, and waits for the 202.
    ///
    /// # Errors
    /// When the hub refuses the POST or does not answer it.
    ///
    /// # Panics
    /// Without [`Originator::with_conversions`].
    pub async fn convert(&self, number: u64, payer: usize) -> Result<PendingConversion, OriginateError> {
        let converting = self.converting();
        let fxps = &converting.options.fxps;
        let (initiator, fxp) = (&self.shared.dfsps[payer], fxps[(number % fxps.len() as u64) as usize]);
        let fxp = &self.shared.dfsps[fxp];
        let (id, now) = (self.conversion_id(number), message::now());
        let transfer = transfer_id(self.options.seed, self.options.nonce, number);
        let body = message::convert_body(
            &IdText::new(&id),
            &IdText::new(&transfer),
            &initiator.name,
            &fxp.name,
            &converting.terms,
            &self.shared.secret.condition(&id),
            self.expiration(now),
        );
        let (fulfilled_at, fulfilled) = oneshot::channel();
        let moved = (self.options.amount, self.options.currency);
        let mut sending = Sending::new(number, id, payer, &fxp.name, moved);
        (sending.outgoing.fulfilled, sending.outgoing.is_conversion) = (Some(fulfilled_at), true);
        let headers = self.headers(Family::FxTransfers, number, initiator, Some(&fxp.name_value), now);
        self.originate(sending, Resource::Other(Family::FxTransfers.name()), headers, body).await?;
        Ok(PendingConversion { id, fulfilled })
    }

    /// Sends transfer `number`, which its conversion pays.
    ///
    /// # Errors
    /// When the hub refuses the POST or does not answer it.
    ///
    /// # Panics
    /// Without [`Originator::with_conversions`].
    pub async fn send_converted(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<Pending, OriginateError> {
        let Converting { options, transfer_terms, .. } = self.converting();
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let (payer_dfsp, payee_dfsp) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let (headers, body): (_, Bytes) = self.message(number, &id, payer_dfsp, payee_dfsp, transfer_terms);
        // The FXP's position carries the amount.
        let mut sending = Sending::new(number, id, payer, &payee_dfsp.name, (Amount::ZERO, options.target));
        sending.outgoing.conversion = Some(self.conversion_id(number));
        self.originate(sending, Resource::Transfers, headers, body).await
    }

    /// The id of the conversion for transfer `number`.
    pub fn conversion_id(&self, number: u64) -> TransferId {
        transfer_id(mix(self.options.seed ^ CONVERSIONS), mix(self.options.nonce ^ CONVERSIONS), number)
    }

    fn converting(&self) -> &Converting {
        self.converting.as_ref().expect("an originator of conversions")
    }
}

/// The part of the body of a conversion between the FXP's name and the condition.
pub(crate) fn conversion_terms(source: (Amount, Currency), target: (Amount, Currency)) -> Vec<u8> {
    let money = |(amount, currency)| format!(r#"{{"amount":"{amount}","currency":"{currency}"}}"#);
    let (source, target) = (money(source), money(target));
    format!(r#"","sourceAmount":{source},"targetAmount":{target},"condition":""#).into()
}

/// A conversion has ended for its initiator and for its FXP: alike, or the hub has contradicted itself.
pub(crate) fn compare_ends(shared: &Shared, id: &TransferId) {
    let bought = shared.table.with_outgoing(id, |conversion| conversion.state);
    let sold = shared.table.with_incoming(id, |conversion| (conversion.payee, conversion.state));
    let (Some(bought), Some((fxp, sold))) = (bought, sold) else { return };
    if matches!(
        (bought, sold),
        (OutgoingState::Committed, IncomingState::Aborted)
            | (OutgoingState::Aborted, IncomingState::Confirmed)
    ) {
        let fxp = shared.dfsp(fxp);
        tracing::warn!(conversion = %id, fxp = %fxp.name, ?bought, ?sold, "a conversion has not ended as its transfer");
        count(&fxp.counters.contradictions);
    }
}
