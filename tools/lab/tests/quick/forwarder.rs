//! The forwarder between simulated DFSPs, over real sockets.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use upesi_http::{ClientTls, StatusCode, Workers};
use upesi_lab::drive::forwarder::{ForwarderError, ForwarderSecurity, Prefix, Route, serve};
use upesi_lab::{AdminClient, Security, Signatures, Transport};
use upesi_pki::Trial;
use upesi_sim::{
    DfspSettings, ExchangeError, OriginateError, Originator, OriginatorOptions, PartyId, SimConfig,
    SimSecurity, Simulator, TransferOutcome, Upstream, prefix_of,
};
use upesi_tls::{Protocols, present_s};
use upesi_types::{Amount, Currency, ErrorCode, FspId};

const PAYMENTS: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn options() -> OriginatorOptions {
    OriginatorOptions {
        amount: Amount::parse_wire("1").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry: Duration::from_secs(60),
        seed: 1,
        nonce: 1,
        trace: true,
        resends_max: 0,
    }
}

#[tokio::test]
async fn transfers_and_whole_payments_pass_through_the_forwarder() {
    pay(None).await;
}

#[tokio::test]
async fn forwarder_with_mutual_tls_verifies_signatures() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["dfsp-1", "dfsp-2", "dfsp-3"].map(str::to_owned);
    pay(Some(Trial::make(directory.path(), &names, &["127.0.0.1"], present_s()).unwrap())).await;
}

async fn pay(trial: Option<Trial>) {
    let (sims, forwarders) = (Workers::start(1, "sim").unwrap(), Workers::start(2, "forwarder").unwrap());
    let address = free_address();
    let scheme = if trial.is_some() { "https" } else { "http" };
    let mut config = SimConfig::new(3, Upstream::Hub(format!("{scheme}://{address}")));
    let mut security = ForwarderSecurity::default();
    if let Some(trial) = &trial {
        let names: Vec<FspId> = config.dfsps.iter().map(|(name, _)| *name).collect();
        config.security = SimSecurity::of_trial(trial, &names, Some(Protocols::Http1), true).unwrap();
        let all = Security { tls: Transport::Mutual, jws: Signatures::Enforce, sign_ahead: 0 };
        security = ForwarderSecurity::of_trial(trial, all).unwrap();
    }
    let simulator = Simulator::start(config, &sims).unwrap();
    let routes: Vec<Route> = simulator
        .names()
        .map(|dfsp| Route { dfsp: dfsp.to_string(), url: simulator.base_url(&dfsp) })
        .collect();
    let prefixes: Vec<Prefix> = simulator
        .names()
        .enumerate()
        .map(|(index, dfsp)| Prefix { prefix: prefix_of(index), dfsp: dfsp.to_string() })
        .collect();
    let server = serve(address, &routes, &prefixes, &forwarders, security).unwrap();
    let originator = Originator::new(&simulator, options());
    let send = sims.get(0).spawn(async move {
        for number in 0..PAYMENTS {
            let (payer, payee) = (number as usize % 3, (number as usize + 1) % 3);
            let pending = originator.send(2 * number, payer, payee).await.unwrap();
            let finished = timeout(PATIENCE, pending.finished).await.unwrap().unwrap();
            assert_eq!(finished.outcome, TransferOutcome::Committed);
            let began = std::time::Instant::now();
            let report = originator.payment(2 * number + 1, payer, payee, began).await;
            assert_eq!(report.result, Ok(()), "{report:?}");
        }
        // A party without a matching prefix.
        let peer = FspId::parse("dfsp-1").unwrap();
        let lost = originator.lookup_party(1, 0, &PartyId::msisdn("31612345678"), &peer).await;
        assert!(matches!(lost, Err(OriginateError::Refused { status: StatusCode::BAD_REQUEST, .. })));
    });
    send.await.unwrap();
    let counters = simulator.counters();
    assert_eq!((counters.prepares_received, counters.violations()), (2 * PAYMENTS, 0));
    assert_eq!((counters.lookups_received, counters.quotes_received), (PAYMENTS, PAYMENTS));
    assert_eq!((counters.answers_received, counters.answers_unasked), (2 * PAYMENTS, 0));
    assert_eq!(simulator.transfer_counts().committed, 2 * PAYMENTS);

    // The forwarder rejects messages that it cannot read.
    let tls = trial.as_ref().map(|trial| ClientTls::load(trial.caller()).unwrap());
    let client = AdminClient::with_tls(&format!("{scheme}://{address}"), tls.as_ref()).unwrap();
    client.get("/health").await.unwrap();
    for (path, body) in
        [("/transfers", "{}"), ("/transfers", "not json"), ("/quotes", "{}"), ("/participants", "{}")]
    {
        assert!(client.create(path, body.to_owned()).await.is_err(), "{path} {body}");
    }
    if let Some(trial) = &trial {
        // The forwarder also rejects unsigned messages of all senders.
        let mut config = SimConfig::new(3, Upstream::Hub(format!("{scheme}://{address}")));
        let names: Vec<FspId> = config.dfsps.iter().map(|(name, _)| *name).collect();
        config.security = SimSecurity::of_trial(trial, &names, Some(Protocols::Http1), false).unwrap();
        let silent = Simulator::start(config, &sims).unwrap();
        let originator = Originator::new(&silent, options());
        let sent =
            sims.get(0).spawn(async move { originator.send(1, 0, 1).await.map(|_| ()) }).await.unwrap();
        let is_refused =
            matches!(&sent, Err(OriginateError::Refused { status: StatusCode::BAD_REQUEST, .. }));
        assert!(is_refused, "{sent:?}");
    }
    server.shutdown(Instant::now() + Duration::from_secs(1)).await;
    simulator.shutdown(Instant::now() + Duration::from_secs(1)).await;
    tokio::task::spawn_blocking(move || (sims.shutdown(), forwarders.shutdown())).await.unwrap();
}

