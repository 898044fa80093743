//! Callbacks that wait until the sender of the causing request has its response.

use std::mem;
use std::sync::Arc;

use crate::record::{AnswerListener, DurableRecord};

/// A record whose callbacks to the sender of its request wait for the response. They are released when this value is
/// dropped, even if the sender has disconnected.
pub(crate) struct HeldRecord {
    record: Option<Arc<DurableRecord>>,
    by: Arc<dyn AnswerListener>,
}

impl HeldRecord {
    pub(crate) const fn new(record: Arc<DurableRecord>, by: Arc<dyn AnswerListener>) -> Self {
        Self { record: Some(record), by }
    }

    /// Releases the callbacks of all records, in one call for each [`AnswerListener`].
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

impl Drop for HeldRecord {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.by.answered(&[record]);
        }
    }
}
