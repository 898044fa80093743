//! Journal records as JSON, one object each. Amounts are strings, as on the wire, so that no reader rounds them.

use serde_json::{Map, Value, json};
use upesi_delivery::rejection;
use upesi_ledger::{Actor, Callback, CallbackContent, Cause, Event, PrintedValue, Record};
use upesi_types::Timestamp;

use crate::names::Names;

/// A record as a JSON object. `with_payload` adds the request's headers and body, which contain personal data.
pub fn record_json(
    seq: u64,
    time: Timestamp,
    record: &Record<'_>,
    names: &Names,
    with_payload: bool,
) -> Value {
    let mut object = json!({
        "seq": seq,
        "time": time.to_string(),
        "timeNs": time.as_ns(),
        "actor": actor_json(record.actor),
        "events": record.events.iter().map(|event| event_json(event, names)).collect::<Vec<_>>(),
        "callbacks": record.callbacks.iter().map(|callback| callback_json(callback, names)).collect::<Vec<_>>(),
        "payload": {
            "headerBytes": record.payload.headers.len(),
            "bodyBytes": record.payload.body.len(),
        },
    });
    if with_payload {
        object["payload"]["headers"] = String::from_utf8_lossy(record.payload.headers).into();
        object["payload"]["body"] = String::from_utf8_lossy(record.payload.body).into();
    }
    object
}

fn actor_json(actor: Actor) -> Value {
    match actor {
        Actor::Dfsp(name) => json!({"kind": actor.kind(), "name": name.as_str()}),
        _ => json!({"kind": actor.kind()}),
    }
}

fn event_json(event: &Event, names: &Names) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), camel_case(event.name()).into());
    add(&mut object, event.fields(), names);
    Value::Object(object)
}

/// Adds fields. A cause becomes an error code and a description.
fn add(object: &mut Map<String, Value>, fields: Vec<(&'static str, PrintedValue<'_>)>, names: &Names) {
    for (name, shown) in fields {
        match shown {
            PrintedValue::Cause(cause) => add_cause(object, cause),
            shown => {
                object.insert(camel_case(name), shown_json(shown, names));
            }
        }
    }
}

fn add_cause(object: &mut Map<String, Value>, cause: &Cause) {
    let (code, description) = rejection::cause(cause);
    object.insert("errorCode".to_owned(), code.to_string().into());
    object.insert("errorDescription".to_owned(), (*description).into());
}

fn shown_json(shown: PrintedValue<'_>, names: &Names) -> Value {
    match shown {
        PrintedValue::Absent => Value::Null,
        PrintedValue::Flag(flag) => flag.into(),
        PrintedValue::Number(number) => i64::try_from(number)
            .map(Value::from)
            .or_else(|_| u64::try_from(number).map(Value::from))
            .unwrap_or_else(|_| number.to_string().into()),
        PrintedValue::Text(text) => text.into_owned().into(),
        PrintedValue::Participant(id) => names.participant(id).into(),
        PrintedValue::Account(id) => id.number().into(),
        PrintedValue::AccountType(id) => names.account_type(id).into(),
        PrintedValue::Callback(key) => {
            json!({"target": names.participant(key.target), "seq": key.seq, "index": key.index})
        }
        PrintedValue::List(items) => items.into_iter().map(|item| shown_json(item, names)).collect(),
        PrintedValue::Cause(cause) => {
            let mut object = Map::new();
            add_cause(&mut object, cause);
            Value::Object(object)
        }
        PrintedValue::Fields(fields) => {
            let mut object = Map::new();
            add(&mut object, fields, names);
            Value::Object(object)
        }
    }
}

/// Converts `SomeName` and `some_name` to `someName`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_next_upper = false;
    for character in name.chars() {
        match character {
            '_' => is_next_upper = true,
            _ if text.is_empty() => text.push(character.to_ascii_lowercase()),
            _ if is_next_upper => {
                text.push(character.to_ascii_uppercase());
                is_next_upper = false;
            }
            _ => text.push(character),
        }
    }
    text
}

fn callback_json(callback: &Callback, names: &Names) -> Value {
    let mut object = json!({
        "target": names.participant(callback.target),
        "resource": callback.subject.resource.as_str(),
        "id": callback.subject.id.to_string(),
        "method": callback.content.method(),
        "endpointType": callback.endpoint_type().name(),
        "isForwarded": callback.content.is_forwarded(),
    });
    match &callback.content {
        CallbackContent::State(_, view) => object["transferState"] = view.state.as_str().into(),
        CallbackContent::Error(cause) => {
            let (code, description) = rejection::cause(cause);
            object["errorCode"] = code.to_string().into();
            object["errorDescription"] = (*description).into();
        }
        _ => {}
    }
    object
}
