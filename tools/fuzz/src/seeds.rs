//! Valid inputs for the start of a fuzzer.

use std::io::Write;

use upesi_journal::sim_disk::SimDisk;
use upesi_journal::sim_disk::script::dynamic;
use upesi_journal::{Batch, Options, SnapshotStore};
use upesi_ledger::codec::Encoder;
use upesi_ledger::{
    AbortKind, Aborted, Cause, Committed, Event, Record, Refusal, Stored as _, Transfer, TransferState,
    WindowId,
};
use upesi_settings::{Sources, load, to_toml};
use upesi_tables::store::RecordedChange;
use upesi_types::{ErrorCode, Timestamp};

use crate::targets::admin::Hub;
use crate::targets::connection::{AGAIN, FALLS_SILENT, FINISH, OVER_CAP, STRETCHED};
use crate::targets::http2;

const TRANSFER: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
const PREPARE: &str = r#"{"transferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d","payerFsp":"greenbank","payeeFsp":"bluewallet","amount":{"currency":"KES","amount":"125.5"},"ilpPacket":"AYICexampleilppacket0123","condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s","expiration":"2031-04-01T12:00:30.000Z","extensionList":{"extension":[{"key":"k","value":"v"}]}}"#;
const FULFIL: &str = r#"{"fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA","transferState":"COMMITTED","completedTimestamp":"2031-04-01T12:00:00.000Z"}"#;
const ERROR: &str = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"no"}}"#;
const MODEL: &str = r#"{"name":"DEFERREDNET","settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","requireLiquidityCheck":true,"ledgerAccountType":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#;
const RULES: &str = r#"[{"ruleId":1,"conditions":{"all":[{"fact":"payload","path":"$.amount.currency","operator":"equal","value":"XOF"}]},"event":{"type":"INVALID_QUOTE_REQUEST","params":{"FSPIOPError":"PAYER_UNSUPPORTED_CURRENCY","message":"no"}}}]"#;
const LIMIT: &str = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1000},"initialPosition":0}"#;
const FUNDS: &str = r#"{"transferId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","externalReference":"ref","action":"recordFundsIn","reason":"why","amount":{"amount":"5000","currency":"KES"}}"#;

