//! The admin document against the running API. Its examples, sent in order, are an onboarding with the document's
//! answers. Every operation is called, and every schema of a request rejects invalid values.

use std::collections::BTreeSet;

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use upesi_admin::{Access, AccessOptions};
use upesi_apidocs::ApiPort;
use upesi_engine::Payload;
use upesi_ledger::command::{AuditedCommand, Authority, OperatorAction};
use upesi_ledger::{AdminCommand, AuditActor, CallbackKey, Command, ParticipantId};
use upesi_types::{Amount, Currency, FspId};

use super::common::hub::{Answer, Client};
use crate::common::hub::{Hub, StandingClock};
use crate::common::{Document, Operation, to_text};

/// Answers with content that no document can know: the uptime of the process, a token, the whole audit trail.
const DIFFERENT_EACH_TIME: [&str; 6] = [
    "getHealth",
    "getSettlementHealth",
    "createToken",
    "createEnrolment",
    "findAuditEntries",
    "getAuditCheckpoint",
];

/// The operations of the hub's own users, which need a hub with authentication.
const PEOPLE: [&str; 8] = [
    "createEnrolment",
    "beginEnrolment",
    "confirmEnrolment",
    "openSession",
    "listSessions",
    "renewSession",
    "setPassword",
    "endSession",
];

/// The transfer that an operator ends.
const ENDED: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5e";

struct Walk {
    hub: Hub,
    document: Document,
    client: Client,
    called: BTreeSet<String>,
}

fn json_headers() -> Vec<(String, String)> {
    vec![("Content-Type".to_owned(), "application/json".to_owned())]
}

impl Walk {
    fn begin() -> Self {
        let hub = Hub::start();
        let client = hub.connect_to_admin();
        Self { hub, document: Document::of(ApiPort::Admin), client, called: BTreeSet::new() }
    }

    /// Calls an operation with its only example.
    fn call(&mut self, id: &str) -> Answer {
        self.call_with(id, "example", &[])
    }

