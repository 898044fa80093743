//! Messages that differ from the signed ones. A case is a line or is generated. Each is sent over a real socket to a
//! whole hub.
//!
//! Each message is rejected with 400 and 3105, and the connection stays open. At the end nothing was recorded, and no
//! DFSP has received anything.

use std::fs;

use aws_lc_rs::digest::{Context, SHA256, SHA384, SHA512};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use tempfile::TempDir;
use upesi_jws::SIGNATURE;
use upesi_keys::{FileKey, Hash, Key as _, Scheme};
use upesi_pki::{KeyKind, SigningKey};

use crate::common;
use crate::common::World;
use crate::common::dfsp::Client;
use crate::common::message::{Message, Sent, Terms};

const CASES_MIN: usize = 200;

/// Description of a case, and the message.
type Case = (String, Message);

/// The keys of all participants, and a valid message.
struct Bench {
    keys: TempDir,
    base: Message,
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Bench {
    fn new() -> Self {
        let keys = TempDir::new().unwrap();
        let make = |name: &str| SigningKey::make(&keys.path().join("own"), name, KeyKind::Rsa2048).unwrap();
        fs::create_dir(keys.path().join("public")).unwrap();
        for name in ["greenbank", "bluewallet"] {
            let made = make(name);
            fs::copy(made.public_file, keys.path().join("public").join(format!("{name}.pem"))).unwrap();
        }
        // One key is valid beside the first, one is no longer valid, and the hub never knew one.
        for name in ["next", "retired", "stranger"] {
            make(name);
        }
        let file = keys.path().join("public/greenbank.pem");
        let both = [&file, &keys.path().join("own/next.pem")].map(|path| fs::read_to_string(path).unwrap());
        fs::write(&file, both.concat()).unwrap();
        SigningKey::make(&keys.path().join("own"), "elliptic", KeyKind::P256).unwrap();
        Self { keys, base: Message::get("", "greenbank") }
    }

    fn world(&self) -> World {
        let directory = self.keys.path().join("public").display().to_string();
        World::new(&[("jws.mode", "enforce"), ("jws.keys_dir", &directory)])
    }

    fn key(&self, name: &str) -> FileKey {
        FileKey::load(&self.keys.path().join(format!("own/{name}.key"))).unwrap()
    }

    /// The message that cases change: a prepare without the optional headers for method and URI.
    fn prepare(&self, world: &World) -> Message {
        let now = world.now();
        let terms = Terms { expires: now.plus_ms(600_000), ..Terms::new(&world.new_id(), now) };
        Message::prepare(&terms).without("fspiop-uri").without("fspiop-http-method")
    }

    fn signed(&self, by: &str, scheme: Scheme, protected: &str, body: &[u8]) -> Vec<u8> {
        let algorithm = match scheme.hash() {
            Hash::Sha256 => &SHA256,
            Hash::Sha384 => &SHA384,
            Hash::Sha512 => &SHA512,
        };
        let mut context = Context::new(algorithm);
        context.update(format!("{}.{}", encoded(protected.as_bytes()), encoded(body)).as_bytes());
        self.key(by).sign(scheme, &context.finish()).unwrap()
    }

    /// The message with this protected header, correctly signed by greenbank.
    fn protect(&self, message: &Message, protected: &str) -> Message {
        let signature = self.signed("greenbank", RS256, protected, &message.body);
        enveloped(message, &encoded(&signature), &encoded(protected.as_bytes()))
    }
}

const RS256: Scheme = Scheme::Pkcs1(Hash::Sha256);

fn enveloped(message: &Message, signature: &str, protected: &str) -> Message {
    let value = format!(r#"{{"signature":"{signature}","protectedHeader":"{protected}"}}"#);
    message.clone().header(SIGNATURE, &value)
}

fn header<'a>(message: &'a Message, name: &str) -> &'a str {
    message.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
}

