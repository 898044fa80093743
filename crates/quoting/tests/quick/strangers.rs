//! Answers from DFSPs that the hub did not query: rejected, or forwarded if the scheme allows it, and then without any
//! effect on the answers of the queried DFSP.

mod refused;

use crate::common::*;
use tempfile::TempDir;
use upesi_quoting::{KeptMessage, QuotingConfig, Retention};

const POST: &str = "POST /quotes";

/// A hub that remembers in memory, and one that stores quotes.
fn both() -> [(Hub, Option<TempDir>); 2] {
    let directory = tempfile::tempdir().unwrap();
    let config = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
    let keeping = Hub::new(Setup { config, store: Some(directory.path()), ..Setup::default() });
    [(Hub::new(Setup::default()), None), (keeping, Some(directory))]
}

fn put() -> String {
    format!("PUT /quotes/{QUOTE_ID}")
}

fn passed(from: &str) -> Vec<String> {
    vec![format!("bluebank PUT /quotes/quotes/{QUOTE_ID} < {from}")]
}

fn refused(from: &str) -> Vec<String> {
    let text = format!("Update for quote {QUOTE_ID} is a duplicate but hashes don't match");
    vec![error("quotes", from, "quotes", &format!("3106 Modified request - {text}"))]
}

fn worth(amount: &str) -> String {
    response(&[("transferAmount.amount", &format!("\"{amount}\""))])
}

fn source(message: Option<KeptMessage>) -> Option<String> {
    message.map(|message| message.source.to_string())
}

/// Sender and amount of an answer, and its effect.
type Answer<'a> = (&'a str, &'a str, fn(&str) -> Vec<String>);

async fn play(hub: &Hub, answers: &[Answer<'_>]) {
    for (number, (from, amount, expected)) in answers.iter().enumerate() {
        hub.take(&put(), from, "bluebank", &worth(amount)).await.unwrap();
        assert_eq!(hub.sent(), expected(from), "answer {number}, {from} {amount}");
    }
}

#[tokio::test]
async fn answer_of_another_dfsp_does_not_affect_the_receivers() {
    for (hub, _directory) in both() {
        hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
        hub.sent();
        let answers: [Answer<'_>; 7] = [
            ("fxp", "1", passed),
            ("greenbank", "12", passed),
            ("fxp", "2", passed),
            ("fxp", "12", passed),
            ("greenbank", "12", passed),
            ("greenbank", "13", refused),
            ("fxp", "13", passed),
        ];
        play(&hub, &answers).await;
        assert_eq!(hub.metric("upesi_quoting_duplicates_total", &["resend"]), 1);
        assert_eq!(hub.metric("upesi_quoting_duplicates_total", &["modified"]), 1);
        if let Some(found) = hub.quoting.find(QUOTE_ID).unwrap() {
            assert_eq!(found.response.unwrap().body, worth("12").as_bytes());
        }
    }
}

#[tokio::test]
async fn answers_before_any_request_are_compared_only_for_the_first_sender() {
    for (hub, _directory) in both() {
        let answers: [Answer<'_>; 5] = [
            ("fxp", "1", passed),
            ("greenbank", "12", passed),
            ("greenbank", "13", passed),
            ("fxp", "1", passed),
            ("fxp", "2", refused),
        ];
        play(&hub, &answers).await;
        // The request decides whose answers are accepted. A repetition to another DFSP does not change this.
        for to in ["greenbank", "fxp"] {
            hub.take(POST, "bluebank", to, &quote(&[])).await.unwrap();
            hub.sent();
        }
        let answers: [Answer<'_>; 4] = [
            ("fxp", "2", passed),
            ("greenbank", "14", passed),
            ("greenbank", "15", refused),
            ("fxp", "1", passed),
        ];
        play(&hub, &answers).await;
        if let Some(found) = hub.quoting.find(QUOTE_ID).unwrap() {
            assert_eq!(found.response.unwrap().body, worth("14").as_bytes());
        }
    }
}

#[tokio::test]
async fn answer_before_its_request_is_remembered() {
    for (hub, _directory) in both() {
        play(&hub, &[("greenbank", "12", passed)]).await;
        hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
        hub.sent();
        play(&hub, &[("greenbank", "13", refused), ("greenbank", "12", passed)]).await;
    }
}

const TO_FXP: &str = r#"[{"conditions":{"all":[{"fact":"operation","operator":"equal","value":"quoteRequest"}]},
    "event":{"type":"INTERCEPT_QUOTE","params":{"rerouteToFsp":"fxp"}}}]"#;

