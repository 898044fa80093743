//! One operation of each scenario: its requests, the callbacks that it waits for, and the check of these callbacks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::Receiver;
use upesi_fspiop::{decode_octets, ilp};
use upesi_sim::{
    Awaiting, ExchangeError, Finished, FoundParty, OriginateError, Originator, PARTIES_PER_DFSP, PartyId,
    PendingTransfer, Phase, Terms, TransferOutcome, UpcomingTransfer, mix,
};
use upesi_types::{FspId, TransferId};

use crate::observe::tally::{PhaseWaits, Step, Steps};
use crate::plan::pairs::Pairs;
use crate::plan::scenario::Scenario;

/// Separates the draws of parties from other draws.
const PARTIES: u64 = 0x7061_7274_7900;

/// Waits for the response to a request, and records the time.
async fn timed<T>(wait: &mut Option<Duration>, request: impl Future<Output = T>) -> T {
    let sent = Instant::now();
    let answer = request.await;
    *wait = Some(sent.elapsed());
    answer
}

/// State that all users of one target share.
pub(crate) struct Generator {
    pub scenario: Scenario,
    pub originator: Originator,
    pub pairs: Pairs,
    pub names: Vec<FspId>,
    /// Number of parties of each DFSP over which lookups are spread.
    pub parties: u64,
    /// Number of the first of these parties. Generators that drive the same hub use different parties.
    pub parties_from: u64,
    pub secret: Vec<u8>,
    pub callback_timeout: Duration,
    /// Index of the load among parallel loads, and their number: the numbers of their operations differ.
    pub place: u64,
    pub places: u64,
    pub operations: AtomicU64,
}

impl Generator {
    /// The number of the next operation. Modulo the parties that a DFSP can have, it is the drawn number of the party;
    /// the rest counts up.
    pub fn next_number(&self) -> u64 {
        self.number(self.operations.fetch_add(1, Ordering::Relaxed))
    }

    /// Number of transfers in an operation that moves money.
    pub fn transfers_per_operation(&self) -> u64 {
        if self.scenario == Scenario::Bulks { self.originator.bulk_items() as u64 } else { 1 }
    }

    /// The future operation with that count: its number, payer and payee.
    pub fn coming(&self, count: u64) -> UpcomingTransfer {
        let number = self.number(count);
        let (payer, payee) = self.pairs.of(number);
        (number, payer, payee)
    }

    fn number(&self, count: u64) -> u64 {
        let count = count.wrapping_mul(self.places).wrapping_add(self.place);
        let drawn = match self.scenario {
            // Transfers have no party. Beside other loads they are numbered in the same way, so that all numbers
            // differ.
            Scenario::Transfers | Scenario::ConvertedTransfers | Scenario::Bulks if self.places == 1 => {
                return count;
            }
            Scenario::Transfers
            | Scenario::ConvertedTransfers
            | Scenario::Bulks
            | Scenario::Quotes
            | Scenario::Parallel => count % self.parties,
            Scenario::Lookups | Scenario::Payments => {
                mix(mix(self.originator.options().seed ^ PARTIES) ^ count) % self.parties
            }
        };
        count.wrapping_mul(PARTIES_PER_DFSP).wrapping_add(self.parties_from + drawn)
    }

    /// Performs the operation with this number, until its end or the user's timeout.
    pub async fn perform(&self, number: u64) -> (Steps, PhaseWaits) {
        let (payer, payee) = self.pairs.of(number);
        let (mut steps, mut waits) = (Steps::default(), PhaseWaits::default());
        let [lookup, quote, conversion, transfer] = &mut waits;
        match self.scenario {
            Scenario::Lookups => {
                steps[Phase::Lookup as usize] = self.discover(number, payer, payee, lookup).await;
            }
            Scenario::Quotes => {
                steps[Phase::Quote as usize] = self.agree(number, payer, payee, quote).await.0;
            }
            Scenario::Transfers => {
                let sent = timed(transfer, self.originator.send(number, payer, payee)).await;
                steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
            }
            Scenario::Bulks => {
                let sent = timed(transfer, self.originator.send_bulk(number, payer, payee)).await;
                steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
            }
            Scenario::Payments => self.pay(number, payer, payee, &mut steps, &mut waits).await,
            Scenario::ConvertedTransfers => {
                let asked = timed(conversion, self.originator.convert(number, payer)).await;
                let converted = self.ended(number, asked.map(|pending| pending.fulfilled), Some).await;
                steps[Phase::FxTransfer as usize] = converted;
                if matches!(converted, Step::Done(_)) {
                    let request = self.originator.send_converted(number, payer, payee);
                    let sent = timed(transfer, request).await;
                    steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
                }
            }
            Scenario::Parallel => unreachable!("each parallel load has its own operation"),
        }
        (steps, waits)
    }

