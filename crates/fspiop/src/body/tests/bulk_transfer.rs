//! Bulk transfers and the answers to them.

use alloc::format;
use alloc::string::ToString;

use super::{assert_table, outcome};
use crate::body::{parse_bulk_fulfil, parse_bulk_transfer, *};

const ITEM: &str = "a8323bc6-c228-4df2-ae82-e5a997baf890";
const OTHER: &str = "b8323bc6-c228-4df2-ae82-e5a997baf891";
const FULFILMENT: &str = r#""fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA""#;
const ERROR: &str = r#""errorInformation":{"errorCode":"5104","errorDescription":"no"}"#;
const EXTENSIONS: &str = r#""extensionList":{"extension":[{"key":"paid","value":"yes"}]}"#;

const BULK: &str = r#"{
    "bulkTransferId": "a8323bc6-c228-4df2-ae82-e5a997baf800",
    "bulkQuoteId": "a8323bc6-c228-4df2-ae82-e5a997baf801",
    "payerFsp": "bluebank", "payeeFsp": "greenbank",
    "individualTransfers": [{
        "transferId": "a8323bc6-c228-4df2-ae82-e5a997baf890",
        "transferAmount": {"currency": "KES", "amount": "10.25"},
        "ilpPacket": "AYICexampleilppacket0123",
        "condition": "fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs"
    }],
    "expiration": "2031-04-01T12:00:00.000Z"
}"#;

const ANSWER: &str = r#"{
    "bulkTransferState": "COMPLETED",
    "completedTimestamp": "2031-04-01T12:00:00.000Z",
    "individualTransferResults": [{
        "transferId": "a8323bc6-c228-4df2-ae82-e5a997baf890",
        "fulfilment": "UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA"
    }]
}"#;

fn results(members: &[&str]) -> BulkItemResult {
    let result = [&[&*format!(r#""transferId":"{ITEM}""#)], members].concat().join(",");
    let body = format!(r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[{{{result}}}]}}"#);
    let mut answer = parse_bulk_fulfil(body.as_bytes()).expect("an answer");
    assert_eq!(answer.results.len(), 1);
    let (id, result) = answer.results.remove(0);
    assert_eq!(id.to_string(), ITEM);
    result
}

#[test]
fn bulk_result_has_either_a_fulfilment_or_an_error() {
    let BulkItemResult::Fulfil { fulfilment, extensions } = results(&[FULFILMENT, EXTENSIONS]) else {
        panic!("a fulfilment")
    };
    assert_eq!((fulfilment[0], extensions.as_deref()), (0x50, Some(r#"[{"key":"paid","value":"yes"}]"#)));
    let BulkItemResult::Error { code, description } = results(&[ERROR]) else { panic!("a payee's error") };
    assert_eq!((code.number(), &*description), (5104, "no"));
    for members in [&[FULFILMENT, ERROR][..], &[ERROR, FULFILMENT, EXTENSIONS], &[], &[EXTENSIONS]] {
        assert_eq!(results(members), BulkItemResult::Ambiguous, "{members:?}");
    }
}

#[test]
fn bulk_transfers_follow_the_schema() {
    let bulk = parse_bulk_transfer(BULK.as_bytes()).expect("a bulk");
    assert_eq!((bulk.payer.as_str(), bulk.payee.as_str()), ("bluebank", "greenbank"));
    assert_eq!(bulk.items.iter().map(|(id, _)| id.to_string()).collect::<alloc::vec::Vec<_>>(), [ITEM]);
    assert_table(
        BULK,
        |body| outcome(parse_bulk_transfer(body)),
        r"
        /bulkTransferId ⇒ ⇒ 3102  must have required property 'bulkTransferId'
        /bulkQuoteId ⇒ ⇒ 3102  must have required property 'bulkQuoteId'
        /expiration ⇒ ⇒ 3102  must have required property 'expiration'
        /individualTransfers ⇒ ⇒ 3102  must have required property 'individualTransfers'
        /individualTransfers ⇒ [] ⇒ 3100 /individualTransfers …
        /individualTransfers/0/ilpPacket ⇒ ⇒ 3102 /individualTransfers/0 must have required property 'ilpPacket'
        /individualTransfers/0/condition ⇒ {} ⇒ 3101 /individualTransfers/0/condition must be string
        /payerFsp ⇒ {} ⇒ 3101 /payerFsp must be string
        ",
    );
}

#[test]
fn bulk_transfer_answers_follow_the_schema() {
    let answer = parse_bulk_fulfil(ANSWER.as_bytes()).expect("an answer");
    assert_eq!((answer.state, answer.results.len()), (BulkTransferState::Completed, 1));
    assert_eq!(
        answer.completed_timestamp.map(|time| time.to_string()).as_deref(),
        Some("2031-04-01T12:00:00.000Z")
    );
    let twice =
        format!(r#"[{{"transferId":"{ITEM}"}},{{"transferId":"{OTHER}"}},{{"transferId":"{ITEM}"}}]"#);
    let table = format!(
        "/bulkTransferState ⇒ ⇒ 3102  must have required property 'bulkTransferState'
        /bulkTransferState ⇒ \"DONE\" ⇒ 3100 /bulkTransferState must be equal to one of the allowed values: ACCEPTED…
        /completedTimestamp ⇒ \"soon\" ⇒ 3100 /completedTimestamp …
        /completedTimestamp ⇒ ⇒ ok
        /individualTransferResults ⇒ ⇒ ok
        /individualTransferResults ⇒ [] ⇒ 3100 /individualTransferResults …
        /individualTransferResults ⇒ {twice} ⇒ 3100 /individualTransferResults must NOT have transferId …
        /individualTransferResults/0/fulfilment ⇒ \"short\" ⇒ 3100 /individualTransferResults/0/fulfilment …"
    );
    assert_table(ANSWER, |body| outcome(parse_bulk_fulfil(body)), &table);
}

/// The items are rejected one by one, like other amounts that no ledger can hold.
#[test]
fn items_with_too_many_decimals_are_rejected_if_configured() {
    for (amount, expected) in [("10.25", None), ("10.255", Some(upesi_types::AmountError::Finer))] {
        let body = BULK.replace("10.25", amount);
        let route = crate::Route::resolve(crate::Method::parse("POST"), "/bulkTransfers").unwrap();
        let mut message = crate::Message::read(route.operation, body.as_bytes()).unwrap();
        message.reject_finer_amounts(route.operation, body.as_bytes()).unwrap();
        let crate::Message::BulkTransfer(bulk) = message else { panic!("no bulk") };
        let (_, item) = bulk.items.into_iter().next().unwrap();
        assert_eq!(item.amount.err().map(|unfit| unfit.error), expected, "{amount}");
    }
}