fn texts(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn request(method: &str, resource: &str, path: &str, body: &str) -> Vec<u8> {
    let media = format!("application/vnd.interoperability.{resource}+json;version=1.1");
    format!(
        "{method} {path} HTTP/1.1\r\nhost: hub\r\naccept: {media}\r\ncontent-type: {media}\r\n\
         date: Tue, 01 Apr 2031 12:00:00 GMT\r\nfspiop-source: greenbank\r\nfspiop-destination: bluewallet\r\n\
         traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn proxy_headers() -> Vec<Vec<u8>> {
    let version_2 = |command: u8, family: u8, rest: &[u8]| {
        [b"\r\n\r\n\0\r\nQUIT\n", &[command, family, 0, rest.len() as u8][..], rest].concat()
    };
    vec![
        b"PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n".to_vec(),
        b"PROXY TCP6 2001:db8::7 ::ffff:198.51.100.1 12345 443\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        version_2(0x20, 0x00, &[]),
        version_2(0x21, 0x11, &[192, 0, 2, 7, 198, 51, 100, 1, 0x30, 0x39, 1, 0xbb, 4, 0, 1, 0]),
        version_2(0x21, 0x21, &[1; 36]),
        version_2(0x21, 0x31, &[1; 216]),
    ]
}

pub(crate) fn http_requests() -> Vec<Vec<u8>> {
    vec![
        request("POST", "transfers", "/transfers", PREPARE),
        request("PUT", "transfers", &format!("/transfers/{TRANSFER}"), FULFIL),
        request("PUT", "transfers", &format!("/transfers/{TRANSFER}/error"), ERROR),
        request("PATCH", "transfers", &format!("/transfers/{TRANSFER}"), FULFIL),
        request("GET", "transfers", &format!("/transfers/{TRANSFER}"), ""),
    ]
}

pub(crate) fn header_blocks() -> Vec<Vec<u8>> {
    let heads = http_requests();
    let lines = heads.iter().map(|request| {
        let text = String::from_utf8_lossy(request);
        let head = text.split("\r\n\r\n").next().unwrap_or("");
        head.split_once("\r\n").map_or("", |(_, headers)| headers).to_owned() + "\r\n"
    });
    let mut blocks: Vec<Vec<u8>> = lines.map(String::into_bytes).collect();
    blocks.push(b"accept: application/vnd.interoperability.parties+json;version=2\r\nfspiop-source: a\r\nx-client-id: b\r\nfspiop-proxy: b\r\ndate: Tue, 01 Apr 2031 12:00:00 GMT\r\n".to_vec());
    blocks
}

pub(crate) fn paths() -> Vec<Vec<u8>> {
    texts(&[
        "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d/error",
        "/parties/MSISDN/26097%2B1/sub/error?x=1",
        "/participants/EMAIL/a%40b.cd",
        "/bulkQuotes/01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "/authorizations/01ARZ3NDEKTSV4RRFFQ69G5FAV?authenticationType=OTP&retriesLeft=2&amount=102&currency=USD",
        "http://dfsp.example:3001/fspiop/transfers/{{transferId}}/error",
        "https://[::1]:443/path?query",
    ])
}

/// One body of each kind. Forwarded requests start at [`FIRST_PASSED_ON`], in the order of [`messages`].
const BODIES: [&str; 12] = [
    PREPARE,
    FULFIL,
    ERROR,
    r#"{"fspId":"greenbank","currency":"USD"}"#,
    r#"{"requestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","partyList":[{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}],"currency":"USD"}"#,
    r#"{"party":{"partyIdInfo":{"partyIdType":"EMAIL","partyIdentifier":"a@b.cd","fspId":"f"},"name":"n","personalInfo":{"complexName":{"firstName":"Ada"},"dateOfBirth":"1966-06-16"}}}"#,
    r#"{"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"bluebank"}},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"amountType":"SEND","amount":{"amount":"12.5","currency":"USD"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"},"expiration":"2030-01-01T00:00:00.000Z","geoCode":{"latitude":"-1.5","longitude":"36.8"}}"#,
    r#"{"transferAmount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T00:00:00.000Z","ilpPacket":"DIIBeQ","condition":"OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"}"#,
    r#"{"bulkQuoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011"}},"individualQuotes":[{"quoteId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f61","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"amountType":"SEND","amount":{"amount":"3","currency":"ZMW"},"transactionType":{"scenario":"PAYMENT","initiator":"PAYER","initiatorType":"BUSINESS"}}]}"#,
    r#"{"conversionRequestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","conversionTerms":{"conversionId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","initiatingFsp":"bluebank","counterPartyFsp":"fxp1","amountType":"SEND","sourceAmount":{"currency":"USD","amount":"1"},"targetAmount":{"currency":"ZMW"},"expiration":"2030-01-01T00:00:00.000Z"}}"#,
    r#"{"transactionRequestId":"01ARZ3NDEKTSV4RRFFQ69G5FAV","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}},"payer":{"partyIdType":"MSISDN","partyIdentifier":"26011"},"amount":{"amount":"12.5","currency":"USD"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}"#,
    r#"{"responseType":"ENTERED","authenticationInfo":{"authentication":"OTP","authenticationValue":"1234"}}"#,
];

/// The end of the transfers in [`BODIES`].
const FIRST_PASSED_ON: usize = 3;
/// The index of `POST /quotes` in [`BODIES`].
const QUOTE: usize = 6;

pub(crate) fn bodies() -> Vec<Vec<u8>> {
    texts(&BODIES)
}

/// Forwarded messages: each body with a matching request, then requests without a body, then errors.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let with_body = [
        ("POST", "participants", "/participants/MSISDN/26097"),
        ("POST", "participants", "/participants"),
        ("PUT", "parties", "/parties/EMAIL/a%40b.cd/till-1"),
        ("POST", "quotes", "/quotes"),
        ("PUT", "quotes", "/quotes/6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11"),
        ("POST", "bulkQuotes", "/bulkQuotes"),
        ("POST", "fxQuotes", "/fxQuotes"),
        ("POST", "transactionRequests", "/transactionRequests"),
        ("PUT", "authorizations", "/authorizations/01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ];
    let pairs = with_body.into_iter().zip(&BODIES[FIRST_PASSED_ON..]);
    let mut all: Vec<_> =
        pairs.map(|((method, resource, path), body)| request(method, resource, path, body)).collect();
    all.push(request("GET", "parties", "/parties/BUSINESS/123/agent", ""));
    all.push(request("DELETE", "participants", "/participants/IBAN/DE44500105175407324931?currency=EUR", ""));
    all.push(request("PUT", "parties", "/parties/MSISDN/26097%2B1/error", ERROR));
    all
}

/// A request for a quote with a body of this many bytes, or of the required minimum.
pub(crate) fn quote_of(body_bytes: usize) -> Vec<u8> {
    request("POST", "quotes", "/quotes", &format!("{:body_bytes$}", BODIES[QUOTE]))
}

/// The same request with its body in two chunks. The length is the last header of its head.
fn chunked(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let (head, _length) = head.rsplit_once("\r\n").expect("headers");
    let (one, other) = body.split_at(body.len() / 2);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let (one, other) = (chunk(one), chunk(other));
    format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n{one}{other}0\r\n\r\n").into_bytes()
}

/// Inputs of the target `connection`: the kind of connection, its events, and the bytes on the wire.
pub(crate) fn connections() -> Vec<Vec<u8>> {
    const LIVE: &[u8] = b"GET /live HTTP/1.1\r\nhost: hub\r\n\r\n";
    let prepare = &http_requests()[0][..];
    let lookup = &request("GET", "parties", "/parties/BUSINESS/123/agent", "")[..];
    let quote = &quote_of(0)[..];
    let expecting = String::from_utf8_lossy(quote).replacen("host:", "expect: 100-continue\r\nhost:", 1);
    let chunks = &chunked(quote)[..];
    let pipelined =
        &[lookup, LIVE, prepare, b"HEAD /health HTTP/1.1\r\nhost: hub\r\n\r\n", lookup][..].concat()[..];
    let stories: [(u8, &[u8], &[u8]); 18] = [
        (0, &[], prepare),
        (0, &[], lookup),
        (0, &[100, 100, 239], chunks),
        (AGAIN, &[0], chunks),
        (AGAIN, &[16, 2], pipelined),
        (0, &[], expecting.as_bytes()),
        (0, &[], &quote_of(1025)),
        (OVER_CAP, &[10], prepare),
        (OVER_CAP, &[], b"HEAD / HTTP/1.1\r\nhost: hub\r\n\r\n"),
        (FALLS_SILENT, &[60], b"POST /transfers HTTP/1.1\r\nhost: hub\r\ncontent-length: 5\r\n"),
        (FALLS_SILENT, &[], LIVE),
        (0, &[20, 0xF2, 20, FINISH], pipelined),
        (0, &[20, 0xFE], lookup),
        (STRETCHED, &[], b"GET /live HTTP/1.1\r\nhost: hub\r\nx-long: ~~~~~~~~~\r\n\r\n"),
        (0, &[3], b"\x16\x03\x01\x02\x00\x01"),
        (0, &[], b"GET /nowhere HTTP/1.1\r\nhost: hub\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nxxGET / HTTP/1.1\r\n\r\n"),
        (0, &[], b"GET /live HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
        (0, &[], b"PUT /live HTTP/1.1\r\nhost: hub\r\nconnection: upgrade\r\nupgrade: h2c\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    ];
    let story = |(how, steps, wire): (u8, &[u8], &[u8])| {
        let mut input = vec![how | steps.len() as u8];
        input.extend_from_slice(steps);
        input.extend_from_slice(wire);
        input
    };
    stories.map(story).to_vec()
}

/// A frame in the short form that the HTTP/2 targets read.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, flags, stream, payload.len() as u8], payload].concat()
}

/// The head of a request in HPACK's static table: POST or GET, https, a path, an authority.
fn head(is_post: bool, path: &str) -> Vec<u8> {
    let mut head = vec![if is_post { 0x83 } else { 0x82 }, 0x87, 0x04, path.len() as u8];
    head.extend_from_slice(path.as_bytes());
    head.extend_from_slice(b"\x41\x03hub");
    head
}

/// Connections of HTTP/2 clients.
pub(crate) fn http2_requests() -> Vec<Vec<u8>> {
    let get = frame(1, 5, 1, &head(false, "/live"));
    let post =
        [frame(1, 4, 3, &head(true, "/transfers")), frame(0, 1, 3, &PREPARE.as_bytes()[..100])].concat();
    let (whole, half) = (head(true, "/quotes"), head(true, "/quotes").len() / 2);
    let continued = [frame(1, 1, 5, &whole[..half]), frame(9, 4, 5, &whole[half..])].concat();
    let trailers =
        [frame(1, 4, 7, &head(true, "/echo")), frame(0, 0, 7, b"ab"), frame(1, 5, 7, b"\x40\x01t\x01v")];
    let padded = frame(0, 9, 3, b"\x03abc\0\0\0");
    let more = [
        frame(4, 0, 0, b"\0\x04\0\0\0\0"),
        frame(4, 0, 0, b"\0\x03\0\0\0\x64\0\x05\0\0\x40\0"),
        frame(4, 1, 0, b""),
        frame(6, 0, 0, b"12345678"),
        frame(8, 0, 0, b"\0\0\x10\0"),
        frame(8, 0, 3, b"\x7f\xff\xff\xff"),
        frame(3, 0, 3, b"\0\0\0\x08"),
        frame(2, 0, 5, b"\0\0\0\0\x10"),
        frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0"),
        frame(5, 4, 1, b"\0\0\0\x02\x82"),
    ]
    .concat();
    let seeds: [(u8, &[u8]); 12] = [
        (0, &get),
        (2, &get),
        (0, &post),
        (3, &[&get[..], &post].concat()),
        (1, &continued),
        (0, &trailers.concat()),
        (0, &[&post[..post.len() - 104], &padded].concat()),
        (0, &[&get[..], &more].concat()),
        (http2::AGAIN, &frame(6, 0, 0, b"12345678")),
        (http2::FALLS_SILENT, &[&get[..], &frame(1, 0, 3, &[0x82])].concat()),
        (http2::FINISH, &get),
        (http2::RAW | 1, &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 5, 0, 0, 0, 1, 0x82]),
    ];
    seeds.map(|(how, frames)| [&[how], frames].concat()).to_vec()
}

/// Answers of HTTP/2 servers to a request on stream 1.
pub(crate) fn http2_answers() -> Vec<Vec<u8>> {
    let accepted = frame(1, 5, 1, b"\x08\x03202");
    let interim = frame(1, 4, 1, b"\x08\x03100");
    let body = [frame(1, 4, 1, b"\x88\x5c\x015"), frame(0, 1, 1, b"hello")].concat();
    let piece = frame(0, 0, 1, &[b'x'; 250]).repeat(6);
    let large = [frame(1, 4, 1, b"\x88"), piece, frame(0, 1, 1, b"")].concat();
    let seeds: [(u8, &[u8]); 10] = [
        (0, &accepted),
        (1, &body),
        (2, &[&interim[..], &accepted].concat()),
        (0, &[&interim.repeat(20)[..], &accepted].concat()),
        (0, &large),
        (0, &frame(3, 0, 1, b"\0\0\0\x07")),
        (0, &[frame(4, 1, 0, b""), frame(7, 0, 0, b"\0\0\0\0\0\0\0\0")].concat()),
        (http2::AGAIN, &frame(6, 0, 0, b"12345678")),
        (0, &[frame(4, 0, 0, b"\0\x04\0\0\0\0"), frame(8, 0, 1, b"\0\0\0\x01"), accepted.clone()].concat()),
        (0, &frame(5, 4, 1, b"\0\0\0\x02\x82")),
    ];
    seeds.map(|(how, frames)| [&[how], frames].concat()).to_vec()
}

/// Answers of oracles to lookups, then to a batch.
pub(crate) fn oracle_answers() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"partyList":[{"fspId":"greenbank","currency":"USD","partySubIdOrType":"shop&+7"},{"fspId":"redbank","partySubIdOrType":null,"x":1},{"fspId":""},{"fspId":"bl\u0075e","currency":"usd"}]}"#,
        r#"{"partyList":[]}"#,
        r#"{"partyList":[{"partyId":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}},{"partyId":{"partyIdType":"EMAIL","partyIdentifier":"a@b.cd"},"errorInformation":{"errorCode":"3003","errorDescription":"no"}},{"partyId":{"partyIdType":"BUSINESS","partyIdentifier":"acme","partySubIdOrType":"till-1"}}]}"#,
        r#"{"partyList":[{"partyId":{"partyIdType":"BUSINESS","partyIdentifier":"acme"},"errorInformation":{"errorCode":"x"}},{"partyId":{"partyIdType":"MSISDN","partyIdentifier":"26\u0030\u00397"}}]}"#,
    ])
}

