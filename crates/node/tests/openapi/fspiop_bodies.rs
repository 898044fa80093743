//! The schemas of the FSPIOP document against the parsers: every example is changed in every way that a schema forbids,
//! and sent to a real gateway.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use upesi_apidocs::ApiPort;
use upesi_fspiop::{Operation, Resource, Versions};

use super::common::hub::Client;
use crate::common::hub::{Hub, Request};
use crate::common::{Document, to_text};

/// Texts that are valid in one place and invalid in most others.
const CANDIDATES: [&str; 24] = [
    "",
    " ",
    "\u{7}",
    "a b",
    "Ünal",
    "x",
    "7",
    "0",
    "01",
    "123",
    "1234",
    "9999",
    "12.50",
    "125.5",
    "-1",
    "90.1",
    "-180",
    "A_B",
    "KES",
    "SEND",
    "2026-11-21",
    "2026-11-21T09:45:00Z",
    "5B1C7D0E-2F34-4A6B-9C8D-0E1F2A3B4C5D",
    "S7Bvjk46dxXSAdVz0KpCN2LlXavWGiwCJ4-lbMbSlOA",
];

/// Schemas whose texts must be valid beyond a pattern, such as a date that exists.
const MORE_THAN_A_PATTERN: [&str; 4] = ["Currency", "DateTime", "PartyIdType", "date"];

/// A place in a body: how to replace its value, and its schema.
struct Place<'a> {
    pointer: String,
    schema: &'a Value,
    name: &'a str,
}

struct Bench<'a> {
    document: &'a Document,
    client: Client,
    request: Request,
    example: &'a Value,
    name: String,
    sent: usize,
}

impl<'a> Bench<'a> {
    fn send(&mut self, pointer: &str, replacement: Option<Value>) -> (u16, u16, String) {
        let mut body = self.example.clone();
        match replacement {
            Some(value) => *body.pointer_mut(pointer).unwrap() = value,
            None => {
                let (parent, member) = pointer.rsplit_once('/').unwrap();
                body.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(member).unwrap();
            }
        }
        self.sent += 1;
        let answer = self.request.with_body(body).send(&mut self.client);
        (answer.status, answer.code(), answer.body)
    }

    fn expect_refusal(&mut self, pointer: &str, replacement: Option<Value>, code: u16, why: &str) {
        let what = replacement.as_ref().map(|value| value.to_string().chars().take(60).collect::<String>());
        let (status, found, body) = self.send(pointer, replacement);
        assert_eq!((status, found), (400, code), "{} {pointer} {what:?}, {why}: {body}", self.name);
    }

    fn expect_success(&mut self, pointer: &str, replacement: Option<Value>, why: &str) {
        let what = replacement.as_ref().map(|value| value.to_string().chars().take(60).collect::<String>());
        let (status, _, body) = self.send(pointer, replacement);
        assert_eq!(status, self.request.status, "{} {pointer} {what:?}, {why}: {body}", self.name);
    }

    fn check(&mut self, place: &Place<'a>) {
        let value = self.example.pointer(&place.pointer).unwrap();
        let name = place.schema.get("$ref").and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        let place = Place {
            pointer: place.pointer.clone(),
            schema: self.variant(self.document.resolve(place.schema), value),
            name: name.unwrap_or(place.name),
        };
        match value {
            Value::Object(_) => self.check_object(&place),
            Value::Array(_) => self.check_array(&place),
            Value::String(_) => self.check_text(&place),
            other => panic!("{} {}: {other}", self.name, place.pointer),
        }
    }

