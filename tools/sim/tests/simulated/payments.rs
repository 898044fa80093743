//! Lookups, quotes and whole payments between simulators, over real sockets, with every fault in every phase.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, World, add_headers, options};
use tokio::time::timeout;
use upesi_http::{Bytes, Full, Method, Origin, Pool, PoolConfig, Request, StatusCode, Uri};
use upesi_sim::{
    AmountType, Answer, DfspSettings, ExchangeError, FoundParty, Originator, PartyId, PaymentFailure,
    PaymentOptions, PaymentReport, Phase, Terms,
};
use upesi_types::{ErrorCode, FspId};

const SHORT: Duration = Duration::from_millis(50);

fn payments(callback_timeout: Duration) -> PaymentOptions {
    PaymentOptions { callback_timeout, parties_per_dfsp: 3, amount_type: AmountType::Send }
}

fn originator(world: &World, payments: PaymentOptions) -> Arc<Originator> {
    Arc::new(Originator::new(&world.simulator, options()).with_payments(payments))
}

async fn pay(world: &World, payments: PaymentOptions, number: u64) -> PaymentReport {
    let originator = originator(world, payments);
    let pay = async move { originator.payment(number, 0, 1, Instant::now()).await };
    timeout(PATIENCE, world.workers.round_robin().spawn(pay)).await.expect("an end").unwrap()
}

async fn look_up(world: &World, party: PartyId, within: Duration) -> Answer<FoundParty> {
    let originator = originator(world, payments(within));
    let peer = FspId::parse("dfsp-2").unwrap();
    let look_up =
        async move { originator.lookup_party(1, 0, &party, &peer).await.unwrap().answer(within).await };
    world.workers.get(0).spawn(look_up).await.unwrap()
}

async fn quote(world: &World, payments: PaymentOptions, number: u64) -> Answer<Terms> {
    let originator = originator(world, payments);
    let within = payments.callback_timeout;
    let quote = async move { originator.quote(number, 0, 1).await.unwrap().answer(within).await };
    world.workers.get(0).spawn(quote).await.unwrap()
}

fn failure(phase: Phase, error: ExchangeError) -> PaymentFailure {
    PaymentFailure { phase, error }
}

#[tokio::test]
async fn payments_go_through_all_phases_and_move_the_quoted_amount() {
    let world = World::new(DfspSettings::default());
    for number in 0..20 {
        let report = pay(&world, payments(PATIENCE), number).await;
        assert_eq!(report.result, Ok(()), "{report:?}");
        let sum: Duration = Phase::OF_PAYMENT.iter().map(|phase| report.duration(*phase).unwrap()).sum();
        assert_eq!((report.total(), report.number), (sum, number));
    }
    world.until("the last transfer", |sim| sim.transfer_counts().incoming_committed == 20).await;
    let counters = world.simulator.counters();
    assert_eq!(
        (counters.lookups_received, counters.quotes_received, counters.prepares_received),
        (20, 20, 20)
    );
    assert_eq!((counters.answers_sent, counters.answers_received, counters.answers_unasked), (40, 40, 0));
    assert_eq!((counters.violations(), counters.conditions_unknown), (0, 0));
    assert_eq!((world.high(0), world.high(1)), (20 * 25_000, -20 * 25_000));
    world.end().await;
}

#[tokio::test]
async fn payer_books_the_quoted_amount() {
    let world = World::new(DfspSettings { fee_per_mille: 40, ..DfspSettings::default() });
    let receive = PaymentOptions { amount_type: AmountType::Receive, ..payments(PATIENCE) };
    let terms = quote(&world, receive, 1).await.result.unwrap();
    assert_eq!((terms.amount.to_string().as_str(), terms.currency.as_str()), ("2.6", "XXX"));
    assert_eq!(pay(&world, receive, 2).await.result, Ok(()));
    world.until("the transfer", |sim| sim.transfer_counts().incoming_committed == 1).await;
    assert_eq!((world.high(0), world.high(1)), (26_000, -26_000));
    world.end().await;
}

#[tokio::test]
async fn lookup_of_another_dfsps_party_fails() {
    let world = World::new(DfspSettings::default());
    let not_found = Err(ExchangeError::Code(ErrorCode::PARTY_NOT_FOUND));
    let alias =
        PartyId { kind: "ALIAS".into(), identifier: "a b/c".to_owned(), sub_id: Some("till".to_owned()) };
    for party in [upesi_sim::party_of(0, 7), alias.clone(), PartyId::msisdn("26097")] {
        let answer = look_up(&world, party, PATIENCE).await;
        assert_eq!(answer.result.map(|found| found.fsp), not_found);
    }
    assert_eq!(world.simulator.counters().parties_unknown, 3);
    let settings = DfspSettings { owns_every_party: true, ..DfspSettings::default() };
    assert_eq!(world.simulator.set_settings(1, settings), Ok(true));
    for party in [upesi_sim::party_of(0, 7), alias, PartyId::msisdn("26097")] {
        let found = look_up(&world, party.clone(), PATIENCE).await.result.unwrap();
        assert_eq!(found.fsp.as_str(), "dfsp-2");
        let body: serde_json::Value = serde_json::from_slice(&found.body).unwrap();
        assert_eq!(body["party"]["partyIdInfo"]["partyIdentifier"], party.identifier.as_str());
    }
    world.end().await;
}