/// The members of a message's protected header.
fn members(message: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("alg", "RS256".to_owned()),
        ("FSPIOP-URI", message.path.clone()),
        ("FSPIOP-HTTP-Method", message.method.to_owned()),
        ("FSPIOP-Source", header(message, "fspiop-source").to_owned()),
        ("FSPIOP-Destination", header(message, "fspiop-destination").to_owned()),
        ("Date", header(message, "date").to_owned()),
    ]
}

fn json(members: &[(&str, String)]) -> String {
    let member = |(name, value): &(&str, String)| format!("{name:?}:{value:?}");
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
}

/// The protected header with one member changed.
fn with(message: &Message, name: &str, value: &str) -> String {
    let mut members = members(message);
    members.iter_mut().find(|(found, _)| *found == name).unwrap().1 = value.to_owned();
    json(&members)
}

/// The protected header with added members, as given.
fn and(message: &Message, more: &str) -> String {
    let protected = json(&members(message));
    format!("{},{more}}}", protected.strip_suffix('}').unwrap())
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

/// This many bits, spread over all bytes.
fn bits(bytes: &[u8], count: usize) -> impl Iterator<Item = usize> {
    let all = bytes.len() * 8;
    (0..count).map(move |number| (number * all / count + number % 8).min(all - 1))
}

impl Bench {
    /// One flipped bit of body, protected header or signature.
    fn of_bits(&self) -> Vec<Case> {
        const EACH: usize = 40;
        let (message, protected) = (&self.base, json(&members(&self.base)));
        let signature = self.signed("greenbank", RS256, &protected, &message.body);
        let sound =
            |signature: &[u8], protected: &[u8]| enveloped(message, &encoded(signature), &encoded(protected));
        let body = bits(&message.body, EACH).map(|bit| {
            let changed = sound(&signature, protected.as_bytes()).body(flipped(&message.body, bit));
            (format!("bit {bit} of the body"), changed)
        });
        let head = bits(protected.as_bytes(), EACH).map(|bit| {
            (format!("bit {bit} of the header"), sound(&signature, &flipped(protected.as_bytes(), bit)))
        });
        let signatures = bits(&signature, EACH).map(|bit| {
            (format!("bit {bit} of the signature"), sound(&flipped(&signature, bit), protected.as_bytes()))
        });
        body.chain(head).chain(signatures).collect()
    }

    /// The same JSON with other bytes.
    fn of_forms(&self) -> Vec<Case> {
        let sound = self.protect(&self.base, &json(&members(&self.base)));
        let text = String::from_utf8(self.base.body.clone()).unwrap();
        let forms = [
            format!("{text} "),
            format!("\n{text}"),
            text.replacen(':', ": ", 1),
            text.replace("\\u00e9", "é"),
            text.replacen('{', "{ ", 1),
            text.replace("\"amount\":\"10\"", "\"amount\":\"10.00\""),
            text.replacen(
                "\"payerFsp\":\"greenbank\",\"payeeFsp\":\"bluewallet\"",
                "\"payeeFsp\":\"bluewallet\",\"payerFsp\":\"greenbank\"",
                1,
            ),
            String::new(),
            "{}".to_owned(),
        ];
        let case = |form: String| {
            assert_ne!(form, text);
            (format!("the body {form:?}"), sound.clone().body(form))
        };
        forms.into_iter().map(case).collect()
    }

    /// The signed message differs from the sent one.
    fn of_differences(&self) -> Vec<Case> {
        let message = &self.base;
        let table: [(&str, &[&str]); 5] = [
            (
                "FSPIOP-URI",
                &[
                    "/transfers?x=1",
                    "/transfers/",
                    "/Transfers",
                    "//transfers",
                    "/%74ransfers",
                    "/transfers%20",
                    "/transfers#a",
                    "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069",
                    "/switch/transfers",
                    "http://switch.example/transfers",
                    "transfers",
                    "/quotes",
                    " /transfers",
                    "",
                ],
            ),
            ("FSPIOP-HTTP-Method", &["PUT", "GET", "post", "POST ", ""]),
            ("FSPIOP-Source", &["bluewallet", "GreenBank", "greenbank ", "redmoney", "Hub", "nobody", ""]),
            ("FSPIOP-Destination", &["greenbank", "BlueWallet", "redmoney", "Hub", ""]),
            (
                "Date",
                &[
                    "Tue, 01 Apr 2025 12:00:01 GMT",
                    "2025-04-01T12:00:00Z",
                    "Tue, 1 Apr 2025 12:00:00 GMT",
                    "",
                ],
            ),
        ];
        let mut cases = Vec::new();
        for (name, values) in table {
            for value in values {
                cases.push((
                    format!("{name} signed as {value:?}"),
                    self.protect(message, &with(message, name, value)),
                ));
            }
            let without: Vec<_> = members(message).into_iter().filter(|(found, _)| *found != name).collect();
            if name != "Date" {
                cases.push((format!("{name} not signed"), self.protect(message, &json(&without))));
            }
        }
        for more in [r#""X-Absent":"a""#, r#""X-Forwarded-For":"203.0.113.7""#, r#""Traceparent":"other""#] {
            cases.push((format!("{more} signed"), self.protect(message, &and(message, more))));
        }
        let sound = self.protect(message, &json(&members(message)));
        for (name, value) in [
            ("date", "Tue, 01 Apr 2025 12:00:02 GMT"),
            ("fspiop-destination", "redmoney"),
            ("fspiop-uri", "/quotes"),
            ("fspiop-http-method", "PUT"),
        ] {
            cases.push((format!("{name} sent as {value:?}"), sound.clone().header(name, value)));
        }
        let path = "/transfers?a=b".to_owned();
        cases.push(("a query added".to_owned(), Message { path, ..sound }));
        cases
    }

    /// Algorithms that do not fit the key, and keys of other participants.
    fn of_algorithms(&self) -> Vec<Case> {
        let message = &self.base;
        let names = [
            "none", "None", "NONE", "nOnE", "HS256", "HS384", "HS512", "rs256", "Rs256", "RS1", "RS255",
            "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "RSA-OAEP", "", " RS256",
            "RS256 ",
        ];
        let mut cases: Vec<Case> = names
            .into_iter()
            .map(|name| (format!("alg {name:?}"), self.protect(message, &with(message, "alg", name))))
            .collect();
        let protected = |alg: &str| with(message, "alg", alg);
        let public = fs::read(self.keys.path().join("public/greenbank.pem")).unwrap();
        for (alg, algorithm) in
            [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
        {
            let signed = format!("{}.{}", encoded(protected(alg).as_bytes()), encoded(&message.body));
            let tag = hmac::sign(&hmac::Key::new(algorithm, &public), signed.as_bytes());
            let changed = enveloped(message, &encoded(tag.as_ref()), &encoded(protected(alg).as_bytes()));
            cases.push((format!("{alg} by the public key"), changed));
        }
        for (alg, scheme) in [
            ("RS256", Scheme::Pkcs1(Hash::Sha384)),
            ("RS256", Scheme::Pkcs1(Hash::Sha512)),
            ("RS384", RS256),
            ("RS512", RS256),
            ("RS256", Scheme::Pss(Hash::Sha256)),
            ("PS256", Scheme::Pss(Hash::Sha256)),
        ] {
            let signature = self.signed("greenbank", scheme, &protected(alg), &message.body);
            let changed = enveloped(message, &encoded(&signature), &encoded(protected(alg).as_bytes()));
            cases.push((format!("{alg} signed by {scheme:?}"), changed));
        }
        for name in ["bluewallet", "retired", "stranger"] {
            let signature = self.signed(name, RS256, &protected("RS256"), &message.body);
            let changed = enveloped(message, &encoded(&signature), &encoded(protected("RS256").as_bytes()));
            cases.push((format!("by the key {name}"), changed));
        }
        let signature = self.signed("elliptic", Scheme::P256, &protected("ES256"), &message.body);
        cases.push((
            "by a key on P-256".to_owned(),
            enveloped(message, &encoded(&signature), &encoded(protected("ES256").as_bytes())),
        ));
        cases
    }

    /// Malformed protected headers.
    fn of_structure(&self) -> Vec<Case> {
        let message = &self.base;
        let mut cases: Vec<Case> = [
            r#""crit":["b64"]"#,
            r#""crit":"b64""#,
            r#""b64":false"#,
            r#""b64":"false""#,
            r#""jwk":{}"#,
            r#""jwk":"k""#,
            r#""jku":"http://x""#,
            r#""x5u":"http://x""#,
            r#""x5c":["a"]"#,
            r#""x5c":"a""#,
            r#""JKU":"http://x""#,
            r#""n":1"#,
            r#""n":null"#,
            r#""n":["a"]"#,
            r#""alg":"RS256""#,
            r#""ALG":"RS256""#,
            r#""fspiop-source":"greenbank""#,
            r#""FSPIOP-URI":"/quotes""#,
            r#""Date":"now""#,
        ]
        .into_iter()
        .map(|more| (format!("with {more}"), self.protect(message, &and(message, more))))
        .collect();
        for text in [
            "",
            "{}",
            "[]",
            "null",
            "\"text\"",
            "1",
            r#"{"alg":"RS256""#,
            "{\"alg\":\"RS256\"}",
            "\u{feff}{}",
        ] {
            cases.push((format!("the header {text:?}"), self.protect(message, text)));
        }
        let long = and(message, &format!(r#""x":"{}""#, "y".repeat(8_200)));
        cases.push(("a header that is too long".to_owned(), self.protect(message, &long)));
        cases
    }

    /// Malformed signatures and envelopes.
    fn of_envelopes(&self) -> Vec<Case> {
        let (message, protected) = (&self.base, json(&members(&self.base)));
        let mut cases: Vec<Case> = Vec::new();
        let signature = self.signed("greenbank", RS256, &protected, &message.body);
        let of_signature = |bytes: &[u8]| enveloped(message, &encoded(bytes), &encoded(protected.as_bytes()));
        for (what, bytes) in [
            ("short", signature[1..].to_vec()),
            ("cut off", signature[..255].to_vec()),
            ("long", [&signature[..], &[0]].concat()),
            ("with a zero before it", [&[0], &signature[..]].concat()),
            ("twice", signature.repeat(2)),
            ("empty", Vec::new()),
            ("zero", vec![0; 256]),
            ("one", [&[0; 255][..], &[1]].concat()),
            ("not below the modulus", vec![0xff; 256]),
        ] {
            cases.push((format!("a signature that is {what}"), of_signature(&bytes)));
        }
        let (sound, head) = (encoded(&signature), encoded(protected.as_bytes()));
        let standard = STANDARD_NO_PAD.encode(&signature);
        for (what, signature, head) in [
            ("padded", URL_SAFE.encode(&signature), head.clone()),
            ("with a blank", format!("{sound} "), head.clone()),
            (
                "in the other alphabet",
                standard.replacen(|c: char| !matches!(c, '+' | '/'), "+", 1),
                head.clone(),
            ),
            ("with a padded header", sound.clone(), format!("{head}=")),
            ("with a blank in its header", sound.clone(), format!(" {head}")),
            ("and header exchanged", head.clone(), sound.clone()),
        ] {
            cases.push((format!("a signature {what}"), enveloped(message, &signature, &head)));
        }
        for value in [
            String::new(),
            "signature".to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
            "null".to_owned(),
            format!("{head}.{sound}"),
            format!("{head}..{sound}"),
            format!(r#"{{"signature":"{sound}"}}"#),
            format!(r#"{{"protectedHeader":"{head}"}}"#),
            format!(r#"{{"signature":1,"protectedHeader":"{head}"}}"#),
            format!(r#"{{"signature":"{sound}","signature":"{sound}","protectedHeader":"{head}"}}"#),
            format!(r#"{{"signature":"{sound}","protectedHeader":"{head}","payload":""}}"#),
            format!(r#"{{"Signature":"{sound}","ProtectedHeader":"{head}"}}"#),
            format!(r#"{{"signature":"{sound}","protectedHeader":"{head}"}} x"#),
        ] {
            cases.push((format!("the value {value:?}"), message.clone().header(SIGNATURE, &value)));
        }
        cases.push(("no signature".to_owned(), message.clone().without(SIGNATURE)));
        cases
    }

    /// Dates that prevent replays.
    fn of_dates(&self, world: &World) -> Vec<Case> {
        let now = world.now();
        let at = |ms: i64| now.plus_ms(ms).http_date().to_string();
        let dates = [at(-310_000), at(-3_600_000), at(-86_400_000), at(70_000), at(3_600_000)];
        let party = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}}}"#;
        let mut cases = Vec::new();
        for (method, path, to, body) in [
            ("POST", "/participants/MSISDN/26097", None, r#"{"fspId":"greenbank","currency":"KES"}"#),
            ("DELETE", "/participants/MSISDN/26097", None, ""),
            ("PUT", "/parties/MSISDN/26097", Some("bluewallet"), party),
        ] {
            let base = Message::of(method, path, "greenbank", to, body)
                .without("fspiop-uri")
                .without("fspiop-http-method");
            let signed = |message: &Message| {
                let members: Vec<_> = members(message)
                    .into_iter()
                    .filter(|(name, _)| *name != "FSPIOP-Destination" || to.is_some())
                    .collect();
                self.protect(message, &json(&members))
            };
            for date in &dates {
                let message = base.clone().header("date", date);
                cases.push((format!("{method} {path} of {date:?}"), signed(&message)));
            }
            let fresh = base.header("date", &at(0));
            let undated: Vec<_> = members(&fresh)
                .into_iter()
                .filter(|(name, _)| *name != "Date" && (*name != "FSPIOP-Destination" || to.is_some()))
                .collect();
            cases.push((
                format!("{method} {path} without a signed date"),
                self.protect(&fresh, &json(&undated)),
            ));
        }
        cases
    }
}

fn exchange(client: &mut Client, message: Message) -> (u16, String) {
    let Sent { method, path, headers, body } = message.into_sent();
    let answer = client.exchange(&common::dfsp::request(&format!("{method} {path}"), &headers, &body));
    assert!(!answer.head.contains("connection: close"), "{answer:?}");
    (answer.status, answer.body)
}

#[test]
fn messages_that_differ_from_the_signed_ones_are_rejected() {
    let mut bench = Bench::new();
    let mut world = bench.world();
    bench.base = bench.prepare(&world);
    let before = world.journal();
    let mut cases = bench.of_bits();
    cases.extend(bench.of_forms());
    cases.extend(bench.of_differences());
    cases.extend(bench.of_algorithms());
    cases.extend(bench.of_structure());
    cases.extend(bench.of_envelopes());
    cases.extend(bench.of_dates(&world));
    assert!(cases.len() >= CASES_MIN, "{} cases", cases.len());
    let mut client = Client::connect(world.fspiop());
    for (what, message) in cases {
        let (status, body) = exchange(&mut client, message);
        assert!(status == 400 && body.contains("\"errorCode\":\"3105\""), "{what}: {status} {body}");
    }
    assert_eq!(world.journal(), before, "nothing was recorded");
    world.expect_silence();
    // The same connection and id can still be used, with each valid key and algorithm.
    let sound = |by: &str, alg: &str, hash: Hash| {
        let message =
            if by == "greenbank" && alg == "RS256" { bench.base.clone() } else { bench.prepare(&world) };
        let protected = with(&message, "alg", alg);
        let signature = bench.signed(by, Scheme::Pkcs1(hash), &protected, &message.body);
        enveloped(&message, &encoded(&signature), &encoded(protected.as_bytes()))
    };
    let first = sound("greenbank", "RS256", Hash::Sha256);
    for message in [
        first.clone(),
        sound("greenbank", "RS384", Hash::Sha384),
        sound("greenbank", "RS512", Hash::Sha512),
        sound("next", "RS256", Hash::Sha256),
    ] {
        assert_eq!(exchange(&mut client, message), (202, String::new()));
    }
    assert_eq!(&*world.position("greenbank"), "40");
    // A repeated transfer is the same transfer.
    assert_eq!(exchange(&mut client, first).0, 202);
    assert_eq!(&*world.position("greenbank"), "40");
    drop(client);
    world.stop_and_audit();
}
