//! Lookups of parties that no directory knows: all proxies are queried.

use std::time::Duration;

use tokio::time::advance;
use upesi_delivery::relayed::TransportError;

use crate::DirectoryConfig;
use crate::directory::tests::expiry::LOOKUP;
use crate::metrics::LookupOutcome;
use crate::oracle::OracleFailure;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, World};

const ANSWER: &str = "PUT /parties/MSISDN/26097";
const ERROR: &str = "PUT /parties/MSISDN/26097/error";
const UNKNOWN: &str = r#"{"errorInformation":{"errorCode":"3204","errorDescription":"not here"}}"#;
const ASKED: [&str; 2] =
    ["GET bridge /parties/MSISDN/26097 from bluebank", "GET tunnel /parties/MSISDN/26097 from bluebank"];

/// No DFSP in this scheme has the party.
fn proxied_world() -> World {
    world_with(Script::Finds(vec![]))
}

fn world_with(script: Script) -> World {
    let world = World::new(DirectoryConfig::default(), ScriptedOracle::new(script, false));
    world.add_proxies();
    tokio::spawn(world.directory.expiry());
    world
}

/// The sent messages, ordered by receiver.
async fn sent(world: &World) -> Vec<String> {
    let mut sent = world.sent().await;
    sent.sort();
    sent
}

async fn answer(world: &World, from: &str) -> Vec<String> {
    world.take_proxied(ANSWER, from, Some("bluebank"), "{}").await.unwrap();
    sent(world).await
}

async fn fail(world: &World, from: &str) -> Vec<String> {
    world.take_proxied(ERROR, from, Some("bluebank"), UNKNOWN).await.unwrap();
    sent(world).await
}

