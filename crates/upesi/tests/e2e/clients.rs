//! DFSPs whose gateway speaks for them, and clients that prove by a token which DFSP they are.

use std::collections::BTreeMap;
use std::fs;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use upesi_fspiop::Operation;
use upesi_pki::Usage;
use upesi_testsupport::identity_provider::{Key, Provider, encode};
use upesi_tls::{CertificateFacts, Protocols, present_s};

use crate::common::World;
use crate::common::dfsp::{Answer, Client};
use crate::common::message::{Message, Sent, Terms};
use crate::common::secure::{
    Caller, Pki, answered, last_record, nothing_was_changed, of_every_operation, pay_with, source_of,
};

const DFSPS: [&str; 3] = ["greenbank", "bluewallet", "redmoney"];
const AUDIENCE: &str = "https://hub.example/fspiop";

/// An identity provider, and its key.
struct Tokens {
    runtime: Runtime,
    provider: Provider,
    key: Key,
}

impl Tokens {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (runtime, key) = (runtime.unwrap(), Key::p256());
        let provider = runtime.block_on(Provider::start(vec![key.public("k1")]));
        Self { runtime, provider, key }
    }

    fn settings(&self, tokens: &'static str) -> Vec<(&str, &str)> {
        vec![("oauth.issuer", &self.provider.issuer), ("oauth.audience", AUDIENCE), ("oauth.tokens", tokens)]
    }

    fn claims(&self, client: &str) -> Value {
        let now = present_s();
        json!({
            "iss": self.provider.issuer, "aud": AUDIENCE, "azp": client, "sub": "service-account",
            "exp": now + 300, "iat": now,
        })
    }

    /// A token with the claims of a client and these changes. Null removes a claim.
    fn with(&self, client: &str, changes: Value) -> String {
        let mut claims = self.claims(client);
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        self.key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims)
    }

    fn of(&self, client: &str) -> String {
        self.with(client, json!({}))
    }
}

fn bearing(message: Message, token: &str) -> Message {
    message.header("authorization", &format!("Bearer {token}"))
}

/// SHA-256 of a certificate, in the form of tokens.
fn thumbprint(pki: &Pki, name: &str) -> String {
    let pem = fs::read_to_string(pki.file(&format!("{name}.pem"))).unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    encode(&CertificateFacts::read(&der).unwrap().certificate_sha256.0)
}

fn set_all_endpoints(world: &World) {
    for name in DFSPS {
        world.set_all_endpoints(name, &world.dfsp(name).base_url());
    }
}

/// A way to act as another DFSP: a certificate, a change of the message, and the answer.
struct Attack {
    certificate: &'static str,
    change: Box<dyn Fn(Message) -> Message>,
    answer: (u16, u16),
    /// Reason and participant in the metric.
    counted: (&'static str, &'static str),
}

fn attack(
    certificate: &'static str,
    answer: (u16, u16),
    counted: (&'static str, &'static str),
    change: impl Fn(Message) -> Message + 'static,
) -> Attack {
    Attack { certificate, change: Box::new(change), answer, counted }
}

/// By a gateway that acts for greenbank under the name green, and for redmoney under the name red.
fn attacks_by_gateway() -> Vec<Attack> {
    let saying = |name: &'static str| move |message: Message| message.header("x-client-id", name);
    let twice = |message: Message| {
        let mut message = message.header("x-client-id", "green");
        message.headers.push(("x-client-id".to_owned(), "green".to_owned()));
        message
    };
    let nobody = ((403, 3000), ("gateway", ""));
    vec![
        attack("edge", nobody.0, nobody.1, |message| message),
        attack("edge", nobody.0, nobody.1, saying("")),
        attack("edge", nobody.0, nobody.1, saying("Green")),
        attack("edge", nobody.0, nobody.1, saying("greenbank")),
        attack("edge", nobody.0, nobody.1, saying("blue")),
        attack("edge", nobody.0, nobody.1, twice),
        attack("edge", (403, 3100), ("source", "redmoney"), saying("red")),
        attack("edge", (403, 3100), ("proxy", "redmoney"), |message| {
            message.header("x-client-id", "red").header("fspiop-proxy", "bridge")
        }),
        // By another gateway.
        attack("edge2", nobody.0, nobody.1, saying("green")),
        // By a client that is not a gateway.
        attack("stranger", (403, 3000), ("unbound", ""), saying("green")),
        attack("redmoney", (403, 3100), ("source", "redmoney"), saying("green")),
        attack("redmoney", (403, 3100), ("source", "redmoney"), |message| {
            let source = source_of(&message);
            message.header("x-client-id", &source)
        }),
    ]
}

