//! The time to parse the bodies, parties and paths of a payment's messages, in nanoseconds. The minimum of many rounds
//! is shown, because other load on the machine only adds time. `cargo bench -p upesi-fspiop`; names as arguments pick
//! cases.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use upesi_fspiop::body::{
    parse_error_body, parse_fulfil, parse_party, parse_prepare, parse_quote_request, parse_quote_response,
};
use upesi_fspiop::{Method, Route, Segments, check_party_path};

const ROUNDS: usize = 400;
const CALLS_PER_ROUND: u32 = 500;
const PACKET_CHARS: usize = 700;

const PARTY: &str = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"256770001234","fspId":"greenbank"},"merchantClassificationCode":"4321","name":"Ada Nakato","personalInfo":{"complexName":{"firstName":"Ada","middleName":"Mary","lastName":"Nakato"},"dateOfBirth":"1986-06-16"},"supportedCurrencies":["UGX","KES","USD"]}}"#;
const QUOTE_REQUEST: &str = r#"{"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"256770004321","fspId":"bluebank"},"personalInfo":{"complexName":{"firstName":"Mats","lastName":"Hagman"},"dateOfBirth":"1983-10-25"}},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"256770001234","fspId":"greenbank"},"name":"Ada Nakato"},"amountType":"SEND","amount":{"currency":"UGX","amount":"12500"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"},"note":"rent for June","expiration":"2031-04-01T12:00:30.000Z"}"#;
const QUOTE_RESPONSE: &str = r#"{"transferAmount":{"currency":"UGX","amount":"12500"},"payeeReceiveAmount":{"currency":"UGX","amount":"12400"},"payeeFspFee":{"currency":"UGX","amount":"100"},"expiration":"2031-04-01T12:00:30.000Z","ilpPacket":"{packet}","condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s"}"#;
const PREPARE: &str = r#"{"transferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d","payerFsp":"bluebank","payeeFsp":"greenbank","amount":{"currency":"UGX","amount":"12500"},"ilpPacket":"{packet}","condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s","expiration":"2031-04-01T12:00:30.000Z"}"#;
const FULFIL: &str = r#"{"fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA","completedTimestamp":"2031-04-01T12:00:30.000Z","transferState":"COMMITTED"}"#;
const ERROR: &str =
    r#"{"errorInformation":{"errorCode":"5104","errorDescription":"Payee rejected the transaction"}}"#;
const PARTY_PATH: &str = "/parties/MSISDN/256770001234";

fn main() {
    let packet: String = ('A'..='Z').chain('0'..='9').cycle().take(PACKET_CHARS).collect();
    let (response, prepare) =
        (QUOTE_RESPONSE.replace("{packet}", &packet), PREPARE.replace("{packet}", &packet));
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let measure = |name: &str, text: &str, passes: &dyn Fn(&str) -> bool| {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            return;
        }
        assert!(passes(text), "{name} has to pass");
        let ns = (0..ROUNDS).map(|_| round_ns(|| passes(black_box(text)))).min().unwrap_or_default();
        println!("{name:<16} {:>5} bytes {ns:>6} ns", text.len());
    };
    measure("party", PARTY, &|body| parse_party(body.as_bytes()).is_ok());
    measure("quote request", QUOTE_REQUEST, &|body| parse_quote_request(body.as_bytes()).is_ok());
    measure("quote response", &response, &|body| parse_quote_response(body.as_bytes()).is_ok());
    measure("prepare", &prepare, &|body| parse_prepare(body.as_bytes()).is_ok());
    measure("fulfil", FULFIL, &|body| parse_fulfil(body.as_bytes()).is_ok());
    measure("error", ERROR, &|body| parse_error_body(body.as_bytes()).is_ok());
    measure("route", PARTY_PATH, &|target| Route::resolve(Some(Method::Put), target).is_ok());
    measure("path checks", PARTY_PATH, &|target| match Route::resolve(Some(Method::Put), target) {
        Ok(Route { segments: Segments::Party(party), .. }) => {
            party.check(false).is_ok_and(|path| check_party_path(&path).is_ok())
        }
        _ => false,
    });
}

/// How long one call takes, on average over a round.
fn round_ns(call: impl Fn() -> bool) -> u128 {
    let start = Instant::now();
    for _ in 0..CALLS_PER_ROUND {
        black_box(call());
    }
    start.elapsed().as_nanos() / u128::from(CALLS_PER_ROUND)
}
