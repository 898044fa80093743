//! Callers whom an OpenID Connect provider vouches for: every fault of a token, rotation of keys, and a provider that
//! is down.

use std::time::Duration;

use serde_json::{Value, json};
use upesi_admin::{Issuer, IssuerConfig};
use upesi_http::Outbound;
use upesi_ledger::command::{AuditedCommand, Authority, NewOperator, NewSettlementModel, OperatorAction};
use upesi_ledger::{AdminCommand, AuditActor, Command, Event, Ledger, OperatorRole};
use upesi_oidc::{ProviderConfig, UNKNOWN_KEY_INTERVAL};
use upesi_testsupport::identity_provider::{Key, Provider, encode};
use upesi_types::{Currency, Timestamp};

use super::common::people::{call, expect, send};
use crate::common;
use crate::common::{Hub, Settings, name};

const AUDIENCE: &str = "https://hub.example/admin";

fn config(label: &'static str, issuer: &str) -> IssuerConfig {
    let role = |group: &str, role| (group.to_owned(), vec![role]);
    IssuerConfig {
        label,
        provider: ProviderConfig {
            issuer: issuer.to_owned(),
            audience: AUDIENCE.to_owned(),
            clients: vec!["portal".to_owned()],
            unknown_key_interval: UNKNOWN_KEY_INTERVAL,
            outbound: Outbound::default(),
            tls: None,
            login: None,
        },
        name_claim: "preferred_username".to_owned(),
        groups_claim: "realm_access.roles".to_owned(),
        roles: [
            role("hub-treasury", OperatorRole::Treasury),
            role("hub-leads", OperatorRole::TreasuryApprover),
            role("hub-viewers", OperatorRole::Viewer),
            role("hub-iam", OperatorRole::IamAdmin),
            role("bank-people", OperatorRole::DfspUser),
        ]
        .into(),
        participant_claim: None,
        approval_age_s: None,
        approval_methods: vec![],
    }
}

fn start_s() -> i64 {
    Timestamp::parse_iso(common::START).unwrap().as_ms() / 1_000
}

fn header() -> Value {
    json!({"alg": "RS256", "kid": "k1", "typ": "at+jwt"})
}

fn claims(provider: &Provider) -> Value {
    json!({
        "iss": provider.issuer, "aud": AUDIENCE, "azp": "portal", "sub": "8f2c", "preferred_username": "amina",
        "exp": start_s() + 300, "iat": start_s(), "realm_access": {"roles": ["hub-treasury", "canteen"]},
    })
}

/// Claims with another value of one claim, or without it if the value is null.
fn with(base: &Value, name: &str, value: Value) -> Value {
    let mut changed = base.clone();
    match value {
        Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
        value => changed[name] = value,
    }
    changed
}

async fn hub(provider: &Provider) -> Hub {
    let issuers = vec![Issuer::new(config("staff", &provider.issuer))];
    Hub::launch(Settings { authentication: true, issuers, ..Settings::default() })
}

/// The reason of the last rejected credential, from the audit trail.
pub(crate) async fn last_refusal(hub: &Hub) -> String {
    let last = hub.handle.read(Ledger::last_seq).await.unwrap();
    let mut records = hub.handle.follow(last);
    let followed = records.next_up_to(last).unwrap().unwrap();
    let Some(Event::OperatorActed(entry)) = followed.record.events.last() else { panic!("no entry") };
    entry.refused.clone().unwrap_or_default().into()
}

#[tokio::test]
async fn tokens_of_every_key_algorithm_are_accepted() {
    let (rsa, p256, ed25519) = (Key::rsa(), Key::p256(), Key::ed25519());
    let keys = vec![rsa.public("rsa"), p256.public("ec"), ed25519.public("ed")];
    let provider = Provider::start(keys).await;
    let hub = hub(&provider).await;
    let claims = claims(&provider);
    for (key, kid, algorithm) in [
        (&rsa, "rsa", "RS256"),
        (&rsa, "rsa", "RS384"),
        (&rsa, "rsa", "RS512"),
        (&rsa, "rsa", "PS256"),
        (&rsa, "rsa", "PS384"),
        (&rsa, "rsa", "PS512"),
        (&p256, "ec", "ES256"),
        (&ed25519, "ed", "EdDSA"),
    ] {
        let token = key.token(&json!({"alg": algorithm, "kid": kid}), &claims);
        let own = expect(&hub, &token, "GET", "/self", "", 200).await;
        assert_eq!(
            (&own["operator"], &own["knownBy"]),
            (&json!("staff:amina"), &json!("oidc")),
            "{algorithm}"
        );
        assert!(own["permissions"].as_array().unwrap().contains(&json!("funds.in")), "{own}");
    }
    // Fetched once for all of them.
    assert_eq!(provider.asked(), 1);
}

