//! The list of attacks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use upesi_engine::{Clock as _, SystemClock};
use upesi_http::Bytes;
use upesi_types::Timestamp;

use super::figures::Bounds;
use super::flood::{AttackTraffic, EndpointBehaviour, MakeRequest};
use super::streams::Streams;

/// Number of DFSPs in the scheme. The first four are honest, and the last one is the attacker's.
pub const DFSPS: usize = 6;
pub const HONEST: usize = 4;
/// The DFSP that the attacker names as sender of quotes.
const QUOTING: &str = "dfsp-5";
pub const HOSTILE: &str = "dfsp-6";
/// Address of the hub's metrics, if they have their own port.
pub const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 4002);
/// Number of short requests that are sent together.
const BLOCK: usize = 64;

/// The attacked port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Dfsps,
    Operators,
    Metrics,
}

/// The credential of an attacker. Except for the first, the hub requires mutual TLS of DFSPs, and TLS of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Connections without TLS, as in the whole scheme.
    None,
    /// TLS without a certificate.
    Anonymous,
    /// TLS with the certificate of the hostile DFSP.
    Dfsp,
    /// TLS with a certificate below ten authorities of the same name.
    LongChain,
}

/// An attack of the list.
pub struct Attack {
    /// Its name, for `--only` and in the evidence.
    pub name: &'static str,
    pub what: &'static str,
    pub means: AttackTraffic,
    pub port: Port,
    pub manner: EndpointBehaviour,
    /// Whether the flood alone keeps the machine busy, so that it is compared with the same flood against a stand-in.
    pub has_control: bool,
    /// Bounds in addition to the common ones.
    pub bounds: Bounds,
    /// Duration of the flood if there is a single round.
    pub time: Option<Duration>,
    pub credential: Credential,
    /// The hub's limit of descriptors, for attacks on descriptors. The hub then restarts during the flood.
    pub descriptors: Option<u64>,
}

impl Attack {
    fn new(name: &'static str, what: &'static str, means: AttackTraffic) -> Self {
        Self {
            name,
            what,
            means,
            port: Port::Dfsps,
            manner: EndpointBehaviour::Polite,
            has_control: false,
            bounds: Bounds::default(),
            time: None,
            credential: Credential::None,
            descriptors: None,
        }
    }

    fn with(self, credential: Credential) -> Self {
        Self { credential, ..self }
    }

    fn writes(self, kib_per_s_max: u64) -> Self {
        let bounds = Bounds { written_kib_per_s_max: Some(kib_per_s_max), ..self.bounds };
        Self { bounds, has_control: true, ..self }
    }

    fn behaving(self, manner: EndpointBehaviour) -> Self {
        Self { manner, bounds: Bounds { calls: true, ..self.bounds }, ..self }
    }

    fn at(self, port: Port) -> Self {
        Self { port, ..self }
    }
}

/// The instant this many seconds from now.
fn in_seconds(seconds: i64) -> Timestamp {
    SystemClock.now().plus_ms(1_000 * seconds)
}

fn id(number: u64) -> String {
    format!("{:08x}-0000-4000-8000-{number:012x}", in_seconds(0).as_ms() & 0xffff_ffff)
}

/// A request of a DFSP. `length` is the declared length of the body.
fn request(line: &str, source: &str, destination: &str, body: &str, length: usize) -> Vec<u8> {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let resource = path.split('/').nth(1).unwrap_or_default();
    let media = format!("application/vnd.interoperability.{resource}+json;version=1.1");
    let date = in_seconds(0).http_date();
    let mut head = format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\nAccept: {media}\r\nDate: {date}\r\nFSPIOP-Source: {source}\r\n"
    );
    if !destination.is_empty() {
        head.push_str(&format!("FSPIOP-Destination: {destination}\r\n"));
    }
    if length > 0 {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    head.push_str(body);
    let mut bytes = head.into_bytes();
    // Blanks after a JSON text are part of the body and have no meaning.
    let blanks = if body.is_empty() { 0 } else { length.saturating_sub(body.len()) };
    bytes.resize(bytes.len() + blanks, b' ');
    bytes
}

