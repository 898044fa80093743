//! docs/lab/result.schema.json agrees with the types of results. `UPESI_WRITE_DOCS=1` writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The source files of the types.
const SOURCES: [&str; 14] = [
    "lab/src/result/mod.rs",
    "lab/src/result/schema.rs",
    "lab/src/result/latency.rs",
    "lab/src/result/audit.rs",
    "lab/src/result/exchanges.rs",
    "lab/src/result/suite.rs",
    "lab/src/result/environment.rs",
    "lab/src/result/load.rs",
    "lab/src/plan/load_profile.rs",
    "lab/src/plan/parameter.rs",
    "lab/src/plan/plot.rs",
    "lab/src/plan/suite_plan.rs",
    "sim/src/counters.rs",
    "sim/src/settings.rs",
];
/// The types of the files.
const ROOTS: [&str; 2] = ["LabResult", "SuiteResult"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A member: its name in the file, its type, its description.
struct Member {
    name: String,
    of: String,
    about: String,
    is_flat: bool,
}

/// A type's description and members.
struct Type {
    about: String,
    is_enum: bool,
    members: Vec<Member>,
}

fn in_json(text: &str) -> String {
    // Links of rustdoc become names here.
    text.replace("[`", "`").replace("`]", "`")
}

fn value(attribute: &str, key: &str) -> Option<String> {
    let (_, rest) = attribute.split_once(&format!("{key} = \""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Reads the structs, enums and counters of a source that are written to files.
fn types_of(source: &str, types: &mut BTreeMap<String, Type>) {
    let (mut docs, mut attributes, mut present): (Vec<&str>, String, Option<(String, bool)>) =
        (Vec::new(), String::new(), None);
    for line in source.lines() {
        let text = line.trim();
        if let Some(doc) = text.strip_prefix("///") {
            docs.push(doc.trim());
            continue;
        }
        if text.starts_with("#[") {
            attributes.push_str(text);
            continue;
        }
        let about = in_json(&docs.join(" "));
        let words: Vec<&str> = text.trim_start_matches("pub ").split([' ', ',', '{']).collect();
        match (&present, words.as_slice()) {
            (None, [kind @ ("struct" | "enum"), name, ..])
                if attributes.contains("Serialize") && !name.starts_with('$') =>
            {
                types.insert(
                    (*name).to_owned(),
                    Type { about, is_enum: *kind == "enum", members: Vec::new() },
                );
                present = (!text.contains(';')).then(|| ((*name).to_owned(), *kind == "enum"));
            }
            (None, ["Counters", ..]) => {
                types.insert("Counters".to_owned(), Type { about, is_enum: false, members: Vec::new() });
                present = Some(("Counters".to_owned(), false));
            }
            (Some(_), [""]) if text == "}" && !line.starts_with("        ") && !line.starts_with("    ") => {
                present = None
            }
            (Some(_), ["}", ..])
                if line.starts_with('}') || line.starts_with("    }") && !text.ends_with(',') =>
            {
                present = None;
            }
            (Some((name, is_enum)), _)
                if !text.is_empty() && !text.starts_with('}') && !text.starts_with("//") =>
            {
                let (field, of) = match text.trim_start_matches("pub ").trim_end_matches(',').split_once(": ")
                {
                    Some((field, of)) => (field.to_owned(), of.to_owned()),
                    None => (words[0].to_owned(), if *is_enum { String::new() } else { "u64".to_owned() }),
                };
                let field = if field.starts_with(char::is_uppercase) { snake(&field) } else { field };
                let name_in_file = value(&attributes, "rename").unwrap_or(field);
                let of = if attributes.contains("milliseconds") { "u64".to_owned() } else { of };
                if !attributes.contains("serde(skip)") && !about.is_empty() {
                    let is_flat = attributes.contains("flatten");
                    types.get_mut(name).unwrap().members.push(Member {
                        name: name_in_file,
                        of,
                        about,
                        is_flat,
                    });
                }
            }
            _ => {}
        }
        docs.clear();
        attributes.clear();
    }
}

/// A type in JSON Schema.
fn schema(of: &str, types: &BTreeMap<String, Type>) -> Value {
    let inside = |wrapper: &str| of.strip_prefix(wrapper).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inside) = inside("Option<") {
        return schema(inside, types);
    }
    if let Some(inside) = inside("Vec<") {
        return json!({ "type": "array", "items": schema(inside, types) });
    }
    if let Some(inside) = inside("BTreeMap<String, ").or_else(|| inside("BTreeMap<Name, ")) {
        return json!({ "type": "object", "additionalProperties": schema(inside, types) });
    }
    match of {
        "String" | "Name" | "&'static str" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "f64" => json!({ "type": "number" }),
        "u16" | "u32" | "u64" | "usize" | "i64" => json!({ "type": "integer" }),
        other if types.get(other).is_some_and(|found| !found.is_enum) => {
            json!({ "$ref": format!("#/$defs/{other}") })
        }
        other => match types.get(other) {
            Some(found) => {
                let meant = found.members.iter().map(|member| format!("`{}`: {}", member.name, member.about));
                json!({ "description": meant.collect::<Vec<_>>().join(" ") })
            }
            None => json!({}),
        },
    }
}

/// The schema of a struct with its members; members of flattened types are its own.
fn definition(found: &Type, types: &BTreeMap<String, Type>) -> Value {
    let mut properties = serde_json::Map::new();
    for member in &found.members {
        if let Some(flat) = types.get(&member.of).filter(|_| member.is_flat) {
            properties.extend(definition(flat, types)["properties"].as_object().cloned().unwrap_or_default());
            continue;
        }
        let mut property = schema(&member.of, types);
        let more = property.get("description").and_then(Value::as_str).map(|more| format!(" {more}"));
        property["description"] = format!("{}{}", member.about, more.unwrap_or_default()).into();
        properties.insert(member.name.clone(), property);
    }
    json!({ "description": found.about, "type": "object", "properties": properties })
}

#[test]
fn schema_agrees_with_the_types() {
    let mut types = BTreeMap::new();
    for source in SOURCES {
        types_of(&std::fs::read_to_string(root().join("tools").join(source)).unwrap(), &mut types);
    }
    let defs: serde_json::Map<String, Value> = (types.iter())
        .filter(|(_, found)| !found.is_enum)
        .map(|(name, found)| (name.clone(), definition(found, &types)))
        .collect();
    let roots = ROOTS.map(|name| json!({ "$ref": format!("#/$defs/{name}") }));
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "result.json and suite.json",
        "anyOf": roots,
        "$defs": defs,
    });
    for (name, member) in [
        ("LabResult", "throughput_per_s"),
        ("OptionsEcho", "load"),
        ("Load", "parallel"),
        ("Counters", "prepares_received"),
        ("TimelineRow", "p9999_ms"),
        ("SuiteResult", "failings"),
        ("PairFigure", "difference"),
    ] {
        let found = types.get(name).unwrap_or_else(|| panic!("{name} was not read"));
        assert!(found.members.iter().any(|known| known.name == member), "{name} has no {member}");
    }
    let path = root().join("docs/lab/result.schema.json");
    let wanted = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("UPESI_WRITE_DOCS").is_some() {
        std::fs::write(path, wanted).unwrap();
    } else {
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            present == wanted,
            "{} is not what the types say: UPESI_WRITE_DOCS=1 writes it",
            path.display()
        );
    }
}

#[test]
fn schema_names_every_member_of_a_result() {
    let text = std::fs::read_to_string(root().join("docs/lab/result.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let result = upesi_lab::LabResult::default().to_json();
    let result: Value = serde_json::from_str(&result).unwrap();
    let named = &schema["$defs"]["LabResult"]["properties"];
    for member in result.as_object().unwrap().keys() {
        assert!(named.get(member).is_some(), "{member}");
    }
    for (definition, member, kind) in [
        ("LabResult", "throughput_per_s", "number"),
        ("TimelineRow", "queue_engine", "number"),
        ("Counters", "prepares_received", "integer"),
        ("SuiteResult", "runs", "array"),
    ] {
        assert_eq!(schema["$defs"][definition]["properties"][member]["type"], kind, "{definition}.{member}");
    }
}