pub(crate) fn amounts() -> Vec<Vec<u8>> {
    texts(&[
        "0.0001",
        "922337203685477.5807",
        "125.5",
        "-12.3400",
        TRANSFER,
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "2031-04-01T12:00:30.000Z",
        "2028-02-29T23:59:59.999+05:45",
        "Tue, 01 Apr 2031 12:00:00 GMT",
        "KES",
        "greenbank",
    ])
}

pub(crate) fn ilp_packets() -> Vec<Vec<u8>> {
    let json = r#"{"transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","amount":{"amount":"1","currency":"USD"}}"#;
    let at = Timestamp::parse_iso("2031-04-01T12:00:30.000Z").expect("a valid instant");
    vec![
        upesi_fspiop::ilp::encode_packet_v1(125, "g.dfsp", json).into_bytes(),
        upesi_fspiop::ilp::encode_packet_v4(125, at, &[7; 32], json).into_bytes(),
        json.as_bytes().to_vec(),
    ]
}

pub(crate) fn ledger_records() -> Vec<Vec<u8>> {
    lived().1
}

pub(crate) fn ledger_snapshots() -> Vec<Vec<u8>> {
    vec![lived().0]
}

/// One transfer of each state.
pub(crate) fn archived_transfers() -> Vec<Vec<u8>> {
    let at = Timestamp::parse_iso("2031-04-01T12:00:30.000Z").expect("a valid instant");
    let records = ledger_records();
    let events = records.iter().flat_map(|bytes| Record::decode(bytes).expect("its own record").events);
    let prepared = events.filter_map(|event| match event {
        Event::TransferPrepared(transfer) => Some(transfer),
        _ => None,
    });
    let window = Some(WindowId(3));
    let fees = Vec::new();
    let committed =
        TransferState::from(Committed { fulfilment: [1; 32], fingerprint: [2; 16], at, window, fees });
    let aborted = TransferState::from(Aborted {
        kind: AbortKind::Rejected,
        cause: Cause::Payee { code: ErrorCode::PAYEE_REJECTION, description: "no".into() },
        fingerprint: Some([3; 16]),
        operator_reason: None,
        at,
    });
    let by_operator = TransferState::from(Aborted {
        kind: AbortKind::Expired,
        cause: Refusal::Expired.into(),
        fingerprint: None,
        operator_reason: Some("stuck".into()),
        at,
    });
    let states = prepared.flat_map(|transfer| {
        let ends = [committed.clone(), aborted.clone(), by_operator.clone()];
        let ended = ends.map(|state| Transfer { state, ..transfer.clone() });
        std::iter::once(transfer.clone()).chain(ended).collect::<Vec<_>>()
    });
    let encoded = states.map(|transfer| {
        let mut bytes = Vec::new();
        transfer.encode(&mut Encoder(&mut bytes));
        bytes
    });
    encoded.collect()
}

