//! Deletion of quotes that are too old or too many.

use std::sync::Arc;

use upesi_tables::TablesError;
use upesi_types::Timestamp;

use super::encoding::Counts;
use super::{COUNTS_KEY, KeptQuotes, PARTS, key, split_time_key};
use crate::quote_key::QuoteKey;

/// Number of quotes that one update deletes, so that concurrent writers wait only for microseconds.
const STEP_QUOTES: usize = 64;
const MS_PER_DAY: i64 = 86_400_000;

impl KeptQuotes {
    /// Deletes quotes until the limits are met; returns their number.
    pub(crate) async fn drop_old(&self, now: Timestamp) -> Result<u64, TablesError> {
        let oldest_ms = now.as_ms().saturating_sub(i64::from(self.retention.keep_days) * MS_PER_DAY);
        let mut swept = self.swept.lock().await;
        let mut dropped = 0;
        loop {
            let victims = self.victims(swept.as_deref(), oldest_ms)?;
            let Some((last, _)) = victims.last() else { return Ok(dropped) };
            let last = last.clone();
            let step = self.drop_quotes(victims).await?;
            self.metrics.dropped.inc_by(step);
            dropped += step;
            *swept = Some(last);
        }
    }

    /// The oldest quotes to delete, at most one step.
    fn victims(&self, after: Option<&[u8]>, oldest_ms: i64) -> Result<Vec<(Vec<u8>, QuoteKey)>, TablesError> {
        let surplus = self.tables.counts()?.quotes.saturating_sub(self.retention.keep_max);
        let entries = self.tables.by_time.scan(&[], after, STEP_QUOTES)?;
        let numbered = entries.into_iter().enumerate().map_while(|(index, (time_key, _))| {
            let (began_at_ms, quote) = split_time_key(&time_key)?;
            (began_at_ms < oldest_ms || (index as u64) < surplus).then_some((time_key, quote))
        });
        Ok(numbered.collect())
    }

    async fn drop_quotes(&self, victims: Vec<(Vec<u8>, QuoteKey)>) -> Result<u64, TablesError> {
        let tables = Arc::clone(&self.tables);
        let update = self.store.update(move |tx| {
            let mut dropped = 0;
            for (time_key, quote) in &victims {
                tx.delete(&tables.by_time, time_key)?;
                for part in PARTS {
                    tx.delete(&tables.quotes, &key(*quote, part))?;
                }
                dropped += 1;
            }
            let counts = tables.counts_in(tx)?;
            let counts = Counts { quotes: counts.quotes.saturating_sub(dropped), ..counts };
            tx.put(&tables.quotes, COUNTS_KEY, &counts.encode())?;
            Ok((dropped, counts))
        });
        let (dropped, counts) = update.await?;
        self.metrics.kept.set(counts.quotes as i64);
        Ok(dropped)
    }
}