#[tokio::test]
async fn simultaneous_lookups_of_one_party_are_answered() {
    let world = World::new(DfspSettings { delay_ms: 5, ..DfspSettings::default() });
    let originator = originator(&world, PaymentOptions { parties_per_dfsp: 1, ..payments(PATIENCE) });
    let mut awaited = Vec::new();
    for number in 0..10 {
        let originator = originator.clone();
        let ask = async move { originator.lookup(number, 0, 1).await.unwrap().answer(PATIENCE).await };
        awaited.push(world.workers.round_robin().spawn(ask));
    }
    for awaited in awaited {
        assert_eq!(awaited.await.unwrap().result.unwrap().fsp.as_str(), "dfsp-2");
    }
    assert_eq!(world.simulator.counters().answers_unasked, 0);
    world.end().await;
}

#[tokio::test]
async fn error_ends_a_payment_in_its_phase() {
    for (settings, expected) in [
        (
            DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() },
            failure(Phase::Lookup, ExchangeError::Code(ErrorCode::PAYEE)),
        ),
        (
            DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() },
            failure(Phase::Lookup, ExchangeError::Late),
        ),
        (
            DfspSettings { http_error_per_mille: 1000, http_error_status: 400, ..DfspSettings::default() },
            failure(Phase::Lookup, ExchangeError::Refused(StatusCode::BAD_REQUEST)),
        ),
    ] {
        let world = World::new(settings);
        let patience = if expected.error == ExchangeError::Late { SHORT } else { PATIENCE };
        let report = pay(&world, payments(patience), 1).await;
        assert_eq!((report.result, report.ends), (Err(expected), [None; 4]));
        assert_eq!((world.high(0), world.simulator.transfer_counts().sent), (0, 0));
        world.end().await;
    }
}

#[tokio::test]
async fn phase_reports_the_error_of_its_callback() {
    // Seed 1 affects the quotes and the transfers of different numbers.
    let world = World::new(DfspSettings { abort_per_mille: 300, ..DfspSettings::default() });
    let (mut seen, mut went_through) = (std::collections::BTreeSet::new(), 0);
    for number in 0..60 {
        let report = pay(&world, payments(PATIENCE), number).await;
        match report.result {
            Ok(()) => went_through += 1,
            Err(failure) => {
                let code = match failure.phase {
                    Phase::Lookup => ErrorCode::PAYEE,
                    Phase::Quote => ErrorCode::PAYEE_REJECTED_QUOTE,
                    Phase::Transfer => ErrorCode::PAYEE_REJECTED_TRANSACTION,
                    Phase::FxTransfer => unreachable!("nothing is converted"),
                };
                assert_eq!(failure.error, ExchangeError::Code(code), "{report:?}");
                let finished = report.ends.iter().flatten().count();
                let before = Phase::OF_PAYMENT.into_iter().filter(|phase| *phase < failure.phase);
                assert_eq!(finished, before.count(), "{report:?}");
                seen.insert(failure.phase);
            }
        }
    }
    assert_eq!(seen.len(), 3, "seed 1");
    assert_eq!(world.high(0), went_through * 25_000);
    world.end().await;
}

#[tokio::test]
async fn faults_of_a_payee_affect_quotes() {
    let plain = DfspSettings::default();
    for (settings, error) in [
        (
            DfspSettings { abort_per_mille: 1000, ..plain },
            ExchangeError::Code(ErrorCode::PAYEE_REJECTED_QUOTE),
        ),
        (DfspSettings { drop_per_mille: 1000, ..plain }, ExchangeError::Late),
    ] {
        let world = World::new(settings);
        let patience = if error == ExchangeError::Late { SHORT } else { PATIENCE };
        assert_eq!(quote(&world, payments(patience), 1).await.result.map(|_| ()), Err(error));
        world.end().await;
    }
    let slow = DfspSettings { delay_ms: 2, slow_read_per_mille: 1000, slow_read_ms: 2, ..plain };
    let world = World::new(DfspSettings { duplicate_per_mille: 1000, ..slow });
    assert!(quote(&world, payments(PATIENCE), 1).await.result.is_ok());
    assert!(look_up(&world, upesi_sim::party_of(1, 1), PATIENCE).await.result.is_ok());
    world.until("two repetitions", |sim| sim.counters().answers_unasked == 2).await;
    let counters = world.simulator.counters();
    assert_eq!((counters.duplicated, counters.slow_reads, counters.violations()), (2, 2, 0));
    world.end().await;
}