/// Each fault alone: rejected, with its reason only in the audit trail, and without any effect.
#[tokio::test]
async fn token_with_any_single_fault_is_rejected() {
    let (key, other, p256) = (Key::rsa(), Key::rsa(), Key::p256());
    let provider = Provider::start(vec![key.public("k1"), p256.public("k2")]).await;
    let good = claims(&provider);
    let signed = |header: Value, claims: &Value| key.token(&header, claims);
    let claim = |name: &str, value: Value| signed(header(), &with(&good, name, value));
    let head = |name: &str, value: Value| signed(with(&header(), name, value), &good);
    let part = |value: &Value| encode(value.to_string().as_bytes());
    let unsigned = |header: &Value| format!("{}.{}.", part(header), part(&good));
    let by_public_key = {
        let signed = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "k1"})), part(&good));
        let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key.public_der());
        format!("{signed}.{}", encode(aws_lc_rs::hmac::sign(&secret, signed.as_bytes()).as_ref()))
    };
    let right = signed(header(), &good);
    let (front, signature) = right.rsplit_once('.').unwrap();
    let swapped = format!("{}.{}.{signature}", part(&header()), part(&with(&good, "sub", json!("other"))));
    let now = start_s();
    let cases = [
        ("alg none", unsigned(&json!({"alg": "none", "kid": "k1"})), "algorithm"),
        ("alg None", unsigned(&json!({"alg": "None", "kid": "k1"})), "algorithm"),
        ("HS256 with the public key", by_public_key, "algorithm"),
        ("lower case", head("alg", json!("rs256")), "algorithm"),
        ("RS256 for a key of a curve", key.token(&json!({"alg": "RS256", "kid": "k2"}), &good), "algorithm"),
        ("ES256 for a key of RSA", p256.token(&json!({"alg": "ES256", "kid": "k1"}), &good), "algorithm"),
        ("unknown kid", head("kid", json!("k9")), "does not name a key"),
        ("no kid", head("kid", Value::Null), "does not name a key"),
        ("another key of that id", other.token(&header(), &good), "signature"),
        ("no signature", format!("{front}."), "signature"),
        (
            "a bit of the signature",
            format!("{front}.{}", signature.replacen(&signature[9..10], "-", 1)),
            "signature",
        ),
        ("another payload", swapped, "signature"),
        ("padding", format!("{right}="), "malformed"),
        ("crit", head("crit", json!(["exp"])), "malformed"),
        ("another kind", head("typ", json!("logout+jwt")), "malformed"),
        ("wrong audience", claim("aud", json!("https://other.example")), "audience"),
        ("no audience", claim("aud", Value::Null), "audience"),
        ("audience inside another", claim("aud", json!(format!("{AUDIENCE}/x"))), "audience"),
        ("another application", claim("azp", json!("game")), "not in the list"),
        ("no application", claim("azp", Value::Null), "not in the list"),
        ("no expiry", claim("exp", Value::Null), "no `exp` claim"),
        ("expired", claim("exp", json!(now - 61)), "expired"),
        ("expired an hour ago", claim("exp", json!(now - 3_600)), "expired"),
        ("for a week", claim("exp", json!(now + 7 * 86_400)), "more than a day"),
        ("expiry as a text", claim("exp", json!("2099")), "malformed"),
        ("not yet", claim("nbf", json!(now + 61)), "not valid yet"),
        ("made in the future", claim("iat", json!(now + 3_600)), "not valid yet"),
        ("no name", claim("preferred_username", Value::Null), "does not name an operator"),
        ("a name with a blank", claim("preferred_username", json!("amina w")), "does not name an operator"),
        (
            "roles that exclude each other",
            claim("realm_access", json!({"roles": ["hub-treasury", "hub-leads"]})),
            "cannot be combined",
        ),
        ("a role of DFSPs", claim("realm_access", json!({"roles": ["bank-people"]})), "roles of DFSPs"),
    ];
    for (what, token, why) in cases {
        refused(&provider, what, &token, why).await;
    }
}