/// A quote whose body has this many bytes.
pub fn quote(number: u64, source: &str, destination: &str, length: usize) -> Vec<u8> {
    let party =
        |msisdn: u64| format!(r#"{{"partyIdInfo":{{"partyIdType":"MSISDN","partyIdentifier":"{msisdn}"}}}}"#);
    let body = format!(
        r#"{{"quoteId":"{}","transactionId":"{}","payer":{},"payee":{},"amountType":"SEND","amount":{{"amount":"{}.5","currency":"KES"}},"transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#,
        id(number),
        id(number ^ 1 << 40),
        party(26_000_000_000 + number),
        party(26_100_000_000 + number),
        1 + number % 900
    );
    request("POST /quotes", source, destination, &body, length)
}

/// A prepare above every DFSP's limit, whose body has this many bytes.
fn prepare(number: u64, source: &str, length: usize) -> Vec<u8> {
    let (id, expiration, condition) = (id(number), in_seconds(3_600), "A".repeat(43));
    let amount = 50_000_000_000 + number;
    let body = format!(
        r#"{{"transferId":"{id}","payerFsp":"{source}","payeeFsp":"dfsp-1","amount":{{"currency":"KES","amount":"{amount}.5"}},"ilpPacket":"AYICexample","condition":"{condition}","expiration":"{expiration}"}}"#
    );
    request("POST /transfers", source, "dfsp-1", &body, length)
}

/// A bulk transfer to an unknown payee, whose body has this many bytes.
fn bulk(number: u64, source: &str, length: usize) -> Vec<u8> {
    let (id, item, expiration, condition) =
        (id(number), id(number ^ 1 << 40), in_seconds(3_600), "A".repeat(43));
    let body = format!(
        r#"{{"bulkTransferId":"{id}","bulkQuoteId":"{id}","payerFsp":"{source}","payeeFsp":"nobody","individualTransfers":[{{"transferId":"{item}","transferAmount":{{"currency":"KES","amount":"{}.5"}},"ilpPacket":"AYICexample","condition":"{condition}"}}],"expiration":"{expiration}"}}"#,
        1 + number % 900
    );
    request("POST /bulkTransfers", source, "dfsp-1", &body, length)
}

fn hold(connections: usize, opening: Vec<u8>) -> AttackTraffic {
    let drips = !opening.is_empty();
    AttackTraffic::Hold { connections, addresses: 1, opening: opening.into(), drips }
}

fn pipeline(make: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> AttackTraffic {
    let make: MakeRequest = Arc::new(move |number| Bytes::from(make(number)));
    AttackTraffic::Pipeline { connections: 1, make, per_s: None, count_max: u64::MAX, reads: true }
}

/// The same request again and again, in blocks.
fn pages(path: &str, connections: usize, reads: bool) -> AttackTraffic {
    let block = Bytes::from(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").repeat(BLOCK));
    let make: MakeRequest = Arc::new(move |_| block.clone());
    AttackTraffic::Pipeline { connections, make, per_s: None, count_max: u64::MAX, reads }
}

/// Requests at a rate per second. The hub answers them with callbacks to the attacker as DFSP.
fn provoke(per_s: u64) -> AttackTraffic {
    let state = |number| request(&format!("GET /transfers/{}", id(number)), HOSTILE, "", "", 0);
    paced(pipeline(state), Some(per_s), u64::MAX)
}

/// Limits the rate per second and the total number.
fn paced(means: AttackTraffic, rate: Option<u64>, most: u64) -> AttackTraffic {
    match means {
        AttackTraffic::Pipeline { connections, make, reads, .. } => {
            AttackTraffic::Pipeline { connections, make, per_s: rate, count_max: most, reads }
        }
        held => held,
    }
}

pub fn attacks() -> Vec<Attack> {
    [bodies(), own_pages(), endpoints(), connections(), secured(), shares()].into_iter().flatten().collect()
}

/// Transfers that make the hub write.
fn bodies() -> Vec<Attack> {
    let unknown = |length| pipeline(move |number| prepare(number, "nobody", length));
    let known = pipeline(|number| prepare(number, HOSTILE, 60_000));
    let bulks = pipeline(|number| bulk(number, HOSTILE, 4_900_000));
    let what = "transfers of 60 KB from a sender that is not a participant";
    vec![
        Attack::new("unknown-sender", what, unknown(60_000)).writes(1_024),
        Attack::new(
            "unknown-sender-large",
            "1 MB from a sender that is not a participant",
            unknown(1_000_000),
        )
        .writes(1_024),
        Attack::new("refused-prepares", "transfers of 60 KB from a DFSP, all rejected", known).writes(8_192),
        Attack::new("refused-bulks", "bulk transfers of 4.9 MB from a DFSP, all rejected", bulks)
            .writes(8_192),
    ]
}

/// Requests that the hub answers without calling a DFSP.
fn own_pages() -> Vec<Attack> {
    let what = "one connection that requests a page of the hub without waiting for responses";
    let ask = |path| Attack { has_control: true, ..Attack::new(path, what, pages(path, 1, true)) };
    let mut list: Vec<Attack> = ["/metrics", "/docs", "/openapi.yaml", "/health"].map(ask).into();
    let operators = "requests for a page at the admin port";
    let nothing = "requests for a page that does not exist";
    for (name, what, path, port) in [
        ("admin /metrics", operators, "/metrics", Port::Operators),
        ("admin /nothing", nothing, "/nothing", Port::Operators),
        ("metrics port /nothing", "requests for a page at the metrics port", "/nothing", Port::Metrics),
    ] {
        list.push(Attack { name, what, ..ask(path) }.at(port));
    }
    list
}

/// Servers that the hub calls.
fn endpoints() -> Vec<Attack> {
    let alias = pipeline(|number| request(&format!("GET /parties/ALIAS/a{number}"), HOSTILE, "", "", 0));
    let quotes = pipeline(|number| quote(number, QUOTING, HOSTILE, 4_900_000));
    let what = "a DFSP that answers callbacks about one of ten transfers with 500, for a minute";
    let tenth = Attack::new("tenth-refused", what, provoke(300)).behaving(EndpointBehaviour::Refusing);
    let bounds = Bounds { delivered_permille_min: Some(850), ..tenth.bounds };
    let interim = "a DFSP that answers callbacks with `100 Continue` without end";
    let silent = "230 quotes of 4.9 MB to a DFSP that reads nothing";
    let drips = "a DFSP that answers callbacks byte by byte";
    vec![
        Attack::new("interim-dfsp", interim, provoke(20)).behaving(EndpointBehaviour::Interim),
        Attack::new(
            "interim-oracle",
            "an oracle that answers `100 Continue` without end",
            paced(alias, Some(20), u64::MAX),
        )
        .behaving(EndpointBehaviour::Interim),
        Attack {
            time: Some(Duration::from_secs(30)),
            ..Attack::new("silent-quotes", silent, paced(quotes, None, 230))
                .behaving(EndpointBehaviour::Silent)
        },
        Attack::new("slow-callbacks", drips, provoke(20)).behaving(EndpointBehaviour::Drips),
        Attack { bounds, time: Some(Duration::from_secs(60)), ..tenth },
    ]
}

fn connections() -> Vec<Attack> {
    let large = [request("POST /quotes", HOSTILE, "dfsp-1", "", 4_900_000), vec![b' '; 4_800_000]].concat();
    let slow_head = b"POST /transfers HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ".to_vec();
    let slow_body = request("POST /transfers", HOSTILE, "dfsp-1", "", 60_000);
    let idle = |connections| hold(connections, Vec::new());
    let army =
        AttackTraffic::Hold { connections: 10_500, addresses: 32, opening: Bytes::new(), drips: false };
    let short = "1,100 idle connections to a hub that may open 1,024 files";
    let unread = "64 connections that request pages and never read a response";
    vec![
        Attack {
            descriptors: Some(1_024),
            time: Some(Duration::from_secs(45)),
            ..Attack::new("descriptors", short, idle(1_100))
        },
        Attack {
            has_control: true,
            ..Attack::new("large-bodies", "64 connections that hold bodies of 4.9 MB open", hold(64, large))
        },
        Attack::new("idle-operators", "1,000 idle connections at the admin port", idle(1_000))
            .at(Port::Operators),
        Attack::new("idle-dfsps", "10,500 idle connections at the DFSPs' port", idle(10_500)),
        Attack::new("idle-army", "10,500 idle connections at the DFSPs' port, from 32 addresses", army),
        Attack::new("slow-heads", "200 connections that send heads byte by byte", hold(200, slow_head)),
        Attack::new("slow-bodies", "200 connections that send bodies byte by byte", hold(200, slow_body)),
        Attack::new("slow-readers", unread, pages("/docs", 64, false)),
    ]
}

/// Handshakes and unfinished requests at ports with TLS.
fn secured() -> Vec<Attack> {
    let unread =
        |connections, path, source| Streams { connections, requests: 32, path, source, has_half_body: false };
    let half = Streams { has_half_body: true, ..unread(340, "/transfers", Some(HOSTILE)) };
    let chains = AttackTraffic::Handshakes { connections: 40 };
    let long = "40 connections that present ten authorities of one name, again and again";
    let operators = "2 connections without a certificate that never read their 32 HTTP/2 responses";
    let dfsps = "340 connections of a DFSP that never read their 32 HTTP/2 responses";
    let halves = "340 connections of a DFSP with 32 bodies of HTTP/2 that never end";
    let served = [
        request("GET /participants/MSISDN/1", HOSTILE, "", "", 0),
        request("POST /transfers", HOSTILE, "dfsp-1", "", 60_000),
    ];
    let after = "10,500 connections of a DFSP: one good request, and then a body that never ends";
    vec![
        Attack::new("long-chains", long, chains).with(Credential::LongChain),
        Attack::new("unread-operators", operators, AttackTraffic::Streams(unread(2, "/participants", None)))
            .with(Credential::Anonymous)
            .at(Port::Operators),
        Attack {
            has_control: true,
            ..Attack::new(
                "unread-dfsps",
                dfsps,
                AttackTraffic::Streams(unread(340, "/participants/MSISDN/1", Some(HOSTILE))),
            )
            .with(Credential::Dfsp)
        },
        Attack {
            has_control: true,
            ..Attack::new("half-bodies", halves, AttackTraffic::Streams(half)).with(Credential::Dfsp)
        },
        Attack::new("slow-after-good", after, hold(10_500, served.concat())).with(Credential::Dfsp),
    ]
}

/// Requests of one DFSP, or without a DFSP, that use up a share of a limit.
fn shares() -> Vec<Attack> {
    let lookups = pipeline(|_| request("GET /parties/MSISDN/26100000001", HOSTILE, "", "", 0));
    let small = pipeline(|number| prepare(number, HOSTILE, 16_000));
    let bare = Bytes::from("GET /transfers/b51ec534-ee48-4575-b6a9-ead2955b8069 HTTP/1.1\r\nHost: x\r\n\r\n");
    let bare: MakeRequest = Arc::new(move |_| bare.clone());
    let bare = AttackTraffic::Pipeline {
        connections: 50,
        make: bare,
        per_s: None,
        count_max: u64::MAX,
        reads: true,
    };
    let long = Bytes::from(format!(
        "POST /{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
        "a".repeat(7_000)
    ));
    let long: MakeRequest = Arc::new(move |_| long.clone());
    let long =
        AttackTraffic::Pipeline { connections: 4, make: long, per_s: None, count_max: u64::MAX, reads: true };
    vec![
        Attack {
            has_control: true,
            ..Attack::new(
                "one-party",
                "7,000 lookups a second of one party by one DFSP",
                paced(lookups, Some(7_000), u64::MAX),
            )
        },
        Attack::new("small-prepares", "transfers of 16 KB from a DFSP, all rejected", small).writes(8_192),
        Attack {
            has_control: true,
            ..Attack::new("no-headers", "50 connections that send requests without headers", bare)
        },
        Attack {
            has_control: true,
            ..Attack::new("long-paths", "posts to long paths at the admin port", long)
        }
        .at(Port::Operators),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn attack_names_differ_and_bodies_have_the_declared_length() {
        let names: BTreeSet<_> = attacks().iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), attacks().len());
        let amount_of_item = "/individualTransfers/0/transferAmount/amount";
        for (request, amount, place) in [
            (quote(7, "dfsp-1", "dfsp-2", 4_000), "8.5", "/amount/amount"),
            (prepare(7, "nobody", 4_000), "50000000007.5", "/amount/amount"),
            (bulk(7, HOSTILE, 4_000), "8.5", amount_of_item),
        ] {
            let text = String::from_utf8(request).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.contains("Content-Length: 4000\r\n") || head.ends_with("Content-Length: 4000"),
                "{head}"
            );
            let json: serde_json::Value = serde_json::from_str(body).unwrap();
            let found = json.pointer(place).and_then(|found| found.as_str());
            assert_eq!((body.len(), found), (4_000, Some(amount)));
        }
    }
}