pub(crate) fn store_records() -> Vec<Vec<u8>> {
    let change = |table: &str, key: &str, value: Option<&str>| RecordedChange {
        table: table.to_owned(),
        key: key.as_bytes().to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    let parties = [change("parties", "MSISDN/26097", Some("greenbank")), change("parties", "EMAIL/a", None)];
    let both = [&parties[..], &[change("quotes", "6f3ff9d4", Some(""))]].concat();
    vec![upesi_tables::store::write_record(&parties), upesi_tables::store::write_record(&both)]
}

/// The first segment of a small journal: frames of one record and of several, full and with space behind them.
pub(crate) fn segments() -> Vec<Vec<u8>> {
    let segment = |batches: &[u64]| {
        let disk = SimDisk::new(1);
        let options = Options { segment_bytes: 4096, identity: 7, ..Options::default() };
        let mut journal = upesi_journal::open(dynamic(&disk), options).expect("an empty journal");
        for records in batches {
            let mut batch = Batch::new(journal.writer.next_seq());
            for number in 0..*records {
                let time_ns = (journal.writer.next_seq() + number) as i64;
                batch.push(time_ns, |buffer| buffer.extend([b'r'; 60]));
            }
            journal.writer.append(&mut batch).expect("is written");
        }
        let first = &upesi_journal::segments(&disk).expect("lists")[0].file;
        disk.contents(first).expect("is there")
    };
    vec![segment(&[1]), segment(&[1, 3, 8, 1])]
}

pub(crate) fn snapshot_files() -> Vec<Vec<u8>> {
    let file = |body: &[u8]| {
        let disk = SimDisk::new(1);
        let store = SnapshotStore::open(dynamic(&disk)).expect("a directory");
        let written =
            store.write(22, Timestamp::from_ms(1_900_000_000_000).as_ns(), |sink| sink.write_all(body));
        disk.contents(&written.expect("is written").file).expect("is there")
    };
    vec![file(&lived().0), file(b""), file(&[0; 100])]
}

/// The snapshot of a hub with a scheme and a transfer, and the records after it.
fn lived() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut hub = Hub::start();
    hub.ask(&admin_requests()[ADMIN_FUNDS]);
    for request in http_requests() {
        hub.submit(&request);
    }
    hub.stored()
}

