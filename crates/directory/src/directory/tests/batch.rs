//! `POST /participants`.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_delivery::relayed::{ErrorInformation, RelayConfig};
use upesi_fspiop::PartyIdType;
use upesi_types::ErrorCode;

use crate::DirectoryConfig;
use crate::oracle::OracleFailure;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, ScriptedOracles, World};

const ID: &str = "01J8ZC5Y2T3V4W5X6Y7Z8A9B0C";

/// MSISDN and BUSINESS have their own oracles.
fn oracle_world(msisdn: &Arc<ScriptedOracle>, business: &Arc<ScriptedOracle>) -> World {
    let oracles =
        BTreeMap::from([(PartyIdType::Msisdn, msisdn.clone()), (PartyIdType::Business, business.clone())]);
    let oracles = Arc::new(ScriptedOracles(oracles));
    World::with_oracles(DirectoryConfig::default(), msisdn.clone(), oracles, RelayConfig::default())
}

fn accepting(is_kept_by_hub: bool) -> Arc<ScriptedOracle> {
    ScriptedOracle::new(Script::Finds(Vec::new()), is_kept_by_hub)
}

fn failing() -> Arc<ScriptedOracle> {
    let failure =
        OracleFailure::Unusable { reason: "refused".into(), detail: "The oracle cannot be reached" };
    ScriptedOracle::new(Script::Fails(failure), false)
}