#[tokio::test]
async fn wrong_fulfilment_of_a_quoted_transfer_is_found() {
    let world = World::new(DfspSettings { wrong_fulfilment_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(pay(&world, payments(PATIENCE), 1).await.result, Ok(()));
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 1);
    world.end().await;
}

#[tokio::test]
async fn payment_number_pays_once() {
    let world = World::new(DfspSettings::default());
    assert_eq!(pay(&world, payments(PATIENCE), 4).await.result, Ok(()));
    let again = pay(&world, payments(PATIENCE), 4).await;
    assert_eq!(again.result, Err(failure(Phase::Transfer, ExchangeError::Repeated(4))));
    world.end().await;
}

#[tokio::test]
async fn watcher_sees_messages_in_causal_order() {
    let (watch, mut seen) = tokio::sync::mpsc::channel(100);
    let world = World::with(DfspSettings::default(), |config| config.watch = Some(watch));
    assert_eq!(pay(&world, payments(PATIENCE), 1).await.result, Ok(()));
    // Six messages, each seen by its sender and by its receiver, in any order.
    let mut at = std::collections::HashMap::new();
    for _ in 0..12 {
        let message = timeout(PATIENCE, seen.recv()).await.expect("a message").unwrap();
        let family = message.path.trim_start_matches("/dfsp-2").trim_start_matches("/dfsp-1")[1..].to_owned();
        let family = family.split('/').next().unwrap().to_owned();
        at.insert((message.dfsp.to_string(), message.method, family), message.at);
    }
    let when = |dfsp: &str, method: Method, family: &str| at[&(dfsp.to_owned(), method, family.to_owned())];
    for (caused, method, family, next_method, next_family) in [
        ("dfsp-2", Method::GET, "parties", Method::PUT, "parties"),
        ("dfsp-1", Method::PUT, "parties", Method::POST, "quotes"),
        ("dfsp-2", Method::POST, "quotes", Method::PUT, "quotes"),
        ("dfsp-1", Method::PUT, "quotes", Method::POST, "transfers"),
        ("dfsp-2", Method::POST, "transfers", Method::PUT, "transfers"),
    ] {
        let (cause, effect) = (when(caused, method, family), when(caused, next_method, next_family));
        assert!(cause <= effect, "{caused} {family} {next_family}");
    }
    world.end().await;
}

/// Queries dfsp-2 as dfsp-1 and returns the answers of dfsp-2.
struct Asking {
    world: World,
    pool: Pool,
    seen: tokio::sync::mpsc::Receiver<upesi_sim::SeenMessage>,
}

impl Asking {
    fn new() -> Self {
        let (watch, seen) = tokio::sync::mpsc::channel(100);
        let world = World::with(DfspSettings::default(), |config| config.watch = Some(watch));
        let address = world.simulator.local_addr();
        let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
        Self { world, pool, seen }
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: &serde_json::Value,
    ) -> (StatusCode, String, serde_json::Value) {
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(format!("/dfsp-2/{path}")).unwrap();
        add_headers(&mut request);
        let answer = self.pool.send(request, tokio::time::Instant::now() + PATIENCE).await.unwrap();
        if answer.status != StatusCode::ACCEPTED {
            return (answer.status, String::new(), serde_json::Value::Null);
        }
        loop {
            let seen = timeout(PATIENCE, self.seen.recv()).await.expect("an answer").unwrap();
            if seen.direction == upesi_sim::Direction::Sent {
                assert_eq!(seen.headers["fspiop-source"], "dfsp-2");
                assert_eq!(seen.headers["fspiop-destination"], "dfsp-1");
                let family = seen.path.split('/').nth(2).unwrap();
                let version = if family == "fxQuotes" { "2.0" } else { "1.1" };
                let media_type = format!("application/vnd.interoperability.{family}+json;version={version}");
                assert_eq!(seen.headers["content-type"], media_type.as_str());
                return (answer.status, seen.path, serde_json::from_slice(&seen.body).unwrap());
            }
        }
    }
}

const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

fn quote_json() -> serde_json::Value {
    serde_json::json!({"quoteId": ID, "transactionId": ID,
        "payer": {"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "1"}},
        "payee": {"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "2"}},
        "amountType": "SEND", "amount": {"amount": "2", "currency": "XXX"},
        "transactionType": {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}})
}

#[tokio::test]
async fn repeated_query_of_a_quote_is_answered() {
    let mut asking = Asking::new();
    let null = serde_json::Value::Null;
    for (family, code) in [("quotes", "3205"), ("bulkQuotes", "3209"), ("fxQuotes", "3205")] {
        let (_, path, body) = asking.ask(Method::GET, &format!("{family}/{ID}"), &null).await;
        assert_eq!(path, format!("/dfsp-1/{family}/{ID}/error"));
        assert_eq!(body["errorInformation"]["errorCode"], code);
    }
    let (_, path, first) = asking.ask(Method::POST, "quotes", &quote_json()).await;
    assert_eq!(
        (path.as_str(), first["transferAmount"]["amount"].as_str()),
        (format!("/dfsp-1/quotes/{ID}").as_str(), Some("2"))
    );
    let (_, _, again) = asking.ask(Method::GET, &format!("quotes/{ID}"), &null).await;
    assert_eq!(first, again);

    let bulk_id = ID.replace("5b1c", "5b1d");
    let bulk = serde_json::json!({"bulkQuoteId": bulk_id, "payer": quote_json()["payer"],
        "individualQuotes": [quote_json(), quote_json()]});
    let (_, path, first) = asking.ask(Method::POST, "bulkQuotes", &bulk).await;
    assert_eq!(path, format!("/dfsp-1/bulkQuotes/{bulk_id}"));
    assert_eq!(first["individualQuoteResults"].as_array().map(Vec::len), Some(2));
    let (_, _, again) = asking.ask(Method::GET, &format!("bulkQuotes/{bulk_id}"), &null).await;
    assert_eq!(first, again);

    let settings = DfspSettings { fx_rate_per_mille: 28_600, ..DfspSettings::default() };
    asking.world.simulator.set_settings(1, settings).unwrap();
    let request_id = ID.replace("5b1c", "5b1e");
    let fx_transfer = serde_json::json!({"conversionRequestId": request_id, "conversionTerms": {"conversionId": ID,
        "initiatingFsp": "dfsp-1", "counterPartyFsp": "dfsp-2", "amountType": "SEND",
        "sourceAmount": {"currency": "KES", "amount": "2"}, "targetAmount": {"currency": "USD"},
        "expiration": "2030-01-01T00:00:00.000Z"}});
    let (_, path, first) = asking.ask(Method::POST, "fxQuotes", &fx_transfer).await;
    assert_eq!(path, format!("/dfsp-1/fxQuotes/{request_id}"));
    assert_eq!(first["conversionTerms"]["targetAmount"]["amount"], "57.2");
    let (_, _, again) = asking.ask(Method::GET, &format!("fxQuotes/{request_id}"), &null).await;
    assert_eq!(first, again);
    asking.world.end().await;
}

#[tokio::test]
async fn transaction_requests_and_authorizations_are_answered() {
    let mut asking = Asking::new();
    let null = serde_json::Value::Null;
    let request =
        serde_json::json!({"transactionRequestId": ID, "amount": {"amount": "2", "currency": "XXX"}});
    let (_, path, first) = asking.ask(Method::POST, "transactionRequests", &request).await;
    assert_eq!(path, format!("/dfsp-1/transactionRequests/{ID}"));
    assert_eq!(first["transactionRequestState"], "RECEIVED");
    let (_, _, again) = asking.ask(Method::GET, &format!("transactionRequests/{ID}"), &null).await;
    assert_eq!(first, again);
    let wanted = format!("authorizations/{ID}?authenticationType=OTP&retriesLeft=1&amount=2&currency=XXX");
    let (_, path, body) = asking.ask(Method::GET, &wanted, &null).await;
    assert_eq!(path, format!("/dfsp-1/authorizations/{ID}"));
    assert_eq!(
        (&body["responseType"], &body["authenticationInfo"]["authentication"]),
        (&"ENTERED".into(), &"OTP".into())
    );
    asking.world.end().await;
}

#[tokio::test]
async fn malformed_requests_are_rejected() {
    let mut asking = Asking::new();
    for (method, path, body) in [
        (Method::POST, "quotes", serde_json::json!({"quoteId": ID})),
        (Method::POST, "quotes", serde_json::json!([])),
        (Method::POST, "bulkQuotes", serde_json::json!({"bulkQuoteId": ID, "payer": {}})),
        (Method::POST, "fxQuotes", serde_json::json!({"conversionRequestId": ID, "conversionTerms": {}})),
        (Method::POST, "transactionRequests", serde_json::json!({"transactionRequestId": "x"})),
        (Method::GET, "transactionRequests/x", serde_json::Value::Null),
    ] {
        assert_eq!(asking.ask(method, path, &body).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(asking.world.simulator.counters().unreadable, 6);
    asking.world.end().await;
}
