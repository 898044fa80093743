use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use upesi_fspiop::Route;
use upesi_http::PeerIdentity;
use upesi_ledger::Participant;

use super::*;

/// Hub, greenbank, bluewallet, a proxy, and farbank behind it.
fn participants() -> SharedParticipants {
    let participant = |number, name: &str| Participant {
        id: ParticipantId::new(number).unwrap(),
        name: FspId::parse(name).unwrap(),
        is_active: true,
        is_proxy: name == "bridge",
        created_at: upesi_types::Timestamp::EPOCH,
        accounts: Vec::new(),
        limits: Vec::new(),
        endpoints: Vec::new(),
        bindings: Vec::new(),
    };
    let names = ["Hub", "greenbank", "bluewallet", "bridge", "farbank"];
    let all = (1..).zip(names).map(|(number, name)| participant(number, name)).collect();
    let behind = [5, 4].map(|number| ParticipantId::new(number).unwrap());
    let shared = SharedParticipants::default();
    shared.set(Arc::new(Participants::new(all, &[]).behind([behind.into()].into())));
    shared
}

struct Trial {
    rates: Rates,
    started: Instant,
}

impl Trial {
    fn new(limits: RateLimits, exceptions: &[(&str, RateLimits)]) -> Self {
        let exceptions = exceptions.iter().map(|(name, limits)| ((*name).to_owned(), *limits)).collect();
        let settings = RateSettings { limits, exceptions, block: Duration::from_secs(60) };
        let rates = Rates::new(settings, participants());
        Self { started: rates.started, rates }
    }

    fn at(&self, ms: u64) -> Instant {
        self.started + Duration::from_millis(ms)
    }

    /// A request of whoever the header names.
    fn ask(&self, line: &str, source: &str, ms: u64) -> Result<(), Refused> {
        let mut headers = HeaderMap::new();
        headers.insert("fspiop-source", HeaderValue::from_str(source).unwrap());
        self.rates.ask(operation(line), Caller::named(&headers), self.at(ms))
    }

    /// A request of a caller that is known by its certificate.
    fn ask_bound(&self, line: &str, identity: &PeerIdentity, ms: u64) -> Result<(), Refused> {
        let headers = HeaderMap::new();
        self.rates.ask(operation(line), Caller::new(&headers, Some(identity)), self.at(ms))
    }

    fn miss(&self, source: &str, ms: u64) {
        self.rates.missed_at(&FspId::parse(source).unwrap(), self.at(ms));
    }

    fn fail(&self, identity: Option<&PeerIdentity>, ms: u64) {
        let mut headers = HeaderMap::new();
        headers.insert("fspiop-source", HeaderValue::from_static("greenbank"));
        self.rates.signature_failed(Caller::new(&headers, identity), self.at(ms));
    }
}

fn operation(line: &str) -> Operation {
    let (method, path) = line.split_once(' ').unwrap();
    Route::resolve(Method::parse(method), path).unwrap().operation
}

fn identity(number: u32, name: &str) -> PeerIdentity {
    PeerIdentity { number, name: name.into() }
}

const LOOKUP: &str = "GET /parties/MSISDN/26097";
const QUESTION: &str = "GET /participants/MSISDN/26097";
const TRANSFER: &str = "POST /transfers";

#[test]
fn without_bounds_everything_is_taken() {
    let trial = Trial::new(RateLimits::default(), &[]);
    for _ in 0..1_000 {
        trial.miss("greenbank", 0);
        trial.fail(Some(&identity(2, "greenbank")), 0);
        assert_eq!(trial.ask(LOOKUP, "greenbank", 0), Ok(()));
        assert_eq!(trial.ask_bound(TRANSFER, &identity(2, "greenbank"), 0), Ok(()));
    }
}

#[test]
fn lookups_and_registrations_have_rates_of_their_own() {
    let limits = RateLimits { lookups: 2, registrations: 1, ..RateLimits::default() };
    let trial = Trial::new(limits, &[("bluewallet", RateLimits { lookups: 5, ..limits })]);
    assert_eq!([LOOKUP, QUESTION].map(|line| trial.ask(line, "greenbank", 0)), [Ok(()), Ok(())]);
    assert_eq!(trial.ask(LOOKUP, "greenbank", 0), Err((Refusal::Lookups, 1)));
    for line in ["POST /participants/MSISDN/1", "DELETE /participants/MSISDN/1", "POST /participants"] {
        let trial = Trial::new(limits, &[]);
        assert_eq!(trial.ask(line, "greenbank", 0), Ok(()), "{line}");
        assert_eq!(trial.ask(line, "greenbank", 0), Err((Refusal::Registrations, 1)), "{line}");
        assert_eq!(trial.ask(line, "greenbank", 1_000), Ok(()), "{line}");
    }
    // What finishes a lookup, and all the rest, is not counted.
    for line in ["PUT /parties/MSISDN/26097", "POST /quotes", TRANSFER] {
        assert!((0..100).all(|_| trial.ask(line, "greenbank", 0).is_ok()), "{line}");
    }
    assert_eq!((0..10).filter(|_| trial.ask(LOOKUP, "BlueWallet", 0).is_ok()).count(), 5, "its exception");
    // Those that are no participants count as one.
    assert_eq!((0..10).filter(|n| trial.ask(LOOKUP, &format!("nobody{n}"), 0).is_ok()).count(), 2);
}

