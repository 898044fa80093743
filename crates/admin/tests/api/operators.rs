//! Objects that operators inspect: transfers, transactions, positions, undelivered callbacks.

use crate::common;
use crate::common::{Hub, PREIMAGE, id, prepare, refusal};
use upesi_fspiop::encode_octets;
use upesi_fspiop::ilp::{encode_packet_v1, encode_packet_v4};
use upesi_ledger::command::Fulfil;
use upesi_ledger::{CallbackKey, Command, ParticipantId};
use upesi_types::{Timestamp, TransferId};

fn fulfil(id: TransferId, payer: &str, payee: &str) -> Command {
    let extensions = Some(r#"[{"key":"a","value":"b"}]"#.into());
    Command::Fulfil(Fulfil { extensions, ..common::fulfil(id, payer, payee) })
}

fn octets(bytes: &[u8; 32]) -> String {
    encode_octets(bytes).iter().copied().map(char::from).collect()
}

#[tokio::test]
async fn a_transfer_is_shown_in_every_state() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.submit(prepare(id(1), "green", "blue", "100.5"), "").await;
    let condition = octets(&upesi_fspiop::ilp::condition_of(&PREIMAGE));
    let reserved = hub.get(&format!("/transfers/{}", id(1))).await;
    let seq = reserved.split(r#""prepareSeq":"#).nth(1).unwrap().split(',').next().unwrap().to_owned();
    let expected = format!(
        concat!(
            r#"{{"transferId":"{}","transferState":"RESERVED","internalState":"RESERVED","#,
            r#""payer":{{"name":"green","accountId":3}},"payee":{{"name":"blue","accountId":5}},"#,
            r#""amount":{{"amount":100.5,"currency":"KES"}},"condition":"{}","fulfilment":null,"#,
            r#""expiration":"2031-04-01T10:00:30.000Z","preparedDate":"2031-04-01T10:00:00.000Z","#,
            r#""completedDate":null,"prepareSeq":{},"errorInformation":null,"operatorReason":null,"extensions":null}}"#
        ),
        id(1),
        condition,
        seq
    );
    assert_eq!(reserved, expected);

    hub.submit(fulfil(id(1), "green", "blue"), "").await;
    let committed = hub.get(&format!("/transfers/{}", id(1))).await;
    let expected = expected
        .replace(
            r#""transferState":"RESERVED","internalState":"RESERVED""#,
            r#""transferState":"COMMITTED","internalState":"COMMITTED""#,
        )
        .replace(r#""fulfilment":null"#, &format!(r#""fulfilment":"{}""#, octets(&PREIMAGE)))
        .replace(r#""completedDate":null"#, r#""completedDate":"2031-04-01T10:00:00.000Z""#)
        .replace(r#""extensions":null"#, r#""extensions":[{"key":"a","value":"b"}]"#);
    assert_eq!(committed, expected);

    hub.submit(prepare(id(2), "green", "blue", "2000"), "").await;
    let rejected = hub.get(&format!("/transfers/{}", id(2))).await;
    for part in [
        r#""transferState":"ABORTED","internalState":"ABORTED_REJECTED""#,
        r#""errorInformation":{"errorCode":"4200","errorDescription":"Payer limit error"#,
    ] {
        assert!(rejected.contains(part), "{part}: {rejected}");
    }
    hub.submit(prepare(id(3), "green", "nobody", "1"), "").await;
    let invalid = hub.get(&format!("/transfers/{}", id(3))).await;
    for part in [r#""internalState":"INVALID","#, r#""payee":null"#, r#""errorCode":"3100""#] {
        assert!(invalid.contains(part), "{part}: {invalid}");
    }
    hub.submit(prepare(id(4), "green", "blue", "1"), "").await;
    hub.clock.advance(30_001);
    hub.submit(Command::Tick, "").await;
    let expired = hub.get(&format!("/transfers/{}", id(4))).await;
    assert!(expired.contains(r#""internalState":"EXPIRED_RESERVED""#), "{expired}");
    let unknown = hub.expect("GET", &format!("/transfers/{}", id(9)), "", 400).await;
    assert_eq!(unknown, refusal(3208, &format!("Transfer ID not found - Transfer {} does not exist", id(9))));
}

#[tokio::test]
async fn reservation_ended_by_an_operator_records_the_reason() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let lasting = |number, amount| {
        let Command::Prepare(prepare) = prepare(id(number), "green", "blue", amount) else { unreachable!() };
        Command::Prepare(upesi_ledger::command::Prepare {
            expires_at: Timestamp::parse_iso("2031-04-02T09:59:59.000Z").unwrap(),
            ..prepare
        })
    };
    let path = |number| format!("/transfers/{}", id(number));
    hub.submit(lasting(1, "100.5"), "").await;
    hub.submit(lasting(2, "7"), "").await;
    let position = || async { hub.get("/participants/green/positions?currency=KES").await };
    assert!(position().await.contains(r#""value":107.5"#), "{}", position().await);

    for (body, detail) in [
        (r#"{"action":"expire"}"#, "\"reason\" is required"),
        (r#"{"reason":"x"}"#, "\"action\" is required"),
        (r#"{"action":"abort","reason":"x"}"#, "\"action\" must be one of [expire]"),
        (r#"{"action":"expire","reason":""}"#, "\"reason\" is not allowed to be empty"),
        (r#"{"action":"expire","reason":"x","n":1}"#, "\"n\" is not allowed"),
    ] {
        let refused = hub.expect("PUT", &path(1), body, 400).await;
        assert!(refused.contains(&detail.replace('"', "\\\"")), "{body}: {refused}");
    }
    let end = r#"{"action":"expire","reason":"blue has closed"}"#;
    hub.clock.advance(1_000);
    let ended = hub.expect("PUT", &path(1), end, 200).await;
    for part in [
        r#""transferState":"ABORTED","internalState":"EXPIRED_RESERVED""#,
        r#""completedDate":"2031-04-01T10:00:01.000Z""#,
        r#""errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}"#,
        r#""operatorReason":"blue has closed""#,
    ] {
        assert!(ended.contains(part), "{part}: {ended}");
    }
    assert_eq!(hub.get(&path(1)).await, ended);
    assert!(position().await.contains(r#""value":7"#), "{}", position().await);

    // A repetition changes nothing, and the first reason stays.
    hub.clock.advance(1_000);
    let again = hub.expect("PUT", &path(1), r#"{"action":"expire","reason":"again"}"#, 200).await;
    assert_eq!(again, ended);
    hub.submit(fulfil(id(2), "green", "blue"), "").await;
    let refused = hub.expect("PUT", &path(2), end, 400).await;
    let detail = "The transfer is final in state COMMITTED; only a reservation can be ended";
    assert_eq!(refused, refusal(3100, &format!("Generic validation error - {detail}")));
    let unknown = hub.expect("PUT", &path(9), end, 400).await;
    assert_eq!(unknown, refusal(3208, "Transfer ID not found - This transfer does not exist"));
}

#[tokio::test]
async fn a_transaction_is_decoded_from_either_kind_of_packet() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let transaction = r#"{"transactionId":"85feac2f-39b2-491b-817e-4a03203d4f14","amount":{"amount":"100","currency":"KES"},"n":1.50}"#;
    let expiry = Timestamp::parse_iso(common::START).unwrap();
    let condition = upesi_fspiop::ilp::condition_of(&PREIMAGE);
    let body = |number, packet: &str| {
        format!(
            r#"{{"transferId":"{}","payerFsp":"green","payeeFsp":"blue","amount":{{"currency":"KES","amount":"1"}},"ilpPacket":"{packet}","condition":"{}","expiration":"2031-04-01T10:00:30.000Z"}}"#,
            id(number),
            octets(&condition)
        )
    };
    for (number, packet) in [
        (1, encode_packet_v4(100, expiry, &condition, transaction)),
        (2, encode_packet_v1(100, "g.blue.msisdn.1", transaction)),
    ] {
        hub.submit(prepare(id(number), "green", "blue", "1"), &body(number, &packet)).await;
        assert_eq!(hub.get(&format!("/transactions/{}", id(number))).await, transaction);
    }
    for (number, packet, what) in [
        (3, "AAAA".to_owned(), "the ILP packet is of unknown type 0"),
        (4, encode_packet_v1(1, "g.blue", "no json"), "the data of the ILP packet is not JSON"),
    ] {
        hub.submit(prepare(id(number), "green", "blue", "1"), &body(number, &packet)).await;
        let answer = hub.expect("GET", &format!("/transactions/{}", id(number)), "", 500).await;
        let text =
            format!("Internal server error - The transaction of this transfer cannot be shown: {what}");
        assert_eq!(answer, refusal(2001, &text));
    }
    let unknown = hub.expect("GET", &format!("/transactions/{}", id(9)), "", 400).await;
    assert_eq!(unknown, refusal(3200, &format!("Generic ID not found - Transfer {} does not exist", id(9))));
    let malformed = hub.expect("GET", "/transactions/9", "", 400).await;
    assert!(malformed.contains(r#""errorCode":"3101""#), "{malformed}");
}

#[tokio::test]
async fn transaction_of_an_item_comes_from_its_bulk_request() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let transaction = |number| format!(r#"{{"transactionId":"{}"}}"#, id(100 + number));
    let item = |number, amount: &str| {
        let packet = encode_packet_v1(100, "g.blue.msisdn.1", &transaction(number));
        let condition = octets(&upesi_fspiop::ilp::condition_of(&PREIMAGE));
        format!(
            r#"{{"transferId":"{}","transferAmount":{{"currency":"KES","amount":"{amount}"}},"ilpPacket":"{packet}","condition":"{condition}"}}"#,
            id(number)
        )
    };
    let bulk = |number, payee: &str, items: &[String]| {
        format!(
            r#"{{"bulkTransferId":"{}","bulkQuoteId":"{0}","payerFsp":"green","payeeFsp":"{payee}","individualTransfers":[{}],"expiration":"2031-04-01T10:00:30.000Z"}}"#,
            id(number),
            items.join(",")
        )
    };
    // The second item is beyond the cap, and is rejected.
    let body = bulk(50, "blue", &[item(1, "1"), item(2, "2000"), item(3, "1")]);
    submit_bulk(&hub, &body).await;
    for number in [1, 2, 3] {
        let found = hub.get(&format!("/transactions/{}", id(number))).await;
        assert_eq!(found, transaction(number), "{number}");
    }
    let single = r#"{"transactionId":"single"}"#;
    let packet = encode_packet_v1(100, "g.blue.msisdn.1", single);
    let request = item(4, "1").replace(&encode_packet_v1(100, "g.blue.msisdn.1", &transaction(4)), &packet);
    let request = request.replace("transferAmount", "amount").replace(
        r#","ilpPacket""#,
        r#","payerFsp":"green","payeeFsp":"blue","expiration":"2031-04-01T10:00:30.000Z","ilpPacket""#,
    );
    hub.submit(prepare(id(4), "green", "blue", "1"), &request).await;
    assert_eq!(hub.get(&format!("/transactions/{}", id(4))).await, single);
    // A rejected single request leaves no body.
    hub.submit(prepare(id(5), "green", "blue", "2000"), &request).await;
    let refused = hub.expect("GET", &format!("/transactions/{}", id(5)), "", 400).await;
    let text = "Generic ID not found - The journal does not store the bodies of rejected requests";
    assert_eq!(refused, refusal(3200, text));
}

/// Submits a bulk transfer as its edge does, and waits until each item is decided.
async fn submit_bulk(hub: &Hub, body: &str) {
    let read = upesi_fspiop::body::parse_bulk_transfer(body.as_bytes()).unwrap();
    let bulk = upesi_types::BulkId::new(read.bulk_transfer_id);
    let item = |(id, item): (_, upesi_fspiop::body::BulkItem)| {
        let asked = upesi_ledger::AskedItem {
            amount: item.amount,
            currency: item.currency,
            ilp_packet: item.ilp_packet,
            condition: item.condition,
            extensions: item.extensions,
        };
        (id, asked)
    };
    let items = read.items.into_iter().map(item).collect();
    let prepare = upesi_ledger::command::PrepareBulk {
        id: bulk,
        quote: read.bulk_quote_id,
        source: read.payer,
        destination: Some(read.payee),
        payer: read.payer,
        payee: read.payee,
        items: upesi_ledger::NewItems::new(items).unwrap(),
        expires_at: read.expiration,
        fingerprint: [9; 16],
        extensions: None,
    };
    let command = upesi_ledger::command::BulkCommand::Prepare(Box::new(prepare));
    hub.submit(Command::Bulk(command), body).await;
    let is_asked = move |ledger: &upesi_ledger::Ledger| {
        let bulk = ledger.bulk(bulk).unwrap();
        bulk.public_state() == upesi_ledger::PublicBulkState::Accepted
    };
    while !hub.handle.read(is_asked).await.unwrap() {}
}

#[tokio::test]
async fn positions_are_shown_with_their_limits() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.submit(prepare(id(1), "green", "blue", "250"), "").await;
    hub.submit(fulfil(id(1), "green", "blue"), "").await;
    hub.submit(prepare(id(2), "green", "blue", "100"), "").await;
    let expected = concat!(
        r#"[{"participant":"green","currency":"KES","isActive":1,"position":350,"cover":5000,"cap":1000,"reserved":100,"utilisationBasisPoints":3500},"#,
        r#"{"participant":"blue","currency":"KES","isActive":1,"position":-250,"cover":5000,"cap":1000,"reserved":100,"utilisationBasisPoints":0}]"#
    );
    assert_eq!(hub.get("/positions").await, expected);
    let green = hub.get("/participants/green/positions?currency=KES").await;
    assert_eq!(green, r#"{"currency":"KES","value":350,"changedDate":"2031-04-01T10:00:00.000Z"}"#);
}

/// The keys of the callbacks on a page.
fn keys(page: &str) -> Vec<String> {
    let parts = page.split(r#"{"key":""#).skip(1).filter_map(|part| part.split('"').next());
    parts.map(str::to_owned).collect()
}

fn key_of(text: &str) -> CallbackKey {
    let mut parts = text.split('-').map(|part| part.parse::<u64>().unwrap());
    let mut next = || parts.next().unwrap();
    let target = ParticipantId::new(u32::try_from(next()).unwrap()).unwrap();
    CallbackKey { target, seq: next(), index: u8::try_from(next()).unwrap() }
}

async fn park(hub: &Hub, key: &str) {
    let key = key_of(key);
    hub.submit(Command::Park { key, attempts: 5, reason: "503 from the DFSP".into() }, "").await;
}

#[tokio::test]
async fn undelivered_callbacks_are_listed_page_by_page() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    assert_eq!(
        hub.get("/callbacks").await,
        r#"{"callbacks":[],"next":null,"totals":{"pending":0,"parked":0}}"#
    );
    for number in 1..=3 {
        hub.submit(prepare(id(number), "green", "blue", "1"), "").await;
    }
    hub.submit(fulfil(id(1), "green", "blue"), "").await;
    let all = hub.get("/callbacks").await;
    let listed = keys(&all);
    // The list contains three prepares to blue, the fulfil to green, and its confirmation to blue.
    assert_eq!(listed.len(), 5, "{all}");
    assert!(all.ends_with(r#""next":null,"totals":{"pending":5,"parked":0}}"#), "{all}");
    assert_eq!(
        hub.get(&format!("/callbacks/{}", listed[1])).await,
        format!(
            concat!(
                r#"{{"key":"{}","participant":"blue","state":"pending","message":"POST /transfers","transferId":"{}","#,
                r#""createdDate":"2031-04-01T10:00:00.000Z","attempts":3,"reason":"answered 500","parkedDate":null}}"#
            ),
            listed[1],
            id(1)
        )
    );
    assert!(
        all.contains(r#""participant":"green","state":"pending","message":"PUT /transfers/{ID}""#),
        "{all}"
    );

    let mut paged = Vec::new();
    let mut path = "/callbacks?limit=2".to_owned();
    for expected in [2, 2, 1] {
        let page = hub.get(&path).await;
        let found = keys(&page);
        assert_eq!(found.len(), expected, "{page}");
        let next = format!(r#""next":"{}""#, found[expected - 1]);
        assert_eq!(page.contains(&next), expected == 2, "{page}");
        path = format!("/callbacks?limit=2&after={}", found[expected - 1]);
        paged.extend(found);
    }
    assert_eq!(paged, listed);
    let whole = hub.get("/callbacks?limit=5").await;
    assert!(keys(&whole) == listed && whole.contains(r#""next":null"#), "{whole}");
    park(&hub, &listed[2]).await;
    assert_eq!(keys(&hub.get("/callbacks?state=parked").await), [listed[2].clone()]);
    assert_eq!(keys(&hub.get("/callbacks?state=pending").await).len(), 4);
    assert_eq!(keys(&hub.get("/callbacks?fsp=green").await), [listed[0].clone()]);
    assert_eq!(keys(&hub.get("/callbacks?fsp=green&state=parked").await).len(), 0);
    let shown = hub.get(&format!("/callbacks/{}", listed[2])).await;
    let parked = r#""attempts":5,"reason":"503 from the DFSP","parkedDate":"2031-04-01T10:00:00.000Z"}"#;
    assert!(shown.contains(r#""state":"parked""#) && shown.ends_with(parked), "{shown}");
}

/// The progress of a transfer: each callback with its decision and delivery, then the settlement.
#[tokio::test]
async fn progress_of_a_transfer_shows_callbacks_with_delivery_times() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let path = format!("/transfers/{}/progress", id(1));
    let unknown = hub.expect("GET", &path, "", 400).await;
    assert!(unknown.contains("3208"), "{unknown}");
    hub.submit(prepare(id(1), "green", "blue", "10"), "").await;
    hub.submit(prepare(id(2), "green", "blue", "20"), "").await;
    let owed = keys(&hub.get("/callbacks?fsp=blue").await);
    let view = |key: &str, name: &str, message: &str, rest: &str| {
        format!(r#"{{"key":"{key}","participant":"{name}","message":"{message}","state":"{rest}"#,)
    };
    let ten = r#""createdDate":"2031-04-01T10:00:00.000Z","#;
    let pending = format!(r#"pending",{ten}"deliveredDate":null,"attempts":3,"reason":"answered 500"}}"#);
    let page = |callbacks: &[String], settlement: &str| {
        let (id, callbacks) = (id(1), callbacks.join(","));
        format!(
            r#"{{"transferId":"{id}","callbacks":[{callbacks}],"isWhole":true,"settlement":{settlement}}}"#
        )
    };
    assert_eq!(hub.get(&path).await, page(&[view(&owed[0], "blue", "POST /transfers", &pending)], "null"));

    park(&hub, &owed[0]).await;
    let parked = format!(r#"parked",{ten}"deliveredDate":null,"attempts":5,"reason":"503 from the DFSP"}}"#);
    assert_eq!(hub.get(&path).await, page(&[view(&owed[0], "blue", "POST /transfers", &parked)], "null"));

    hub.clock.advance(1_000);
    hub.expect("POST", "/callbacks/redeliver", r#"{"all":true}"#, 202).await;
    hub.submit(Command::Delivered(vec![key_of(&owed[0])]), "").await;
    hub.clock.advance(1_000);
    hub.submit(fulfil(id(1), "green", "blue"), "").await;
    let delivered = |created: &str, at: &str| {
        format!(
            r#"delivered","createdDate":"2031-04-01T10:00:{created}.000Z","deliveredDate":{at},"attempts":null,"reason":null}}"#
        )
    };
    let ended = keys(&hub.get("/callbacks?fsp=green").await);
    let found = hub.get(&path).await;
    let prepared =
        view(&owed[0], "blue", "POST /transfers", &delivered("00", r#""2031-04-01T10:00:01.000Z""#));
    assert!(found.contains(&prepared), "{prepared} {found}");
    let green = format!(
        r#"{{"key":"{}","participant":"green","message":"PUT /transfers/{{ID}}","state":"pending""#,
        ended[0]
    );
    assert!(found.contains(&green), "{green} {found}");
    let window =
        r#""settlement":{"windowId":1,"windowState":"OPEN","settlementId":null,"settlementState":null}}"#;
    assert!(found.ends_with(window), "{found}");
    // Callbacks of the other transfer are not included.
    assert!(!found.contains(&owed[1]), "{found}");
}

#[tokio::test]
async fn parked_callbacks_are_redelivered() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=3 {
        hub.submit(prepare(id(number), "green", "blue", "1"), "").await;
    }
    hub.submit(fulfil(id(1), "green", "blue"), "").await;
    let listed = keys(&hub.get("/callbacks").await);
    for key in &listed {
        park(&hub, key).await;
    }
    let redeliver = async |body: &str| hub.expect("POST", "/callbacks/redeliver", body, 202).await;
    let body = format!(r#"{{"keys":["{}","{}","{}"]}}"#, listed[0], listed[1], listed[0]);
    assert_eq!(redeliver(&body).await, r#"{"redelivered":2,"remaining":0}"#);
    assert!(hub.get("/callbacks").await.ends_with(r#""totals":{"pending":2,"parked":3}}"#));
    park(&hub, &listed[0]).await;
    assert_eq!(redeliver(r#"{"all":true,"fsp":"green"}"#).await, r#"{"redelivered":1,"remaining":0}"#);
    assert_eq!(redeliver(r#"{"all":true}"#).await, r#"{"redelivered":3,"remaining":0}"#);
    assert_eq!(redeliver(r#"{"all":true}"#).await, r#"{"redelivered":0,"remaining":0}"#);
    assert!(hub.get("/callbacks").await.ends_with(r#""totals":{"pending":5,"parked":0}}"#));
}

/// The lanes' data about a callback that is not parked.
#[tokio::test]
async fn pending_callbacks_show_attempts_and_the_last_failure() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=2 {
        hub.submit(prepare(id(number), "green", "blue", "1"), "").await;
    }
    let listed = hub.get("/callbacks").await;
    let failed = r#""attempts":3,"reason":"answered 500","parkedDate":null}"#;
    let untried = r#""attempts":null,"reason":null,"parkedDate":null}"#;
    assert_eq!((listed.matches(failed).count(), listed.matches(untried).count()), (1, 1), "{listed}");
    let first = &keys(&listed)[0];
    assert!(hub.get(&format!("/callbacks/{first}")).await.ends_with(failed));
    park(&hub, first).await;
    let parked = hub.get(&format!("/callbacks/{first}")).await;
    assert!(parked.contains(r#""attempts":5,"reason":"503 from the DFSP""#), "{parked}");
}

#[tokio::test]
async fn callback_requests_of_invalid_form_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let unknown = "Generic ID not found - Participant 'absent' does not exist";
    let not_parked = "Generic ID not found - None of these callbacks is parked";
    let gone = "Generic ID not found - No undelivered callback has this key";
    for (method, path, body, code, sentence) in [
        (
            "GET",
            "/callbacks?state=lost",
            "",
            3101,
            r#"Malformed syntax - \"state\" must be one of [parked, pending]"#,
        ),
        (
            "GET",
            "/callbacks?limit=0",
            "",
            3101,
            r#"Malformed syntax - \"limit\" must be a whole number from 1 to 1000"#,
        ),
        (
            "GET",
            "/callbacks?limit=1001",
            "",
            3101,
            r#"Malformed syntax - \"limit\" must be a whole number from 1 to 1000"#,
        ),
        (
            "GET",
            "/callbacks?after=x",
            "",
            3101,
            r#"Malformed syntax - \"after\" must be the key of a callback"#,
        ),
        ("GET", "/callbacks?fsp=absent", "", 3200, unknown),
        ("GET", "/callbacks/x", "", 3200, gone),
        ("GET", "/callbacks/1-1-0", "", 3200, gone),
        ("POST", "/callbacks/redeliver", r#"{"keys":["1-1-0"]}"#, 3200, not_parked),
        (
            "POST",
            "/callbacks/redeliver",
            r#"{"keys":["x"]}"#,
            3101,
            r#"Malformed syntax - \"keys[0]\" must be the key of a callback"#,
        ),
        ("POST", "/callbacks/redeliver", r"{}", 3101, r#"Malformed syntax - \"all\" is required"#),
        (
            "POST",
            "/callbacks/redeliver",
            r#"{"all":false}"#,
            3101,
            r#"Malformed syntax - \"all\" must be true, or \"keys\" must be given"#,
        ),
        ("POST", "/callbacks/redeliver", r#"{"all":true,"fsp":"absent"}"#, 3200, unknown),
        (
            "POST",
            "/callbacks/redeliver",
            r#"{"keys":[],"all":true}"#,
            3101,
            r#"Malformed syntax - \"all\" is not allowed"#,
        ),
    ] {
        assert_eq!(
            hub.call(method, path, body).await,
            (400, refusal(code, sentence)),
            "{method} {path} {body}"
        );
    }
}
