//! Quotes, bulk quotes and quotes of currency conversion.

use super::{assert_required, assert_table, changed, outcome};
use crate::Resource;
use crate::body::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) const QUOTE: &str = r#"{
    "quoteId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11",
    "transactionId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60",
    "payer": {
        "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26011", "fspId": "bluebank" },
        "supportedCurrencies": ["USD", "ZMW"]
    },
    "payee": {
        "partyIdInfo": {
            "partyIdType": "BUSINESS", "partyIdentifier": "26097", "partySubIdOrType": "shop-7", "fspId": "greenbank"
        }
    },
    "amountType": "SEND",
    "amount": { "amount": "12.5", "currency": "USD" },
    "transactionType": { "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER" },
    "expiration": "2030-01-01T00:00:00.000Z"
}"#;

const ANSWER: &str = r#"{
    "transferAmount": { "amount": "12.5", "currency": "USD" },
    "payeeReceiveAmount": { "amount": "12", "currency": "USD" },
    "payeeFspFee": { "amount": "0.5", "currency": "USD" },
    "expiration": "2030-01-01T00:00:00.000Z",
    "ilpPacket": "DIIBeQAAAAAAAATiMjAz",
    "condition": "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"
}"#;

const BULK: &str = r#"{
    "bulkQuoteId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11",
    "payer": { "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26011", "fspId": "bluebank" } },
    "individualQuotes": [ {
        "quoteId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60",
        "transactionId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f61",
        "payee": { "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26097", "fspId": "greenbank" } },
        "amountType": "RECEIVE",
        "amount": { "amount": "3", "currency": "ZMW" },
        "transactionType": { "scenario": "PAYMENT", "initiator": "PAYER", "initiatorType": "BUSINESS" }
    } ]
}"#;

const BULK_ANSWER: &str = r#"{
    "expiration": "2030-01-01T00:00:00.000Z",
    "individualQuoteResults": [
        {
            "quoteId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60",
            "payee": { "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "26097" } },
            "transferAmount": { "amount": "3", "currency": "ZMW" },
            "ilpPacket": "DIIBeQ", "condition": "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"
        },
        {
            "quoteId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f62",
            "errorInformation": { "errorCode": "5103", "errorDescription": "no" }
        }
    ]
}"#;

const FX: &str = r#"{
    "conversionRequestId": "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11",
    "conversionTerms": {
        "conversionId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60",
        "determiningTransferId": "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f61",
        "initiatingFsp": "bluebank",
        "counterPartyFsp": "fxp1",
        "amountType": "SEND",
        "sourceAmount": { "currency": "USD", "amount": "12.5" },
        "targetAmount": { "currency": "ZMW" },
        "expiration": "2030-01-01T00:00:00.000Z",
        "charges": [ { "chargeType": "spread", "sourceAmount": { "currency": "USD", "amount": "0.1" } } ]
    },
    "condition": "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"
}"#;