    /// Calls an operation with one of its examples, and with other values of parameters.
    fn call_with(&mut self, id: &str, example: &str, parameters: &[(&str, &str)]) -> Answer {
        let operation = self.document.operation(id);
        let mut path = operation.path.to_owned();
        for (name, value) in parameters {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let at = Operation { path: &path, method: String::new(), ..operation };
        let target = self.document.target(&at, true);
        let (mut headers, mut body) = (Vec::new(), None);
        if let Some((media_type, content)) = self.document.request_body(&operation) {
            let examples = self.document.examples(content);
            let (_, example) = examples.into_iter().find(|(name, _)| name == example).unwrap();
            headers.push(("Content-Type".to_owned(), media_type.to_owned()));
            body =
                Some(if media_type == "application/json" { example.to_string() } else { to_text(example) });
        }
        let answer = self.client.send(&operation.method, &target, &headers, body.as_deref());
        self.check_answer(&operation, &answer);
        self.called.insert(id.to_owned());
        answer
    }

    /// Calls an operation of users with another body than the example's, because every token and code in it is
    /// invented.
    fn call_as(&mut self, token: Option<&str>, id: &str, path: &[(&str, &str)], body: &Value) -> Value {
        let operation = self.document.operation(id);
        let mut target = operation.path.to_owned();
        for (name, value) in path {
            target = target.replace(&format!("{{{name}}}"), value);
        }
        if let Some((_, content)) = self.document.request_body(&operation) {
            self.document.assert_valid(&content["schema"], body, id);
        }
        let mut headers = json_headers();
        headers.extend(token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        let text = (!body.is_null()).then(|| body.to_string());
        let answer = self.client.send(&operation.method, &target, &headers, text.as_deref());
        self.check_answer(&operation, &answer);
        self.called.insert(id.to_owned());
        serde_json::from_str(&answer.body).unwrap_or(Value::Null)
    }

    /// Expects the only documented success, with a body as described and as in the example.
    fn check_answer(&self, operation: &Operation<'_>, answer: &Answer) {
        let name = operation.name();
        let statuses = self.document.success_statuses(operation);
        assert_eq!(vec![answer.status], statuses, "{name}: {answer:?}");
        let content = operation.value["responses"][answer.status.to_string()].get("content");
        let Some(content) = content else {
            assert_eq!(answer.body, "", "{name}");
            return;
        };
        let sent = answer.header("content-type").unwrap().split(';').next().unwrap();
        let described = content.get(sent).unwrap_or_else(|| panic!("{name}: {sent}"));
        if sent != "application/json" {
            return;
        }
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        self.document.assert_valid(&described["schema"], &body, &name);
        if DIFFERENT_EACH_TIME.contains(&operation.id()) {
            return;
        }
        for (_, example) in self.document.examples(described) {
            assert_eq!(&body, example, "{name} answers {body}");
        }
    }

    /// A change that is not part of the document's story.
    fn also(&mut self, method: &str, path: &str, body: &str) {
        let answer = self.client.send(method, path, &json_headers(), Some(body));
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
    }

    /// Sends an FSPIOP request of the other document with its short example.
    fn fspiop(&self, id: &str) {
        self.fspiop_with(id, |_| {});
    }

    /// Sends an FSPIOP request with a changed body.
    fn fspiop_with(&self, id: &str, change: impl Fn(&mut Value)) {
        let operation = self.hub.document.operation(id);
        let mut request = self.hub.request(&operation);
        if id.starts_with("put") {
            for (name, value) in &mut request.headers {
                match name.as_str() {
                    "FSPIOP-Source" => *value = "bluewallet".to_owned(),
                    "FSPIOP-Destination" => *value = "greenbank".to_owned(),
                    _ => {}
                }
            }
        }
        let (_, body) = self.hub.document.request_body(&operation).unwrap();
        let body = self.hub.document.examples(body).into_iter().find(|(name, _)| name == "short").unwrap().1;
        let mut body = body.clone();
        change(&mut body);
        let answer = request.with_body(body).send(&mut self.hub.connect());
        assert_eq!(answer.status, request.status, "{id}: {answer:?}");
    }

    /// Parks a callback, as its delivery finally does.
    fn park(&self, key: &str) {
        let parts: Vec<u64> = key.split('-').map(|part| part.parse().unwrap()).collect();
        let target = ParticipantId::new(u32::try_from(parts[0]).unwrap()).unwrap();
        let key = CallbackKey { target, seq: parts[1], index: u8::try_from(parts[2]).unwrap() };
        let reason = "cannot connect to 127.0.0.1:7102: Connection refused (os error 111)".into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let command = Command::Park { key, attempts: 7, reason };
        runtime.block_on(self.hub.engine_handle.submit(command, Payload::default())).unwrap();
    }

    fn onboard(&mut self) {
        self.call_with("createHubAccount", "reconciliation", &[("name", "Hub")]);
        self.call_with("createHubAccount", "settlement", &[("name", "Hub")]);
        self.call("createSettlementModel");
        self.call("getSettlementModel");
        self.call("listSettlementModels");
        self.call("setSettlementModelActivity");
        self.call("createAccountType");
        self.call("listAccountTypes");
        self.call("createParticipant");
        self.call("setParticipantActivity");
        self.call("getParticipant");
        self.call("listParticipants");
        self.call("setEndpoint");
        self.call("setEndpoints");
        self.call("listEndpoints");
        self.call("openAccounts");
        self.call("setLimit");
        self.call("listLimits");
        self.call("listAllLimits");
        self.call_with("prepareFunds", "deposit", &[]);
        self.call("listAccounts");
        self.call_with("setAccountActivity", "example", &[("id", "3")]);
        self.call_with("prepareFunds", "withdrawal", &[]);
        self.call("endFunds");
        self.call("getFunds");
        self.also("POST", "/participants", r#"{"name":"bluewallet","currency":"KES"}"#);
        let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1000}}"#;
        self.also("POST", "/participants/bluewallet/initialPositionAndLimits", limit);
    }

    fn keep_a_directory(&mut self) {
        self.call("createOracle");
        self.call("listOracles");
        self.call("changeOracle");
        self.call("deleteOracle");
        self.call("putPartyEntry");
        self.call("getPartyEntries");
        self.call("deletePartyEntry");
        self.call("takeImportChunk");
        self.call("getImport");
        self.call("getDirectory");
    }

    fn pay(&mut self) {
        self.fspiop("createTransfer");
        let key = self.callback_key();
        self.park(&key);
        self.call("listCallbacks");
        self.call("getCallback");
        self.call("getTransferProgress");
        self.call_with("redeliverCallbacks", "all", &[]);
        self.park(&key);
        self.call_with("redeliverCallbacks", "some", &[]);
        self.fspiop("putTransfer");
        self.call("findTransfers");
        self.call("getTransfer");
        self.call("getTransaction");
        self.fspiop_with("createTransfer", |body| body["transferId"] = json!(ENDED));
        self.call_with("endTransfer", "example", &[("id", ENDED)]);
        self.call("getQuote");
        self.call("listPositions");
        self.call("listAllPositions");
    }

    fn settle(&mut self) {
        self.call("findSettlementWindows");
        self.call("closeSettlementWindow");
        self.call("getSettlementWindow");
        self.call("getSettlementWindowPairs");
        self.call("createSettlement");
        self.call("findSettlements");
        self.call("getSettlement");
        self.call("getSettlementParticipant");
        self.call("getSettlementAccount");
        self.call_with("updateSettlement", "recorded", &[]);
        self.call_with("updateSettlementParticipant", "example", &[("participantId", "3")]);
        self.call("updateSettlementAccount");
        self.call_with("updateSettlement", "aborted", &[]);
        // The windows of an aborted settlement can be settled again.
        let again = r#"{"settlementModel":"DEFERREDNETKES","reason":"again","settlementWindows":[{"id":1}]}"#;
        self.also("POST", "/v2/settlements", again);
        self.call_with("moveSettlementCover", "example", &[("id", "2")]);
    }

    /// An operator proposes a higher net debit cap of bluewallet.
    fn propose(&self, maker: &str, cap: &str) {
        let by = AuditActor {
            operator: maker.into(),
            known_by: "token 1".into(),
            address: None,
            on_behalf_of: None,
            action: "limit.raise".into(),
            reason: Some("as the board decided".into()),
        };
        let (name, currency) = (FspId::parse("bluewallet").unwrap(), Currency::parse("KES").unwrap());
        let net_debit_cap = Amount::parse_decimal(cap).unwrap();
        let action = OperatorAction::Change(AdminCommand::SetLimit {
            name,
            currency,
            net_debit_cap,
            alarm_basis_points: 1_000,
        });
        let command = Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.hub.engine_handle.submit(command, Payload::default())).unwrap();
    }