    async fn pay(&self, number: u64, payer: usize, payee: usize, steps: &mut Steps, waits: &mut PhaseWaits) {
        let [lookup, quote, _, transfer] = waits;
        let discovered = self.discover(number, payer, payee, lookup).await;
        steps[Phase::Lookup as usize] = discovered;
        if !matches!(discovered, Step::Done(_)) {
            return;
        }
        // The lookup found this payee, or this step would not be reached.
        let (agreed, terms) = self.agree(number, payer, payee, quote).await;
        steps[Phase::Quote as usize] = agreed;
        if let Some(terms) = terms {
            let request = self.originator.transfer_quoted(number, payer, &self.names[payee], &terms);
            let sent = timed(transfer, request).await;
            steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
        }
    }

    /// Looks the payee's party up.
    pub async fn discover(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
        wait: &mut Option<Duration>,
    ) -> Step {
        let sent = timed(wait, self.originator.lookup(number, payer, payee)).await;
        let is_right = |found: &FoundParty| {
            is_the_party(found, &self.names[payee], &self.originator.party(payee, number))
        };
        self.answered(number, sent, is_right).await.0
    }

    /// Requests a quote from the payee.
    async fn agree(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
        wait: &mut Option<Duration>,
    ) -> (Step, Option<Terms>) {
        let sent = timed(wait, self.originator.quote(number, payer, payee)).await;
        let quote_id = self.originator.quote_id(number);
        self.answered(number, sent, |terms| self.are_the_terms(terms, &quote_id)).await
    }

    /// Waits for the answer to a query. Returns it only if it is right.
    async fn answered<T>(
        &self,
        number: u64,
        sent: Result<Awaiting<T>, OriginateError>,
        is_right: impl FnOnce(&T) -> bool,
    ) -> (Step, Option<T>) {
        let awaiting = match sent {
            Ok(awaiting) => awaiting,
            Err(error) => return (not_accepted(&error, number), None),
        };
        let answer = awaiting.answer(self.callback_timeout).await;
        match answer.result {
            Ok(said) if is_right(&said) => (Step::Done(answer.at), Some(said)),
            Ok(_) => (Step::Wrong, None),
            Err(error) => (not_answered(error), None),
        }
    }

    async fn outcome(&self, number: u64, sent: Result<PendingTransfer, OriginateError>) -> Step {
        let committed = |end: Finished| (end.outcome == TransferOutcome::Committed).then_some(end.at);
        self.ended(number, sent.map(|pending| pending.finished), committed).await
    }

    /// Waits for an end. `done` returns its time if it is the right one.
    async fn ended<T>(
        &self,
        number: u64,
        sent: Result<Receiver<T>, OriginateError>,
        done: impl FnOnce(T) -> Option<Instant>,
    ) -> Step {
        let pending = match sent {
            Ok(pending) => pending,
            Err(error) => return not_accepted(&error, number),
        };
        match tokio::time::timeout(self.callback_timeout, pending).await {
            Ok(end) => end.ok().and_then(done).map_or(Step::Error, Step::Done),
            Err(_) => Step::Late,
        }
    }

    /// Whether terms belong to the requested quote: the amount is the requested one, and the payee created packet and
    /// condition for this quote.
    fn are_the_terms(&self, terms: &Terms, quote_id: &TransferId) -> bool {
        let options = self.originator.options();
        if terms.amount != options.amount || terms.currency != options.currency {
            return false;
        }
        let packet = std::str::from_utf8(&terms.ilp_packet).ok();
        let Some(transaction) = packet.and_then(|packet| ilp::decode_transaction(packet).ok()) else {
            return false;
        };
        let condition = std::str::from_utf8(&terms.condition).ok().and_then(decode_octets);
        transaction.contains(&format!("\"{quote_id}\""))
            && condition == Some(ilp::condition_of(&ilp::fulfilment_v4(&self.secret, &transaction)))
    }
}

/// Whether a callback is about the requested party, and names the DFSP of this party.
fn is_the_party(found: &FoundParty, owner: &FspId, party: &PartyId) -> bool {
    let identifier = format!("\"{}\"", party.identifier);
    found.fsp == *owner && found.body.windows(identifier.len()).any(|text| text == identifier.as_bytes())
}