#[test]
fn quotes_are_read() {
    let quote = parse_quote_request(QUOTE.as_bytes()).unwrap();
    assert_eq!(quote.quote_id.to_string(), "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
    assert_eq!(quote.transaction_id.to_string(), "0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60");
    assert_eq!(quote.transaction_request_id, None);
    assert_eq!(quote.payer.id.fsp.unwrap().as_str(), "bluebank");
    let currencies: Vec<String> = quote.payer.supported_currencies.iter().map(|c| c.to_string()).collect();
    assert_eq!(currencies, ["USD", "ZMW"]);
    assert_eq!(quote.payee.id.kind, crate::PartyIdType::Business);
    assert_eq!((&*quote.payee.id.identifier, quote.payee.id.sub_id.as_deref()), ("26097", Some("shop-7")));
    assert!(quote.payee.supported_currencies.is_empty());
    assert_eq!((quote.amount_type, &*quote.amount.amount), (AmountType::Send, "12.5"));
    assert_eq!(quote.amount.currency.as_str(), "USD");
    assert_eq!(quote.expiration.unwrap().to_string(), "2030-01-01T00:00:00.000Z");

    let answer = parse_quote_response(ANSWER.as_bytes()).unwrap();
    assert_eq!((&*answer.transfer_amount.amount, answer.transfer_amount.currency.as_str()), ("12.5", "USD"));
    assert_eq!(answer.payee_receive_amount.unwrap().amount, "12");
    assert_eq!(answer.expiration.to_string(), "2030-01-01T00:00:00.000Z");
    assert_eq!(answer.ilp_packet, "DIIBeQAAAAAAAATiMjAz");
    assert_eq!(answer.condition, "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0");
}

#[test]
fn quotes_have_all_required_and_no_unknown_properties() {
    let parse = |body: &[u8]| outcome(parse_quote_request(body));
    let required = ["quoteId", "transactionId", "payee", "payer", "amountType", "amount", "transactionType"];
    assert_required(QUOTE, parse, "", &required);
    assert_required(QUOTE, parse, "/payer", &["partyIdInfo"]);
    assert_required(QUOTE, parse, "/payee/partyIdInfo", &["partyIdType", "partyIdentifier"]);
    assert_required(QUOTE, parse, "/amount", &["currency", "amount"]);
    assert_required(QUOTE, parse, "/transactionType", &["scenario", "initiator", "initiatorType"]);
    assert_table(
        QUOTE,
        parse,
        r#"
        /more                      ⇒ 1                       ⇒ 3103  must NOT have additional properties: 'more'
        /                          ⇒ 1                       ⇒ 3103  must NOT have additional properties: ''
        /ilpPacket                 ⇒ "x"                     ⇒ 3103  must NOT have additional properties: 'ilpPacket'
        /payer/more                ⇒ {"deep":[]}             ⇒ ok
        /payer/partyIdInfo/more    ⇒ 1                       ⇒ ok
        /amount/more               ⇒ 1                       ⇒ ok
        /quoteId                   ⇒ {}                      ⇒ 3101 /quoteId must be string
        /quoteId                   ⇒ "6F3FF9D4-2F0B-4BB2-9D3A-0F3F1C6A7B11" ⇒ 3100 /quoteId must match pattern: a UUID in lower case, or a ULID
        /quoteId                   ⇒ "01ARZ3NDEKTSV4RRFFQ69G5FAV" ⇒ ok
        /transactionId             ⇒ "x"                     ⇒ 3100 /transactionId must match pattern…
        /transactionRequestId      ⇒ "x"                     ⇒ 3100 /transactionRequestId must match pattern…
        /transactionRequestId      ⇒ "01ARZ3NDEKTSV4RRFFQ69G5FAV" ⇒ ok
        /amountType                ⇒ "BOTH"                  ⇒ 3100 /amountType must be equal to one of the allowed values: SEND, RECEIVE
        /amountType                ⇒ "RECEIVE"               ⇒ ok
        /amount                    ⇒ "12"                    ⇒ 3101 /amount must be object
        /fees                      ⇒ {"currency":"USD","amount":"1.0"} ⇒ 3100 /fees/amount must match pattern…
        /fees                      ⇒ {"currency":"USD","amount":"1"}   ⇒ ok
        /note                      ⇒ ""                      ⇒ 3100 /note must NOT have fewer than 1 characters
        /note                      ⇒ "thanks"                ⇒ ok
        /expiration                ⇒ "1999-01-01T00:00:00.000Z"      ⇒ ok
        /expiration                ⇒ "2030-01-01T00:00:00.000+02:00" ⇒ ok
        /expiration                ⇒ "2030-01-01T00:00:00Z"          ⇒ 3100 /expiration must match pattern…
        /expiration                ⇒ "2030-01-01T00:00:00.000"       ⇒ 3100 /expiration must match pattern…
        /converter                 ⇒ "PAYEE"                 ⇒ ok
        /converter                 ⇒ "HUB"                   ⇒ 3100 /converter must be equal to one of the allowed values…
        /currencyConversion        ⇒ {"sourceAmount":{"currency":"USD","amount":"1"}} ⇒ 3102 /currencyConversion must have required property 'targetAmount'
        "#,
    );
    let long = format!("\"{}\"", "n".repeat(129));
    let got = parse(changed(QUOTE, "/note", &long).as_bytes()).unwrap_err();
    assert_eq!(got.1, "Generic validation error - /requestBody/note must NOT have more than 128 characters");
    let long_name = changed(QUOTE, &format!("/{}", "x".repeat(500)), "1");
    let got = parse(long_name.as_bytes()).unwrap_err();
    assert!(got.1.ends_with(&format!("additional properties: '{}'", "x".repeat(32))), "{}", got.1);
    // Missing members are reported before additional ones, and those before invalid ones.
    let both = changed(&changed(QUOTE, "/more", "1"), "/quoteId", "7");
    assert_eq!(parse(both.as_bytes()).unwrap_err().0, 3103);
    assert_eq!(parse(changed(&both, "/quoteId", "").as_bytes()).unwrap_err().0, 3102);
}

#[test]
fn amounts_and_currencies_follow_the_rule() {
    let parse = |body: &[u8]| outcome(parse_quote_request(body));
    assert_table(
        QUOTE,
        parse,
        r#"
        /amount/amount   ⇒ "0"                        ⇒ ok
        /amount/amount   ⇒ "999999999999999999.9999"  ⇒ ok
        /amount/amount   ⇒ 12.5                       ⇒ 3101 /amount/amount must be string
        /amount/amount   ⇒ 7                          ⇒ 3101 /amount/amount must be string
        /amount/amount   ⇒ true                       ⇒ 3101 /amount/amount must be string
        /amount/amount   ⇒ null                       ⇒ 3101 /amount/amount must be string
        /amount/amount   ⇒ "\u0037"                   ⇒ ok
        /amount/amount   ⇒ "10.00"                    ⇒ 3100 /amount/amount must match pattern: no trailing zeros, such as 12.5
        /amount/amount   ⇒ "1.23456"                  ⇒ 3100 /amount/amount must match pattern: up to 4 decimal places
        /amount/amount   ⇒ "01"                       ⇒ 3100 /amount/amount must match pattern: no leading zeros, such as 12.5
        /amount/amount   ⇒ "-1"                       ⇒ 3100 /amount/amount must match pattern: an amount has no sign
        /amount/amount   ⇒ "1000000000000000000"      ⇒ 3100 /amount/amount must match pattern: up to 18 digits before the point
        /amount/amount   ⇒ ""                         ⇒ 3100 /amount/amount must match pattern: a decimal number, such as 12.5
        /amount/amount   ⇒ []                         ⇒ 3101 /amount/amount must be string
        /amount/currency ⇒ "XXX"                      ⇒ ok
        /amount/currency ⇒ "XTS"                      ⇒ ok
        /amount/currency ⇒ "usd"                      ⇒ 3100 /amount/currency must be equal to one of the allowed values…
        /amount/currency ⇒ "ABC"                      ⇒ 3100 /amount/currency must be equal to one of the allowed values…
        "#,
    );
}

#[test]
fn amounts_as_json_numbers_are_rejected() {
    type Parse = fn(&[u8]) -> Result<(), (u16, String)>;
    let quote: Parse = |body| outcome(parse_quote_request(body));
    let answer: Parse = |body| outcome(parse_quote_response(body));
    let bulk: Parse = |body| outcome(parse_bulk_quote_request(body));
    let bulk_answer: Parse = |body| outcome(parse_bulk_quote_response(body));
    let fx: Parse = |body| outcome(parse_fx_quote_request(body));
    let request: Parse = |body| outcome(parse_transaction_request(body));
    let conversion = format!(
        r#"{},"currencyConversion":{{"sourceAmount":{{"currency":"USD","amount":"1"}},"targetAmount":{{"currency":"ZMW","amount":"2"}}}},"fees":{{"currency":"USD","amount":"1"}}}}"#,
        QUOTE.trim_end_matches('}').trim_end(),
    );
    let full_answer = changed(ANSWER, "/payeeFspCommission", r#"{"currency":"USD","amount":"1"}"#);
    let full_fx = changed(FX, "/conversionTerms/targetAmount", r#"{"currency":"ZMW","amount":"1"}"#);
    for (valid, parse, paths) in [
        (QUOTE, quote, &["/amount"][..]),
        (
            &conversion,
            quote,
            &["/fees", "/currencyConversion/sourceAmount", "/currencyConversion/targetAmount"],
        ),
        (
            &full_answer,
            answer,
            &["/transferAmount", "/payeeReceiveAmount", "/payeeFspFee", "/payeeFspCommission"],
        ),
        (BULK, bulk, &["/individualQuotes/0/amount"]),
        (BULK_ANSWER, bulk_answer, &["/individualQuoteResults/0/transferAmount"]),
        (
            &full_fx,
            fx,
            &[
                "/conversionTerms/sourceAmount",
                "/conversionTerms/targetAmount",
                "/conversionTerms/charges/0/sourceAmount",
            ],
        ),
        (super::payment_request::REQUEST, request, &["/amount"]),
    ] {
        assert_eq!(parse(valid.as_bytes()), Ok(()), "{valid}");
        for path in paths {
            let refusal = format!("Malformed syntax - /requestBody{path}/amount must be string");
            for number in ["3", "0.5", "1e2"] {
                let body = changed(valid, &format!("{path}/amount"), number);
                assert_eq!(parse(body.as_bytes()), Err((3101, refusal.clone())), "{path} {number}");
            }
        }
    }
}

#[test]
fn answers_to_quotes_have_a_packet_and_a_condition() {
    let parse = |body: &[u8]| outcome(parse_quote_response(body));
    assert_required(ANSWER, parse, "", &["transferAmount", "expiration", "ilpPacket", "condition"]);
    let max = format!("\"{}\"", "A".repeat(32_768));
    assert_eq!(parse(changed(ANSWER, "/ilpPacket", &max).as_bytes()), Ok(()));
    let long = format!("\"{}\"", "A".repeat(32_769));
    let got = parse(changed(ANSWER, "/ilpPacket", &long).as_bytes()).unwrap_err();
    let text = "Generic validation error - /requestBody/ilpPacket must NOT have more than 32768 characters";
    assert_eq!(got, (3100, text.into()));
    assert_table(
        ANSWER,
        parse,
        r#"
        /payeeReceiveAmount ⇒                         ⇒ ok
        /payeeReceiveAmount ⇒ {"currency":"USD"}      ⇒ 3102 /payeeReceiveAmount must have required property 'amount'
        /payeeFspFee        ⇒ 1                       ⇒ 3101 /payeeFspFee must be object
        /payeeFspCommission ⇒ {"amount":"1","currency":"U"} ⇒ 3100 /payeeFspCommission/currency must be equal…
        /geoCode            ⇒ {"latitude":"0","longitude":"0"} ⇒ ok
        /geoCode            ⇒ {"latitude":"0"}        ⇒ 3102 /geoCode must have required property 'longitude'
        /extensionList      ⇒ {"extension":[]}        ⇒ 3100 /extensionList/extension must NOT have fewer than 1 items
        /ilpPacket          ⇒ ""                      ⇒ 3100 /ilpPacket must NOT have fewer than 1 characters
        /ilpPacket          ⇒ "a b"                   ⇒ 3100 /ilpPacket must match pattern…
        /condition          ⇒ "x"                     ⇒ 3100 /condition must match pattern: 43 characters of base64url, no padding
        /condition          ⇒ "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0OamfGV" ⇒ 3100 /condition must NOT have more than 48 characters
        /quoteId            ⇒ "x"                     ⇒ 3103  must NOT have additional properties: 'quoteId'
        "#,
    );
}

#[test]
fn bulk_quotes_are_read() {
    let bulk = parse_bulk_quote_request(BULK.as_bytes()).unwrap();
    assert_eq!(bulk.bulk_quote_id.to_string(), "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
    assert_eq!(bulk.payer.id.fsp.unwrap().as_str(), "bluebank");
    let [quote] = &bulk.quotes[..] else { panic!("one quote") };
    assert_eq!((quote.amount_type, quote.amount.currency.as_str()), (AmountType::Receive, "ZMW"));
    assert_eq!(quote.payee.id.fsp.unwrap().as_str(), "greenbank");

    let answer = parse_bulk_quote_response(BULK_ANSWER.as_bytes()).unwrap();
    let amounts: Vec<bool> = answer.results.iter().map(|result| result.transfer_amount.is_some()).collect();
    assert_eq!(amounts, [true, false]);
    let empty = parse_bulk_quote_response(br#"{"expiration":"2030-01-01T00:00:00.000Z"}"#).unwrap();
    assert!(empty.results.is_empty());
}

#[test]
fn bulk_quotes_follow_the_schema() {
    let parse = |body: &[u8]| outcome(parse_bulk_quote_request(body));
    assert_required(BULK, parse, "", &["bulkQuoteId", "payer", "individualQuotes"]);
    let required = ["quoteId", "transactionId", "payee", "amountType", "amount", "transactionType"];
    assert_required(BULK, parse, "/individualQuotes/0", &required);
    assert_table(
        BULK,
        parse,
        r#"
        /more                              ⇒ 1   ⇒ 3103  must NOT have additional properties: 'more'
        /individualQuotes/0/more           ⇒ 1   ⇒ ok
        /individualQuotes                  ⇒ {}  ⇒ 3101 /individualQuotes must be array
        /individualQuotes                  ⇒ []  ⇒ 3100 /individualQuotes must NOT have fewer than 1 items
        /individualQuotes/0                ⇒ 7   ⇒ 3101 /individualQuotes/0 must be object
        /individualQuotes/0/payee/partyIdInfo/fspId ⇒ "" ⇒ 3100 /individualQuotes/0/payee/partyIdInfo/fspId must NOT have fewer than 1 characters
        /individualQuotes/0/note           ⇒ ""  ⇒ 3100 /individualQuotes/0/note must NOT have fewer than 1 characters
        /individualQuotes/0/fees           ⇒ 1   ⇒ 3101 /individualQuotes/0/fees must be object
        /expiration                        ⇒ "x" ⇒ 3100 /expiration must match pattern…
        /geoCode                           ⇒ {}  ⇒ 3102 /geoCode must have required property 'latitude'
        "#,
    );
    let quote = serde_json::from_str::<serde_json::Value>(BULK).unwrap()["individualQuotes"][0].to_string();
    for (count, passes) in [(BULK_QUOTES_MAX, true), (BULK_QUOTES_MAX + 1, false)] {
        let quotes = format!("[{}]", alloc::vec![&*quote; count].join(","));
        let got = parse(changed(BULK, "/individualQuotes", &quotes).as_bytes());
        assert_eq!(got.is_ok(), passes, "{got:?}");
        if let Err((code, text)) = got {
            let expected =
                "Generic validation error - /requestBody/individualQuotes must NOT have more than 1000 items";
            assert_eq!((code, &*text), (3100, expected));
        }
    }
    assert_table(
        BULK_ANSWER,
        |body| outcome(parse_bulk_quote_response(body)),
        r#"
        /expiration                        ⇒     ⇒ 3102  must have required property 'expiration'
        /more                              ⇒ 1   ⇒ 3103  must NOT have additional properties: 'more'
        /individualQuoteResults            ⇒ []  ⇒ ok
        /individualQuoteResults/0/quoteId  ⇒     ⇒ 3102 /individualQuoteResults/0 must have required property 'quoteId'
        /individualQuoteResults/0/payee    ⇒ {}  ⇒ 3102 /individualQuoteResults/0/payee must have required property 'partyIdInfo'
        /individualQuoteResults/0/condition ⇒ "x" ⇒ 3100 /individualQuoteResults/0/condition must match pattern…
        /individualQuoteResults/0/payeeFspFee ⇒ 1 ⇒ 3101 /individualQuoteResults/0/payeeFspFee must be object
        /individualQuoteResults/1/errorInformation/errorCode ⇒ "6001" ⇒ 3100 /individualQuoteResults/1/errorInformation/errorCode must match pattern…
        /individualQuoteResults/1/errorInformation/errorDescription ⇒ "" ⇒ 3100 /individualQuoteResults/1/errorInformation/errorDescription must NOT…
        "#,
    );
}

#[test]
fn fx_quotes_are_read_and_may_have_unknown_properties() {
    let quote = parse_fx_quote_request(FX.as_bytes()).unwrap();
    assert_eq!(quote.conversion_request_id.to_string(), "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11");
    assert_eq!(quote.terms.initiating_fsp.as_str(), "bluebank");
    assert_eq!(quote.terms.counter_party_fsp.as_str(), "fxp1");
    assert_eq!(quote.terms.source.amount.as_deref(), Some("12.5"));
    assert_eq!((quote.terms.target.currency.as_str(), quote.terms.target.amount), ("ZMW", None));
    assert!(quote.terms.determining_transfer_id.is_some());
    let answer = parse_fx_quote_response(FX.as_bytes()).unwrap();
    assert!(answer.condition.is_some());
    let bare = changed(FX, "/condition", "");
    assert_eq!(parse_fx_quote_response(bare.as_bytes()).unwrap().condition, None);

    let terms = [
        "conversionId",
        "initiatingFsp",
        "counterPartyFsp",
        "amountType",
        "sourceAmount",
        "targetAmount",
        "expiration",
    ];
    for parse in [(|body| outcome(parse_fx_quote_request(body))) as fn(&[u8]) -> super::Outcome, |body| {
        outcome(parse_fx_quote_response(body))
    }] {
        assert_required(FX, parse, "", &["conversionTerms"]);
        assert_required(FX, parse, "/conversionTerms", &terms);
        assert_required(FX, parse, "/conversionTerms/sourceAmount", &["currency"]);
        assert_table(
            FX,
            parse,
            r#"
            /more                           ⇒ 1     ⇒ ok
            /conversionTerms/more           ⇒ 1     ⇒ ok
            /conversionTerms/conversionId   ⇒ "x"   ⇒ 3100 /conversionTerms/conversionId must match pattern…
            /conversionTerms/counterPartyFsp ⇒ ""   ⇒ 3100 /conversionTerms/counterPartyFsp must NOT have fewer…
            /conversionTerms/amountType     ⇒ "X"   ⇒ 3100 /conversionTerms/amountType must be equal to one of the allowed values…
            /conversionTerms/targetAmount/amount ⇒ "1.50" ⇒ 3100 /conversionTerms/targetAmount/amount must match pattern…
            /conversionTerms/expiration     ⇒ "1999-01-01T00:00:00.000Z" ⇒ ok
            /conversionTerms/determiningTransferId ⇒ "x" ⇒ 3100 /conversionTerms/determiningTransferId must match pattern…
            /conversionTerms/charges        ⇒ []    ⇒ ok
            /conversionTerms/charges        ⇒ {}    ⇒ 3101 /conversionTerms/charges must be array
            /conversionTerms/charges/0/chargeType ⇒ "" ⇒ 3100 /conversionTerms/charges/0/chargeType must NOT have fewer…
            /conversionTerms/charges/0/targetAmount ⇒ {} ⇒ 3102 /conversionTerms/charges/0/targetAmount must have required property 'currency'
            /conversionTerms/extensionList  ⇒ {}    ⇒ 3102 /conversionTerms/extensionList must have required property 'extension'
            "#,
        );
    }
    let got = outcome(parse_fx_quote_request(changed(FX, "/conversionRequestId", "").as_bytes()));
    assert_eq!(got.unwrap_err().0, 3102);
    let got = outcome(parse_fx_quote_response(changed(FX, "/condition", "\"x\"").as_bytes()));
    assert_eq!(got.unwrap_err().0, 3100);
}

#[test]
fn errors_in_quoting_have_codes_of_allowed_classes() {
    const ERROR: &str = r#"{"errorInformation":{"errorCode":"5101","errorDescription":"no"}}"#;
    for (class, passes) in [
        (10, true),
        (11, false),
        (19, false),
        (20, true),
        (21, false),
        (29, false),
        (30, true),
        (34, true),
        (35, false),
        (39, false),
        (40, true),
        (44, true),
        (45, false),
        (50, true),
        (54, true),
        (55, false),
        (60, false),
        (99, false),
    ] {
        for (resource, passes) in [
            (Resource::Quotes, passes),
            (Resource::BulkQuotes, passes),
            (Resource::FxQuotes, passes),
            (Resource::Parties, true),
            (Resource::Participants, true),
            (Resource::Transfers, true),
            (Resource::TransactionRequests, true),
            (Resource::Authorizations, true),
        ] {
            let body = ERROR.replace("5101", &format!("{class}07"));
            let got = outcome(parse_error_body_of(resource, body.as_bytes()));
            assert_eq!(got.is_ok(), passes, "{resource:?} {class}: {got:?}");
            let more = outcome(parse_error_body_of(resource, changed(ERROR, "/more", "1").as_bytes()));
            let is_closed = matches!(resource, Resource::Quotes | Resource::BulkQuotes);
            assert_eq!(more.map_err(|(code, _)| code), if is_closed { Err(3103) } else { Ok(()) });
        }
    }
}

/// The code of the error for a request, in a scheme that rejects amounts finer than the currency.
fn finer(line: &str, body: &str) -> Option<u16> {
    let (method, path) = line.split_once(' ').unwrap();
    let route = crate::Route::resolve(crate::Method::parse(method), path).unwrap();
    let mut message = crate::Message::read(route.operation, body.as_bytes()).unwrap();
    let rejected = message.reject_finer_amounts(route.operation, body.as_bytes());
    rejected.err().map(|error| error.code.number())
}

#[test]
fn quotes_with_too_many_decimals_are_rejected_if_configured() {
    const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";
    let put = |resource: &str| format!("PUT /{resource}/{ID}");
    for (line, body, amount, finer_amount) in [
        ("POST /quotes".to_string(), QUOTE, "12.5", "12.505"),
        (put("quotes"), ANSWER, "12.5", "12.505"),
        (put("quotes"), ANSWER, "\"12\"", "\"12.0001\""),
        ("POST /bulkQuotes".to_string(), BULK, "\"3\"", "\"3.001\""),
        (put("bulkQuotes"), BULK_ANSWER, "\"3\"", "\"3.001\""),
        ("POST /fxQuotes".to_string(), FX, "12.5", "12.505"),
        (put("fxQuotes"), FX, "12.5", "12.505"),
    ] {
        let body = if line.starts_with("PUT /fxQuotes") {
            body.replace("\"conversionRequestId\": \"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11\",", "")
        } else {
            body.to_string()
        };
        assert!(body.contains(amount));
        assert_eq!(finer(&line, &body), None, "{line}");
        assert_eq!(finer(&line, &body.replace(amount, finer_amount)), Some(3100), "{line} {finer_amount}");
        // A code without minor units may have any amount, and one without decimals no fraction.
        let other = |code: &str| body.replace("USD", code).replace("ZMW", code);
        assert_eq!(finer(&line, &other("XTS").replace(amount, finer_amount)), None, "{line}");
        let is_fraction = amount == "12.5";
        assert_eq!(finer(&line, &other("UGX")).is_some(), is_fraction || line.contains("/quotes/"), "{line}");
    }
}
