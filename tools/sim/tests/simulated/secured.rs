//! Authenticated simulated DFSPs: mutual TLS, and signatures.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;
use upesi_http::{ClientTls, Full, Method, Origin, Pool, PoolConfig, Request, StatusCode};
use upesi_pki::Trial;
use upesi_sim::{
    DfspSettings, OriginateError, SecurityError, SimConfig, SimSecurity, TransferOutcome, Upstream,
};
use upesi_tls::{ClientFiles, Protocols, present_s};
use upesi_types::FspId;

use crate::common::{PATIENCE, Watched, World, prepare_of};
use crate::routes::{ID, KNOWN_CONDITION};

/// A long time from now, from a test's point of view.
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
async fn dfsps_pay_by_mutual_tls_with_their_own_signatures() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    assert!(world.simulator.base_url(&names()[0]).starts_with("https://"));
    assert_eq!(world.outcomes(10).await, [TransferOutcome::Committed; 10]);
    let counters = world.simulator.counters();
    // Each transfer has a signed prepare and a signed fulfilment.
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (20, 0));
    assert_eq!(counters.violations(), 0, "{counters:?}");

    // A client without a certificate is not admitted, whatever it requests.
    let files = ClientFiles { identity: None, ..trial.caller() };
    let tls = Some(ClientTls::load(files).unwrap());
    let port = world.simulator.local_addr().port();
    let stranger = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
    let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
    stranger.send(request, Instant::now() + PATIENCE).await.unwrap_err();
    world.end().await;
}

#[tokio::test]
async fn dfsps_use_http_2_if_configured() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    for (protocols, is_shared) in [(Protocols::Http1, false), (Protocols::Http2AndHttp1, true)] {
        let security = speaking(&trial, protocols);
        // Each end offers both protocols if it is configured to, so one connection shows both.
        let tls = security.tls.as_ref().map(|tls| tls.clients[0].clone());
        let world = World::with(DfspSettings::default(), |config| config.security = security);
        assert_eq!(world.outcomes(10).await, [TransferOutcome::Committed; 10], "{protocols:?}");
        let port = world.simulator.local_addr().port();
        let one = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
        let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
        assert_eq!(one.send(request, Instant::now() + PATIENCE).await.unwrap().status, StatusCode::OK);
        assert_eq!(one.connections_shared() > 0, is_shared, "{protocols:?}");
        world.end().await;
    }
}

#[tokio::test]
async fn signatures_made_ahead_fit_the_sent_messages() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    let coming: Vec<_> = (0..5).map(|number| (number, 0, 1)).collect();
    assert_eq!(world.originator.sign_ahead(&coming, 2, VALID), 10);
    assert_eq!(world.outcomes(7).await, [TransferOutcome::Committed; 7]);
    let counters = world.simulator.counters();
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (4, 10));
    assert_eq!(counters.signatures_refused, 0, "{counters:?}");
    world.end().await;
}

/// As an adapter with strict checks does. The message has no effect.
#[tokio::test]
async fn message_without_a_required_header_is_rejected_and_counted() {
    let world = Watched::new();
    let body = prepare_of(ID, KNOWN_CONDITION);
    let path = "/dfsp-2/transfers";
    for (header, value) in [("accept", "*/*"), ("date", "today"), ("fspiop-uri", "/elsewhere")] {
        let (status, answer) = world.request(Method::POST, path, Some((header, value)), &body).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{header}");
        assert_eq!(answer["errorInformation"]["errorCode"], "3101", "{header}");
    }
    let counters = world.simulator.counters();
    assert_eq!((counters.headers_refused, counters.prepares_received, counters.violations()), (3, 0, 3));
    assert_eq!(world.prepare("/dfsp-2", KNOWN_CONDITION).await, StatusCode::ACCEPTED);
    world.end().await;
}

#[tokio::test]
async fn message_without_its_senders_signature_is_rejected_without_effect() {
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

    // Unsigned messages are rejected, too.
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
fn keys_of_other_dfsps_are_rejected_by_name() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let other = FspId::parse("dfsp-3").unwrap();
    let refused = SimSecurity::of_trial(&trial, &[other], Some(Protocols::Http1), true).unwrap_err();
    assert!(matches!(refused, SecurityError::Unknown(name, _) if name == other), "{refused}");
}
