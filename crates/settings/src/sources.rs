//! Reads the values in the configuration file, the environment and the flags, without parsing them; their origins and
//! mistakes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use upesi_keys::read_limited_text;
use upesi_process::hints::{nearest, other_language};
use upesi_types::FspId;

use super::catalogue::{CATALOGUE, SECTIONS, key_prefix};
use super::former;
use super::mistake::{Mistake, ValueOrigin};
use super::raw::Raw;
use super::setting::DFSP;
use super::variables::{self, suggestion};

/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The sources of settings other than the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// The environment's variables. Variables that do not begin with `UPESI_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// The flags: each as written on the command line, the key that it sets, and the value.
    pub flags: Vec<(String, String, String)>,
}

/// The value of each key from the source with the highest precedence, and the mistakes in the sources.
#[derive(Debug, Default)]
pub(super) struct SourceValues {
    pub given: BTreeMap<String, (Raw, ValueOrigin)>,
    /// The DFSPs with their own settings, in the order of the sources.
    pub dfsps: Vec<FspId>,
    pub mistakes: Vec<Mistake>,
}

impl SourceValues {
    /// Reads all sources.
    pub fn gather(sources: &Sources) -> Self {
        let mut gathered = Self::default();
        if let Some(path) = &sources.file {
            gathered.read_file(path);
        }
        let mut variables: Vec<_> = sources.environment.iter().collect();
        variables.sort();
        for (name, value) in variables {
            gathered.read_variable(name, value);
        }
        for (flag, key, value) in &sources.flags {
            gathered.give(key, Raw::Plain(value.clone()), ValueOrigin::Flag(flag.clone()));
        }
        gathered
    }

    /// Stores a value until it is parsed. The key is `section.name` or `dfsp.NAME.name`.
    fn give(&mut self, key: &str, raw: Raw, origin: ValueOrigin) {
        if let Some(of_dfsp) = key.strip_prefix(DFSP).and_then(|rest| rest.strip_prefix('.')) {
            match of_dfsp.rsplit_once('.') {
                Some((dfsp, name)) => {
                    if let Some(dfsp) = self.dfsp(dfsp, &origin) {
                        self.set_of_dfsp(&dfsp, name, raw, origin);
                    }
                }
                None => self
                    .mistake(origin, format!("{key}: write {DFSP}.NAME.{of_dfsp}, with the name of a DFSP")),
            }
        } else if is_setting(key) {
            self.given.insert(key.to_owned(), (raw, origin));
        } else {
            self.unknown(key, origin);
        }
    }

    /// Stores a setting of a single DFSP.
    fn set_of_dfsp(&mut self, dfsp: &FspId, name: &str, raw: Raw, origin: ValueOrigin) {
        let key = format!("{}.{name}", key_prefix(dfsp));
        if !is_setting(&format!("{DFSP}.{name}")) {
            self.mistake(origin, unknown_dfsp_setting(name));
        } else if matches!(&raw, Raw::Plain(text) | Raw::Text(text) if text.is_empty()) {
            // An empty variable must not remove a setting, such as the networks of a DFSP.
            self.mistake(
                origin,
                format!("{key}: the value is empty; omit it to use the setting of all DFSPs"),
            );
        } else {
            self.given.insert(key, (raw, origin));
        }
    }

    /// The DFSP with a name. A new name is added to the list.
    fn dfsp(&mut self, name: &str, origin: &ValueOrigin) -> Option<FspId> {
        let Some(found) = FspId::parse(name) else {
            let text = format!("{DFSP}: {name:?}: give a name of 1 to 32 printable ASCII characters");
            self.mistake(origin.clone(), text);
            return None;
        };
        if let Some(known) = self.dfsps.iter().find(|known| known.eq_ignore_case(&found)) {
            return Some(*known);
        }
        self.dfsps.push(found);
        Some(found)
    }

    fn mistake(&mut self, origin: ValueOrigin, text: impl Into<String>) {
        self.mistakes.push(Mistake { origin, text: text.into() });
    }

    fn unknown(&mut self, key: &str, origin: ValueOrigin) {
        let text = match (former::successor(key), suggestion(key)) {
            (Some(successor), _) => format!("{key:?} is no longer a setting: {successor}"),
            (None, Some(meant)) => format!("{key:?} is not a setting; did you mean {meant:?}?"),
            (None, None) => format!("{key:?} is not a setting; `upesi config` lists them all"),
        };
        self.mistake(origin, text);
    }

    fn read_variable(&mut self, name: &OsString, value: &OsString) {
        let name = name.to_string_lossy();
        let origin = ValueOrigin::Environment(name.clone().into_owned());
        match (variables::key(&name), value.to_str()) {
            (Some(key), Some(value)) => self.give(&key, Raw::Plain(value.to_owned()), origin),
            (Some(_), None) => self.mistake(origin, "its value is not UTF-8"),
            (None, _) => self.mistakes.extend(variables::mistake(&name, &value.to_string_lossy())),
        }
    }

