use std::collections::BTreeSet;
use std::sync::Arc;

use upesi_http::Workers;
use upesi_sim::{
    ConversionOptions, DfspSettings, OriginatorOptions, PaymentOptions, SimConfig, Simulator, Upstream,
};
use upesi_types::{Amount, Currency};

use super::*;
use crate::plan::pairs::PairChoice;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub workers: Arc<Workers>,
    /// Keeps the DFSPs in sight; they run until the workers stop.
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
        let conversions = ConversionOptions { target, rate_per_mille: 1500, fxps: vec![3] };
        Generator {
            scenario,
            originator: originator.with_conversions(conversions).unwrap().with_bulks(4),
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
async fn every_scenario_goes_through_its_phases_and_no_other() {
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
async fn payments_end_with_the_phase_that_fails() {
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
async fn terms_that_the_payee_did_not_make_for_the_quote_are_wrong() {
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
        let judge =
            |terms: &Terms, number| generator.are_the_terms(terms, &generator.originator.quote_id(number));
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
fn numbers_are_never_used_twice_and_draw_their_parties() {
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
fn a_party_must_be_the_one_asked_for_at_the_dfsp_that_has_it() {
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