#[tokio::test]
async fn rerouted_quote_is_answered_by_the_rules_dfsp() {
    let directory = tempfile::tempdir().unwrap();
    let keep = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
    for (config, store) in [(QuotingConfig::default(), None), (keep, Some(directory.path()))] {
        let hub = Hub::new(Setup { config, rules: TO_FXP, store, ..Setup::default() });
        hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
        assert_eq!(hub.sent(), ["fxp POST /quotes/quotes < bluebank"]);
        let answers: [Answer<'_>; 4] = [
            ("greenbank", "12", passed),
            ("fxp", "13", passed),
            ("greenbank", "14", passed),
            ("fxp", "15", refused),
        ];
        play(&hub, &answers).await;
    }
}

#[tokio::test]
async fn receiver_of_a_stored_quote_is_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let config = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
        Hub::new(Setup { config, rules: TO_FXP, store: Some(directory.path()), ..Setup::default() })
    };
    let hub = open();
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    drop(hub);
    let hub = open();
    let answers: [Answer<'_>; 3] =
        [("greenbank", "12", passed), ("fxp", "13", passed), ("fxp", "14", refused)];
    play(&hub, &answers).await;
}

#[tokio::test]
async fn only_the_receiver_and_the_hub_store_errors() {
    let directory = tempfile::tempdir().unwrap();
    let config = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
    let hub = Hub::new(Setup { config, store: Some(directory.path()), ..Setup::default() });
    let kept_error = || source(hub.quoting.find(QUOTE_ID).unwrap().and_then(|found| found.error));
    let failing = format!("{}/error", put());

    // Before the request is known, the first DFSP may answer; afterwards it may not.
    hub.take(&failing, "fxp", "bluebank", ERROR).await.unwrap();
    assert_eq!(kept_error().as_deref(), Some("fxp"));
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    assert_eq!(kept_error(), None);

    hub.take(&failing, "fxp", "bluebank", ERROR).await.unwrap();
    assert_eq!(kept_error(), None);
    hub.take(&failing, "greenbank", "bluebank", ERROR).await.unwrap();
    hub.take(&failing, "fxp", "bluebank", ERROR).await.unwrap();
    assert_eq!(kept_error().as_deref(), Some("greenbank"));

    // Messages of other DFSPs are not stored even if they fail, and neither are failed queries.
    hub.set_reply("bluebank", Reply::Silence);
    hub.take(&put(), "fxp", "bluebank", &worth("1")).await.unwrap();
    hub.take(&failing, "fxp", "bluebank", ERROR).await.unwrap();
    hub.take(&format!("GET /quotes/{QUOTE_ID}"), "fxp", "bluebank", "").await.unwrap();
    assert_eq!(kept_error().as_deref(), Some("greenbank"));
    hub.take(&put(), "greenbank", "bluebank", &worth("12")).await.unwrap();
    assert_eq!(kept_error().as_deref(), Some("Hub"));
}

#[tokio::test]
async fn get_of_an_unknown_quote_stores_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let config = QuotingConfig { keep: Some(Retention::default()), ..QuotingConfig::default() };
    let hub = Hub::new(Setup { config, store: Some(directory.path()), ..Setup::default() });
    hub.take(&format!("GET /quotes/{QUOTE_ID}"), "fxp", "nobank", "").await.unwrap();
    assert_eq!(hub.sent().len(), 1);
    assert_eq!(hub.quoting.find(QUOTE_ID).unwrap(), None);
    assert_eq!(hub.metric("upesi_quoting_kept", &[]), 0);
}