    fn decide_by_two(&mut self) {
        self.call("getApprovalPolicy");
        self.call("proposeChangeSet");
        for (maker, cap) in [("amina", "2000"), ("amina", "3000"), ("anonymous", "4000")] {
            self.propose(maker, cap);
        }
        self.call("getApproval");
        self.call("listApprovals");
        self.call("approve");
        self.call_with("rejectApproval", "example", &[("approvalId", "2")]);
        self.call_with("withdrawApproval", "example", &[("approvalId", "3")]);
        self.call("setApprovalPolicy");
    }

    /// The key in the document's example. It must be the key of the prepare's callback.
    fn callback_key(&mut self) -> String {
        let page = self.client.send("GET", "/callbacks", &[], None).body;
        let page: Value = serde_json::from_str(&page).unwrap();
        let key = page["callbacks"][0]["key"].as_str().unwrap().to_owned();
        let operation = self.document.operation("getCallback");
        assert_eq!(self.document.target(&operation, false), format!("/callbacks/{key}"));
        key
    }

    fn charge_fees(&mut self) {
        self.call("createFeeRule");
        self.call("listFeeRules");
        self.call("endFeeRule");
        self.call("getFeeRule");
    }

    fn look_around(&mut self) {
        let proxy = r#"{"name":"bridge","currency":"KES","isProxy":true}"#;
        let answer = self.client.send("POST", "/participants", &json_headers(), Some(proxy));
        assert_eq!(answer.status, 201, "{}", answer.body);
        for id in [
            "addBinding",
            "listBindings",
            "removeBinding",
            "addSignatureKey",
            "listSignatureKeys",
            "listSigners",
            "revokeSignatureKey",
            "setBlock",
            "listBlocks",
            "liftBlock",
            "addProxied",
            "listProxied",
            "removeProxied",
            "listLanes",
            "getLogLevel",
            "setLogLevel",
            "getClock",
            "getSignatureKeys",
            "acceptClock",
            "getHealth",
            "getSettlementHealth",
            "getLive",
            "getMetrics",
            "getProfile",
            "getHeap",
            "getMetadata",
            "getEnums",
            "getDocument",
            "getDocs",
            "getSelf",
            "createOperator",
            "createToken",
            "updateOperator",
            "getOperator",
            "listOperators",
            "removeCredential",
            "findAuditEntries",
            "getAuditCheckpoint",
        ] {
            self.call(id);
        }
    }
}

