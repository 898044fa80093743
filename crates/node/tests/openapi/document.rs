//! Checks of the documents alone: they are OpenAPI, and their examples fit their own schemas.

use std::collections::BTreeSet;

use crate::common::Document;
use serde_json::Value;
use upesi_admin::ErrorName;
use upesi_apidocs::ApiPort;
use upesi_types::ErrorCode;

/// Calls a function with every value and its pointer.
fn visit<'a>(value: &'a Value, pointer: &str, each: &mut impl FnMut(&str, &'a Value)) {
    each(pointer, value);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                visit(member, &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), each);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{pointer}/{index}"), each);
            }
        }
        _ => {}
    }
}

#[test]
fn documents_are_valid_openapi() {
    let schema: Value = serde_json::from_str(include_str!("schema/openapi-3.1.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (surface, document) in Document::both() {
        let errors: Vec<String> = validator
            .iter_errors(&document.0)
            .map(|error| format!("{error} at '{}'", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{surface:?}: {errors:#?}");
        assert_eq!(document.0["info"]["version"], env!("CARGO_PKG_VERSION"), "{surface:?}");
    }
}

#[test]
fn references_exist_and_components_are_used() {
    for (surface, document) in Document::both() {
        let mut used = BTreeSet::new();
        visit(&document.0, "", &mut |pointer, value| {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                document.resolve(value);
                assert!(!reference.contains("://"), "{pointer}");
                used.insert(reference.trim_start_matches('#').to_owned());
            }
        });
        // Security schemes are used by name, without a reference.
        let components = document.0["components"].as_object().unwrap();
        for (kind, components) in components.iter().filter(|(kind, _)| *kind != "securitySchemes") {
            for name in components.as_object().unwrap().keys() {
                let pointer = format!("/components/{kind}/{name}");
                assert!(used.contains(&pointer), "{surface:?}: nothing refers to {pointer}");
            }
        }
    }
}

#[test]
fn every_schema_compiles() {
    for (_, document) in Document::both() {
        for schema in document.0["components"]["schemas"].as_object().unwrap().values() {
            document.validator(schema);
        }
    }
}

/// For all objects with a schema and examples: media types, parameters, headers.
#[test]
fn examples_fit_their_schemas() {
    for (surface, document) in Document::both() {
        let mut count = 0;
        visit(&document.0, "", &mut |pointer, value| {
            if value.get("schema").is_none_or(|schema| !schema.is_object()) {
                return;
            }
            for (name, example) in document.examples(value) {
                document.assert_valid(&value["schema"], example, &format!("{surface:?} {pointer} {name}"));
                count += 1;
            }
        });
        assert!(count > 20, "{surface:?}: {count}");
    }
}

#[test]
fn every_operation_has_a_description() {
    for (surface, document) in Document::both() {
        let tags: Vec<&Value> =
            document.0["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        let mut ids = BTreeSet::new();
        let mut used = BTreeSet::new();
        for operation in document.operations() {
            let name = operation.name();
            assert!(ids.insert(operation.id().to_owned()), "{surface:?} {name}: {}", operation.id());
            let summary = operation.value["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{surface:?} {name}");
            let own = operation.value["tags"].as_array().unwrap();
            assert!(own.len() == 1 && tags.contains(&&own[0]), "{surface:?} {name}");
            used.insert(own[0].as_str().unwrap().to_owned());
            if let Some((_, body)) = document.request_body(&operation) {
                assert!(!document.examples(body).is_empty(), "{surface:?} {name} has no example");
            }
            for parameter in document.parameters(&operation) {
                if parameter["in"] == "path" {
                    let placeholder = format!("{{{}}}", parameter["name"].as_str().unwrap());
                    assert!(operation.path.contains(&placeholder), "{surface:?} {name}: {placeholder}");
                }
            }
        }
        assert_eq!(used.len(), tags.len(), "{surface:?}");
    }
}

/// The page does not show parameters of a path that are references, or callbacks whose key is not an expression.
#[test]
fn document_has_only_supported_schema_features() {
    for (surface, document) in Document::both() {
        for operation in document.operations() {
            assert!(operation.item.get("parameters").is_none(), "{surface:?} {}", operation.path);
            let callbacks = operation.value.get("callbacks").and_then(Value::as_object);
            for (name, callback) in callbacks.into_iter().flatten() {
                let is_expression = callback.as_object().unwrap().keys().all(|key| key.contains("{$"));
                assert!(is_expression, "{surface:?} {} {name}", operation.name());
            }
        }
    }
}

/// Messages of the hub to DFSPs are webhooks at the DFSP's own endpoint. If the hub's paths list messages that only
/// hubs send, they have the tag `callbacks`.
#[test]
fn callbacks_are_separate_from_the_hubs_paths() {
    let document = Document::of(ApiPort::Fspiop);
    let callbacks = document.0["components"]["pathItems"].as_object().unwrap();
    let webhooks = document.0["webhooks"].as_object().unwrap();
    assert_eq!(callbacks.keys().collect::<Vec<_>>(), webhooks.keys().collect::<Vec<_>>());
    for (name, item) in callbacks {
        assert_eq!(webhooks[name]["$ref"], format!("#/components/pathItems/{name}"));
        assert_eq!(item["servers"][0]["url"], "https://dfsp.example", "{name}");
    }
    for operation in document.operations() {
        let is_of_hubs = operation.value["responses"].get("501").is_some();
        assert_eq!(operation.value["tags"][0] == "callbacks", is_of_hubs, "{}", operation.name());
    }
}

/// The document and the page of error codes list every name of an error of the admin API, with its code and meaning.
#[test]
fn every_error_name_is_documented() {
    let document = Document::of(ApiPort::Admin);
    let listed: Vec<_> = document.0["components"]["schemas"]["ErrorName"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let names: Vec<_> = ErrorName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(listed, names);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/error-codes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Names of the admin API's errors\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let described: Vec<_> = section.lines().filter(|line| line.starts_with("- ")).collect();
    let line = |name: &ErrorName| format!("- `{}` ({}): {}", name.as_str(), name.code(), name.meaning());
    assert_eq!(described, ErrorName::ALL.iter().map(line).collect::<Vec<_>>());
}

/// Examples of errors have the texts of the catalogue.
#[test]
fn errors_have_their_texts() {
    for (surface, document) in Document::both() {
        let mut count = 0;
        visit(&document.0, "", &mut |pointer, value| {
            let Some(code) = value.get("errorCode").and_then(Value::as_str) else { return };
            let code = code.parse().ok().and_then(ErrorCode::from_number).expect("a code");
            let description = value["errorDescription"].as_str().unwrap();
            let text = code.text().unwrap_or_else(|| panic!("{pointer}: {code} is not in the catalogue"));
            let rest = description.strip_prefix(text);
            let rest = rest.unwrap_or_else(|| panic!("{pointer}: {description} does not begin with {text}"));
            assert!(rest.is_empty() || rest.starts_with(" - "), "{pointer}: {description}");
            if let Some(name) = value.get("errorName").and_then(Value::as_str) {
                assert_eq!(ErrorName::parse(name).map(ErrorName::code), Some(code), "{pointer}: {name}");
            }
            count += 1;
        });
        assert!(count >= 4, "{surface:?}: {count}");
    }
}
