//! Quotes of all kinds as DFSPs see them: forwarded, rejected, remembered, stored, and checked by a scheme's rules.

use crate::common::dialogue::hold;
use crate::common::story::part;
use crate::common::{World, dialogue};

const NEVER_PAUSES: (&str, &str) = ("callbacks.breaker_threshold", "1000000");

fn world(settings: &[(&str, &str)]) -> World {
    let world = World::with_lookups(settings);
    world.open_account("bluewallet", "USD");
    world
}

#[test]
fn quote_dialogues() {
    hold(&mut world(&[]), part(include_str!("dialogues/quotes.txt"), "quotes"));
}

#[test]
fn undeliverable_quotes_are_reported_to_the_sender() {
    let mut world = world(&[
        NEVER_PAUSES,
        ("callbacks.request_timeout_ms", "1500"),
        ("callbacks.connect_timeout_ms", "1500"),
    ]);
    world.onboard("newcomer");
    hold(&mut world, part(include_str!("dialogues/quotes.txt"), "undelivered quotes"));
}

#[test]
fn expired_quotes_are_rejected_if_configured() {
    for persist in ["false", "true"] {
        let mut world = world(&[("quotes.refuse_expired", "true"), ("quotes.persist", persist)]);
        hold(
            &mut world,
            r#"
            dialogue Expired requests
              greenbank POST /quotes to=bluewallet <quote> <soon>→<past>
              → greenbank ERROR 3302 Quote expired
              greenbank POST /bulkQuotes to=bluewallet <bulk> <soon>→<past>
              → greenbank ERROR 3302 Quote expired
              greenbank POST /fxQuotes to=bluewallet <fx> <soon>→<past>
              → greenbank ERROR 3302 Quote expired

            dialogue A request in time, and an answer after the expiration
              greenbank POST /quotes to=bluewallet <quote>
              → bluewallet POST sent
              later 61 s
              bluewallet PUT /quotes/<id> to=greenbank <terms>
              → bluewallet ERROR 3302 Quote expired
              bluewallet PUT /quotes/<id>/error to=greenbank {"errorInformation":{"errorCode":"5103","errorDescription":"x"}}
              → greenbank PUT sent

            dialogue A quote without an expiration never expires
              greenbank POST /quotes to=bluewallet <quote> ,"expiration":"<soon>"→
              → bluewallet POST sent
              bluewallet PUT /quotes/<id> to=greenbank <terms>
              → greenbank PUT sent
            "#,
        );
    }
}

#[test]
fn duplicates_are_forwarded_if_the_check_is_off() {
    hold(
        &mut world(&[("quotes.duplicate_entries", "0")]),
        r#"
        dialogue A modified quote under the same id is forwarded
          greenbank POST /quotes to=bluewallet <quote>
          → bluewallet POST sent
          greenbank POST /quotes to=bluewallet <quote> "10"→"11"
          → bluewallet POST sent
        "#,
    );
}

/// The oldest entry is replaced.
#[test]
fn duplicate_check_remembers_a_limited_number() {
    hold(
        &mut world(&[("quotes.duplicate_entries", "2")]),
        r#"
        dialogue Two ids are remembered
          greenbank POST /quotes to=bluewallet <quote>
          → bluewallet POST sent
          greenbank POST /quotes to=bluewallet <quote> <id>→<id2>
          → bluewallet POST /quotes sent
          greenbank POST /quotes to=bluewallet <quote> "10"→"11"
          → greenbank ERROR 3106 Modified request - Quote <id> is a duplicate but hashes dont match
          greenbank POST /quotes to=bluewallet <quote> <id>→<id3>
          → bluewallet POST /quotes sent
          greenbank POST /quotes to=bluewallet <quote> "10"→"11"
          → bluewallet POST sent
        "#,
    );
}

