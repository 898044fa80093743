//! Callbacks that wait until the caller that caused them has its answer.

use std::mem;
use std::sync::Arc;

use crate::record::{Answered, DurableRecord};

/// A record whose callbacks to its asker wait for the answer. However it ends they may go then, also where the
/// caller has hung up.
pub(crate) struct Held {
    record: Option<Arc<DurableRecord>>,
    by: Arc<dyn Answered>,
}

impl Held {
    pub(crate) const fn new(record: Arc<DurableRecord>, by: Arc<dyn Answered>) -> Self {
        Self { record: Some(record), by }
    }

    /// Lets the callbacks of all go, together where they are held by the same.
    pub(crate) fn release_all(held: &mut Vec<Self>) {
        let mut held = mem::take(held);
        while let Some(first) = held.first() {
            let by = Arc::clone(&first.by);
            let of_it = held.iter_mut().filter(|held| Arc::ptr_eq(&held.by, &by));
            let records: Vec<_> = of_it.filter_map(|held| held.record.take()).collect();
            by.answered(&records);
            held.retain(|held| held.record.is_some());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.by.answered(&[record]);
        }
    }
}