fn not_accepted(error: &OriginateError, number: u64) -> Step {
    tracing::debug!(%error, number, "a request was not accepted");
    match error {
        OriginateError::Refused { .. } => Step::Refused,
        OriginateError::Unanswered(_) => Step::Unanswered,
        OriginateError::Repeated(_) => Step::Repeated,
    }
}

/// The outcome of an accepted request without a right answer.
fn not_answered(error: ExchangeError) -> Step {
    tracing::debug!(%error, "an operation ended without success");
    match error {
        ExchangeError::Late => Step::Late,
        ExchangeError::Unreadable => Step::Wrong,
        _ => Step::Error,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use upesi_http::Workers;
    use upesi_sim::{
        DfspSettings, FxTransferOptions, OriginatorOptions, PaymentOptions, SimConfig, Simulator, Upstream,
    };
    use upesi_types::{Amount, Currency};

    use super::*;
    use crate::plan::pairs::PairChoice;

    const PATIENCE: Duration = Duration::from_secs(30);

    pub(crate) struct World {
        pub workers: Arc<Workers>,
        /// Keeps the DFSPs; they run until the workers stop.
        simulator: Simulator,
    }

    impl World {
        /// Three DFSPs and an FXP without a hub, on one thread.
        pub fn new(settings: DfspSettings) -> Self {
            let workers = Arc::new(Workers::start(1, "test").unwrap());
            let mut config = SimConfig::new(4, Upstream::Peers);
            config.dfsps.iter_mut().for_each(|dfsp| dfsp.1 = settings);
            let simulator = Simulator::start(config, &workers).unwrap();
            Self { workers, simulator }
        }

        pub fn generator(&self, scenario: Scenario) -> Generator {
            let options = OriginatorOptions {
                amount: Amount::parse_wire("2.5").unwrap(),
                currency: Currency::parse("XXX").unwrap(),
                expiry: Duration::from_secs(60),
                seed: 1,
                nonce: 1,
                trace: true,
                resends_max: 0,
            };
            let payments = PaymentOptions { parties_per_dfsp: PARTIES_PER_DFSP, ..PaymentOptions::default() };
            let originator = Originator::new(&self.simulator, options).with_payments(payments);
            let target = Currency::parse("XTS").unwrap();
            let conversions = FxTransferOptions { target, rate_per_mille: 1500, fxps: vec![3] };
            Generator {
                scenario,
                originator: originator.with_fx_transfers(conversions).unwrap().with_bulks(4),
                pairs: Pairs { dfsps: 3, choice: PairChoice::Uniform, seed: 1 },
                names: self.simulator.names().collect(),
                parties: 7,
                parties_from: 70,
                secret: SimConfig::new(1, Upstream::Peers).secret,
                callback_timeout: PATIENCE,
                place: 0,
                places: 1,
                operations: AtomicU64::new(0),
            }
        }

        async fn perform(&self, generator: Generator, count: usize) -> Vec<Steps> {
            let perform = async move {
                let mut all = Vec::new();
                for _ in 0..count {
                    let (steps, waits) = generator.perform(generator.next_number()).await;
                    for (step, wait) in steps.iter().zip(waits) {
                        assert_eq!(*step == Step::Unreached, wait.is_none(), "{steps:?} {waits:?}");
                    }
                    all.push(steps);
                }
                all
            };
            self.workers.get(0).spawn(perform).await.unwrap()
        }

        pub async fn end(self) {
            tokio::task::spawn_blocking(move || self.workers.shutdown()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn scenario_goes_through_exactly_its_phases() {
        for scenario in Scenario::ALL {
            let world = World::new(DfspSettings { fee_per_mille: 40, ..DfspSettings::default() });
            for steps in world.perform(world.generator(scenario), 20).await {
                for phase in Phase::ALL {
                    let step = steps[phase as usize];
                    let has_it = scenario.phases().contains(&phase);
                    assert_eq!(matches!(step, Step::Done(_)), has_it, "{} {steps:?}", scenario.name());
                    assert_eq!(step == Step::Unreached, !has_it);
                }
            }
            assert_eq!(world.simulator.counters().violations(), 0);
            world.end().await;
        }
    }

    #[tokio::test]
    async fn payment_ends_with_the_phase_that_fails() {
        let world = World::new(DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() });
        let all = world.perform(world.generator(Scenario::Payments), 3).await;
        assert_eq!(all, [[Step::Error, Step::Unreached, Step::Unreached, Step::Unreached]; 3]);
        world.end().await;
        let world = World::new(DfspSettings { http_error_per_mille: 1000, ..DfspSettings::default() });
        let all = world.perform(world.generator(Scenario::Quotes), 3).await;
        assert_eq!(all, [[Step::Unreached, Step::Refused, Step::Unreached, Step::Unreached]; 3]);
        world.end().await;
    }

    #[tokio::test]
    async fn terms_for_another_quote_are_wrong() {
        let world = World::new(DfspSettings::default());
        let other_secret = Generator { secret: b"another".to_vec(), ..world.generator(Scenario::Payments) };
        let all = world.perform(other_secret, 2).await;
        for [found, agreed, rest @ ..] in all {
            assert!(matches!(found, Step::Done(_)));
            assert_eq!((agreed, rest), (Step::Wrong, [Step::Unreached; 2]));
        }
        let generator = world.generator(Scenario::Quotes);
        let judge = async move {
            let quoted = generator.originator.quote(1, 0, 1).await.unwrap().answer(PATIENCE).await;
            let terms = quoted.result.unwrap();
            let judge = |terms: &Terms, number| {
                generator.are_the_terms(terms, &generator.originator.quote_id(number))
            };
            let amount = Amount::parse_wire("2.6").unwrap();
            let currency = Currency::parse("KES").unwrap();
            let condition = [b'A'; 43];
            [
                judge(&terms, 1),
                judge(&terms, 2),
                judge(&Terms { amount, ..terms.clone() }, 1),
                judge(&Terms { currency, ..terms.clone() }, 1),
                judge(&Terms { condition, ..terms.clone() }, 1),
                judge(&Terms { ilp_packet: "AYIC".into(), ..terms }, 1),
            ]
        };
        let judged = world.workers.get(0).spawn(judge).await.unwrap();
        assert_eq!(judged, [true, false, false, false, false, false]);
        world.end().await;
    }

    #[test]
    fn operation_numbers_are_unique_and_determine_the_party() {
        let world = World::new(DfspSettings::default());
        let (generator, again) = (world.generator(Scenario::Lookups), world.generator(Scenario::Lookups));
        let numbers: Vec<_> = (0..7_000).map(|_| generator.next_number()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next));
        assert!(numbers.iter().all(|number| *number == again.next_number()));
        let mut drawn = [0; 7];
        for number in &numbers {
            drawn[(number % PARTIES_PER_DFSP - 70) as usize] += 1;
        }
        assert!(drawn.iter().all(|count| (850..1150).contains(count)), "{drawn:?}, seed 1");
        let asked = generator.originator.party(1, numbers[0]).identifier;
        assert!(("260001000000070"..="260001000000076").contains(&asked.as_str()), "{asked}");
        let quotes = world.generator(Scenario::Quotes);
        let parties = [(); 8].map(|()| quotes.next_number() % PARTIES_PER_DFSP);
        assert_eq!(parties, [70, 71, 72, 73, 74, 75, 76, 70]);
        let transfers = world.generator(Scenario::Transfers);
        assert_eq!([(); 3].map(|()| transfers.next_number()), [0, 1, 2]);
        let mut beside = BTreeSet::new();
        for (place, scenario) in (0..).zip([Scenario::Transfers, Scenario::Quotes, Scenario::Lookups]) {
            let generator = Generator { place, places: 3, ..world.generator(scenario) };
            assert!((0..500).all(|_| beside.insert(generator.next_number())), "{}", scenario.name());
        }
        world.workers.shutdown();
    }

    #[test]
    fn answer_about_another_party_or_dfsp_is_wrong() {
        let (owner, party) = (FspId::parse("dfsp-2").unwrap(), upesi_sim::party_of(1, 5));
        let body = |identifier: &str| format!(r#"{{"party":{{"partyIdentifier":"{identifier}"}}}}"#).into();
        for (fsp, identifier, expected) in [
            ("dfsp-2", "260001000000005", true),
            ("dfsp-1", "260001000000005", false),
            ("dfsp-2", "260001000000006", false),
            ("dfsp-2", "2600010000000050", false),
        ] {
            let found = FoundParty { fsp: FspId::parse(fsp).unwrap(), body: body(identifier) };
            assert_eq!(is_the_party(&found, &owner, &party), expected, "{fsp} {identifier}");
        }
    }
}
