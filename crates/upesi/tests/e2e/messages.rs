//! Messages of unusual shapes and sizes over the whole path. Accepted messages arrive at the other DFSP byte for byte.

use crate::common::World;
use crate::common::dfsp::Client;
use crate::common::message::{Message, Sent, Terms, fulfilment};
use crate::common::oracle::{Expected, Place, check};

/// The default of `fspiop.transfer_body_bytes_max`.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The message is accepted, and the payee receives exactly this message.
fn arrives(world: &World, id: &str, message: Message) {
    let since = world.now();
    let sent = world.deliver(message);
    compare(world, id, "bluewallet", &sent, since);
}

fn compare(world: &World, id: &str, receiver: &str, sent: &Sent, since: upesi_types::Timestamp) {
    let dfsp = world.dfsp(receiver);
    let seen = dfsp.next(id);
    let place = Place {
        receiver,
        host: dfsp.address.to_string(),
        method: sent.method,
        path: &sent.path,
        added: None,
        since,
        now: world.now(),
    };
    if let Err(fault) = check(&seen, &Expected::Forwarded(sent), &place) {
        panic!("{}", fault.chars().take(2_000).collect::<String>());
    }
}

/// A prepare with more members at its end.
fn with_members(world: &World, id: &str, members: &str) -> Message {
    let terms = Terms::new(id, world.now());
    let body = terms.body();
    Message::prepare(&terms).body(format!("{},{members}}}", body.strip_suffix('}').unwrap()))
}

