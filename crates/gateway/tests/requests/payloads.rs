//! Data of requests in the journal: nothing of unknown senders, and no body of rejections and queries.

use upesi_delivery::rejection;
use upesi_engine::Payload;
use upesi_ledger::{CallbackContent, PublicState};
use upesi_types::{ErrorCode, TransferId};

use super::common::name;
use crate::common::{
    Answer, ERROR_BODY, ID, Running, condition, fulfil_body, get, post, prepare_body, put, put_error, request,
};
use crate::exchange::{OTHER, SOON};

/// A prepare of more than 60 KB that exceeds the payer's funds.
fn refused_prepare(id: &str, filler: &str) -> String {
    let filler = format!(r#"{{"filler":"{}","#, filler.repeat(60_000));
    prepare_body(id).replacen("125.5", "4321.5", 1).replacen('{', &filler, 1)
}

fn last_payload(running: &Running) -> Payload {
    running.wait(running.handle.payload(running.last_seq())).unwrap().unwrap()
}

/// Content of the last callback to greenbank.
fn told(running: &Running) -> CallbackContent {
    let green = running.handle.read(|ledger| ledger.participant_id(&name("greenbank")).unwrap());
    let green = running.wait(green).unwrap();
    let pending = running.wait(running.handle.pending_callbacks(green, None, 100)).unwrap().callbacks;
    pending.last().unwrap().callback().content.clone()
}

fn error(content: &CallbackContent) -> Option<ErrorCode> {
    match content {
        CallbackContent::Error(cause) => Some(rejection::cause(cause).0),
        _ => None,
    }
}

fn is_refused(answer: &Answer) {
    assert_eq!((answer.status, answer.code()), (400, 3101), "{answer:?}");
    assert!(answer.body.contains("invalid fspiop-source header"), "{answer:?}");
}

#[test]
fn unknown_sender_is_rejected_at_once_without_a_record() {
    let running = Running::plain();
    assert_eq!(running.ask(&post(&[], prepare_body(ID))).status, 202);
    let records = running.records();
    let mut client = running.connect();
    // Names of senders in another case are accepted only for PUTs.
    for stranger in ["fspiop-source: ghost", "fspiop-source: greenbanker", "fspiop-source: GREENBANK"] {
        is_refused(&client.exchange(&post(&[stranger], prepare_body(OTHER))));
        is_refused(&client.exchange(&post(&[stranger], prepare_body(OTHER).replace("greenbank", "ghost"))));
        // An unknown sender gets the same answer for an existing id and for an unknown one.
        for id in [ID, OTHER, "no-id"] {
            is_refused(&client.exchange(&get(id, &[stranger])));
        }
    }
    for stranger in ["fspiop-source: ghost", "fspiop-source: bluewalleter"] {
        for id in [ID, OTHER, "no-id"] {
            is_refused(&client.exchange(&put(id, &[stranger, "-accept"], fulfil_body())));
            is_refused(&client.exchange(&put_error(id, &[stranger, "-accept"], ERROR_BODY)));
        }
    }
    assert_eq!(running.records(), records);
    assert_eq!(running.wait(running.handle.transfer(TransferId::parse(OTHER).unwrap())).unwrap(), None);
    // An unknown sender also gets errors about its own mistakes, which have no effect either.
    assert_eq!(client.exchange(&post(&["fspiop-source: ghost"], "{}")).code(), 3102);
}

#[test]
fn rejected_prepare_is_recorded_by_its_fingerprint() {
    let running = Running::plain();
    let body = refused_prepare(ID, "x");
    assert_eq!(running.ask(&post(&["x-own: 1"], &body)).status, 202);
    assert_eq!(error(&told(&running)), Some(ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY));
    let kept = last_payload(&running);
    assert_eq!(kept.body, "");
    assert!(String::from_utf8_lossy(&kept.headers).contains("x-own: 1\r\n"), "for the callback");

    // The resend is nevertheless recognised.
    assert_eq!(running.ask(&post(&[], &body)).status, 202);
    let CallbackContent::State(_, view) = told(&running) else { panic!("{:?}", told(&running)) };
    assert_eq!(view.state, PublicState::Aborted);
    assert_eq!(last_payload(&running).body, "", "nor is the body of a resend kept");
    assert_eq!(running.ask(&post(&[], refused_prepare(ID, "y"))).status, 202);
    assert_eq!(error(&told(&running)), Some(ErrorCode::MODIFIED_REQUEST));
    assert_eq!(last_payload(&running).body, "");
    assert_eq!(running.ask(&get(ID, &[])).status, 202);
    let CallbackContent::State(_, view) = told(&running) else { panic!("{:?}", told(&running)) };
    assert_eq!(view.state, PublicState::Aborted);
}

/// A bulk transfer and an FX transfer of more than 60 KB that are rejected as a whole: the payee is unknown, and no
/// provider has the currencies.
fn refused_others(long: &str) -> [Vec<u8>; 2] {
    let filler = format!(r#"{{"filler":"{}","#, "z".repeat(60_000));
    let item = format!(
        r#"{{"transferId":"{ID}","transferAmount":{{"currency":"KES","amount":"1"}},"ilpPacket":"AYIC","condition":"{}"}}"#,
        condition()
    );
    let bulk = format!(
        r#"{filler}"bulkTransferId":"{ID}","bulkQuoteId":"{ID}","payerFsp":"greenbank","payeeFsp":"nobody","individualTransfers":[{item}],"expiration":"{SOON}"}}"#
    );
    let fx_transfer = format!(
        r#"{filler}"commitRequestId":"{ID}","initiatingFsp":"greenbank","counterPartyFsp":"bluewallet","amountType":"SEND","sourceAmount":{{"currency":"KES","amount":"1"}},"targetAmount":{{"currency":"USD","amount":"1"}},"condition":"{}","expiration":"{SOON}"}}"#,
        condition()
    );
    let of = |resource: &str, version: &str, body: &str| {
        let media = format!("application/vnd.interoperability.{resource}+json;version={version}");
        let edits = [&format!("content-type: {media}"), &format!("accept: {media}"), long];
        request(&format!("POST /{resource}"), &edits, body)
    };
    [of("bulkTransfers", "1.1", &bulk), of("fxTransfers", "2.0", &fx_transfer)]
}

#[test]
fn rejected_requests_leave_only_short_records() {
    let running = Running::plain();
    let long = format!("x-long: {}", "y".repeat(20_000));
    let long_text = format!(r#"{{"filler":"{}"}}"#, "z".repeat(30_000));
    let from_payee = |edit| ["fspiop-source: bluewallet", "fspiop-destination: greenbank", "-accept", edit];
    let fulfil = fulfil_body().replacen('{', &format!(r#"{{"filler":"{}","#, "z".repeat(30_000)), 1);
    let [bulk, fx_transfer] = refused_others(&long);
    for request in [
        bulk,
        fx_transfer,
        post(&[&long], refused_prepare(ID, "x")),
        get(ID, &[&long]),
        get(OTHER, &[&long, &format!("content-length: {}", long_text.len())])
            .into_iter()
            .chain(long_text.bytes())
            .collect(),
        put(ID, &from_payee(&long), &fulfil),
        put_error(OTHER, &from_payee(&long), ERROR_BODY),
    ] {
        let before = running.last_seq();
        let answer = running.ask(&request);
        assert!(matches!(answer.status, 200 | 202), "{answer:?}");
        assert_eq!(running.last_seq(), before + 1, "each is answered by a callback");
        assert_eq!(last_payload(&running), Payload::default());
    }
    // A request that changes a transfer is stored completely.
    let prepare = prepare_body(OTHER).replacen('{', &format!(r#"{{"filler":"{}","#, "z".repeat(30_000)), 1);
    for (request, body) in
        [(post(&[&long], &prepare), &prepare), (put(OTHER, &from_payee(&long), &fulfil), &fulfil)]
    {
        assert!(matches!(running.ask(&request).status, 200 | 202));
        let kept = last_payload(&running);
        assert_eq!(kept.body, *body);
        assert!(kept.headers.len() > 20_000);
    }
    let ended = running.wait(running.handle.transfer(TransferId::parse(OTHER).unwrap())).unwrap().unwrap();
    assert_eq!(ended.public_state(), PublicState::Committed);
}