/// Tokens at the wrong time, with the reasons in the metric.
fn untimely_tokens(tokens: &Tokens) -> Vec<(&'static str, String)> {
    let now = present_s();
    vec![
        ("token_expired", tokens.with("red-client", json!({"exp": now - 61}))),
        ("token_not_yet_valid", tokens.with("red-client", json!({"nbf": now + 3_600}))),
        ("token_not_yet_valid", tokens.with("red-client", json!({"iat": now + 3_600}))),
    ]
}

/// Malformed tokens, on the connection of redmoney.
fn faulty_tokens(tokens: &Tokens, pki: &Pki) -> Vec<String> {
    let (now, key) = (present_s(), &tokens.key);
    let claims = tokens.claims("red-client");
    let header = json!({"alg": "ES256", "kid": "k1"});
    let sound = key.token(&header, &claims);
    let (signed, _) = sound.rsplit_once('.').unwrap();
    let mut tokens_of_others = vec![
        tokens.with("red-client", json!({"exp": null})),
        tokens.with("red-client", json!({"exp": now + 90_000})),
        tokens.with("red-client", json!({"iss": "https://id.example"})),
        tokens.with("red-client", json!({"iss": null})),
        tokens.with("red-client", json!({"aud": "https://hub.example/admin"})),
        tokens.with("red-client", json!({"aud": null})),
        tokens.with("red-client", json!({"azp": null})),
        tokens.with("red-client", json!({"azp": 7})),
        tokens.with("red-client", json!({"client_id": "green-client"})),
        // Bound to another certificate, or to something that the hub does not support.
        tokens.with("red-client", json!({"cnf": {"x5t#S256": thumbprint(pki, "greenbank")}})),
        tokens.with("red-client", json!({"cnf": {"x5t#S256": "AAAA"}})),
        tokens.with("red-client", json!({"cnf": {"jkt": thumbprint(pki, "redmoney")}})),
        tokens.with("red-client", json!({"cnf": {}})),
        key.token(&json!({"alg": "ES256", "kid": "k2"}), &claims),
        key.token(&json!({"alg": "ES256"}), &claims),
        key.token(&json!({"alg": "ES256", "kid": "k1", "crit": ["exp"]}), &claims),
        key.token(&json!({"alg": "RS256", "kid": "k1"}), &claims),
        key.token(&json!({"alg": "HS256", "kid": "k1"}), &claims),
        Key::p256().token(&header, &claims),
        format!("{signed}."),
        format!("{signed}.AAAA"),
        sound[..sound.len() - 4].to_owned(),
        "x".repeat(9_000),
        "x".to_owned(),
    ];
    let none = format!("{}.{}.", encode(br#"{"alg":"none"}"#), encode(claims.to_string().as_bytes()));
    tokens_of_others.push(none);
    tokens_of_others
}

fn attacks_by_token(tokens: &Tokens, pki: &Pki) -> Vec<Attack> {
    let invalid = ((401, 3000), ("token", ""));
    let mut attacks: Vec<_> = faulty_tokens(tokens, pki)
        .into_iter()
        .map(|token| {
            attack("redmoney", invalid.0, invalid.1, move |message| bearing(message.from("redmoney"), &token))
        })
        .collect();
    attacks.extend(untimely_tokens(tokens).into_iter().map(|(reason, token)| {
        attack("redmoney", invalid.0, (reason, ""), move |message| bearing(message.from("redmoney"), &token))
    }));
    let [green, red, nobody] = ["green-client", "red-client", "other-client"].map(|client| tokens.of(client));
    let basic = |message: Message| message.header("authorization", "Basic cmVkOnJlZA==");
    let (one, two) = (red.clone(), green.clone());
    let both = move |message: Message| {
        let mut message = bearing(message, &one);
        message.headers.push(("authorization".to_owned(), format!("Bearer {two}")));
        message
    };
    attacks.push(attack("redmoney", invalid.0, invalid.1, basic));
    attacks.push(attack("redmoney", invalid.0, invalid.1, both));
    attacks
        .push(attack("redmoney", invalid.0, invalid.1, |message| message.header("authorization", "Bearer ")));
    let showing = |token: &str| {
        let token = token.to_owned();
        move |message: Message| bearing(message, &token)
    };
    attacks.push(attack("redmoney", (403, 3000), ("client", ""), showing(&nobody)));
    attacks.push(attack("redmoney", (403, 3000), ("disagreement", "redmoney"), showing(&green)));
    attacks.push(attack("redmoney", (403, 3100), ("source", "redmoney"), showing(&red)));
    attacks.push(attack("stranger", (403, 3000), ("unbound", "greenbank"), showing(&green)));
    let by_edge = move |message: Message| bearing(message, &green).header("x-client-id", "red");
    attacks.push(attack("edge", (403, 3000), ("disagreement", ""), by_edge));
    attacks
}

/// A hub with a gateway for greenbank and redmoney, tokens, and a client without a binding.
fn scene(pki: &mut Pki, tokens: &Tokens) -> World {
    let world = pki.world(&DFSPS, &tokens.settings("accepted"));
    set_all_endpoints(&world);
    let [edge, edge2] = ["edge", "edge2"].map(|name| pki.issue(Usage::Client, name));
    pki.issue(Usage::Client, "stranger");
    world.operate("POST", "/participants", r#"{"name":"bridge","currency":"KES","isProxy":true}"#);
    world.bind("greenbank", &format!("gateway:{edge};client=green"));
    world.bind("redmoney", &format!("gateway:{edge};client=red"));
    world.bind("bluewallet", &format!("gateway:{edge2};client=blue"));
    for (name, client) in [("greenbank", "green-client"), ("redmoney", "red-client")] {
        world.bind(name, &format!("oauth-client:{client}"));
    }
    world
}

/// Like `nothing_that_failed_authentication_changes_anything` of `e2e_identity`, for proofs in the request.
#[test]
fn false_proofs_of_gateways_and_tokens_change_nothing() {
    let (mut pki, tokens) = (Pki::new(), Tokens::start());
    let mut world = scene(&mut pki, &tokens);
    let [green, blue] = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
    let terms = |amount: &str| Terms {
        amount: amount.into(),
        expires: world.now().plus_ms(600_000),
        ..Terms::new(&world.new_id(), world.now())
    };
    let (reserved, new) = (terms("12.5"), terms("3.25"));
    assert_eq!(answered(&world, &green, &Message::prepare(&reserved).into_sent()), (202, 0));
    world.dfsp("bluewallet").next_attempt(&reserved.id);
    world.until(&(0, 0), || world.undelivered());
    let before = last_record(&world, 900);
    let parties = world.operate("GET", "/directory", "").to_string();
    let attacks = [attacks_by_gateway(), attacks_by_token(&tokens, &pki)].into_iter().flatten();
    let attacks: Vec<Attack> = attacks.collect();
    // Group B of the matrix, with the attacks of `e2e_identity`.
    assert!(attacks.len() >= 45 && Operation::all().count() >= 40, "{} attacks", attacks.len());
    let mut refused = BTreeMap::new();
    let messages = of_every_operation(&reserved.id, &new);
    for (number, attack) in attacks.iter().enumerate() {
        let caller = pki.caller(Some(attack.certificate), world.fspiop());
        // Each attack covers the routes that move money. Together the attacks cover every route several times.
        let routes = messages
            .iter()
            .enumerate()
            .filter(|(at, message)| message.path.contains("ransfers") || (at + number).is_multiple_of(4));
        for (_, message) in routes {
            let sent = (attack.change)(message.clone()).into_sent();
            let found = answered(&world, &caller, &sent);
            let (reason, fsp) = attack.counted;
            assert_eq!(found, attack.answer, "{number} {reason} {} {}", sent.method, sent.path);
            let series = format!("upesi_auth_refused_total{{reason=\"{reason}\",fsp=\"{fsp}\"}}");
            *refused.entry(series).or_insert(0) += 1;
        }
    }
    assert_eq!(last_record(&world, 901), before + 1, "nothing but the operator's change");
    assert_eq!(world.operate("GET", "/directory", "").to_string(), parties);
    for (series, count) in refused {
        assert_eq!(world.metric(&series), count, "{series}");
    }
    nothing_was_changed(&world, [&green, &blue], &reserved.id, &new);
    drop((green, blue));
    world.stop_and_audit();
}

#[test]
fn gateway_acts_for_its_dfsps() {
    for protocols in [Protocols::Http1, Protocols::Http2AndHttp1] {
        let mut pki = Pki::new();
        let mut world = pki.world(&DFSPS, &[]);
        let edge = pki.issue(Usage::Client, "edge");
        let caller = pki.caller_speaking(Some("edge"), world.fspiop(), protocols);
        let says = |name: &'static str| move |message: Message| message.header("x-client-id", name);
        let asks = |world: &World, name: &'static str, source: &str| {
            let get = Message::get(&world.new_id(), source);
            answered(world, &caller, &says(name)(get).into_sent())
        };
        assert_eq!(asks(&world, "greenbank", "greenbank"), (403, 3000), "it has no binding");
        let [as_green, as_blue] = ["green", "bluewallet"].map(|name| format!("gateway:{edge};client={name}"));
        world.bind("greenbank", &as_green);
        world.bind("bluewallet", &as_blue);
        // Both DFSPs use the gateway's connections, one under its own name, one under another name.
        pay_with(&world, (&caller, &says("green")), (&caller, &says("bluewallet")), "2");
        assert_eq!(asks(&world, "green", "bluewallet"), (403, 3100));
        // Other bindings remain valid.
        let [green, blue] = ["greenbank", "bluewallet"].map(|name| pki.caller(Some(name), world.fspiop()));
        let as_it_is = |message: Message| message;
        pay_with(&world, (&green, &as_it_is), (&caller, &says("bluewallet")), "4");
        pay_with(&world, (&caller, &says("green")), (&blue, &as_it_is), "8");
        // A certificate belongs to a gateway or to a DFSP.
        let (kind, value) = edge.split_once(':').unwrap();
        let body = format!(r#"{{"kind":"{kind}","value":"{value}"}}"#);
        let refused = world.admin("POST", "/participants/redmoney/bindings", &body);
        assert_eq!((refused.status, refused.error_code()), (400, Some("3000")), "{refused:?}");
        // The removal of a binding applies at the next request, and after a restart.
        world.unbind("greenbank", &as_green.replace(';', "%3B").replacen('=', "%3D", 1));
        assert_eq!(asks(&world, "green", "greenbank"), (403, 3000));
        assert_eq!(asks(&world, "bluewallet", "bluewallet").0, 202);
        let counted = "upesi_auth_refused_total{reason=\"gateway\",fsp=\"\"}";
        assert_eq!(world.metric(counted), 1);
        assert_eq!(caller.is_shared(), protocols == Protocols::Http2AndHttp1);
        drop((green, blue));
        world.restart();
        let caller = pki.caller_speaking(Some("edge"), world.fspiop(), protocols);
        let get = Message::get(&world.new_id(), "bluewallet");
        assert_eq!(answered(&world, &caller, &says("bluewallet")(get).into_sent()).0, 202);
        assert_eq!(world.position("greenbank"), "14");
        drop(caller);
        world.stop_and_audit();
    }
}

/// Uses a new connection without TLS, because TLS ends elsewhere.
fn exchange(world: &World, sent: &Sent) -> Answer {
    Client::connect(world.fspiop()).exchange(&sent.bytes())
}

#[test]
fn clients_authenticate_by_tokens() {
    let tokens = Tokens::start();
    let mut world = World::new(&tokens.settings("required"));
    let prepare = |world: &World| Message::prepare(&Terms::new(&world.new_id(), world.now()));
    let code = |answer: &Answer| (answer.status, answer.error_code().map(str::to_owned));
    let needs_token = (401, Some("3000".to_owned()));
    let bare = exchange(&world, &prepare(&world).into_sent());
    assert_eq!(code(&bare), needs_token);
    assert_eq!(bare.header("www-authenticate"), Some("bearer"), "{bare:?}");
    let green = tokens.of("green-client");
    let unbound = exchange(&world, &bearing(prepare(&world), &green).into_sent());
    assert_eq!(code(&unbound), (403, Some("3000".to_owned())));
    assert_eq!(unbound.header("www-authenticate"), None, "another token would not help");
    world.bind("greenbank", "oauth-client:green-client");
    world.bind("bluewallet", "oauth-client:blue-client");
    let id = world.new_id();
    let sent = Message::prepare(&Terms::new(&id, world.now()));
    assert_eq!(exchange(&world, &bearing(sent, &green).into_sent()).status, 202);
    let told = world.dfsp("bluewallet").next(&id);
    assert!(!format!("{told:?}").contains(&green), "a token is for the hub: {told:?}");
    // `client_id` is equivalent to `azp`, and a token may have several audiences.
    let claims = json!({"azp": null, "client_id": "blue-client", "aud": ["other", AUDIENCE]});
    let blue = tokens.with("", claims);
    let fulfil = Message::fulfil(&id, "COMMITTED");
    let by_green = exchange(&world, &bearing(fulfil.clone(), &green).into_sent());
    assert_eq!(code(&by_green), (403, Some("3100".to_owned())));
    assert_eq!(exchange(&world, &bearing(fulfil, &blue).into_sent()).status, 200);
    world.dfsp("greenbank").next(&id);
    // Tokens expire by the hub's time. This includes tokens that the hub has already verified.
    world.clock.advance(361_000);
    assert_eq!(code(&exchange(&world, &bearing(prepare(&world), &green).into_sent())), needs_token);
    let counted = "upesi_auth_refused_total{reason=\"token_expired\",fsp=\"\"}";
    assert_eq!(world.metric(counted), 1);
    assert_eq!(world.metric("upesi_identity_provider_failing{provider=\"oauth\"}"), 0);
    let health = world.admin("GET", "/health", "").body;
    assert!(health.contains(r#"{"name":"identity provider","status":"OK"}"#), "{health}");
    // While the provider is down, cached keys stay in use. A hub that starts without the provider accepts no token.
    tokens.provider.set_up(false);
    let later = tokens.with("green-client", json!({"exp": present_s() + 600, "iat": null}));
    let get = |world: &World| Message::get(&world.new_id(), "greenbank");
    assert_eq!(exchange(&world, &bearing(get(&world), &later).into_sent()).status, 202);
    world.restart();
    assert_eq!(code(&exchange(&world, &bearing(get(&world), &later).into_sent())), needs_token);
    world.until(&1, || world.metric("upesi_identity_provider_failing{provider=\"oauth\"}"));
    assert_eq!(world.position("greenbank"), "10");
    world.stop_and_audit();
    drop(tokens.runtime);
}

/// If tokens are accepted, a participant with a token binding must use a token.
#[test]
fn clients_can_be_bound_one_by_one_to_tokens() {
    let tokens = Tokens::start();
    let world = World::new(&tokens.settings("accepted"));
    world.bind("greenbank", "oauth-client:green-client");
    let ask = |source: &str, token: Option<&str>| {
        let get = Message::get(&world.new_id(), source);
        let get = match token {
            Some(token) => bearing(get, token),
            None => get,
        };
        let answer = exchange(&world, &get.into_sent());
        (answer.status, answer.error_code().map(str::to_owned))
    };
    let green = tokens.of("green-client");
    assert_eq!(ask("bluewallet", None).0, 202);
    assert_eq!(ask("greenbank", None), (401, Some("3000".to_owned())));
    assert_eq!(ask("GreenBank", None), (401, Some("3000".to_owned())));
    assert_eq!(ask("greenbank", Some(&green)).0, 202);
    assert_eq!(ask("bluewallet", Some(&green)), (403, Some("3100".to_owned())));
    drop(tokens.runtime);
}

/// A token that is bound to a certificate is valid on connections with this certificate only.
#[test]
fn token_bound_to_a_certificate_needs_it() {
    let (mut pki, tokens) = (Pki::new(), Tokens::start());
    let world = pki.world(&DFSPS, &tokens.settings("required"));
    world.bind("greenbank", "oauth-client:green-client");
    let caller: Caller = pki.caller(Some("greenbank"), world.fspiop());
    let ask = |token: Option<&str>| {
        let get = Message::get(&world.new_id(), "greenbank");
        let get = match token {
            Some(token) => bearing(get, token),
            None => get,
        };
        answered(&world, &caller, &get.into_sent())
    };
    let bound_to =
        |name: &str| tokens.with("green-client", json!({"cnf": {"x5t#S256": thumbprint(&pki, name)}}));
    assert_eq!(ask(None), (401, 3000), "the certificate alone does not do");
    assert_eq!(ask(Some(&bound_to("greenbank"))).0, 202);
    assert_eq!(ask(Some(&tokens.of("green-client"))).0, 202);
    for _ in 0..2 {
        assert_eq!(ask(Some(&bound_to("bluewallet"))), (401, 3000));
    }
    drop(tokens.runtime);
}
