//! From the requests of a stream to the commands that a gateway would make of them.

use std::collections::HashSet;

use upesi_engine::Payload;
use upesi_fspiop::body::{TransferState, parse_fulfil, parse_prepare};
use upesi_fspiop::fingerprint;
use upesi_fspiop::headers::Block;
use upesi_ledger::Command;
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_types::FspId;

use super::{Message, MessageKind, Stream, StreamError};

/// A request as the engine takes it.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// What it asks for.
    pub command: Command,
    pub payload: Payload,
}

impl Stream {
    /// The first `count` messages of a kind as commands.
    pub(crate) fn decode(&self, kind: MessageKind, count: usize) -> Result<Vec<Ready>, StreamError> {
        let found = self.of_kind(kind).count();
        if found < count {
            let what = match kind {
                MessageKind::Prepare => "prepares",
                MessageKind::Fulfil => "fulfils",
            };
            return Err(StreamError::TooShort { what, found, needed: count });
        }
        all_ready(self.of_kind(kind).take(count))
    }

    /// The first `count` fulfils as commands, behind the prepares of their transfers.
    pub(crate) fn decode_fulfilled(&self, count: usize) -> Result<(Vec<Ready>, Vec<Ready>), StreamError> {
        let fulfils = self.decode(MessageKind::Fulfil, count)?;
        let ids: HashSet<_> =
            self.of_kind(MessageKind::Fulfil).take(count).map(|message| message.id).collect();
        let prepares = self.of_kind(MessageKind::Prepare).filter(|message| ids.contains(&message.id));
        let prepares = all_ready(prepares)?;
        if prepares.len() < count {
            let found = prepares.len();
            return Err(StreamError::TooShort { what: "prepares of its fulfils", found, needed: count });
        }
        Ok((prepares, fulfils))
    }
}

fn all_ready<'stream>(messages: impl Iterator<Item = &'stream Message>) -> Result<Vec<Ready>, StreamError> {
    let ready = |(index, message)| ready(message).map_err(|reason| StreamError::Message { index, reason });
    messages.enumerate().map(ready).collect()
}

fn ready(message: &Message) -> Result<Ready, String> {
    let Message { kind, headers, body, .. } = message;
    let source = name_of(headers, "fspiop-source").ok_or("it has no FSPIOP-Source")?;
    let command = match kind {
        MessageKind::Prepare => prepare(source, name_of(headers, "fspiop-destination"), body)?,
        MessageKind::Fulfil => fulfil(message, source, name_of(headers, "fspiop-destination"))?,
    };
    Ok(Ready { command, payload: Payload { headers: headers.clone(), body: body.clone() } })
}

fn name_of(headers: &[u8], header: &str) -> Option<FspId> {
    FspId::parse(str::from_utf8(Block(headers).find(header)?).ok()?)
}

fn prepare(source: FspId, destination: Option<FspId>, body: &[u8]) -> Result<Command, String> {
    let message = parse_prepare(body).map_err(|error| error.to_string())?;
    let amount = message.amount.map_err(|refused| format!("the amount {} is refused", refused.text))?;
    Ok(Command::Prepare(Prepare {
        id: message.transfer_id,
        source,
        destination,
        payer: message.payer,
        payee: message.payee,
        amount: Ok(amount),
        currency: message.currency,
        condition: message.condition,
        expires_at: message.expiration,
        fingerprint: fingerprint(body),
        extensions: message.extensions.map(String::into_boxed_str),
    }))
}

fn fulfil(message: &Message, source: FspId, destination: Option<FspId>) -> Result<Command, String> {
    let parsed = parse_fulfil(&message.body).map_err(|error| error.to_string())?;
    Ok(Command::Fulfil(Fulfil {
        transfer: message.id.into(),
        source,
        destination,
        state: match parsed.transfer_state {
            TransferState::Received => FulfilState::Received,
            TransferState::Reserved => FulfilState::Reserved,
            TransferState::Committed => FulfilState::Committed,
            TransferState::Aborted => FulfilState::Aborted,
        },
        may_reserve: true,
        fulfilment: parsed.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
        fingerprint: fingerprint(&message.body),
        extensions: parsed.extensions.map(String::into_boxed_str),
    }))
}
