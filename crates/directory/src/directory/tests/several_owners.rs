//! A party with several DFSPs: the queried DFSP, and the accepted answer.

use std::time::Duration;

use upesi_delivery::relayed::TransportError;
use upesi_engine::{Clock as _, Counts, RequestKind, SystemClock};

use crate::DirectoryConfig;
use crate::directory::tests::lookups::{PLAIN, finds, world};
use crate::metrics::LookupOutcome;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, World};

const ANSWER: &str = "PUT /parties/MSISDN/26097";
const ERROR: &str = "PUT /parties/MSISDN/26097/error";
const GONE: &str = r#"{"errorInformation":{"errorCode":"3204","errorDescription":"gone"}}"#;

fn asked(name: &str) -> String {
    format!("GET {name} /parties/MSISDN/26097 from bluebank")
}

/// Three DFSPs, registered in this order. The second one has no endpoints.
fn world_of_three() -> World {
    world(finds(&[("bank-3", None), ("poorbank", None), ("bank-1", None)]))
}

/// A lookup without a currency goes to DFSPs with an account and an entry in one of the payer's currencies. If there is
/// none, the payment needs a conversion, and the lookup goes to any of the DFSPs.
#[tokio::test(start_paused = true)]
async fn lookup_without_currency_queries_owners_that_the_payer_can_pay() {
    for (found, source, expected) in [
        // redbank has an account only in EUR, bluebank has none.
        (&[("redbank", "EUR"), ("greenbank", "KES")][..], "bluebank", "greenbank"),
        // One entry is in a currency of the payer, but its DFSP has no account in that currency.
        (&[("redbank", "KES"), ("greenbank", "KES")], "bluebank", "greenbank"),
        // bank-1 has an account only in KES. greenbank's account in KES does not help its entry in USD.
        (&[("greenbank", "USD"), ("bank-2", "KES")], "bank-1", "bank-2"),
        (&[("greenbank", "USD"), ("bank-2", "KES")], "redbank", "greenbank"),
        (&[("greenbank", "KES"), ("bank-2", "KES")], "bluebank", "greenbank"),
        (&[("bank-2", "KES"), ("greenbank", "KES")], "bluebank", "bank-2"),
        // A payer without accounts has no currencies to compare.
        (&[("redbank", "EUR"), ("greenbank", "KES")], "poorbank", "redbank"),
    ] {
        let world = world(Script::FindsIn(found.to_vec()));
        world.take(PLAIN, source, None, "").await.unwrap();
        let asked = format!("GET {expected} /parties/MSISDN/26097 from {source}");
        assert_eq!(world.sent().await, [asked], "{found:?} {source}");
        world.take("GET /participants/MSISDN/26097", source, None, "").await.unwrap();
        let told = world.sent().await.join("");
        assert!(told.ends_with(&format!(r#"{{"fspId":"{expected}"}}"#)) || source == "poorbank", "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_queries_owners_in_order_until_one_has_the_party() {
    let world = world_of_three();
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    assert_eq!(world.sent().await, [asked("bank-3")]);
    // The hub rejects the answer of a DFSP that it has not queried.
    let refusal = world.take(ANSWER, "bank-1", Some("bluebank"), "{}").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3200));
    // The error is held back, and the next DFSP cannot be reached.
    world.take(ERROR, "bank-3", Some("bluebank"), GONE).await.unwrap();
    assert_eq!(world.sent().await, [asked("bank-1")]);
    assert_eq!(world.directory.lookups_pending(), 1);
    world.take(ANSWER, "bank-1", Some("bluebank"), "{}").await.unwrap();
    assert_eq!(world.sent().await, ["PUT bluebank /parties/MSISDN/26097 from bank-1: {}"]);
    assert_eq!(world.directory.lookups_pending(), 0);
    assert_eq!(world.metrics.lookups(LookupOutcome::Answered), 1);
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_the_dfsp_registered_first_is_the_only_one() {
    let world = world_of_three();
    for _ in 0..2 {
        world.take(PLAIN, "bluebank", None, "").await.unwrap();
    }
    assert_eq!(world.sent().await, [asked("bank-3")], "one query for both");
    world.take(ANSWER, "bank-3", Some("bluebank"), "{}").await.unwrap();
    assert_eq!(world.sent().await, ["PUT bluebank /parties/MSISDN/26097 from bank-3: {}"]);
    assert_eq!(world.metrics.lookups(LookupOutcome::Answered), 2);
    assert!(world.take(ANSWER, "bank-1", Some("bluebank"), "{}").await.is_err());
    assert_eq!(world.sent().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_last_owner_is_the_answer() {
    let world = world(finds(&[("bank-3", None), ("bank-1", None)]));
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    world.sent().await;
    world.take(ERROR, "bank-3", Some("bluebank"), GONE).await.unwrap();
    // A repeated error ends nothing.
    world.take(ERROR, "bank-3", Some("bluebank"), GONE).await.unwrap();
    assert_eq!(world.sent().await, [asked("bank-1")]);
    world.take(ERROR, "bank-1", Some("bluebank"), GONE).await.unwrap();
    assert_eq!(world.sent().await, ["PUT bluebank /parties/MSISDN/26097/error from bank-1: 3204 gone"]);
    assert_eq!(world.metrics.lookups(LookupOutcome::AnsweredError), 1);
    // If the last DFSP cannot be reached, this is the answer.
    world.set_manner("bank-1", DfspBehaviour::Answers(503, ""));
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    world.sent().await;
    world.take(ERROR, "bank-3", Some("bluebank"), GONE).await.unwrap();
    let told = "PUT bluebank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - The destination \
                answered 503";
    assert_eq!(world.sent().await, [&*asked("bank-1"), told]);
    assert_eq!(world.directory.lookups_pending(), 0);
}

/// Attempts to take over a lookup: by another DFSP, for another DFSP, about another party.
#[tokio::test(start_paused = true)]
async fn an_answer_is_accepted_only_from_the_dfsp_that_was_asked() {
    for is_open in [false, true] {
        let oracle = ScriptedOracle::new(finds(&[("greenbank", None)]), false);
        let world = match is_open {
            false => World::new(DirectoryConfig::default(), oracle),
            true => World::open(DirectoryConfig::default(), oracle),
        };
        for (request, source, destination, body) in [
            (ANSWER, "bank-1", "bluebank", "{}"),
            (ERROR, "bank-1", "bluebank", GONE),
            (ANSWER, "greenbank", "bank-1", "{}"),
            ("PUT /parties/MSISDN/26098", "greenbank", "bluebank", "{}"),
            ("PUT /parties/MSISDN/26097/shop", "greenbank", "bluebank", "{}"),
            ("PUT /participants/MSISDN/26097/error", "greenbank", "bluebank", GONE),
        ] {
            world.take(PLAIN, "bluebank", None, "").await.unwrap();
            assert_eq!(world.sent().await, [asked("greenbank")]);
            let pending = world.directory.lookups_pending();
            let taken = world.take(request, source, Some(destination), body).await;
            assert_eq!(world.sent().await.len(), usize::from(is_open), "{request} {source} {destination}");
            if is_open {
                taken.unwrap();
                continue;
            }
            let refusal = taken.unwrap_err();
            let text =
                format!("Generic ID not found - {source} was not asked about this party by {destination}");
            assert_eq!((refusal.status, &*refusal.description), (400, &*text));
            assert_eq!(world.directory.lookups_pending(), pending, "{request} {source} {destination}");
        }
        world.take("PUT /parties/MSISDN/%326097", "greenbank", Some("bluebank"), "{}").await.unwrap();
        assert_eq!((world.sent().await.len(), world.directory.lookups_pending()), (1, 0));
        // A repeated answer is accepted, because the first one may have been lost.
        world.take(ANSWER, "greenbank", Some("bluebank"), "{}").await.unwrap();
        assert_eq!(world.sent().await.len(), 1);
    }
}

/// A proxy answers for each DFSP behind it, and for no other.
#[tokio::test(start_paused = true)]
async fn an_answer_through_the_proxy_that_was_asked_is_accepted() {
    for (found, destination) in [(&[][..], None), (&[("farbank", None)], None), (&[], Some("farbank"))] {
        for (answering, is_accepted) in [
            ("farbank", true),
            ("farwallet", true),
            ("bridge", true),
            ("overseas", false),
            ("greenbank", false),
        ] {
            let world = world(finds(found));
            world.add_proxies();
            world.take(PLAIN, "bluebank", destination, "").await.unwrap();
            world.sent().await;
            // A lookup without a destination, whose party has no owner, goes to both proxies.
            let is_accepted =
                is_accepted || (answering == "overseas" && found.is_empty() && destination.is_none());
            let taken = world.take_proxied(ANSWER, answering, Some("bluebank"), "{}").await;
            assert_eq!(taken.is_ok(), is_accepted, "{found:?} {destination:?} {answering}");
            assert_eq!(world.sent().await.len(), usize::from(is_accepted));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn owners_beyond_the_limit_are_not_asked() {
    const BANKS: [&str; 20] = [
        "bank-0", "bank-1", "bank-2", "bank-3", "bank-4", "bank-5", "bank-6", "bank-7", "bank-8", "bank-9",
        "bank-10", "bank-11", "bank-12", "bank-13", "bank-14", "bank-15", "bank-16", "bank-17", "bank-18",
        "bank-19",
    ];
    let world = world(Script::Finds(BANKS.map(|name| (name, None)).to_vec()));
    for name in BANKS {
        world.set_manner(name, DfspBehaviour::Answers(503, ""));
    }
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    let first = BANKS[..super::super::lookup::OWNERS_QUERIED_MAX].iter();
    let mut expected: Vec<_> = first.map(|name| asked(name)).collect();
    expected.push(
        "PUT bluebank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - The destination \
         answered 503"
            .to_owned(),
    );
    assert_eq!(world.sent().await, expected);
    assert_eq!(world.metrics.lookups(LookupOutcome::NotDelivered), 1);
}

#[tokio::test(start_paused = true)]
async fn stale_parties_are_removed_only_if_that_is_switched_on() {
    for (remove, destination, script, asked) in [
        (false, None, finds(&[("nobank", None)]), &["find MSISDN 26097 - -"][..]),
        (true, None, finds(&[("nobank", None)]), &["find MSISDN 26097 - -", "remove MSISDN 26097 - -"]),
        (true, None, finds(&[("greenbank", None)]), &["find MSISDN 26097 - -"]),
        (true, None, finds(&[]), &["find MSISDN 26097 - -"]),
        (false, Some("nobank"), finds(&[]), &[]),
        (true, Some("nobank"), finds(&[]), &["remove MSISDN 26097 - -"]),
    ] {
        let config = DirectoryConfig { remove_stale_parties: remove, ..DirectoryConfig::default() };
        let world = World::new(config, ScriptedOracle::new(script, false));
        world.take(PLAIN, "bluebank", destination, "").await.unwrap();
        assert_eq!(world.sent().await.len(), 1);
        assert_eq!(world.oracle.asked(), asked, "{remove} {destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn forwarded_answer_keeps_its_body_and_headers() {
    let world = world(Script::Hangs);
    let body = r#"{ "party" : {"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}} }"#;
    world.take(PLAIN, "bluebank", Some("greenbank"), "{}").await.unwrap();
    let mut sent = world.sent_requests().await;
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), body).await.unwrap();
    sent.append(&mut world.sent_requests().await);
    assert_eq!((&*sent[0].body, &*sent[1].body), (&b""[..], body.as_bytes()));
    for request in &sent {
        assert_eq!(request.headers["x-own"], "kept");
        assert_eq!(request.headers["date"], "Tue, 01 Jan 2030 00:00:00 GMT");
    }
}

/// Without the second `error` it would look like the path of the answer.
#[tokio::test(start_paused = true)]
async fn the_error_about_a_party_called_error_has_a_path_of_its_own() {
    let world = world(Script::Hangs);
    world.take("GET /parties/ALIAS/error", "bluebank", None, "").await.unwrap();
    let sent = world.sent_requests().await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].headers["fspiop-uri"], "/parties/ALIAS/error/error");
    assert_eq!(sent[0].target.path, "/parties/ALIAS/error/error");
}

#[tokio::test(start_paused = true)]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
async fn undeliverable_answer_is_reported_to_its_sender() {
    let error = r#"{"errorInformation":{"errorCode":"5107","errorDescription":"gone"}}"#;
    let unreachable = || Some(DfspBehaviour::Fails(TransportError::Unreachable("refused".into())));
    for (request, destination, body, manner, sent) in [
        (
            "PUT /parties/MSISDN/26097",
            Some("bluebank"),
            "{}",
            None,
            &["PUT bluebank /parties/MSISDN/26097 from greenbank: {}"][..],
        ),
        (
            "PUT /parties/BUSINESS/acme/shop",
            Some("bluebank"),
            "{}",
            None,
            &["PUT bluebank /parties/BUSINESS/acme/shop from greenbank: {}"],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /parties/MSISDN/26097/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /parties/BUSINESS/acme/shop/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /parties/BUSINESS/acme/shop/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /participants/MSISDN/26097/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /participants/MSISDN/26097/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /parties/MSISDN/26097",
            Some("nobank"),
            "{}",
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 3201 Destination FSP Error - Destination FSP not \
               found",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            None,
            error,
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 3201 Destination FSP Error - Destination FSP not \
               found",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097",
            Some("bluebank"),
            "{}",
            unreachable(),
            &[
                "PUT bluebank /parties/MSISDN/26097 from greenbank: {}",
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - Network \
                 error",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            Some("poorbank"),
            error,
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - No \
               FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR found",
            ],
        ),
    ] {
        let world = World::open(DirectoryConfig::default(), ScriptedOracle::new(Script::Hangs, false));
        if let Some(manner) = manner {
            world.set_manner("bluebank", manner);
        }
        world.take(request, "greenbank", destination, body).await.unwrap();
        assert_eq!(world.sent().await, sent, "{request} {destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_all_lookups_of_the_same_dfsp_for_the_same_party_only() {
    let world = world(finds(&[("greenbank", None)]));
    for (request, source) in [
        ("GET /parties/MSISDN/26097", "bluebank"),
        ("GET /parties/MSISDN/26097?currency=USD", "bluebank"),
        // The path names the same party in another encoding.
        ("GET /parties/MSISDN/%326097", "bluebank"),
        ("GET /parties/MSISDN/26097", "redbank"),
        ("GET /parties/MSISDN/26098", "bluebank"),
        ("GET /parties/BUSINESS/26097", "bluebank"),
    ] {
        world.take(request, source, None, "").await.unwrap();
    }
    assert_eq!(world.sent().await.len(), 6);
    assert_eq!(world.directory.lookups_pending(), 6);
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
    assert_eq!(world.directory.lookups_pending(), 3);
    assert_eq!(world.metrics.lookups(LookupOutcome::Answered), 3);
    world.take("PUT /parties/MSISDN/26097/error", "greenbank", Some("redbank"), "{}").await.unwrap();
    assert_eq!(world.directory.lookups_pending(), 2);
    assert_eq!(world.metrics.lookups(LookupOutcome::AnsweredError), 1);
}

/// Outcomes of lookups at greenbank, with the seconds of the slowest callback.
fn timed(world: &World) -> (Counts, Option<u64>) {
    let summaries = world.responses.summaries(SystemClock.now());
    let [of_greenbank] = &summaries[..] else { panic!("other DFSPs were queried: {summaries:?}") };
    assert_eq!((of_greenbank.kinds[0].kind, of_greenbank.pairs.len()), (RequestKind::Lookup, 1));
    (of_greenbank.kinds[0].recent, of_greenbank.kinds[0].p99.map(|took| took.as_secs()))
}

#[tokio::test(start_paused = true)]
async fn lookups_are_timed_until_the_callbacks_of_the_dfsp_that_was_asked() {
    for world in [
        world(finds(&[("greenbank", None)])),
        World::open(DirectoryConfig::default(), ScriptedOracle::new(finds(&[("greenbank", None)]), false)),
    ] {
        let ask = async || {
            world.take("GET /parties/MSISDN/26097", "bluebank", None, "").await.unwrap();
            world.sent().await
        };
        let answer = async |line: &str, body: &str| {
            world.take(line, "greenbank", Some("bluebank"), body).await.unwrap();
        };
        ask().await;
        tokio::time::advance(Duration::from_secs(4)).await;
        answer("PUT /parties/MSISDN/26097", "{}").await;
        assert_eq!(timed(&world), ([1, 0, 0, 0], Some(4)));
        ask().await;
        let not_found = r#"{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"}}"#;
        answer("PUT /parties/MSISDN/26097/error", not_found).await;
        assert_eq!(timed(&world).0, [2, 0, 0, 0], "not to have a party is an answer");
        ask().await;
        let failed =
            r#"{"errorInformation":{"errorCode":"2001","errorDescription":"Internal server error"}}"#;
        answer("PUT /parties/MSISDN/26097/error", failed).await;
        assert_eq!(timed(&world).0, [2, 1, 0, 0]);
        world.set_manner("greenbank", DfspBehaviour::Answers(503, ""));
        ask().await;
        assert_eq!(timed(&world).0, [2, 1, 0, 1]);
        world.set_manner("greenbank", DfspBehaviour::Answers(202, ""));
        ask().await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        ask().await;
        assert_eq!(timed(&world).0, [2, 1, 1, 1]);
    }
}
