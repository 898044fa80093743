//! Journal records: a decided command with the request that caused it.

use alloc::vec::Vec;

use upesi_types::Timestamp;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::stored::Stored;
use crate::core::actor::Actor;
use crate::core::callback::Callback;
use crate::core::event::Event;

/// Version of the record format, stored in the first byte of each record.
const FORMAT: u8 = 2;

/// The request of a record. It is forwarded byte for byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload<'a> {
    /// `name: value\r\n` lines, names in lower case, without hop-by-hop headers.
    pub headers: &'a [u8],
    /// The body as received.
    pub body: &'a [u8],
}

/// A decoded record. Its sequence number and time are in the journal's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub actor: Actor,
    /// The state changes.
    pub events: Vec<Event>,
    /// The owed callbacks. A callback's index is its position here.
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

    /// The time of the decision by the hub's clock: the record's journal time, unless an event states another time.
    pub fn decided_at(&self, time: Timestamp) -> Timestamp {
        match self.events.first() {
            Some(Event::DecidedAt(at)) => *at,
            _ => time,
        }
    }

    /// Decodes the stored form.
    pub fn decode(bytes: &'a [u8]) -> Decoded<Self> {
        Self::decode_into(bytes, Vec::new(), Vec::new())
    }

    /// Like [`Self::decode`], reusing the lists of a record that was decoded before. Their contents are dropped.
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