    /// The schema that the example has chosen among several.
    fn variant(&self, schema: &'a Value, value: &Value) -> &'a Value {
        let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { return schema };
        let chosen = variants.iter().find(|variant| self.document.validator(variant).is_valid(value));
        self.document.resolve(chosen.unwrap())
    }

    fn check_object(&mut self, place: &Place<'a>) {
        let pointer = &place.pointer;
        let example = self.example.pointer(pointer).unwrap().as_object().unwrap();
        let required: Vec<&str> = place.schema.get("required").map_or_else(Vec::new, |list| {
            list.as_array().unwrap().iter().filter_map(Value::as_str).collect()
        });
        let properties = place.schema["properties"].as_object().unwrap();
        for name in &required {
            assert!(properties.contains_key(*name), "{} {pointer} requires {name}", self.name);
        }
        if !pointer.is_empty() {
            self.expect_refusal(pointer, Some(json!("text")), 3101, "no object");
        }
        let is_closed = place.schema.get("additionalProperties") == Some(&Value::Bool(false));
        let mut more = example.clone();
        more.insert("notInTheSchema".to_owned(), json!("x"));
        match is_closed {
            true => self.expect_refusal(pointer, Some(Value::Object(more)), 3103, "one more member"),
            false => self.expect_success(pointer, Some(Value::Object(more)), "one more member"),
        }
        for (name, schema) in properties {
            let member = format!("{pointer}/{name}");
            assert!(example.contains_key(name), "{}: the full example lacks {member}", self.name);
            match required.contains(&name.as_str()) {
                true => self.expect_refusal(&member, None, 3102, "it is required"),
                false => self.expect_success(&member, None, "it is optional"),
            }
            self.check(&Place { pointer: member, schema, name });
        }
    }

    fn check_array(&mut self, place: &Place<'a>) {
        let pointer = &place.pointer;
        let items = self.example.pointer(pointer).unwrap().as_array().unwrap();
        self.expect_refusal(pointer, Some(json!("text")), 3101, "no array");
        let of = |count: u64| Some((0..count).map(|number| copy(&items[0], number)).collect());
        let max = place.schema["maxItems"].as_u64().unwrap_or_else(|| panic!("{pointer} has no maxItems"));
        self.expect_refusal(pointer, of(max + 1), 3100, "too many items");
        self.expect_success(pointer, of(max), "as many items as may be");
        match place.schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) {
            0 => self.expect_success(pointer, of(0), "no items"),
            min => self.expect_refusal(pointer, of(min - 1), 3100, "too few items"),
        }
        self.check(&Place { pointer: format!("{pointer}/0"), schema: &place.schema["items"], name: "item" });
    }

    fn check_text(&mut self, place: &Place<'a>) {
        let pointer = &place.pointer;
        let validator = self.document.validator(place.schema);
        self.expect_refusal(pointer, Some(json!(["text"])), 3101, "no text");
        if let Some(max) = place.schema.get("maxLength").and_then(Value::as_u64) {
            let of = |length: u64| Some(json!("a".repeat(usize::try_from(length).unwrap())));
            self.expect_refusal(pointer, of(max + 1), 3100, "too long");
            if validator.is_valid(&of(max).unwrap()) {
                self.expect_success(pointer, of(max), "as long as may be");
            }
        }
        let is_lenient = MORE_THAN_A_PATTERN.contains(&place.name) || place.name == "dateOfBirth";
        for candidate in CANDIDATES {
            let value = json!(candidate);
            match validator.is_valid(&value) {
                false => self.expect_refusal(pointer, Some(value), 3100, "the schema says no"),
                true if is_lenient => {}
                true => self.expect_success(pointer, Some(value), "the schema says yes"),
            }
        }
    }
}

/// A copy of an item. The transfers of a bulk transfer must differ, which a schema cannot express.
fn copy(item: &Value, number: u64) -> Value {
    let mut copy = item.clone();
    if let Some(id) = copy.get_mut("transferId") {
        *id = json!(format!("5b1c7d0e-2f34-4a6b-9c8d-{number:012x}"));
    }
    copy
}

/// Required members, closed bodies, lengths, lists of values, patterns: the hub rejects what a schema forbids, with the
/// documented code, and accepts every other change.
#[test]
fn schemas_and_parsers_agree() {
    let hub = Hub::with_participants();
    let (mut sent, mut bodies) = (0, 0);
    for operation in hub.document.operations() {
        let request = hub.request(&operation);
        let Some((_, body)) = hub.document.request_body(&operation) else { continue };
        let examples = hub.document.examples(body);
        let (_, full) = examples
            .iter()
            .find(|(name, _)| name == "full")
            .unwrap_or_else(|| panic!("{} has no example with everything", operation.name()));
        let client = hub.connect();
        let name = operation.name();
        let mut bench = Bench { document: &hub.document, client, request, example: full, name, sent: 0 };
        bench.check(&Place { pointer: String::new(), schema: &body["schema"], name: "body" });
        sent += bench.sent;
        bodies += 1;
    }
    assert!(bodies > 25 && sent > 5_000, "{bodies} bodies, {sent} requests");
}