#[test]
fn bodies_are_forwarded_unchanged() {
    let world = World::new(&[]);
    let deep = format!(r#""deep":{}1{}"#, "[".repeat(20), "]".repeat(20));
    for members in [
        r#""unknown":{"nested":[1,-0,2.50,1E5,1e-7,true,false,null,{},[],""]}"#,
        r#""big":123456789012345678901234567890.000100"#,
        r#""escaped":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t""#,
        r#""plain":"é😀 العربية 漢字 \u0000""#,
        r#""":"an empty name""#,
        &deep,
        r#""amounts":[{"currency":"XXX","amount":"no amount"}]"#,
        "\r\n\t \"spread\" \n:\r \"out\"\n",
    ] {
        let id = world.new_id();
        arrives(&world, &id, with_members(&world, &id, members));
    }
    for decorate in [|body: &str| format!("\n\t {body}\r\n "), |body: &str| body.replace(',', "\n  ,  ")] {
        let id = world.new_id();
        let terms = Terms::new(&id, world.now());
        arrives(&world, &id, Message::prepare(&terms).body(decorate(&terms.body())));
    }
}

#[test]
fn largest_body_arrives_and_one_byte_more_is_rejected() {
    let world = World::new(&[]);
    let padded = |id: &str, length: usize| {
        let empty = with_members(&world, id, r#""pad":"""#).body.len();
        let pad: String = "0123456789abcdef".chars().cycle().take(length - empty).collect();
        with_members(&world, id, &format!(r#""pad":"{pad}""#))
    };
    for length in [16 * 1024, 17 * 1024, BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
        let id = world.new_id();
        arrives(&world, &id, padded(&id, length));
        let body = format!(
            r#"{{"pad":"{}","transferState":"COMMITTED","fulfilment":"{}"}}"#,
            "x".repeat(length - 200),
            fulfilment()
        );
        let since = world.now();
        let sent = world.deliver(Message::fulfil(&id, "COMMITTED").body(body));
        compare(&world, &id, "greenbank", &sent, since);
        // The payee's copy is equally long.
        assert_eq!(world.dfsp("bluewallet").next(&id).body, sent.body);
    }
    let id = world.new_id();
    let (answer, _) = world.send(padded(&id, BODY_BYTES_MAX + 1));
    assert_eq!((answer.status, answer.error_code()), (400, Some("3104")));
    world.deliver(Message::get(&id, "greenbank"));
    assert!(world.dfsp("greenbank").next(&id).text().contains(r#""errorCode":"3208""#));
}

#[test]
fn extension_lists_keep_their_order() {
    let world = World::new(&[]);
    let items: Vec<_> = (1..=16)
        .map(|number| format!(r#"{{"key":"key {number}","value":"\"é\\ {number} {}"}}"#, "v".repeat(100)))
        .collect();
    let list = |items: &[String]| format!(r#"{{"extension":[{}]}}"#, items.join(","));
    let id = world.new_id();
    let terms = Terms { extensions: Some(list(&items)), ..Terms::new(&id, world.now()) };
    arrives(&world, &id, Message::prepare(&terms));
    let told = |name: &str| {
        world.deliver(Message::get(&id, name));
        world.dfsp(name).next(&id).text().to_owned()
    };
    assert_eq!(
        told("greenbank"),
        format!(r#"{{"extensionList":{},"transferState":"RESERVED"}}"#, list(&items))
    );
    // In a full list, the hub makes space for the cause of the failure.
    world.deliver(Message::abort(&id, "5104", "no"));
    assert_eq!(world.dfsp("greenbank").next(&id).method, "PUT");
    let mut kept = items[..15].to_vec();
    kept.push(r#"{"key":"cause","value":"5104: no"}"#.to_owned());
    let text = told("greenbank");
    assert!(text.contains(&format!(r#""extensionList":{}"#, list(&kept))), "{text}");
    // One more than the API allows.
    let id = world.new_id();
    let too_many: Vec<_> = items.iter().chain(&items[..1]).cloned().collect();
    let terms = Terms { extensions: Some(list(&too_many)), ..Terms::new(&id, world.now()) };
    let (answer, _) = world.send(Message::prepare(&terms));
    assert_eq!((answer.status, answer.error_code()), (400, Some("3100")));
}

#[test]
fn ids_may_be_ulids() {
    let world = World::new(&[]);
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    arrives(&world, id, Message::prepare(&Terms::new(id, world.now())));
    let since = world.now();
    let sent = world.deliver(Message::fulfil(id, "COMMITTED"));
    compare(&world, id, "greenbank", &sent, since);
    assert_eq!(world.position("greenbank"), "10");
}

#[test]
fn headers_are_forwarded_unchanged() {
    let world = World::new(&[]);
    let prepare = |id: &str| Message::prepare(&Terms::new(id, world.now()));
    let long = "x".repeat(50_000);
    for (name, value) in [
        ("x-empty", ""),
        ("x-utf-8", "é😀"),
        ("x-quoted", r#"a "b" , c; d=e"#),
        ("x-long", &long),
        ("fspiop-proxy", "proxy-1"),
        ("fspiop-signature", r#"{"signature":"","protectedHeader":""}"#),
        ("x-client-id", "greenbank"),
        ("baggage", "a=1,b=2"),
        ("content-encoding", "identity"),
        // A date in the strict form, of any age.
        ("date", "Mon, 01 Jan 1990 00:00:00 GMT"),
        // Made by another system: forwarded as received, although the hub would write it differently.
        (
            "accept",
            "application/vnd.interoperability.transfers+json;version=1,application/vnd.interoperability.transfers+json;version=2.0",
        ),
    ] {
        let id = world.new_id();
        arrives(&world, &id, prepare(&id).header(name, value));
    }
    // The message has the maximum number of headers.
    let id = world.new_id();
    let mut message = prepare(&id);
    for number in message.headers.len()..99 {
        message = message.header(&format!("x-{number}"), "1");
    }
    arrives(&world, &id, message);
}

/// Settings decide which versions the hub accepts, and the version of its own messages. Forwarded messages keep their
/// version.
#[test]
fn versions_follow_the_settings() {
    let world = World::new(&[("fspiop.versions_accepted", "1.1,2.0"), ("fspiop.version_default", "2.0")]);
    let media = "application/vnd.interoperability.transfers+json";
    let [payer, payee] = [world.dfsp("greenbank"), world.dfsp("bluewallet")];
    let id = world.new_id();
    let prepare = || Message::prepare(&Terms::new(&id, world.now())).version("1.1");
    let (refused, _) = world.send(prepare().version("1.0"));
    assert_eq!((refused.status, refused.error_code()), (406, Some("3001")));
    let list = r#"{"extension":[{"key":"1","value":"1"},{"key":"2","value":"0"}]}"#;
    assert!(refused.body.contains(list), "{}", refused.body);
    arrives(&world, &id, prepare());
    world.deliver(
        Message::fulfil(&id, "RESERVED").version("1.1").header("accept", &format!("{media};version=1")),
    );
    world.deliver(Message::get(&id, "greenbank"));
    let made = format!("{media};version=2.0");
    for _ in 0..2 {
        let put = payer.next(&id);
        assert_eq!((put.header("content-type"), put.header("accept")), (Some(&*made), None));
    }
    let patch = payee.next(&id);
    assert_eq!((&*patch.method, patch.header("content-type")), ("PATCH", Some(&*made)));
    assert_eq!(patch.header("accept"), Some(&*format!("{media};version=2")));
}

/// Headers for the network between DFSP and hub are not forwarded, and a malformed trace is not continued.
#[test]
fn hop_by_hop_headers_are_not_forwarded() {
    let world = World::new(&[]);
    let prepare = |id: &str| Message::prepare(&Terms::new(id, world.now()));
    let is_gone = |message: Message, id: &str, names: &[&str]| {
        world.deliver(message);
        let seen = world.dfsp("bluewallet").next(id);
        for name in names {
            assert_eq!(seen.header(name), None, "{name}");
        }
    };
    let id = world.new_id();
    let hops = ["connection", "keep-alive", "te", "trailer", "upgrade", "expect", "transfer-encoding"];
    let message =
        prepare(&id).header("trailer", "x-t").header("upgrade", "h2c").header("expect", "100-continue");
    let sent = message.into_sent();
    let mut client = Client::connect(world.fspiop());
    client.send(&sent.bytes());
    // The interim answer, then the final one.
    let statuses = [client.answer().unwrap().status, client.answer().unwrap().status];
    assert_eq!(statuses, [100, 202]);
    let seen = world.dfsp("bluewallet").next(&id);
    for name in hops {
        assert_eq!(seen.header(name), None, "{name}");
    }
    // Headers about the payer's own response are not for the payee. The hub sends its own coding.
    let id = world.new_id();
    let names = ["user-agent", "accept-language", "range", "if-none-match", "if-modified-since", "if-match"];
    let message = names.iter().fold(prepare(&id), |message, name| message.header(name, "x"));
    world.deliver(message.header("accept-encoding", "gzip, br"));
    let seen = world.dfsp("bluewallet").next(&id);
    for name in names {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    let id = world.new_id();
    is_gone(prepare(&id).header("traceparent", "00-0-0-00"), &id, &["traceparent", "tracestate"]);
    let id = world.new_id();
    is_gone(prepare(&id).without("traceparent"), &id, &["traceparent", "tracestate"]);
}

#[test]
fn chunked_bodies_arrive_whole() {
    let world = World::new(&[]);
    let id = world.new_id();
    let sent =
        Message::prepare(&Terms::new(&id, world.now())).header("transfer-encoding", "chunked").into_sent();
    let mut chunked = Sent { body: Vec::new(), ..sent.clone() };
    for piece in sent.body.chunks(100) {
        chunked.body.extend_from_slice(format!("{:x};ext=1\r\n", piece.len()).as_bytes());
        chunked.body.extend_from_slice(piece);
        chunked.body.extend_from_slice(b"\r\n");
    }
    chunked.body.extend_from_slice(b"0\r\nx-trailer: 1\r\n\r\n");
    let since = world.now();
    assert_eq!(Client::connect(world.fspiop()).exchange(&chunked.bytes()).status, 202);
    compare(&world, &id, "bluewallet", &sent, since);
}

#[test]
fn http_1_0_clients_are_served_and_disconnected() {
    let world = World::new(&[]);
    let id = world.new_id();
    let message = Message::prepare(&Terms::new(&id, world.now())).without("connection").without("keep-alive");
    let sent = message.into_sent();
    let since = world.now();
    let bytes = String::from_utf8(sent.bytes()).unwrap().replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut client = Client::connect(world.fspiop());
    assert_eq!(client.exchange(bytes.as_bytes()).status, 202);
    assert!(client.answer().is_none(), "the connection is closed");
    compare(&world, &id, "bluewallet", &sent, since);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let world = World::new(&[]);
    let mut client = Client::connect(world.fspiop());
    let ids: Vec<_> = (0..50).map(|_| world.new_id()).collect();
    let since = world.now();
    let mut sent = Vec::new();
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let message = Message::prepare(&Terms::new(id, since)).into_sent();
        bytes.extend(message.bytes());
        sent.push(message);
        expected.push("202".to_owned());
        // Other messages in between: a query, an answer that may come too early, a mistake.
        let other = match number % 3 {
            0 => Message::get(id, "greenbank"),
            1 => Message::fulfil(id, "RESERVED"),
            _ => Message::fulfil(id, "RESERVED").without("date"),
        };
        bytes.extend(other.into_sent().bytes());
        expected.push(["202", "200", "400 3102"][number % 3].to_owned());
    }
    client.send(&bytes);
    for expected in expected {
        let answer = client.answer().unwrap();
        let found = format!("{} {}", answer.status, answer.error_code().unwrap_or_default());
        assert_eq!(found.trim_end(), expected);
    }
    for (number, (id, sent)) in ids.iter().zip(&sent).enumerate() {
        compare(&world, id, "bluewallet", sent, since);
        match number % 3 {
            0 => assert_eq!(world.dfsp("greenbank").next(id).text(), r#"{"transferState":"RESERVED"}"#),
            1 => assert_eq!(world.dfsp("bluewallet").next(id).method, "PATCH"),
            _ => {}
        }
    }
}

/// Requests that are rejected at once have no effect, and their transfer continues. Other tests cover every rule; this
/// one covers the way through all layers.
#[test]
fn rejections_leave_the_transfer_unchanged() {
    let world = World::new(&[]);
    let id = world.new_id();
    arrives(&world, &id, Message::prepare(&Terms::new(&id, world.now())));
    let media = "application/vnd.interoperability.transfers+json";
    let fulfil = || Message::fulfil(&id, "COMMITTED");
    let long = "x".repeat(70_000);
    for (message, expected) in [
        (fulfil().body("{"), "400 3101"),
        (fulfil().body("[]"), "400 3101"),
        (fulfil().body(""), "400 3102"),
        (fulfil().body(b"{\"transferState\":\"\xff\"}".to_vec()), "400 3101"),
        (fulfil().body(r#"{"transferState":7}"#), "400 3100"),
        (fulfil().body(r#"{"transferState":"DONE"}"#), "400 3100"),
        (fulfil().body(r#"{"transferState":"COMMITTED","fulfilment":"short"}"#), "400 3100"),
        (fulfil().body(format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000))), "400 3101"),
        (fulfil().without("fspiop-source"), "400 3102"),
        (fulfil().without("date"), "400 3102"),
        (fulfil().without("content-type"), "400 3102"),
        (fulfil().header("date", "yesterday"), "400 3101"),
        (fulfil().header("content-type", "application/json"), "400 3101"),
        (fulfil().header("content-type", &format!("{media};version=3.0")), "406 3001"),
        (fulfil().header("accept", &format!("{media};version=3")), "406 3001"),
        (fulfil().header("x-client-id", "redmoney"), "400 3100"),
        (fulfil().header("x-long", &long), "431 "),
        (Message { path: format!("/transfers/{id}/"), ..fulfil() }, "404 3002"),
        (Message { path: "/transfers/".into(), ..fulfil() }, "404 3002"),
        (Message { path: "/elsewhere".into(), ..fulfil() }, "404 3002"),
        (Message { method: "DELETE", ..fulfil() }, "405 3000"),
        (Message { path: format!("/bulkTransfers/{id}"), ..fulfil() }, "400 3101"),
        (Message { method: "PATCH", ..fulfil() }, "501 2002"),
    ] {
        let (answer, sent) = world.send(message);
        let found = format!("{} {}", answer.status, answer.error_code().unwrap_or_default());
        let start: String = String::from_utf8_lossy(&sent.body).chars().take(80).collect();
        assert_eq!(found, expected, "{} {} {start}: {}", sent.method, sent.path, answer.body);
    }
    let since = world.now();
    let sent = world.deliver(fulfil());
    compare(&world, &id, "greenbank", &sent, since);
    assert_eq!(world.position("greenbank"), "10");
}
