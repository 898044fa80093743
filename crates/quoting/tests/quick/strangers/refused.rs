//! Only the queried DFSP may answer.

use upesi_quoting::{QuotingConfig, Retention};

use super::{POST, TO_FXP, put, worth};
use crate::common::*;

fn strict(store: Option<&std::path::Path>, rules: &'static str) -> Hub {
    let keep = store.map(|_| Retention::default());
    let config = QuotingConfig { keep, ..QuotingConfig::default() };
    Hub::new(Setup { config, store, rules, refuses_unasked: true, ..Setup::default() })
}

/// The code of the rejection of an answer; 0 if the hub forwards the answer.
async fn code(hub: &Hub, line: &str, from: &str, to: &str, body: &str) -> u16 {
    let taken = hub.take(line, from, to, body).await;
    let sent = hub.sent();
    match taken {
        Ok(()) => {
            let passed =
                sent.len() == 1 && sent[0].starts_with(&format!("{to} PUT ")) && sent[0].ends_with(from);
            assert!(passed, "{line} {from}: {sent:?}");
            0
        }
        Err(refusal) => {
            assert!(sent.is_empty(), "{line} {from}: {sent:?}");
            let mut words = refusal.split(' ');
            assert_eq!(words.next(), Some("400"), "{refusal}");
            words.next().unwrap().parse().unwrap()
        }
    }
}

#[tokio::test]
async fn only_the_receiver_may_answer() {
    let directory = tempfile::tempdir().unwrap();
    for store in [None, Some(directory.path())] {
        let hub = strict(store, "");
        let (put, failing) = (put(), format!("{}/error", put()));
        for line in [&put, &failing] {
            let body = if line.ends_with("error") { ERROR } else { &worth("12") };
            assert_eq!(
                code(&hub, line, "greenbank", "bluebank", body).await,
                3205,
                "an answer before the request"
            );
        }
        hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
        hub.sent();
        for (line, body) in [(&failing, ERROR), (&put, &*worth("12"))] {
            assert_eq!(code(&hub, line, "fxp", "bluebank", body).await, 3205, "another DFSP");
            assert_eq!(code(&hub, line, "greenbank", "fxp", body).await, 3205, "for another DFSP");
            assert_eq!(code(&hub, line, "greenbank", "bluebank", body).await, 0);
        }
    }
}

#[tokio::test]
async fn each_kind_of_request_is_answered_by_its_receiver_only() {
    let hub = strict(None, "");
    let error = |base: &str| format!("PUT /{base}/{QUOTE_ID}/error");
    for (ask, base, body, expected) in [
        (format!("GET /quotes/{QUOTE_ID}"), "quotes", String::new(), 3205),
        ("POST /bulkQuotes".to_owned(), "bulkQuotes", bulk(&[]), 3209),
        ("POST /fxQuotes".to_owned(), "fxQuotes", fx_quote(&[]), 3205),
        ("POST /transactionRequests".to_owned(), "transactionRequests", request_to_pay(), 3206),
        (
            format!(
                "GET /authorizations/{QUOTE_ID}?authenticationType=OTP&retriesLeft=1&amount=1&currency=USD"
            ),
            "authorizations",
            String::new(),
            3206,
        ),
    ] {
        assert_eq!(code(&hub, &error(base), "fxp", "bluebank", ERROR).await, expected, "{base} unasked");
        hub.take(&ask, "bluebank", "fxp", &body).await.unwrap();
        assert_eq!(hub.sent().len(), 1, "{ask}");
        assert_eq!(code(&hub, &error(base), "greenbank", "bluebank", ERROR).await, expected, "{base}");
        assert_eq!(code(&hub, &error(base), "fxp", "bluebank", ERROR).await, 0, "{base}");
    }
}

#[tokio::test]
async fn answer_of_a_rerouted_quotes_receiver_is_accepted() {
    let hub = strict(None, TO_FXP);
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    hub.sent();
    assert_eq!(code(&hub, &put(), "greenbank", "bluebank", &worth("12")).await, 3205);
    assert_eq!(code(&hub, &put(), "fxp", "bluebank", &worth("12")).await, 0);
}

/// After a restart the hub has lost the requests in memory, and rejects their answers. A stored quote can still be
/// answered.
#[tokio::test]
async fn stored_quote_is_answered_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let hub = strict(Some(directory.path()), "");
    hub.take(POST, "bluebank", "greenbank", &quote(&[])).await.unwrap();
    drop(hub);
    let hub = strict(Some(directory.path()), "");
    assert_eq!(code(&hub, &put(), "fxp", "bluebank", &worth("12")).await, 3205);
    assert_eq!(code(&hub, &put(), "greenbank", "fxp", &worth("12")).await, 3205);
    assert_eq!(code(&hub, &put(), "greenbank", "bluebank", &worth("12")).await, 0);
}