pub(crate) fn journal_patches() -> Vec<Vec<u8>> {
    vec![vec![0, 0, 0, 1], vec![0, 16, 2, 0, 1, 0, 0, 255], vec![1, 40, 0, 7], vec![2, 0, 4, 0], vec![0; 64]]
}

pub(crate) fn config_files() -> Vec<Vec<u8>> {
    let settings =
        load(&Sources::default()).map(|effective| to_toml(&effective)).expect("the defaults are right");
    // A file with all settings would be longer than the inputs of a fuzzer, so each section is a separate input.
    let sections = settings.split("\n[").map(|section| format!("[{}", section.trim_start_matches('[')));
    let dfsp = "[[dfsp]]\nname = 'greenbank'\nnetworks = ['192.0.2.0/24']\nlookups_per_s = 5\n";
    sections.chain([dfsp.to_owned()]).map(String::into_bytes).collect()
}

pub(crate) fn scheme_files() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../examples/scheme.toml").to_vec()]
}

pub(crate) fn quote_rules() -> Vec<Vec<u8>> {
    texts(&[RULES])
}

pub(crate) fn party_files() -> Vec<Vec<u8>> {
    texts(&[
        "partyIdType,partyIdentifier,partySubIdOrType,currency,fspId\nMSISDN,26097,,KES,greenbank\nEMAIL,\"a@b.cd\",till-1,,bluewallet\n",
        "MSISDN,26097,,,greenbank\n",
    ])
}

