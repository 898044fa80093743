//! Simulated DFSPs that prove who they are: mutual TLS, and signatures.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use upesi_http::{ClientTls, Full, Origin, Pool, PoolConfig, Request, StatusCode};
use upesi_pki::Trial;
use upesi_sim::{DfspSettings, OriginateError, Outcome, SecurityError, SimConfig, SimSecurity, Upstream};
use upesi_tls::{ClientFiles, Protocols, present_s};
use upesi_types::FspId;

use crate::common::{PATIENCE, World};

/// A long time from now, as seen by a test.
const VALID: Duration = Duration::from_secs(3_600);

fn names() -> Vec<FspId> {
    SimConfig::new(2, Upstream::Peers).dfsps.into_iter().map(|(name, _)| name).collect()
}

fn trial(directory: &Path) -> Trial {
    let names: Vec<String> = names().iter().map(ToString::to_string).collect();
    Trial::make(directory, &names, &["127.0.0.1"], present_s()).unwrap()
}

fn secured(trial: &Trial) -> SimSecurity {
    speaking(trial, Protocols::Http1)
}

fn speaking(trial: &Trial, protocols: Protocols) -> SimSecurity {
    SimSecurity::of_trial(trial, &names(), Some(protocols), true).unwrap()
}

#[tokio::test]
async fn they_pay_each_other_by_mutual_tls_with_signatures_of_their_own() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    assert!(world.simulator.base_url(&names()[0]).starts_with("https://"));
    assert_eq!(world.outcomes(10).await, [Outcome::Committed; 10]);
    let counters = world.simulator.counters();
    // A prepare and a fulfilment each.
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (20, 0));
    assert_eq!(counters.violations(), 0, "{counters:?}");

    // Who has no certificate is not let in, whatever he asks for.
    let files = ClientFiles { identity: None, ..trial.caller() };
    let tls = Some(ClientTls::load(files).unwrap());
    let port = world.simulator.local_addr().port();
    let stranger = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
    let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
    stranger.send(request, Instant::now() + PATIENCE).await.unwrap_err();
    world.end().await;
}

#[tokio::test]
async fn they_speak_http_2_where_they_are_told_to() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    for (protocols, is_shared) in [(Protocols::Http1, false), (Protocols::Http2AndHttp1, true)] {
        let security = speaking(&trial, protocols);
        // Each end offers both if it is told to, so that one connection shows what both have.
        let tls = security.tls.as_ref().map(|tls| tls.clients[0].clone());
        let world = World::with(DfspSettings::default(), |config| config.security = security);
        assert_eq!(world.outcomes(10).await, [Outcome::Committed; 10], "{protocols:?}");
        let port = world.simulator.local_addr().port();
        let one = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
        let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
        assert_eq!(one.send(request, Instant::now() + PATIENCE).await.unwrap().status, StatusCode::OK);
        assert_eq!(one.connections_shared() > 0, is_shared, "{protocols:?}");
        world.end().await;
    }
}

#[tokio::test]
async fn signatures_made_ahead_are_those_of_the_messages_that_leave() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    let coming: Vec<_> = (0..5).map(|number| (number, 0, 1)).collect();
    assert_eq!(world.originator.sign_ahead(&coming, 2, VALID), 10);
    assert_eq!(world.outcomes(7).await, [Outcome::Committed; 7]);
    let counters = world.simulator.counters();
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (4, 10));
    assert_eq!(counters.signatures_refused, 0, "{counters:?}");
    world.end().await;
}

#[tokio::test]
async fn what_is_not_its_senders_is_refused_and_not_taken_in() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let mut swapped = secured(&trial);
    swapped.signatures.as_mut().unwrap().keys.swap(0, 1);
    let world = World::with(DfspSettings::default(), |config| config.security = swapped);
    let sent = world.send(0..1).await.remove(0);
    assert!(matches!(sent, Err(OriginateError::Refused { status: StatusCode::BAD_REQUEST, .. })), "{sent:?}");
    let counters = world.simulator.counters();
    assert_eq!((counters.signatures_refused, counters.prepares_received), (1, 0));
    assert_eq!(counters.violations(), 1);
    world.end().await;

    // Unsigned ones are, too.
    let payee = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    let tls = Some(ClientTls::load(trial.dfsp("dfsp-1")).unwrap());
    let port = payee.simulator.local_addr().port();
    let pool = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
    let request = Request::post("/dfsp-2/transfers").body(Full::from("{}")).unwrap();
    let answer = pool.send(request, Instant::now() + PATIENCE).await.unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(payee.simulator.counters().signatures_refused, 1);
    payee.end().await;
}

#[test]
fn keys_of_other_dfsps_are_named() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let other = FspId::parse("dfsp-3").unwrap();
    let refused = SimSecurity::of_trial(&trial, &[other], Some(Protocols::Http1), true).unwrap_err();
    assert!(matches!(refused, SecurityError::Unknown(name, _) if name == other), "{refused}");
}
