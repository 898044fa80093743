//! Reads the values in the configuration file, the environment and the flags, without parsing them; their origins and
//! mistakes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use upesi_keys::read_limited_text;
use upesi_process::hints::{nearest, other_language};

use super::catalogue::{CATALOGUE, SECTIONS};
use super::mistake::{Mistake, Origin};
use super::setting::{Raw, Setting};
use super::variables;
use super::variables::suggestion;

/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The sources of settings other than the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// The environment's variables; those that do not begin with `UPESI_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// The flags: each as written on the command line, the key that it sets, and the value.
    pub flags: Vec<(String, String, String)>,
}

/// The value of each key from the source with the highest precedence, and the mistakes in the sources.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub given: BTreeMap<&'static str, (Raw, Origin)>,
    pub mistakes: Vec<Mistake>,
}

impl Gathered {
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
            let origin = Origin::Flag(flag.clone());
            match find(key) {
                Some(setting) => gathered.give(setting, Raw::Plain(value.clone()), origin),
                None => gathered.unknown(key, origin),
            }
        }
        gathered
    }

    fn give(&mut self, setting: &'static Setting, raw: Raw, origin: Origin) {
        self.given.insert(setting.key, (raw, origin));
    }

    fn mistake(&mut self, origin: Origin, text: impl Into<String>) {
        self.mistakes.push(Mistake { origin, text: text.into() });
    }

    fn unknown(&mut self, key: &str, origin: Origin) {
        let text = match suggestion(key) {
            Some(meant) => format!("{key:?} is not a setting; did you mean {meant:?}?"),
            None => format!("{key:?} is not a setting; `upesi config` lists them all"),
        };
        self.mistake(origin, text);
    }

    fn read_variable(&mut self, name: &OsString, value: &OsString) {
        let name = name.to_string_lossy();
        let origin = Origin::Environment(name.clone().into_owned());
        match (CATALOGUE.iter().find(|setting| setting.variable() == name), value.to_str()) {
            (Some(setting), Some(value)) => self.give(setting, Raw::Plain(value.to_owned()), origin),
            (Some(_), None) => self.mistake(origin, "its value is not UTF-8"),
            (None, _) => self.mistakes.extend(variables::mistake(&name, &value.to_string_lossy())),
        }
    }

    fn read_file(&mut self, path: &Path) {
        let shown = path.display().to_string();
        let whole = Origin::File { path: shown.clone(), line: 0 };
        let text = match read_limited_text(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return self.mistake(whole, error.to_string());
            }
            Err(error) => return self.mistake(whole, format!("cannot be read: {error}")),
        };
        let at = |offset: usize| Origin::File { path: shown.clone(), line: line_of(&text, offset) };
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
                DeValue::Table(content) => self.read_section(name, content, &at, origin),
                _ => self.stray(name, origin),
            }
        }
    }

    fn read_section(
        &mut self,
        section: &str,
        content: &DeTable<'_>,
        at: &dyn Fn(usize) -> Option<Origin>,
        origin: Origin,
    ) {
        if !SECTIONS.iter().any(|(known, _)| *known == section) {
            let hint = match nearest(section, SECTIONS.iter().map(|(known, _)| *known)) {
                Some(meant) => format!("did you mean [{meant}]?"),
                None => format!(
                    "there are {}",
                    SECTIONS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ")
                ),
            };
            return self.mistake(origin, format!("[{section}] is not a section; {hint}"));
        }
        for (name, value) in content {
            let key = format!("{section}.{}", name.get_ref());
            let Some(origin) = at(name.span().start) else { continue };
            match find(&key) {
                Some(setting) => self.give(setting, raw(value), origin),
                None => self.unknown(&key, origin),
            }
        }
    }

    /// A key outside any section.
    fn stray(&mut self, name: &str, origin: Origin) {
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

/// The setting of a key.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    CATALOGUE.iter().find(|setting| setting.key == key)
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.clone().into_owned()),
        DeValue::Integer(number) => Raw::Integer(u64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            texts.map_or(Raw::Other("an array with values that are not strings"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

/// The line of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