/// Required parameters are required, others are optional, and their schemas hold.
#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn parameters_and_checks_agree() {
    let hub = Hub::with_participants();
    let mut client = hub.connect();
    for operation in hub.document.operations() {
        let mut request = hub.request(&operation);
        if request.status == 501 {
            continue;
        }
        if let Some((_, body)) = hub.document.request_body(&operation) {
            request = request.with_body(hub.document.examples(body)[0].1.clone());
        }
        for parameter in hub.document.parameters(&operation) {
            let name = parameter["name"].as_str().unwrap();
            let what = format!("{} {name}", operation.name());
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            let validator = hub.document.validator(&parameter["schema"]);
            let example = to_text(&parameter["example"]);
            let mut outcomes = Vec::new();
            match parameter["in"].as_str().unwrap() {
                "header" => {
                    let missing = request.without_header(name).send(&mut client);
                    outcomes.push((missing, if is_required { 3102 } else { 0 }, "missing".to_owned()));
                    for value in ["x".repeat(32), "x".repeat(33), "caf\u{e9}".to_owned()] {
                        if name == "Date" {
                            continue;
                        }
                        // A valid source that is not a participant is rejected if money is concerned.
                        let is_stranger = name == "FSPIOP-Source"
                            && ["/transfers", "/fxTransfers", "/bulkTransfers"]
                                .iter()
                                .any(|family| operation.path.starts_with(family));
                        let code = match validator.is_valid(&json!(value)) {
                            true if is_stranger => 3101,
                            true => 0,
                            false => 3100,
                        };
                        let mut changed = request.without_header(name);
                        changed.headers.push((name.to_owned(), value.clone()));
                        outcomes.push((changed.send(&mut client), code, value));
                    }
                }
                "query" => {
                    let mut without = request.clone();
                    without.target = without.target.replace(&format!("{name}="), "other=");
                    let code = if is_required { 3102 } else { 0 };
                    outcomes.push((without.send(&mut client), code, "missing".to_owned()));
                    for value in
                        CANDIDATES.into_iter().filter(|text| text.bytes().all(|b| b.is_ascii_graphic()))
                    {
                        // The directory, which is not part of this test, checks optional parameters.
                        if !is_required || (name == "currency" && value == "SEND") {
                            continue;
                        }
                        let digits = value.strip_prefix('-').unwrap_or(value);
                        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                        let code = match validator.is_valid(&json!(value)) {
                            true => 0,
                            // A wrong type, not only a wrong value.
                            false if name == "retriesLeft" && !is_number => 3101,
                            false => 3100,
                        };
                        let mut changed = request.clone();
                        changed.target =
                            changed.target.replace(&format!("{name}={example}"), &format!("{name}={value}"));
                        outcomes.push((changed.send(&mut client), code, value.to_owned()));
                    }
                }
                "path" => {
                    for value in ["x".repeat(128), "x".repeat(129), "a%20b".to_owned(), "%7Bx%7D".to_owned()]
                    {
                        let decoded = value.replace("%20", " ").replace("%7B", "{").replace("%7D", "}");
                        let code = if validator.is_valid(&json!(decoded)) { 0 } else { 3100 };
                        let mut changed = request.clone();
                        let segment = format!("/{example}");
                        let at = changed.target.find(&segment).unwrap();
                        changed.target.replace_range(at..at + segment.len(), &format!("/{value}"));
                        outcomes.push((changed.send(&mut client), code, value));
                    }
                }
                other => panic!("{what}: {other}"),
            }
            for (answer, code, how) in outcomes {
                let status = if code == 0 { request.status } else { 400 };
                assert_eq!((answer.status, answer.code()), (status, code), "{what} {how}: {answer:?}");
            }
        }
    }
}

// The FSPIOP document against the gateway: the same paths, methods and statuses, in both directions.

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"];

#[test]
fn documented_operations_are_served_as_documented() {
    let hub = Hub::with_participants();
    let mut client = hub.connect();
    for operation in hub.document.operations() {
        let request = hub.request(&operation);
        let examples = hub
            .document
            .request_body(&operation)
            .map_or_else(Vec::new, |(_, body)| hub.document.examples(body));
        let bodies: Vec<Option<&Value>> = match examples.as_slice() {
            [] => vec![None],
            examples => examples.iter().map(|(_, example)| Some(*example)).collect(),
        };
        for body in bodies {
            let answer = match body {
                Some(body) => request.with_body(body.clone()).send(&mut client),
                None => request.send(&mut client),
            };
            assert_eq!(answer.status, request.status, "{}: {answer:?}", operation.name());
            let response = &operation.value["responses"][request.status.to_string()];
            let content = hub.document.resolve(response).get("content");
            assert_eq!(content.is_none(), answer.body.is_empty(), "{}: {answer:?}", operation.name());
            if let Some(schema) = content.and_then(|content| content.get("application/json")) {
                let body = serde_json::from_str(&answer.body).unwrap();
                hub.document.assert_valid(&schema["schema"], &body, &operation.name());
            }
            if let Some(media_types) = content.and_then(Value::as_object) {
                let sent = answer.header("content-type").unwrap().split(';').next().unwrap();
                assert!(media_types.contains_key(sent), "{}: {sent}", operation.name());
            }
        }
    }
}

