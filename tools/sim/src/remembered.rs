//! The last answers to quotes, so that they can be asked for again. Everything else about a quote is in its packet.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use hashbrown::HashMap;
use upesi_types::TransferId;

const SHARDS: usize = 16;
/// Answers per shard; the oldest are forgotten first. Together about ten megabytes.
const ANSWERS_PER_SHARD_MAX: usize = 512;

#[derive(Default)]
struct Shard {
    bodies: HashMap<TransferId, Bytes, foldhash::fast::RandomState>,
    order: VecDeque<TransferId>,
}

/// Bodies by the id of the quote, bulk quote or FX quote.
pub(crate) struct Remembered {
    shards: Box<[Mutex<Shard>]>,
}

impl Remembered {
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn with<R>(&self, id: &TransferId, action: impl FnOnce(&mut Shard) -> R) -> R {
        let shard = &self.shards[usize::from(id.to_bytes()[16]) % SHARDS];
        action(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn keep(&self, id: TransferId, body: Bytes) {
        self.with(&id, |shard| {
            if shard.bodies.insert(id, body).is_some() {
                return;
            }
            shard.order.push_back(id);
            if shard.order.len() > ANSWERS_PER_SHARD_MAX
                && let Some(oldest) = shard.order.pop_front()
            {
                shard.bodies.remove(&oldest);
            }
        });
    }

    pub fn find(&self, id: &TransferId) -> Option<Bytes> {
        self.with(id, |shard| shard.bodies.get(id).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answers_are_found_and_older_ones_forgotten() {
        let remembered = Remembered::new();
        let id = |number: u16| {
            let mut bytes = [0; 16];
            bytes[..2].copy_from_slice(&number.to_be_bytes());
            TransferId::from_random_bytes(bytes)
        };
        let count = ANSWERS_PER_SHARD_MAX as u16;
        for number in 0..count + 2 {
            for _ in 0..2 {
                remembered.keep(id(number), Bytes::from(number.to_string()));
            }
        }
        let found = [0, 1, 2, count + 1].map(|number| remembered.find(&id(number)));
        assert_eq!(found, [None, None, Some("2".into()), Some((count + 1).to_string().into())]);
    }
}
