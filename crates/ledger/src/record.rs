//! Journal records: one decided command with the request that caused it.

use alloc::vec::Vec;

use upesi_types::Timestamp;

use crate::actor::Actor;
use crate::callback::Callback;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::event::Event;
use crate::stored::Stored;

/// Version of the record format, in each record's first byte.
const FORMAT: u8 = 2;

/// The request behind a record: what is forwarded, byte for byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload<'a> {
    /// `name: value\r\n` lines, names in lower case, without hop-by-hop headers.
    pub headers: &'a [u8],
    /// The body as received.
    pub body: &'a [u8],
}

/// A decoded record. Its sequence and instant stand in the journal's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Who caused it.
    pub actor: Actor,
    /// What changed.
    pub events: Vec<Event>,
    /// Which callbacks are owed; a callback's index is its place here.
    pub callbacks: Vec<Callback>,
    /// The request.
    pub payload: Payload<'a>,
}

impl<'a> Record<'a> {
    /// Appends the stored form of a record.
    pub fn encode(
        actor: Actor,
        events: &[Event],
        callbacks: &[Callback],
        payload: Payload<'_>,
        buffer: &mut Vec<u8>,
    ) {
        let encoder = &mut Encoder(buffer);
        encoder.u8(FORMAT);
        actor.encode(encoder);
        encoder.list(events.iter(), |encoder, event| event.encode(encoder));
        encoder.list(callbacks.iter(), |encoder, callback| encoder.sized(|encoder| callback.encode(encoder)));
        encoder.bytes(payload.headers);
        encoder.bytes(payload.body);
    }

    /// When it was decided, by the hub's clock: its own instant in the journal, unless it names another one.
    pub fn decided_at(&self, time: Timestamp) -> Timestamp {
        match self.events.first() {
            Some(Event::DecidedAt(at)) => *at,
            _ => time,
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &'a [u8]) -> Decoded<Self> {
        Self::decode_into(bytes, Vec::new(), Vec::new())
    }

    /// The same, into the lists of a record that was read before: what is in them is dropped, their room is used.
    pub fn decode_into(
        bytes: &'a [u8],
        mut events: Vec<Event>,
        mut callbacks: Vec<Callback>,
    ) -> Decoded<Self> {
        let mut decoder = Decoder(bytes);
        if decoder.u8()? != FORMAT {
            return Err(DecodeError("unknown record format; another version wrote it"));
        }
        events.clear();
        callbacks.clear();
        let actor = Actor::decode(&mut decoder)?;
        decoder.list_into(&mut events, Event::decode)?;
        decoder.list_into(&mut callbacks, |decoder| Callback::decode(&mut decoder.sized()?))?;
        let payload = Payload { headers: decoder.bytes()?, body: decoder.bytes()? };
        decoder.finish()?;
        Ok(Self { actor, events, callbacks, payload })
    }
}
