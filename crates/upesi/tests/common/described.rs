//! Compares the hub's own callbacks, with their headers and bodies, with the OpenAPI document of the FSPIOP port.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use serde_json::{Value, json};
use upesi_apidocs::ApiPort;

use super::dfsp::Seen;

/// A callback that the document describes.
struct Callback {
    method: &'static str,
    /// The segments of its path; `None` if the request decides the segment.
    path: Vec<Option<String>>,
    /// Names in lower case, whether each is required, and the validator of its value.
    headers: Vec<(String, bool, Arc<Validator>)>,
    /// The media type without its version, and the validator of the body.
    body: Option<(String, Arc<Validator>)>,
}

static CALLBACKS: LazyLock<Vec<Callback>> = LazyLock::new(read);

/// Reads the document. This takes time and memory, so it is done once, before a test measures either.
pub fn prepare() {
    LazyLock::force(&CALLBACKS);
}

/// Checks that the document describes a message that the hub made.
pub fn check(seen: &Seen) -> Result<(), String> {
    let what = format!("{} {}", seen.method, seen.path);
    if seen.header("traceparent").is_none() {
        return Err(format!("{what} has no traceparent"));
    }
    let path = seen.path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let is_of = |callback: &&Callback| {
        callback.method == seen.method
            && callback.path.len() == segments.len()
            && callback
                .path
                .iter()
                .zip(&segments)
                .all(|(known, found)| known.as_deref().is_none_or(|known| known == *found))
    };
    let mut faults = Vec::new();
    for callback in CALLBACKS.iter().filter(is_of) {
        match callback.fits(seen) {
            Ok(()) => return Ok(()),
            Err(fault) => faults.push(fault),
        }
    }
    Err(format!("{what} is not as the document describes it: {faults:?}"))
}

impl Callback {
    fn fits(&self, seen: &Seen) -> Result<(), String> {
        for (name, is_required, validator) in &self.headers {
            match seen.header(name) {
                None if *is_required => return Err(format!("{name} is missing")),
                Some(value) if !validator.is_valid(&json!(value)) => {
                    return Err(format!("{name} is {value}"));
                }
                _ => {}
            }
        }
        let media_type = seen.header("content-type").unwrap_or_default();
        let (essence, version) = media_type.split_once(";version=").unwrap_or((media_type, ""));
        let is_version = version.split_once('.').is_some_and(|(major, minor)| {
            [major, minor].iter().all(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        });
        let Some((wanted, validator)) = &self.body else {
            return if seen.body.is_empty() { Ok(()) } else { Err("there is a body".to_owned()) };
        };
        if essence != wanted || !is_version {
            return Err(format!("content-type is {media_type}"));
        }
        let body: Value = serde_json::from_slice(&seen.body).map_err(|error| error.to_string())?;
        let error = validator.iter_errors(&body).next();
        error.map_or(Ok(()), |error| Err(format!("{error} at '{}'", error.instance_path())))
    }
}

fn read() -> Vec<Callback> {
    let text = String::from_utf8(ApiPort::Fspiop.file("/openapi.yaml").unwrap().content().to_vec()).unwrap();
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let resolve = |value: &Value| match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap().clone(),
        None => value.clone(),
    };
    // Only schemas are references. Equal schemas share a validator, which is large.
    let components = json!({"schemas": document["components"]["schemas"]});
    let mut validators: HashMap<String, Arc<Validator>> = HashMap::new();
    let mut validator = |schema: &Value| {
        let made = || {
            let root = json!({"components": components, "allOf": [schema]});
            Arc::new(jsonschema::validator_for(&root).unwrap())
        };
        Arc::clone(validators.entry(schema.to_string()).or_insert_with(made))
    };
    let operations = document["paths"].as_object().unwrap().values();
    let operations = operations.flat_map(|item| item.as_object().unwrap().values());
    let of_operations = operations.filter_map(|operation| operation["callbacks"].as_object());
    let by_path =
        of_operations.flat_map(|callbacks| callbacks.values()).flat_map(|one| one.as_object().unwrap());
    let mut found: Vec<(String, String)> =
        by_path.map(|(path, item)| (path.clone(), item["$ref"].as_str().unwrap().to_owned())).collect();
    found.sort();
    found.dedup();
    let mut callbacks = Vec::new();
    for (path, item) in found {
        let item = document.pointer(&item[1..]).unwrap();
        for method in ["GET", "POST", "PUT", "PATCH"] {
            let operation = &item[method.to_lowercase()];
            if operation.is_null() {
                continue;
            }
            let mut headers = Vec::new();
            for parameter in operation["parameters"].as_array().unwrap().iter().map(&resolve) {
                if parameter["in"] == "header" {
                    let name = parameter["name"].as_str().unwrap().to_lowercase();
                    headers.push((name, parameter["required"] == true, validator(&parameter["schema"])));
                }
            }
            let body = operation.get("requestBody").map(&resolve).map(|body| {
                let (media_type, content) = body["content"].as_object().unwrap().iter().next().unwrap();
                (media_type.split(';').next().unwrap().to_owned(), validator(&content["schema"]))
            });
            callbacks.push(Callback { method, path: segments_of(&path), headers, body });
        }
    }
    assert!(callbacks.len() > 50, "{}", callbacks.len());
    callbacks
}

/// The segments of an expression such as `/quotes/{$request.body#/quoteId}/error`.
fn segments_of(path: &str) -> Vec<Option<String>> {
    let mut plain = String::new();
    let mut is_inside = false;
    for letter in path.chars() {
        match letter {
            // The fragment only distinguishes callbacks of one path.
            '#' if !is_inside => break,
            '{' => is_inside = true,
            '}' => {
                is_inside = false;
                plain.push('*');
            }
            _ if is_inside => {}
            letter => plain.push(letter),
        }
    }
    plain.split('/').map(|segment| (segment != "*").then(|| segment.to_owned())).collect()
}