/// Stored quotes are durable: a restart loses nothing.
#[test]
fn stored_quotes_survive_a_restart() {
    let mut world = world(&[("quotes.persist", "true")]);
    hold(
        &mut world,
        r#"
        dialogue A quote and its answer
          greenbank POST /quotes to=bluewallet <quote>
          → bluewallet POST sent
          hub restarts
          greenbank POST /quotes to=bluewallet <quote> "10"→"11"
          → greenbank ERROR 3106 Modified request - Quote <id> is a duplicate but hashes dont match
          greenbank POST /quotes to=bluewallet <quote>
          → bluewallet POST sent
          bluewallet PUT /quotes/<id> to=greenbank <terms>
          → greenbank PUT sent
          hub restarts
          bluewallet PUT /quotes/<id> to=greenbank <terms> "9.5"→"9"
          → bluewallet ERROR 3106 Modified request - Update for quote <id> is a duplicate but hashes don't match
          bluewallet PUT /quotes/<id> to=greenbank <terms>
          → greenbank PUT sent

        dialogue A bulk quote and an FX quote
          greenbank POST /bulkQuotes to=bluewallet <bulk>
          → bluewallet POST sent
          greenbank POST /fxQuotes to=bluewallet <fx>
          → bluewallet POST sent
          hub restarts
          greenbank POST /bulkQuotes to=bluewallet <bulk> "10"→"11"
          → greenbank ERROR 3106 Modified request - Quote <id> is a duplicate but hashes dont match
          greenbank POST /fxQuotes to=bluewallet <fx> "130"→"131"
          → greenbank ERROR 3106 Modified request - Quote <id> is a duplicate but hashes dont match
        "#,
    );
    world.stop_and_audit();
}

/// If quotes are not stored, a restart loses them. They are forwarded in the same way.
#[test]
fn quotes_without_storage_are_lost_by_a_restart() {
    hold(
        &mut world(&[]),
        r#"
        dialogue A modified quote after a restart is forwarded
          greenbank POST /quotes to=bluewallet <quote>
          → bluewallet POST sent
          hub restarts
          greenbank POST /quotes to=bluewallet <quote> "10"→"11"
          → bluewallet POST sent
        "#,
    );
}

const RULES: &str = r#"[
    { "title": "no more than 1000",
      "conditions": { "all": [
        { "fact": "payload", "path": "$.amount.currency", "operator": "equal", "value": "KES" },
        { "fact": "payload", "path": "$.amount.amount", "operator": "greaterThan", "value": 1000 } ] },
      "event": { "type": "INVALID_QUOTE_REQUEST",
                 "params": { "FSPIOPError": "PAYER_LIMIT_ERROR", "message": "above the limit of the scheme" } } },
    { "title": "dollars are redmoney's",
      "conditions": { "all": [
        { "fact": "operation", "operator": "equal", "value": "quoteRequest" },
        { "fact": "payload", "path": "$.amount.currency", "operator": "equal", "value": "USD" } ] },
      "event": { "type": "INTERCEPT_QUOTE",
                 "params": { "rerouteToFsp": "redmoney", "additionalHeaders": { "x-intercepted": "yes" } } } } ]"#;

#[test]
fn rules_reject_and_reroute_quotes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), RULES).unwrap();
    let mut world = world(&[("quotes.rules_file", file.path().to_str().unwrap())]);
    hold(
        &mut world,
        r#"
        dialogue A quote above the limit of a rule
          greenbank POST /quotes to=bluewallet <quote> "10"→"1000.01"
          → greenbank ERROR 4200 Payer limit error - above the limit of the scheme
          greenbank POST /quotes to=bluewallet <quote> "10"→"1000"
          → bluewallet POST sent

        dialogue A rerouted quote, with the header of the rule
          greenbank POST /quotes to=bluewallet <quote> "KES","amount"→"USD","amount"
          → redmoney POST sent +x-intercepted:yes
          redmoney PUT /quotes/<id> to=greenbank <terms>
          → greenbank PUT sent
        "#,
    );
}

// Transaction requests and authorizations are only forwarded. Also the exchanges on the pages of all resources.

#[test]
fn transaction_request_and_authorization_dialogues() {
    hold(&mut World::with_lookups(&[]), part(include_str!("dialogues/quotes.txt"), "requests"));
}

/// Commands on the pages of `docs/resources` have the output that the pages show.
#[test]
fn exchanges_of_the_pages_match_the_hub() {
    let mut world = World::with_lookups(&[]);
    world.join("fxmaker");
    world.set_all_endpoints("fxmaker", &world.dfsp("fxmaker").base_url());
    world.open_account("fxmaker", "UGX");
    assert!(dialogue::play_pages(&world) > 30);
}