#[tokio::test(start_paused = true)]
async fn the_first_proxy_that_has_the_party_answers() {
    let stale = Script::Finds(vec![("nobank", None)]);
    let absent = Script::Fails(OracleFailure::Refused { status: 404 });
    for script in [Script::Finds(vec![]), stale, absent] {
        let world = world_with(script);
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
        assert_eq!(sent(&world).await, ASKED);
        assert_eq!(world.directory.lookups_pending(), 1);
        assert_eq!(fail(&world, "overseas").await, [""; 0], "bridge may have it");
        let found = answer(&world, "farbank").await;
        assert_eq!(found, ["PUT bluebank /parties/MSISDN/26097 from farbank: {}"]);
        assert_eq!(
            (world.directory.lookups_pending(), world.metrics.lookups(LookupOutcome::Answered)),
            (0, 1)
        );
        // Later messages have no effect.
        assert_eq!(answer(&world, "overseas").await, [""; 0]);
        assert_eq!(fail(&world, "farwallet").await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_without_a_proxy_that_has_the_party_returns_the_last_error() {
    let world = proxied_world();
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    sent(&world).await;
    // Bridge sends it twice: for itself, and for a DFSP behind it.
    for from in ["bridge", "farbank"] {
        assert_eq!(fail(&world, from).await, [""; 0]);
    }
    assert_eq!(
        fail(&world, "overseas").await,
        ["PUT bluebank /parties/MSISDN/26097/error from overseas: 3204 not here"]
    );
    assert_eq!(
        (world.directory.lookups_pending(), world.metrics.lookups(LookupOutcome::AnsweredError)),
        (0, 1)
    );
}

/// A new lookup for a DFSP that is known by then gets its answer, whatever was sent before.
#[tokio::test(start_paused = true)]
async fn earlier_proxy_search_does_not_block_a_later_answer() {
    for (answers, errors, waits_ms) in
        [(&["farbank"][..], &[][..], 0), (&[], &["farbank", "overseas"], 0), (&[], &["farbank"], 20_010)]
    {
        let world = proxied_world();
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
        sent(&world).await;
        for from in answers {
            answer(&world, from).await;
        }
        for from in errors {
            fail(&world, from).await;
        }
        advance(Duration::from_millis(waits_ms)).await;
        sent(&world).await;
        world.take(LOOKUP, "bluebank", Some("farbank"), "").await.unwrap();
        assert_eq!(sent(&world).await, ["GET farbank /parties/MSISDN/26097 from bluebank"]);
        let error = "PUT bluebank /parties/MSISDN/26097/error from farbank: 3204 not here";
        assert_eq!(fail(&world, "farbank").await, [error]);
        world.take(LOOKUP, "bluebank", Some("farbank"), "").await.unwrap();
        sent(&world).await;
        assert_eq!(answer(&world, "farbank").await, ["PUT bluebank /parties/MSISDN/26097 from farbank: {}"]);
        assert_eq!(world.directory.lookups_pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_is_not_forwarded_to_the_proxy_it_came_from() {
    for (source, proxied, asked) in [
        ("farbank", true, &["GET tunnel /parties/MSISDN/26097 from farbank"][..]),
        ("bridge", true, &["GET tunnel /parties/MSISDN/26097 from bridge"]),
        ("bluebank", false, &ASKED),
    ] {
        let world = proxied_world();
        match proxied {
            true => world.take_proxied(LOOKUP, source, None, "").await.unwrap(),
            false => world.take(LOOKUP, source, None, "").await.unwrap(),
        };
        assert_eq!(sent(&world).await, asked, "{source}");
    }
    let refused = proxied_world().take_proxied(LOOKUP, "bluebank", None, "").await.unwrap_err();
    let text = "Generic validation error - FSPIOP-Proxy: participant 'bluebank' is not behind a proxy";
    assert_eq!((refused.status, &*refused.description), (400, text));
}

#[tokio::test(start_paused = true)]
async fn lookup_with_a_destination_does_not_query_proxies() {
    let world = proxied_world();
    world.take(LOOKUP, "bluebank", Some("nobank"), "").await.unwrap();
    let told = sent(&world).await;
    assert!(told.len() == 1 && told[0].contains("3204 Party not found"), "{told:?}");
    world.take(LOOKUP, "bluebank", Some("farbank"), "").await.unwrap();
    assert_eq!(sent(&world).await, ["GET farbank /parties/MSISDN/26097 from bluebank"]);
    // Another answer of an oracle is not a reason either.
    *crate::scripted::lock(&world.oracle.script) = Script::Fails(OracleFailure::Busy);
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    let told = sent(&world).await;
    assert!(told.len() == 1 && told[0].contains("2005 Server busy"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn unreachable_proxies_count_as_answered() {
    let unreachable = || DfspBehaviour::Fails(TransportError::Unreachable("refused".into()));
    let error = "PUT bluebank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - Network error";
    let world = proxied_world();
    world.set_manner("bridge", unreachable());
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    assert_eq!(sent(&world).await, ASKED);
    assert_eq!(world.directory.lookups_pending(), 1);
    let told = fail(&world, "overseas").await;
    assert_eq!(told, ["PUT bluebank /parties/MSISDN/26097/error from overseas: 3204 not here"]);
    world.set_manner("tunnel", unreachable());
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    assert_eq!(sent(&world).await, [ASKED[0], ASKED[1], error]);
    assert_eq!(
        (world.directory.lookups_pending(), world.metrics.lookups(LookupOutcome::NotDelivered)),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_lookup_queries_proxies_once_and_expires() {
    let world = proxied_world();
    for _ in 0..3 {
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    }
    assert_eq!(sent(&world).await, ASKED);
    answer(&world, "overseas").await;
    assert_eq!((world.directory.lookups_pending(), world.metrics.lookups(LookupOutcome::Answered)), (0, 3));
    // The payer knows the answer, but the hub does not, so it queries again.
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    assert_eq!(sent(&world).await, ASKED);
    advance(Duration::from_millis(20_010)).await;
    let told = sent(&world).await;
    assert!(told.len() == 1 && told[0].contains("3300 Generic expired error"), "{told:?}");
    // A late answer is forwarded, and the proxies are queried again.
    assert_eq!(answer(&world, "farbank").await, ["PUT bluebank /parties/MSISDN/26097 from farbank: {}"]);
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    assert_eq!(sent(&world).await, ASKED);
}
