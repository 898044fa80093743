//! The FSPIOP document against the gateway: the same paths, methods and statuses, seen from both sides.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::Document;
use crate::common::hub::Hub;
use serde_json::Value;
use upesi_apidocs::Surface;
use upesi_fspiop::{Operation, Resource, Versions};

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"];

#[test]
fn what_is_documented_is_served_as_documented() {
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

/// Whether a path is one of a template.
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

/// Every path of up to five segments below a family, of ids, types and the word `error`: what the gateway knows must be
/// in the document.
#[test]
fn what_is_served_is_documented() {
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

/// The table from which the gateway routes: its paths, methods, statuses and media types.
#[test]
fn the_table_of_resources_is_the_document() {
    let document = Document::of(Surface::Fspiop);
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

/// What the gateway says of itself at `GET /`, its own endpoints included.
#[test]
fn the_directory_is_the_document() {
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