fn body(parties: &[(&str, &str, &str)]) -> String {
    let party = |(kind, id, fsp): &(&str, &str, &str)| {
        format!(r#"{{"partyIdType":"{kind}","partyIdentifier":"{id}","fspId":"{fsp}"}}"#)
    };
    let parties: Vec<_> = parties.iter().map(party).collect();
    format!(r#"{{"requestId":"{ID}","currency":"USD","partyList":[{}]}}"#, parties.join(","))
}

/// `26097 ok, acme 3003 text` of the only callback.
fn results(sent: &[String]) -> String {
    let [line] = sent else { panic!("{sent:?}") };
    let body = line.strip_prefix(&format!("PUT bluebank /participants/{ID} from Hub: ")).expect(line);
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["currency"], "USD");
    let result = |entry: &serde_json::Value| {
        let id = entry["partyId"]["partyIdentifier"].as_str().unwrap();
        let error = &entry["errorInformation"];
        match error["errorCode"].as_str() {
            None => format!("{id} ok"),
            Some(code) => format!("{id} {code} {}", error["errorDescription"].as_str().unwrap()),
        }
    };
    body["partyList"].as_array().unwrap().iter().map(result).collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn batch_results_are_in_the_order_of_the_request() {
    let refusal = ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, "Party already exists");
    let msisdn = ScriptedOracle::new(Script::RefusesOfBatch("26098", refusal), false);
    let business = accepting(true);
    let world = oracle_world(&msisdn, &business);
    let body = body(&[
        ("MSISDN", "26097", "bluebank"),
        ("BUSINESS", "acme", "bluebank"),
        ("MSISDN", "26098", "bluebank"),
        ("MSISDN", "26099", "greenbank"),
        ("MSISDN", "phone", "bluebank"),
        ("ALIAS", "me", "bluebank"),
        ("PHONE", "26101", "bluebank"),
        ("PHONE", "26102", "greenbank"),
        ("CONSENT", "c", "bluebank"),
        ("MSISDN", "26100", "bluebank"),
    ]);
    world.take("POST /participants", "bluebank", None, &body).await.unwrap();
    assert_eq!(
        results(&world.sent().await),
        "26097 ok, acme ok, 26098 3003 Add Party information error - Party already exists, \
         26099 3204 Party not found, phone 3101 Malformed syntax - the party identifier is no MSISDN, \
         me 3003 Add Party information error - Oracle type:ALIAS and currency:USD not found, \
         26101 3003 Add Party information error - Oracle type:PHONE and currency:USD not found, \
         26102 3204 Party not found, \
         c 3003 Add Party information error - Oracle type:CONSENT and currency:USD not found, 26100 ok"
    );
    assert_eq!(msisdn.asked(), ["batch MSISDN 26097,26098,26100"]);
    assert_eq!(business.asked(), ["batch BUSINESS acme"]);
}

#[tokio::test(start_paused = true)]
async fn batch_entry_without_dfsp_or_account_fails_alone() {
    let msisdn = accepting(false);
    let world = oracle_world(&msisdn, &accepting(false));
    let batch = |currency: &str| {
        let text = body(&[("MSISDN", "26097", "bluebank"), ("MSISDN", "26098", "?")]);
        text.replace(r#","fspId":"?""#, "").replace("USD", currency)
    };
    world.take("POST /participants", "bluebank", None, &batch("USD")).await.unwrap();
    assert_eq!(results(&world.sent().await), "26097 ok, 26098 3204 Party not found");
    world.take("POST /participants", "bluebank", None, &batch("EUR")).await.unwrap();
    let sent = world.sent().await.join("").replace("EUR", "USD");
    let no_account = "3003 Add Party information error - bluebank has no account in USD";
    assert_eq!(results(&[sent]), format!("26097 {no_account}, 26098 3204 Party not found"));
    assert_eq!(msisdn.asked(), ["batch MSISDN 26097"]);
}

#[tokio::test(start_paused = true)]
async fn batch_without_any_processed_entry_fails_as_a_whole() {
    let entries = [("MSISDN", "26097", "bluebank"), ("BUSINESS", "acme", "bluebank")];
    let msisdn = failing();
    let world = oracle_world(&msisdn, &accepting(false));
    world.take("POST /participants", "bluebank", None, &body(&entries)).await.unwrap();
    assert_eq!(
        results(&world.sent().await),
        "26097 1001 Destination communication error - The oracle cannot be reached, acme ok"
    );
    let world = oracle_world(&msisdn, &failing());
    world.take("POST /participants", "bluebank", None, &body(&entries)).await.unwrap();
    assert_eq!(
        world.sent().await,
        [format!(
            "PUT bluebank /participants/{ID}/error from Hub: 1001 Destination communication error - The oracle cannot \
             be reached"
        )]
    );
    let all_refused = body(&[("MSISDN", "26097", "greenbank")]);
    world.take("POST /participants", "bluebank", None, &all_refused).await.unwrap();
    assert_eq!(results(&world.sent().await), "26097 3204 Party not found");
}

#[tokio::test(start_paused = true)]
async fn batch_with_built_in_and_external_types_waits_only_for_the_built_in_ones() {
    let slow = ScriptedOracle::new(Script::Hangs, false);
    let kept = accepting(true);
    let world = oracle_world(&slow, &kept);
    let entries = body(&[("MSISDN", "26097", "bluebank"), ("BUSINESS", "acme", "bluebank")]);
    world.take("POST /participants", "bluebank", None, &entries).await.unwrap();
    assert_eq!(kept.asked(), ["batch BUSINESS acme"], "before it is acknowledged");
    assert!(world.sent().await.is_empty());
    let slow_keeper = ScriptedOracle::new(Script::Hangs, true);
    let world = oracle_world(&slow_keeper, &kept);
    let taken = world.take("POST /participants", "bluebank", None, &entries);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(3600), taken).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn invalid_batches_are_rejected_and_undelivered_results_are_reported() {
    let world = oracle_world(&accepting(false), &accepting(false));
    let entries = body(&[("MSISDN", "26097", "bluebank")]);
    let refusal = world.take("POST /participants", "nobank", None, &entries).await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3200));
    let refusal = world.take("POST /participants", "bluebank", None, "{}").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3102));
    let refusal = world.take("PUT /participants/01J8ZC5Y2T3V4W5X6Y7Z8A9B0C", "bluebank", None, "{}").await;
    assert_eq!(refusal.unwrap_err().status, 501);
    world.set_manner("bluebank", DfspBehaviour::Answers(400, ""));
    world.take("POST /participants", "bluebank", None, &entries).await.unwrap();
    let sent = world.sent().await;
    assert!(
        sent[1].starts_with(&format!("PUT bluebank /participants/{ID}/error from Hub: 3000 ")),
        "{sent:?}"
    );
}