#[test]
fn other_methods_of_documented_paths_are_405() {
    let hub = Hub::with_participants();
    let mut client = hub.connect();
    let mut documented: BTreeMap<&str, (String, BTreeSet<String>)> = BTreeMap::new();
    let operations = hub.document.operations();
    for operation in &operations {
        let target = hub.document.target(operation, false);
        let entry = documented.entry(operation.path).or_insert_with(|| (target, BTreeSet::new()));
        entry.1.insert(operation.method.clone());
    }
    for (path, (target, methods)) in documented {
        for method in METHODS.into_iter().filter(|method| !methods.contains(*method)) {
            let answer = client.send(method, &target, &[], Some(""));
            assert_eq!((answer.status, answer.code()), (405, 3000), "{method} {path}: {answer:?}");
            let allowed: BTreeSet<String> = answer.allowed().into_iter().collect();
            assert_eq!(allowed, methods, "{method} {path}");
        }
    }
}

/// Whether a path fits a template.
fn is_of(path: &str, template: &str) -> bool {
    let mut segments = path.split('/');
    let mut places = template.split('/');
    loop {
        match (segments.next(), places.next()) {
            (None, None) => return true,
            (Some(segment), Some(place)) if place.starts_with('{') || place == segment => {}
            _ => return false,
        }
    }
}

/// Every path of up to five segments below a family, with ids, types and the word `error`: the document must have each
/// path that the gateway knows.
#[test]
fn served_operations_are_documented() {
    let hub = Hub::with_participants();
    let mut client = hub.connect();
    let operations = hub.document.operations();
    let mut served = 0;
    for resource in Resource::ALL {
        let mut paths = vec![format!("/{}", resource.as_str())];
        for from in 0.. {
            let Some(path) = paths.get(from).cloned() else { break };
            if path.matches('/').count() <= 5 {
                paths.extend(["MSISDN", "x1", "error"].map(|segment| format!("{path}/{segment}")));
            }
        }
        for path in paths {
            for method in &METHODS[..5] {
                let answer = client.send(method, &path, &[], Some(""));
                if matches!(answer.status, 404 | 405) {
                    continue;
                }
                served += 1;
                let is_documented = operations
                    .iter()
                    .any(|operation| operation.method == *method && is_of(&path, operation.path));
                assert!(is_documented, "{method} {path} is not in the document: {answer:?}");
            }
        }
    }
    assert!(served > 100, "{served}");
}

/// The gateway's routing table has the document's paths, methods, statuses and media types.
#[test]
fn table_of_resources_matches_the_document() {
    let document = Document::of(ApiPort::Fspiop);
    let operations = document.operations();
    let mut documented = BTreeSet::new();
    for operation in &operations {
        let family = operation.path[1..].split('/').next().unwrap();
        let Some(resource) = Resource::parse(family) else { continue };
        let statuses = operation.value["responses"].as_object().unwrap().keys();
        let passing = statuses.filter_map(|status| status.parse::<u16>().ok());
        for status in passing.filter(|status| matches!(status, 200..300 | 501)) {
            documented.insert((operation.path.to_owned(), operation.method.clone(), status));
        }
        if let Some((media_type, _)) = document.request_body(operation) {
            let version = Versions::default().hub_made_of(resource);
            let expected = format!("application/vnd.interoperability.{family}+json;version={version}");
            assert_eq!(media_type, expected, "{}", operation.name());
        }
    }
    let table: BTreeSet<_> = Operation::all()
        .map(|operation| {
            let method = operation.method().as_str().to_owned();
            (operation.path().template().to_owned(), method, operation.success_status())
        })
        .collect();
    assert_eq!(table, documented);
}

/// `GET /` lists the resources of the document, including the gateway's own endpoints.
#[test]
fn directory_operations_match_the_document() {
    let hub = Hub::with_participants();
    let answer = hub.connect().send("GET", "/", &[], None);
    let metadata: Value = serde_json::from_str(&answer.body).unwrap();
    let listed: BTreeSet<(String, String)> = metadata["directory"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_str().unwrap().split(", ").map(|method| (path.clone(), method.to_owned()))
        })
        .collect();
    let operations = hub.document.operations();
    let documented: BTreeSet<(String, String)> = operations
        .iter()
        .filter(|operation| operation.value["responses"].get("501").is_none())
        .map(|operation| (operation.path.to_owned(), operation.method.clone()))
        .collect();
    assert_eq!(listed, documented);
}