fn admin_request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The requests that create a small scheme.
pub(crate) fn admin_scheme() -> Vec<Vec<u8>> {
    let post = |path: &str, body: &str| admin_request("POST", path, body);
    let hub_account =
        |kind| post("/participants/Hub/accounts", &format!(r#"{{"currency":"KES","type":"{kind}"}}"#));
    let mut requests = vec![
        hub_account("HUB_MULTILATERAL_SETTLEMENT"),
        hub_account("HUB_RECONCILIATION"),
        post("/settlementModels", MODEL),
    ];
    for name in ["greenbank", "bluewallet"] {
        requests.push(post("/participants", &format!(r#"{{"name":"{name}","currency":"KES"}}"#)));
        requests.push(post(&format!("/participants/{name}/initialPositionAndLimits"), LIMIT));
    }
    requests
}

/// The index of the first funds among [`admin_requests`].
const ADMIN_FUNDS: usize = 7;

pub(crate) fn admin_requests() -> Vec<Vec<u8>> {
    let mut requests = admin_scheme();
    assert_eq!(requests.len(), ADMIN_FUNDS);
    requests.extend([
        admin_request("POST", "/participants/greenbank/accounts/4", FUNDS),
        admin_request("PUT", "/participants/greenbank/accounts/4/transfers/01ARZ3NDEKTSV4RRFFQ69G5FAV", r#"{"action":"recordFundsOutCommit","reason":"why"}"#),
        admin_request("PUT", "/participants/greenbank/limits", r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":500.25,"alarmPercentage":10}}"#),
        admin_request("POST", "/participants/greenbank/endpoints", r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://127.0.0.1:3001/transfers/{{transferId}}"}"#),
        admin_request("PUT", "/participants/greenbank", r#"{"isActive":false}"#),
        admin_request("PUT", "/participants/greenbank/accounts/3", r#"{"isActive":false}"#),
        admin_request("PUT", "/settlementModels/DEFERREDNET", r#"{"isActive":false}"#),
        admin_request("GET", "/participants/greenbank/positions?currency=KES", ""),
        admin_request("GET", "/participants", ""),
        admin_request("GET", "/transactions/01ARZ3NDEKTSV4RRFFQ69G5FAV", ""),
        admin_request("GET", "/health", ""),
    ]);
    requests
}

/// The setup of a scheme: flags, then position and deposit of each member in each currency.
fn edges(flags: u8, members: [[u8; 2]; 8], commands: &[&[u8]]) -> Vec<u8> {
    [&[flags], members.as_flattened(), &commands.concat()].concat()
}

pub(crate) fn ledger_commands() -> Vec<Vec<u8>> {
    // Indexes of edges: 10,000 ten-thousandths, the largest amount, and zero as a position.
    const SMALL: u8 = 2;
    const LARGEST: u8 = 10;
    const NONE: u8 = 0;
    let owes_most = 0x20 | LARGEST;
    let is_owed_most = 0x10 | LARGEST;
    let even = [[NONE, SMALL]; 8];
    let with = |member: usize, edges: [u8; 2]| {
        let mut members = even;
        members[member] = edges;
        members
    };
    let (gross, gross_of_both, fees) = (0b10, 0b110, 0b1_0000);
    let prepare = [0, 0, 0, 1, SMALL, 0];
    let convert_received = [6, 0, 2, 0, 1];
    let fulfilled = [7, 0, 2, 0, 0];
    let received: [&[u8]; 3] = [&prepare, &convert_received, &fulfilled];
    let converted: [&[u8]; 4] = [&[5, 0, 0, SMALL, 0, 2, 0, 1], &[7, 0], &[0, 0, 0, 1, 1, 1], &[2, 0, 1]];
    let bulk: [&[u8]; 4] = [&[9, 0, 1, 1, 0, 2, 0, 1, 2, 0], &[11, 11, 11, 11], &[10, 0], &[11, 11, 11, 11]];
    let moved: [&[u8]; 4] =
        [&[14, 0, 0, 0, 0, LARGEST], &[14, 0, 0, 1, 1, SMALL], &[14, 0, 0, 1, 2], &[12, 50]];
    let settled: [&[u8]; 8] = [
        &[18, 0, 1, 0, 1, 0, LARGEST, 1],
        &prepare,
        &[2, 0, 0],
        &[16, 1],
        &[16, 0, 0, 0],
        &[17, 0, 17, 0, 17, 0, 17, 0],
        &[19, 4, 0, 3, 0, 0, 4, 1, SMALL, 0],
        &[16, 0, 0, 1, 17, 0, 17, 7],
    ];
    vec![
        edges(0, even, &received),
        edges(gross, with(2, [owes_most, SMALL]), &received),
        edges(gross_of_both, with(2, [is_owed_most, SMALL]), &received),
        edges(gross, with(0, [NONE, LARGEST]), &converted),
        edges(gross_of_both, even, &converted),
        edges(fees, even, &settled),
        edges(fees | 0b1011, with(2, [owes_most, LARGEST]), &settled),
        edges(1, with(6, [is_owed_most, SMALL]), &bulk),
        edges(0, with(2, [is_owed_most, LARGEST]), &moved),
    ]
}