/// Each token is rejected by a hub of its own, because wrong credentials of one address are slowed down.
async fn refused(provider: &Provider, what: &str, token: &str, why: &str) {
    let hub = hub(provider).await;
    let before = hub.handle.read(Ledger::trail).await.unwrap().count;
    let lines = format!("authorization: Bearer {token}\r\n");
    let (status, head, body) = send(&hub, &lines, "PUT", "/log-level", r#"{"level":"debug"}"#).await;
    assert_eq!(status, 401, "{what}: {body}");
    assert_eq!(hub.access.rejected_credentials().map(|(_, count)| count).sum::<u64>(), 1, "{what}");
    assert!(head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{what}: {head}");
    assert!(!body.contains(why) && body.contains("A token is required"), "{what}: {body}");
    assert!(hub.levels.lock().unwrap().is_empty(), "{what}");
    assert_eq!(hub.handle.read(Ledger::trail).await.unwrap().count, before + 1, "{what}");
    let refusal = last_refusal(&hub).await;
    assert!(refusal.contains(why) && !refusal.contains(token), "{what}: {refusal}");
}

#[tokio::test]
async fn token_is_accepted_within_the_clock_leeway() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let (good, now) = (claims(&provider), start_s());
    let claim = |name: &str, value: Value| key.token(&header(), &with(&good, name, value));
    // A token of an unknown issuer is rejected.
    let hub = hub(&provider).await;
    let foreign = claim("iss", json!("https://evil.example"));
    assert_eq!(call(&hub, &foreign, "GET", "/self", "").await.0, 401);
    assert_eq!(last_refusal(&hub).await, "no such credential");
    assert_eq!(call(&hub, &key.token(&header(), &good), "GET", "/self", "").await.0, 200);
    for (name, value) in [("exp", now - 59), ("nbf", now + 59), ("iat", now + 59)] {
        assert_eq!(call(&hub, &claim(name, json!(value)), "GET", "/self", "").await.0, 200, "{name}");
    }
    let several = claim("aud", json!(["account", AUDIENCE]));
    assert_eq!(call(&hub, &several, "GET", "/self", "").await.0, 200);
}

/// The first token with a new key makes the hub fetch the key. Tokens with unknown keys do not overload the provider.
#[tokio::test]
async fn unknown_keys_are_fetched_at_most_once_a_minute() {
    let (first, second) = (Key::rsa(), Key::rsa());
    let provider = Provider::start(vec![first.public("k1")]).await;
    let hub = hub(&provider).await;
    let token = first.token(&header(), &claims(&provider));
    assert_eq!(call(&hub, &token, "GET", "/self", "").await.0, 200);
    assert_eq!(provider.asked(), 1);
    provider.set_keys(vec![first.public("k1"), second.public("k2")]);
    let new = second.token(&with(&header(), "kid", json!("k2")), &claims(&provider));
    // Within a minute of the last fetch, no key is fetched, neither for this token nor for a hundred others.
    for _ in 0..5 {
        assert_eq!(call(&hub, &new, "GET", "/self", "").await.0, 401);
    }
    assert_eq!(provider.asked(), 1);
    assert_eq!(call(&hub, &token, "GET", "/self", "").await.0, 200);
    // Later the key is fetched.
    provider.set_keys(vec![first.public("k1")]);
    let mut staff = config("staff", &provider.issuer);
    staff.provider.unknown_key_interval = Duration::ZERO;
    let issuers = vec![Issuer::new(staff)];
    let later = Hub::launch(Settings { authentication: true, issuers, ..Settings::default() });
    assert_eq!(call(&later, &token, "GET", "/self", "").await.0, 200);
    provider.set_keys(vec![second.public("k2")]);
    assert_eq!(call(&later, &new, "GET", "/self", "").await.0, 200);
    // By then the key that the provider has withdrawn is removed.
    assert_eq!(call(&later, &token, "GET", "/self", "").await.0, 401);
}

/// While the provider is down, cached keys stay in use, and `/health` reports this.
#[tokio::test]
async fn unreachable_provider_leaves_cached_keys_in_use() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let token = key.token(&header(), &claims(&provider));
    let mut staff = config("staff", &provider.issuer);
    staff.provider.unknown_key_interval = Duration::ZERO;
    let issuers = vec![Issuer::new(staff)];
    let running = Hub::launch(Settings { authentication: true, issuers, ..Settings::default() });
    assert_eq!(call(&running, &token, "GET", "/self", "").await.0, 200);
    provider.set_up(false);
    // The hub fetches an unknown key without success.
    let other = key.token(&with(&header(), "kid", json!("k9")), &claims(&provider));
    assert_eq!(call(&running, &other, "GET", "/self", "").await.0, 401);
    assert_eq!(call(&running, &token, "GET", "/self", "").await.0, 200);
    provider.set_up(true);
    assert_eq!(call(&running, &other, "GET", "/self", "").await.0, 401);
    assert!(running.get("/health").await.contains(r#"{"name":"identity provider","status":"OK"}"#));
    provider.set_up(false);
    // A hub without keys accepts no token, and reports the reason.
    let started = hub(&provider).await;
    assert_eq!(call(&started, &token, "GET", "/self", "").await.0, 401);
    let health: Value = serde_json::from_str(&started.get("/health").await).unwrap();
    let found = health["services"].as_array().unwrap().iter().find(|one| one["name"] == "identity provider");
    let detail = found.unwrap()["detail"].as_str().unwrap();
    assert!(detail.contains(&provider.issuer) && detail.contains("503"), "{health}");
    assert_eq!(health["status"], "OK");
}

/// Approval 1: a new operator.
async fn propose(hub: &Hub) {
    let roles = [OperatorRole::Viewer].into_iter().collect();
    let new = NewOperator { name: "reader".into(), roles, participant: None, is_active: true };
    let by = AuditActor {
        operator: "ines".into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "iam.user".into(),
        reason: Some("as the board decided".into()),
    };
    let act = AuditedCommand {
        by,
        action: OperatorAction::Change(AdminCommand::SetOperator(new)),
        authority: Authority::ALL,
    };
    hub.submit(Command::Audited(Box::new(act)), "").await;
}

/// Roles are not sufficient for an approval: the login must be recent, with a second factor.
#[tokio::test]
async fn approver_needs_a_recent_login_with_a_second_factor() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let staff = IssuerConfig {
        approval_age_s: Some(300),
        approval_methods: vec!["mfa".to_owned()],
        ..config("staff", &provider.issuer)
    };
    let issuers = vec![Issuer::new(staff)];
    let hub = Hub::launch(Settings { authentication: true, approvals: true, issuers, ..Settings::default() });
    propose(&hub).await;
    let base = with(&claims(&provider), "realm_access", json!({"roles": ["hub-iam"]}));
    let now = start_s();
    let approve = async |at: Value, methods: Value| {
        let token = key.token(&header(), &with(&with(&base, "auth_time", at), "amr", methods));
        call(&hub, &token, "POST", "/approvals/1/approve", "{}").await
    };
    for (at, methods, why) in [
        (Value::Null, json!(["mfa"]), "recent login"),
        (json!(now - 361), json!(["mfa"]), "recent login"),
        (json!(now), Value::Null, "second factor"),
        (json!(now), json!(["pwd"]), "second factor"),
    ] {
        let (status, body) = approve(at, methods).await;
        assert!(status == 403 && body.contains(why), "{status} {body}");
    }
    let (status, body) = approve(json!(now - 299), json!(["pwd", "mfa"])).await;
    assert!(status == 200 && body.contains(r#""state":"executed""#), "{body}");
    assert!(body.contains(r#""decidedBy":"staff:amina""#), "{body}");
}

/// If only users can approve, a program of the provider cannot: its token has no time and method of a login.
#[tokio::test]
async fn program_of_the_provider_cannot_approve_if_only_users_may() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let base = with(&claims(&provider), "realm_access", json!({"roles": ["hub-iam"]}));
    let now = start_s();
    for (at, methods, is_person) in [
        (Value::Null, Value::Null, false),
        (json!(now), Value::Null, false),
        (Value::Null, json!(["pwd"]), false),
        (json!(now), json!([]), false),
        (json!(now), json!([""]), false),
        (json!(now), json!([7]), false),
        (json!(now.to_string()), json!(["pwd"]), false),
        (json!(now + 3_600), json!(["pwd"]), false),
        (json!(now - 86_400), json!(["pwd"]), true),
    ] {
        let token =
            key.token(&header(), &with(&with(&base, "auth_time", at.clone()), "amr", methods.clone()));
        for approvers_are_people in [true, false] {
            let issuers = vec![Issuer::new(config("staff", &provider.issuer))];
            let settings = Settings {
                authentication: true,
                approvals: true,
                approvers_are_people,
                ..Settings::default()
            };
            let hub = Hub::launch(Settings { issuers, ..settings });
            propose(&hub).await;
            let (status, body) = call(&hub, &token, "POST", "/approvals/1/approve", "{}").await;
            let what = format!("{at} {methods} {approvers_are_people}: {status} {body}");
            match is_person || !approvers_are_people {
                true => assert!(status == 200 && body.contains(r#""state":"executed""#), "{what}"),
                false => assert!(status == 403 && body.contains("Only users may approve"), "{what}"),
            }
        }
    }
}

#[tokio::test]
async fn group_name_with_blanks_is_a_single_group() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let mut staff = config("staff", &provider.issuer);
    staff.roles.insert("back office".to_owned(), vec![OperatorRole::Viewer]);
    let issuers = vec![Issuer::new(staff)];
    let hub = Hub::launch(Settings { authentication: true, issuers, ..Settings::default() });
    for (groups, status) in [
        (json!("hub-viewers"), 200),
        (json!(["hub-viewers"]), 200),
        (json!("back office"), 200),
        (json!("x hub-viewers"), 403),
        (json!("hub-viewers x"), 403),
        (json!(["x hub-viewers", "hub-viewers x"]), 403),
        (json!("hub-viewers,hub-viewers"), 403),
    ] {
        let token = key.token(&header(), &with(&claims(&provider), "realm_access", json!({"roles": groups})));
        assert_eq!(call(&hub, &token, "GET", "/participants", "").await.0, status, "{groups}");
    }
}

/// The users of a DFSP can read the data of the DFSP that their provider names, and of no other one.
#[tokio::test]
async fn provider_users_of_a_dfsp_see_only_its_data() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let of_dfsps =
        IssuerConfig { participant_claim: Some("dfsp".to_owned()), ..config("dfsp", &provider.issuer) };
    let issuers = vec![Issuer::new(of_dfsps)];
    let hub = Hub::launch(Settings { authentication: true, issuers, ..Settings::default() });
    let (currency, hub_name) = (Currency::parse("KES").unwrap(), name("Hub"));
    let account = |kind: &str| AdminCommand::CreateHubAccount { name: hub_name, currency, kind: kind.into() };
    let dfsp = |text| AdminCommand::CreateParticipant { name: name(text), currency, is_proxy: false };
    for command in [
        account("HUB_MULTILATERAL_SETTLEMENT"),
        account("HUB_RECONCILIATION"),
        AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("NET", None)),
        dfsp("green"),
        dfsp("blue"),
    ] {
        hub.submit(Command::Admin(command), "").await;
    }
    let base = with(&claims(&provider), "realm_access", json!({"roles": ["bank-people"]}));
    let green = key.token(&header(), &with(&base, "dfsp", json!("green")));
    for dfsp in [json!("nosuch"), json!(7), Value::Null] {
        let token = key.token(&header(), &with(&base, "dfsp", dfsp.clone()));
        assert_eq!(call(&hub, &token, "GET", "/self", "").await.0, 401, "{dfsp}");
    }
    let staff =
        with(&with(&base, "dfsp", json!("green")), "realm_access", json!({"roles": ["hub-treasury"]}));
    assert_eq!(call(&hub, &key.token(&header(), &staff), "GET", "/self", "").await.0, 401);
    let (status, body) = call(&hub, &green, "GET", "/self", "").await;
    assert!(
        status == 200 && body.contains(r#""operator":"dfsp:amina","knownBy":"oidc","participant":"green""#),
        "{body}"
    );
    assert_eq!(call(&hub, &green, "GET", "/participants/blue", "").await.0, 403);
}