#[test]
fn documented_examples_match_real_answers() {
    let mut walk = Walk::begin();
    walk.onboard();
    walk.keep_a_directory();
    walk.pay();
    walk.settle();
    walk.charge_fees();
    walk.decide_by_two();
    walk.look_around();
    let documented = walk.document.operations();
    let documented = documented.iter().map(|operation| operation.id().to_owned());
    // A standalone hub cannot hand over or be promoted; the tests of nodes cover that.
    let is_here = |id: &String| !PEOPLE.contains(&&**id) && !["handOver", "promote"].contains(&&**id);
    let documented: BTreeSet<String> = documented.filter(is_here).collect();
    assert_eq!(walk.called, documented);
}

/// The code of a secret, this many intervals after now, by the fixed clock of these hubs.
fn code(secret: &str, after: i64) -> String {
    let digit = |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|one| *one == letter);
    let bits: String = secret.bytes().map(|letter| format!("{:05b}", digit(letter).unwrap())).collect();
    let bytes = (0..bits.len() / 8).map(|at| u8::from_str_radix(&bits[at * 8..at * 8 + 8], 2).unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes.collect::<Vec<_>>());
    let step = upesi_engine::Clock::now(&StandingClock).as_ms() / 30_000 + after;
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let at = usize::from(tag.as_ref()[19] & 15);
    let number = u32::from_be_bytes(tag.as_ref()[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

/// Users need a hub with authentication.
#[test]
fn enrolment_and_login_work_as_documented() {
    const PASSWORD: &str = "correct horse battery";
    let mut bootstrap = String::new();
    let hub = Hub::start_with(|data| {
        bootstrap = upesi_admin::make_bootstrap(data).unwrap();
        Access::required(AccessOptions {
            bootstrap_file: data.join(upesi_admin::BOOTSTRAP_FILE),
            break_glass_file: data.join(upesi_admin::BREAK_GLASS_FILE),
            is_by_two: false,
            approvers_are_people: false,
            issuers: Vec::new(),
            people_secret: None,
        })
    });
    let client = hub.connect_to_admin();
    let document = Document::of(ApiPort::Admin);
    let mut walk = Walk { hub, document, client, called: BTreeSet::new() };
    let mut by = Some(bootstrap);
    // Each shows three codes: for the intervals before, at and after the fixed time.
    for (name, roles) in [("ines", json!(["iam-admin"])), ("amina", json!(["viewer"]))] {
        let by_token = by.as_deref();
        let headers =
            [json_headers(), vec![("Authorization".to_owned(), format!("Bearer {}", by_token.unwrap()))]];
        let new = json!({"name": name, "roles": roles}).to_string();
        assert_eq!(walk.client.send("POST", "/operators", &headers.concat(), Some(&new)).status, 201);
        let made = walk.call_as(by_token, "createEnrolment", &[("operator", name)], &json!({"hours": 8}));
        let token = &made["token"];
        let begun = walk.call_as(None, "beginEnrolment", &[], &json!({"token": token, "password": PASSWORD}));
        let secret = begun["secret"].as_str().unwrap();
        walk.call_as(None, "confirmEnrolment", &[], &json!({"token": token, "code": code(secret, -1)}));
        let log_in = json!({"operator": name, "password": PASSWORD, "code": code(secret, 0)});
        let session = walk.call_as(None, "openSession", &[], &log_in)["token"].as_str().unwrap().to_owned();
        let session = Some(session.as_str());
        walk.call_as(session, "listSessions", &[], &Value::Null);
        let proof = json!({"password": PASSWORD, "code": code(secret, 1)});
        if name == "ines" {
            walk.call_as(session, "renewSession", &[], &proof);
            by = session.map(str::to_owned);
        } else {
            let mut proof = proof;
            proof["newPassword"] = json!("another long password");
            walk.call_as(session, "setPassword", &[], &proof);
            walk.call_as(session, "endSession", &[("sessionId", "current")], &Value::Null);
        }
    }
    assert_eq!(walk.called, PEOPLE.map(str::to_owned).into());
}

/// Values that break a schema, with the kind of breach.
fn breaches(
    document: &Document,
    schema: &Value,
    value: &Value,
    pointer: &str,
    found: &mut Vec<(String, Value)>,
) {
    let schema = document.resolve(schema);
    let schema = match schema.get("oneOf").and_then(Value::as_array) {
        Some(variants) => {
            let chosen = variants.iter().find(|variant| document.validator(variant).is_valid(value));
            document.resolve(chosen.unwrap())
        }
        None => schema,
    };
    let whole = document.validator(schema);
    let candidates =
        [json!({}), json!(["x"]), json!("x y~\u{7}"), json!("1.23456"), json!(true), json!("a".repeat(513))];
    let wrong = candidates.into_iter().filter(|candidate| !whole.is_valid(candidate));
    // A text may be valid in place of a number or a flag.
    found.extend(wrong.map(|candidate| (pointer.to_owned(), candidate)));
    if let Some(members) = value.as_object() {
        let mut more = members.clone();
        more.insert("notInTheSchema".to_owned(), json!(1));
        found.push((pointer.to_owned(), Value::Object(more)));
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let mut less = members.clone();
            less.remove(name.as_str().unwrap()).unwrap();
            found.push((pointer.to_owned(), Value::Object(less)));
        }
        for (name, member) in members {
            let schema = &schema["properties"][name];
            breaches(document, schema, member, &format!("{pointer}/{name}"), found);
        }
    }
    if let (Some(items), Some(max)) = (value.as_array(), schema.get("maxItems").and_then(Value::as_u64)) {
        let many = vec![items[0].clone(); usize::try_from(max + 1).unwrap()];
        found.push((pointer.to_owned(), Value::Array(many)));
        breaches(document, &schema["items"], &items[0], &format!("{pointer}/0"), found);
    }
}

#[test]
fn requests_that_violate_a_schema_are_rejected() {
    let mut walk = Walk::begin();
    walk.onboard();
    let mut sent = 0;
    for operation in walk.document.operations() {
        let Some((media_type, body)) = walk.document.request_body(&operation) else { continue };
        if media_type != "application/json" {
            continue;
        }
        let target = walk.document.target(&operation, false);
        for (name, example) in walk.document.examples(body) {
            let mut found = Vec::new();
            breaches(&walk.document, &body["schema"], example, "", &mut found);
            for (pointer, breach) in found {
                let mut broken = example.clone();
                let place = broken.pointer_mut(&pointer).unwrap();
                // Settlements have their own codes for members that do not fit together.
                //
                // Resources of account lookup have their own codes for missing and for invalid values.
                let codes: &[u16] = match (&*place, &breach) {
                    _ if operation.id() == "updateSettlement" && pointer.is_empty() => &[3100, 3101, 3102],
                    _ if !operation.path.starts_with("/oracles") => &[3101],
                    (Value::Object(all), Value::Object(left)) if left.len() < all.len() => &[3102],
                    (Value::String(_), Value::String(_)) => &[3100, 3101],
                    _ => &[3101],
                };
                *place = breach;
                let text = broken.to_string();
                let answer = walk.client.send(&operation.method, &target, &json_headers(), Some(&text));
                let shown: String = text.chars().take(300).collect();
                assert!(
                    answer.status == 400 && codes.contains(&answer.code()),
                    "{} {name} {pointer}: not {codes:?}: {shown} {answer:?}",
                    operation.name()
                );
                sent += 1;
            }
        }
    }
    assert!(sent > 200, "{sent}");
}

/// The router and the document have the same paths and methods.
#[test]
fn router_and_document_have_the_same_operations() {
    let source = include_str!("../../../admin/src/routes.rs");
    let routed: BTreeSet<&str> =
        source.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/')).collect();
    let walk = Walk::begin();
    let mut client = walk.hub.connect_to_admin();
    // Parts of the page, which are not part of the API.
    let documented: BTreeSet<&str> =
        walk.document.operations().iter().map(|operation| operation.path).chain(["/docs/{file}"]).collect();
    assert_eq!(routed, documented);
    for path in routed.iter().filter(|path| **path != "/docs/{file}") {
        let operations = walk.document.operations();
        let here: Vec<&Operation<'_>> =
            operations.iter().filter(|operation| operation.path == *path).collect();
        let target = walk.document.target(here[0], false);
        let answer = client.send("BREW", &target, &[], None);
        assert_eq!((answer.status, answer.code()), (405, 3000), "{path}: {answer:?}");
        let allowed: BTreeSet<String> = answer.allowed().into_iter().collect();
        assert_eq!(allowed, here.iter().map(|operation| operation.method.clone()).collect(), "{path}");
    }
    let answer = client.send("GET", "/nowhere", &[], None);
    assert_eq!((answer.status, answer.code()), (404, 3002));
}

/// Only `routes.rs` creates operations, where the test above finds them. `pages.rs` adds pages to them.
#[test]
fn routes_are_defined_in_one_file() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../admin/src");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_table = path.ends_with("routes.rs") || path.ends_with("pages.rs");
        if path.extension().is_some_and(|extension| extension == "rs") && !is_table {
            let source = std::fs::read_to_string(&path).unwrap();
            assert!(!source.contains(".route("), "{}", path.display());
        }
    }
}
