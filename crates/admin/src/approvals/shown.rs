//! A change in full, as JSON.

use serde_json::{Map, Value};
use upesi_ledger::{AdminCommand, Shown};

/// The kind of a change and what it holds. Amounts are texts.
pub(super) fn change(command: &AdminCommand) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), camel_case(command.name()).into());
    add(&mut object, command.fields());
    Value::Object(object)
}

fn add(object: &mut Map<String, Value>, fields: Vec<(&'static str, Shown<'_>)>) {
    for (name, shown) in fields {
        object.insert(camel_case(name), value(shown));
    }
}

/// Changes name what they are about: they hold no numbers of participants, types, callbacks or causes.
fn value(shown: Shown<'_>) -> Value {
    match shown {
        Shown::Flag(flag) => flag.into(),
        Shown::Number(number) => i64::try_from(number).map_or(Value::Null, Value::from),
        Shown::Text(text) => text.into_owned().into(),
        Shown::Account(id) => id.number().into(),
        Shown::List(items) => items.into_iter().map(value).collect(),
        Shown::Fields(fields) => {
            let mut object = Map::new();
            add(&mut object, fields);
            Value::Object(object)
        }
        Shown::Absent
        | Shown::Participant(_)
        | Shown::AccountType(_)
        | Shown::Callback(_)
        | Shown::Cause(_) => Value::Null,
    }
}

/// `net_debit_cap` and `SetLimit` as `netDebitCap` and `setLimit`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_new_word = false;
    for character in name.chars() {
        match character {
            '_' => is_new_word = true,
            _ if is_new_word => {
                text.push(character.to_ascii_uppercase());
                is_new_word = false;
            }
            _ if text.is_empty() => text.push(character.to_ascii_lowercase()),
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_in_full() {
        let (name, currency) =
            (upesi_types::FspId::parse("green").unwrap(), upesi_types::Currency::parse("KES").unwrap());
        let net_debit_cap = upesi_types::Amount::parse_decimal("12.5").unwrap();
        let command = AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points: 800 };
        let expected = serde_json::json!({
            "type": "setLimit", "name": "green", "currency": "KES", "netDebitCap": "12.5", "alarmBasisPoints": 800,
        });
        assert_eq!(change(&command), expected);
    }
}
