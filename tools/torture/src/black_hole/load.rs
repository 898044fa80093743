//! Open-loop load: transfers are due at a fixed rate, whether or not earlier ones have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use upesi_http::Workers;
use upesi_sim::{Finished, Originator, OriginatorOptions, PendingTransfer, Simulator, TransferOutcome, mix};
use upesi_types::{Amount, Currency, ErrorCode};

use super::books::{Books, TransferEnd};
use super::figures::BlackHoleCounts;
use super::{DFSPS, LOST, Plan};
use crate::pacing::Pacer;

/// Maximum number of unfinished transfers. Above it, transfers are not sent and count as failed.
const OPEN_MAX: u64 = 200_000;
/// Longer than any trial.
const LONG: Duration = Duration::from_secs(4 * 3600);
/// While the lost DFSP is lost, one of this many transfers to it expires.
const SHORT_ONE_IN: u64 = 4;
const SHORT: Duration = Duration::from_secs(10);

pub(super) struct Load {
    shared: Arc<LoadState>,
    pacer: Pacer,
}

struct LoadState {
    originators: [Originator; 2],
    seed: u64,
    open: AtomicU64,
    books: Arc<Books>,
    figures: Arc<BlackHoleCounts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DfspPair {
    payer: usize,
    payee: usize,
    is_short: bool,
}

impl DfspPair {
    fn draw(seed: u64, number: u64) -> Self {
        let drawn = mix(mix(seed) ^ number);
        let payer = (drawn % DFSPS as u64) as usize;
        let payee = (payer + 1 + ((drawn >> 16) % (DFSPS as u64 - 1)) as usize) % DFSPS;
        Self { payer, payee, is_short: payee == LOST && (drawn >> 32).is_multiple_of(SHORT_ONE_IN) }
    }

    const fn has_lost(self) -> bool {
        self.payer == LOST || self.payee == LOST
    }
}

impl Load {
    /// Starts the load.
    pub fn start(
        plan: &Plan,
        simulator: &Simulator,
        currency: Currency,
        workers: &Arc<Workers>,
        books: &Arc<Books>,
        figures: &Arc<BlackHoleCounts>,
    ) -> Self {
        let originator = |expiry, nonce| {
            let options = OriginatorOptions {
                amount: Amount::parse_decimal("12.5").unwrap_or_default(),
                currency,
                expiry,
                seed: plan.seed,
                nonce,
                trace: true,
                resends_max: 3,
            };
            Originator::new(simulator, options)
        };
        let shared = Arc::new(LoadState {
            originators: [originator(LONG, plan.seed), originator(SHORT, !plan.seed)],
            seed: plan.seed,
            open: AtomicU64::new(0),
            books: Arc::clone(books),
            figures: Arc::clone(figures),
        });
        let (pacing, workers) = (Arc::clone(&shared), Arc::clone(workers));
        let pacer =
            Pacer::start(plan.rate_per_s, move |number, intended| pacing.send(&workers, number, intended));
        Self { shared, pacer }
    }

    pub fn stop(&mut self) {
        self.pacer.stop();
    }

    /// Number of transfers that have not ended.
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::Acquire)
    }
}

impl LoadState {
    fn send(self: &Arc<Self>, workers: &Workers, number: u64, intended: Instant) {
        let pair = DfspPair::draw(self.seed, number);
        if self.open.fetch_add(1, Ordering::AcqRel) >= OPEN_MAX {
            return self.end(pair, intended, None);
        }
        let shared = Arc::clone(self);
        drop(workers.round_robin().spawn(async move { shared.transfer(number, pair, intended).await }));
    }

    async fn transfer(&self, number: u64, pair: DfspPair, intended: Instant) {
        let DfspPair { payer, payee, is_short } = pair;
        let sent = self.originators[usize::from(is_short)].send(number, payer, payee).await;
        let Ok(PendingTransfer { id, finished }) = sent else { return self.end(pair, intended, None) };
        if pair.has_lost() {
            self.books.accept(id.to_string(), payer == LOST);
        }
        let finished = finished.await.ok();
        let end = finished.and_then(how);
        if pair.has_lost() {
            match end {
                Some(TransferEnd::Expired) if !is_short => {
                    self.books.violate(format!("transfer {id} of the lost DFSP expired too early"));
                }
                Some(end) => self.books.end(id.to_string(), end),
                None => {
                    self.books.violate(format!("transfer {id} of the lost DFSP ended with {finished:?}"));
                }
            }
        }
        let has_committed = end == Some(TransferEnd::Committed);
        self.end(pair, intended, finished.filter(|_| has_committed).map(|finished| finished.at));
    }

    fn end(&self, pair: DfspPair, intended: Instant, at: Option<Instant>) {
        if !pair.has_lost() {
            self.figures.ended(intended, at);
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The end of a transfer, if this end may occur here.
fn how(finished: Finished) -> Option<TransferEnd> {
    match (finished.outcome, finished.error_code) {
        (TransferOutcome::Committed, _) => Some(TransferEnd::Committed),
        (TransferOutcome::Aborted, Some(ErrorCode::TRANSFER_EXPIRED)) => Some(TransferEnd::Expired),
        (TransferOutcome::Aborted, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_expiry_error_counts_as_an_expiry() {
        let at = Instant::now();
        for (outcome, error_code, end) in [
            (TransferOutcome::Committed, None, Some(TransferEnd::Committed)),
            (TransferOutcome::Aborted, Some(ErrorCode::TRANSFER_EXPIRED), Some(TransferEnd::Expired)),
            (TransferOutcome::Aborted, Some(ErrorCode::PAYEE_REJECTION), None),
            (TransferOutcome::Aborted, None, None),
        ] {
            assert_eq!(how(Finished { outcome, at, error_code }), end, "{outcome:?} {error_code:?}");
        }
    }

    #[test]
    fn quarter_of_the_transfers_involves_the_lost_dfsp() {
        let pairs: Vec<DfspPair> = (0..10_000).map(|number| DfspPair::draw(7, number)).collect();
        assert!(pairs.iter().all(|pair| pair.payer != pair.payee && pair.payee < DFSPS));
        let with_lost = pairs.iter().filter(|pair| pair.has_lost()).count();
        assert!((2_300..2_700).contains(&with_lost), "{with_lost}");
        let short = pairs.iter().filter(|pair| pair.is_short).count();
        assert!((200..450).contains(&short), "{short}");
        assert!(pairs.iter().all(|pair| !pair.is_short || pair.payee == LOST));
        assert_eq!(pairs[3], DfspPair::draw(7, 3));
    }
}
