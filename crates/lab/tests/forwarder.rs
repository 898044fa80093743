//! The forwarder between simulated DFSPs, over real sockets.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use upesi_http::Workers;
use upesi_lab::AdminClient;
use upesi_lab::forwarder::{ForwarderError, Route, serve};
use upesi_sim::{Originator, OriginatorOptions, Outcome, SimConfig, Simulator, Upstream};
use upesi_types::{Amount, Currency};

const TRANSFERS: u64 = 200;

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn two_hundred_transfers_pass_through_the_forwarder() {
    let (sims, forwarders) = (Workers::start(1, "sim").unwrap(), Workers::start(2, "forwarder").unwrap());
    let address = free_address();
    let simulator =
        Simulator::start(SimConfig::new(3, Upstream::Hub(format!("http://{address}"))), &sims).unwrap();
    let routes: Vec<Route> = simulator
        .names()
        .map(|dfsp| Route { dfsp: dfsp.to_string(), url: simulator.base_url(&dfsp) })
        .collect();
    let server = serve(address, &routes, &[], &forwarders).unwrap();
    let options = OriginatorOptions {
        amount: Amount::parse_wire("1").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry: Duration::from_secs(60),
        seed: 1,
        nonce: 1,
        trace: true,
        resends_max: 0,
    };
    let originator = Originator::new(&simulator, options);
    let send = sims.get(0).spawn(async move {
        for number in 0..TRANSFERS {
            let (payer, payee) = (number as usize % 3, (number as usize + 1) % 3);
            let pending = originator.send(number, payer, payee).await.unwrap();
            let finished = timeout(Duration::from_secs(30), pending.finished).await.unwrap().unwrap();
            assert_eq!(finished.outcome, Outcome::Committed);
        }
    });
    send.await.unwrap();
    let counters = simulator.counters();
    assert_eq!((counters.prepares_received, counters.violations()), (TRANSFERS, 0));
    assert_eq!(simulator.transfer_counts().committed, TRANSFERS);

    // What it does not understand it refuses.
    let client = AdminClient::new(&format!("http://{address}")).unwrap();
    client.get("/health").await.unwrap();
    for (path, body) in [("/transfers", "{}"), ("/transfers", "not json"), ("/quotes", "{}"), ("/else", "{}")]
    {
        assert!(client.create(path, body.to_owned()).await.is_err(), "{path} {body}");
    }
    server.shutdown(Instant::now() + Duration::from_secs(1)).await;
    simulator.shutdown(Instant::now() + Duration::from_secs(1)).await;
    tokio::task::spawn_blocking(move || (sims.shutdown(), forwarders.shutdown())).await.unwrap();
}

#[test]
fn a_port_in_use_and_a_bad_route_are_named() {
    let workers = Workers::start(1, "forwarder").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = serve(taken.local_addr().unwrap(), &[], &[], &workers).unwrap_err();
    assert!(matches!(error, ForwarderError::Bind(_)), "{error}");
    let route = Route { dfsp: "dfsp-1".to_owned(), url: "ftp://x".to_owned() };
    let error = serve(free_address(), &[route], &[], &workers).unwrap_err();
    assert!(matches!(error, ForwarderError::Url { .. }), "{error}");
}