#[test]
fn errors_are_forwarded_to_the_sender() {
    let (sims, forwarders) = (Workers::start(1, "sim").unwrap(), Workers::start(1, "forwarder").unwrap());
    let address = free_address();
    let mut config = SimConfig::new(2, Upstream::Hub(format!("http://{address}")));
    config.dfsps[1].1 = DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() };
    let simulator = Simulator::start(config, &sims).unwrap();
    let route = |dfsp: FspId| Route { dfsp: dfsp.to_string(), url: simulator.base_url(&dfsp) };
    let routes: Vec<Route> = simulator.names().map(route).collect();
    let prefixes = [Prefix { prefix: prefix_of(1), dfsp: "dfsp-2".to_owned() }];
    let _server = serve(address, &routes, &prefixes, &forwarders, ForwarderSecurity::default()).unwrap();
    let originator = Originator::new(&simulator, options());
    let (sender, errors) = std::sync::mpsc::channel();
    drop(sims.get(0).spawn(async move {
        let found = originator.lookup(1, 0, 1).await.unwrap().answer(PATIENCE).await;
        let terms = originator.quote(1, 0, 1).await.unwrap().answer(PATIENCE).await;
        sender.send([found.result.map(|_| ()), terms.result.map(|_| ())]).unwrap();
    }));
    let codes = [ErrorCode::PAYEE, ErrorCode::PAYEE_REJECTED_QUOTE];
    assert_eq!(errors.recv().unwrap(), codes.map(|code| Err(ExchangeError::Code(code))));
    sims.shutdown();
    forwarders.shutdown();
}

#[test]
fn port_in_use_and_bad_route_are_reported() {
    let workers = Workers::start(1, "forwarder").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let error =
        serve(taken.local_addr().unwrap(), &[], &[], &workers, ForwarderSecurity::default()).unwrap_err();
    assert!(matches!(error, ForwarderError::Bind(_)), "{error}");
    let route = Route { dfsp: "dfsp-1".to_owned(), url: "ftp://x".to_owned() };
    let error = serve(free_address(), &[route], &[], &workers, ForwarderSecurity::default()).unwrap_err();
    assert!(matches!(error, ForwarderError::Url { .. }), "{error}");
    let prefix = Prefix { prefix: "26".to_owned(), dfsp: "dfsp-1".to_owned() };
    let error = serve(free_address(), &[], &[prefix], &workers, ForwarderSecurity::default()).unwrap_err();
    assert!(matches!(error, ForwarderError::Prefix(_)), "{error}");
}