    fn read_file(&mut self, path: &Path) {
        let shown = path.display().to_string();
        let whole = ValueOrigin::File { path: shown.clone(), line: 0 };
        let text = match read_limited_text(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return self.mistake(whole, error.to_string());
            }
            Err(error) => return self.mistake(whole, format!("cannot be read: {error}")),
        };
        let at = |offset: usize| ValueOrigin::File { path: shown.clone(), line: line_of(&text, offset) };
        let (table, errors) = DeTable::parse_recoverable(&text);
        if let Some(language) = other_language(&text).filter(|_| !errors.is_empty()) {
            return self.mistake(whole, format!("it looks like {language}; settings are TOML"));
        }
        let mut broken = Vec::new();
        for error in errors {
            let origin = at(error.span().map_or(0, |span| span.start));
            self.mistake(origin.clone(), error.message().trim_end());
            broken.push(origin);
        }
        // The parser's result for a broken line is not reported as another mistake.
        let at = |offset: usize| Some(at(offset)).filter(|origin| !broken.contains(origin));
        for (section, content) in table.get_ref() {
            let name = section.get_ref().as_ref();
            let Some(origin) = at(section.span().start) else { continue };
            match content.get_ref() {
                DeValue::Array(tables) if name == DFSP => self.read_dfsps(tables, &at, &origin),
                _ if name == DFSP => {
                    self.mistake(origin, format!("write [[{DFSP}]], one table for each DFSP, with its name"));
                }
                DeValue::Table(content) => self.read_section(name, content, &at, origin),
                _ => self.stray(name, origin),
            }
        }
    }

    fn read_section(
        &mut self,
        section: &str,
        content: &DeTable<'_>,
        at: &dyn Fn(usize) -> Option<ValueOrigin>,
        origin: ValueOrigin,
    ) {
        let known = || SECTIONS.iter().map(|known| known.name);
        if !known().any(|known| known == section) {
            let hint = match nearest(section, known()) {
                Some(meant) => format!("did you mean [{meant}]?"),
                None => format!("the sections are {}", known().collect::<Vec<_>>().join(", ")),
            };
            return self.mistake(origin, format!("[{section}] is not a section; {hint}"));
        }
        for (name, value) in content {
            let Some(origin) = at(name.span().start) else { continue };
            self.give(&format!("{section}.{}", name.get_ref()), raw(value), origin);
        }
    }

    fn read_dfsps(
        &mut self,
        tables: &DeArray<'_>,
        at: &dyn Fn(usize) -> Option<ValueOrigin>,
        origin: &ValueOrigin,
    ) {
        for table in tables {
            let origin = at(table.span().start).unwrap_or_else(|| origin.clone());
            let DeValue::Table(content) = table.get_ref() else {
                self.mistake(origin, format!("write [[{DFSP}]], one table for each DFSP, with its name"));
                continue;
            };
            let Some(name) = content.get("name").and_then(|name| name.get_ref().as_str()) else {
                self.mistake(
                    origin,
                    format!("[[{DFSP}]] needs the name of the DFSP, such as name = \"greenbank\""),
                );
                continue;
            };
            let known = self.dfsps.len();
            let Some(dfsp) = self.dfsp(name, &origin) else { continue };
            if self.dfsps.len() == known {
                self.mistake(origin, format!("[[{DFSP}]]: {name:?} is listed twice"));
                continue;
            }
            for (name, value) in content.iter().filter(|(name, _)| name.get_ref() != "name") {
                let Some(origin) = at(name.span().start) else { continue };
                self.set_of_dfsp(&dfsp, name.get_ref(), raw(value), origin);
            }
        }
    }

    /// A key outside any section.
    fn stray(&mut self, name: &str, origin: ValueOrigin) {
        let home = CATALOGUE.iter().find(|setting| setting.name == name || setting.section == name);
        let text = match home {
            Some(setting) if setting.section == name => {
                format!("{name:?} is a section: write [{name}] on a line of its own")
            }
            Some(setting) => {
                format!("{name:?} is outside any section; write it under [{}]", setting.section)
            }
            None => format!("{name:?} is not a setting and is outside any section"),
        };
        self.mistake(origin, text);
    }
}

/// Whether a setting has this key. The settings of `[[dfsp]]` have keys without the name of a DFSP.
fn is_setting(key: &str) -> bool {
    CATALOGUE.iter().any(|setting| setting.key == key)
}

fn unknown_dfsp_setting(name: &str) -> String {
    let hint = match nearest(name, variables::dfsp_settings()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("its settings are {}", variables::dfsp_settings().collect::<Vec<_>>().join(", ")),
    };
    format!("[[{DFSP}]] has no {name:?}; {hint}")
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.clone().into_owned()),
        DeValue::Integer(number) => Raw::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => {
            texts(items).map_or(Raw::Other("an array with values that are not strings"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(entries) => {
            let values = |value: &DeValue<'_>| match value {
                DeValue::Array(items) => texts(items),
                value => Some(vec![value.as_str()?.to_owned()]),
            };
            let entries = entries
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), values(value.get_ref())?)));
            entries
                .collect::<Option<_>>()
                .map_or(Raw::Other("a table with values that are not strings"), Raw::Table)
        }
    }
}

fn texts(items: &DeArray<'_>) -> Option<Vec<String>> {
    items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
}

/// The line of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