#[test]
fn the_certificate_decides_whose_rate_it_is() {
    let limits = RateLimits { lookups: 1, ..RateLimits::default() };
    let trial = Trial::new(limits, &[]);
    let (green, bridge) = (identity(2, "greenbank"), identity(4, "bridge"));
    assert_eq!(trial.ask_bound(LOOKUP, &green, 0), Ok(()));
    assert!(trial.ask_bound(LOOKUP, &green, 0).is_err());
    assert_eq!(trial.ask_bound(LOOKUP, &bridge, 0), Ok(()));
    // Who is behind a proxy uses up the proxy's rate.
    assert!(trial.ask(LOOKUP, "farbank", 0).is_err());
}

#[test]
fn guessing_ends_all_lookups_for_a_while() {
    let trial = Trial::new(RateLimits { misses: 2, ..RateLimits::default() }, &[]);
    assert!((0..100).all(|_| trial.ask(LOOKUP, "greenbank", 0).is_ok()), "what is found costs nothing");
    trial.miss("greenbank", 0);
    assert_eq!(trial.ask(LOOKUP, "greenbank", 0), Ok(()));
    trial.miss("greenbank", 0);
    assert_eq!(trial.ask(QUESTION, "greenbank", 499), Err((Refusal::Misses, 1)));
    assert_eq!(trial.ask(QUESTION, "greenbank", 500), Ok(()), "a question takes nothing, a miss does");
    trial.miss("greenbank", 500);
    assert_eq!(trial.ask(LOOKUP, "bluewallet", 500), Ok(()), "others go on");
    assert!(trial.ask(LOOKUP, "greenbank", 500).is_err());
    assert_eq!(trial.ask("POST /participants/MSISDN/1", "greenbank", 500), Ok(()));
    assert_eq!(trial.ask(LOOKUP, "greenbank", 60_000), Ok(()));
    for _ in 0..100 {
        trial.miss("farbank", 0);
    }
    // Two are owed, and one must be there: a second and a half.
    assert_eq!(trial.ask(LOOKUP, "farbank", 0), Err((Refusal::Misses, 2)));
    assert!(trial.ask_bound(LOOKUP, &identity(4, "bridge"), 100).is_err(), "a proxy answers for it");
}

#[test]
fn wrong_signatures_block_whom_a_certificate_names_and_nobody_else() {
    let trial = Trial::new(RateLimits { signature_faults: 3, ..RateLimits::default() }, &[]);
    let (green, blue) = (identity(2, "greenbank"), identity(3, "bluewallet"));
    for _ in 0..1_000 {
        trial.fail(None, 0);
    }
    assert_eq!(trial.ask_bound(TRANSFER, &green, 0), Ok(()), "a header has nobody blocked");
    for _ in 0..3 {
        trial.fail(Some(&green), 0);
        assert_eq!(trial.ask_bound(TRANSFER, &green, 0), Ok(()));
    }
    trial.fail(Some(&green), 0);
    for line in [TRANSFER, LOOKUP, "PUT /transfers/1bf1ef8b-e1a4-4b1a-8f3a-0d1c2a3b4c5d"] {
        assert_eq!(trial.ask_bound(line, &green, 500), Err((Refusal::Blocked, 60)), "{line}");
    }
    assert_eq!(trial.ask(TRANSFER, "greenbank", 500), Ok(()), "without its certificate it is another caller");
    assert_eq!(trial.ask_bound(TRANSFER, &blue, 500), Ok(()));
    assert_eq!(trial.ask_bound(TRANSFER, &green, 59_999), Err((Refusal::Blocked, 1)));
    assert_eq!(trial.ask_bound(TRANSFER, &green, 60_000), Ok(()));
    assert_eq!(trial.rates.blocked.get(), 0);
    assert_eq!(trial.rates.blocks.get_or_create(&Blocked { fsp: "greenbank".into() }).get(), 1);
}
