//! Honest payments: lookup, quote and transfer, with amounts that differ, at a fixed rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use upesi_http::Workers;
use upesi_sim::{Originator, OriginatorOptions, PaymentOptions, PaymentReport, Simulator, mix};
use upesi_types::{Amount, Currency};

use super::figures::Ended;
use crate::pacing::Pacer;

/// Parties of each DFSP that are paid.
const PARTIES: u64 = 500;
const AMOUNTS: [&str; 7] = ["1", "12.5", "99.99", "250", "0.07", "1033.1", "7.75"];
/// No transfer expires in a trial.
const EXPIRY: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(30);

/// Payments between the first DFSPs of a simulator.
pub struct Payments {
    shared: Arc<Shared>,
    workers: Arc<Workers>,
    rate_per_s: u64,
    pacer: Option<Pacer>,
}

struct Shared {
    originators: Vec<Originator>,
    dfsps: u64,
    begun: AtomicU64,
    ended: AtomicU64,
    samples: Mutex<Vec<Ended>>,
}

impl Payments {
    /// Registers the parties that are to be paid. Does not begin to pay.
    ///
    /// # Errors
    /// When the hub does not take a registration.
    pub async fn prepare(
        simulator: &Simulator,
        dfsps: usize,
        rate_per_s: u64,
        workers: &Arc<Workers>,
    ) -> Result<Self, String> {
        let originators = (0_u64..).zip(AMOUNTS).map(|(nonce, amount)| originator(simulator, nonce, amount));
        let shared = Arc::new(Shared {
            originators: originators.collect(),
            dfsps: dfsps as u64,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            samples: Mutex::default(),
        });
        let registering = Arc::clone(&shared);
        let registered = workers.get(0).spawn(async move {
            for dfsp in 0..dfsps {
                let awaiting = registering.originators[0].register(dfsp, 0, PARTIES).await;
                let answer = awaiting.map_err(|error| error.to_string())?.answer(PATIENCE).await;
                answer.result.map_err(|error| format!("the parties were not registered: {error}"))?;
            }
            Ok::<(), String>(())
        });
        registered.await.map_err(|_| "the simulators have stopped".to_owned())??;
        Ok(Self { shared, workers: Arc::clone(workers), rate_per_s, pacer: None })
    }

    /// Begins to pay, or goes on.
    pub fn resume(&mut self) {
        let (shared, workers) = (Arc::clone(&self.shared), Arc::clone(&self.workers));
        self.pacer = Some(Pacer::start(self.rate_per_s, move |_, intended| {
            let (shared, number) = (Arc::clone(&shared), shared.begun.fetch_add(1, Ordering::AcqRel));
            drop(workers.round_robin().spawn(async move { shared.pay(number, intended).await }));
        }));
    }

    /// Begins no more payments, and waits until those that were begun have ended.
    pub async fn pause(&mut self) {
        self.pacer = None;
        let deadline = Instant::now() + 4 * PATIENCE;
        let open = || self.shared.begun.load(Ordering::Acquire) - self.shared.ended.load(Ordering::Acquire);
        while open() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Payments that have ended.
    pub fn ended(&self) -> Vec<Ended> {
        self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn originator(simulator: &Simulator, nonce: u64, amount: &str) -> Originator {
    let options = OriginatorOptions {
        amount: Amount::parse_decimal(amount).unwrap_or_default(),
        currency: currency(),
        expiry: EXPIRY,
        seed: 17,
        nonce,
        trace: true,
        // What is refused once was refused.
        resends_max: 0,
    };
    let payments = PaymentOptions { parties_per_dfsp: PARTIES, ..PaymentOptions::default() };
    Originator::new(simulator, options).with_payments(payments)
}

/// The currency of all payments.
pub fn currency() -> Currency {
    Currency::parse("KES").unwrap_or_else(|| unreachable!("KES is a currency"))
}

impl Shared {
    async fn pay(&self, number: u64, intended: Instant) {
        let drawn = mix(number);
        let payer = drawn % self.dfsps;
        let payee = (payer + 1 + (drawn >> 16) % (self.dfsps - 1)) % self.dfsps;
        let originator = &self.originators[(drawn >> 32) as usize % self.originators.len()];
        let report = originator.payment(number, payer as usize, payee as usize, intended).await;
        let PaymentReport { ended, result, .. } = report;
        let latency = ended.saturating_duration_since(intended);
        let ended = Ended { intended, outcome: result.map(|()| latency).map_err(|error| error.to_string()) };
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// More transfers between the same DFSPs, of which nothing is asked but that they make records.
pub fn stream(simulator: &Simulator, rate_per_s: u64, workers: &Arc<Workers>) -> Pacer {
    let originator = Arc::new(originator(simulator, 1 << 32, "3.3"));
    let workers = Arc::clone(workers);
    Pacer::start(rate_per_s, move |number, _| {
        let originator = Arc::clone(&originator);
        drop(workers.round_robin().spawn(async move {
            let _ = originator.send(number, 0, 1).await;
        }));
    })
}
