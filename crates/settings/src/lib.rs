//! One typed tree of settings, from defaults, TOML file, environment and flags in this order. It is validated as a
//! whole before the hub opens any file or port.

mod catalogue;
mod checks;
mod choices;
pub mod directives;
mod former;
mod kind;
mod maps;
mod mistake;
mod raw;
mod setting;
mod sources;
#[cfg(test)]
mod tests;
pub mod trial;
mod values;
mod variables;
mod words;

use catalogue::{DFSP_SECTION, key_prefix};
use checks::CheckedSettings;
use serde_json::json;
use setting::{DFSP, Reader};
use sources::SourceValues;

pub use catalogue::{
    Admin, Admission, Archive, BrokerSasl, CATALOGUE, Callbacks, ClientProvider, Cluster, CommonTls, Data,
    Dfsp, DfspSettings, Engine, Fspiop, FspiopTls, Hub, Jws, Log, Lookup, Metrics, OperatorProvider, Oracles,
    Outbound, OutboundTls, Pkcs11, Provider, Quotes, Relay, SECTIONS, Security, Settings, Shutdown, Store,
    Tls,
};
pub use checks::missing_for_production;
pub use choices::{
    Approvers, ClusterLog, ExportFormat, FinerAmounts, KeepSegments, LogFormat, OutboundAddresses,
    ProductionRule, Profile, Requirement, SaslMechanism, SignatureMode, StaleCrls, TlsMode, Tokens,
    TopicReplicas, Unprotected, UnsignedDelete,
};
pub use kind::Choice;
pub use mistake::{Mistake, ValueOrigin};
pub use setting::{Section, Setting, SettingValue};
pub use sources::Sources;
pub use values::SignatureModes;
pub use variables::{VARIABLE_PREFIX, mistakes as environment_mistakes};
pub use words::QuoteRules;

/// The settings in effect, with the origin of each.
#[derive(Clone, Debug)]
pub struct EffectiveSettings {
    /// The typed tree.
    pub settings: Settings,
    /// Every setting with its value and origin: the sections in the order of the catalogue, then the DFSPs' tables.
    pub entries: Vec<SettingValue>,
}

/// Reads all sources and validates the whole.
///
/// # Errors
/// Every mistake in every source, in the order of the sources, then contradictions between values.
pub fn load(sources: &Sources) -> Result<EffectiveSettings, Vec<Mistake>> {
    let SourceValues { given, dfsps, mut mistakes } = SourceValues::gather(sources);
    let mut reader = Reader::new(given);
    let settings = Settings::read(&dfsps, &mut reader);
    mistakes.append(&mut reader.mistakes);
    let checked = CheckedSettings::new(&settings, &reader);
    mistakes.extend(checks::contradictions(&checked));
    if mistakes.is_empty() {
        mistakes = checks::short_of_production(&checked);
    }
    if mistakes.is_empty() {
        Ok(EffectiveSettings { settings, entries: reader.entries })
    } else {
        Err(mistakes)
    }
}

/// All mistakes as one text, one per line.
pub fn describe(mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let count = match mistakes.len() {
        1 => "1 mistake".to_owned(),
        count => format!("{count} mistakes"),
    };
    format!("the configuration has {count}; nothing was started\n  {}", lines.join("\n  "))
}

// Output of settings: as a TOML file with origins, as JSON, as the settings reference.

/// Column of the origins in the TOML output.
const ORIGIN_COLUMN: usize = 48;

/// A TOML file with the same effect, with the origin of each value as a comment.
pub fn to_toml(effective: &EffectiveSettings) -> String {
    let mut page = String::new();
    for section in SECTIONS {
        push_table(&mut page, &format!("[{}]", section.name), effective, section.name);
    }
    for dfsp in &effective.settings.dfsps {
        let name = toml::Value::from(dfsp.name.as_str());
        push_table(&mut page, &format!("[[{DFSP}]]\nname = {name}"), effective, &key_prefix(&dfsp.name));
    }
    page
}

/// Adds the entries of a table.
fn push_table(page: &mut String, head: &str, effective: &EffectiveSettings, prefix: &str) {
    if !page.is_empty() {
        page.push('\n');
    }
    page.push_str(&format!("{head}\n"));
    let start = format!("{prefix}.");
    let in_table = |entry: &&SettingValue| entry.key.strip_suffix(entry.name) == Some(start.as_str());
    for SettingValue { name, value, origin, .. } in effective.entries.iter().filter(in_table) {
        let line = format!("{name} = {value}");
        page.push_str(&format!("{line:<ORIGIN_COLUMN$} # {origin}\n"));
    }
}

/// One JSON array; each element has `key`, `value` and `origin`.
pub fn to_json(effective: &EffectiveSettings) -> String {
    let entries: Vec<_> = effective
        .entries
        .iter()
        .map(|SettingValue { key, value, origin, .. }| {
            let origin = match origin {
                ValueOrigin::Default => json!({"kind": "default"}),
                ValueOrigin::File { path, line } => json!({"kind": "file", "path": path, "line": line}),
                ValueOrigin::Environment(name) => json!({"kind": "environment", "name": name}),
                ValueOrigin::Flag(flag) => json!({"kind": "flag", "flag": flag}),
            };
            json!({"key": key, "value": value, "origin": origin})
        })
        .collect();
    format!("{:#}\n", serde_json::Value::from(entries))
}

/// The settings with their defaults, values and meanings, as Markdown: all, or the settings of a first installation.
pub fn reference(has_all: bool) -> String {
    let scope = if has_all {
        "This page shows all settings. `upesi config --reference` shows the settings of a first installation."
    } else {
        "This page shows the settings of a first installation. `upesi config --reference --all` shows all."
    };
    let mut page = format!("# Configuration\n\n{INTRODUCTION}\n{scope}\n");
    for section in SECTIONS {
        push_section(&mut page, section, &format!("[{}]", section.name), has_all);
    }
    push_section(&mut page, &DFSP_SECTION, &format!("[[{DFSP}]]"), has_all);
    page
}

const INTRODUCTION: &str = "\
`upesi serve` needs no configuration. Settings come from these sources; later ones override earlier ones:

1. the defaults below;
2. a TOML file, named with `--config FILE` or the variable `UPESI_CONFIG`;
3. environment variables `UPESI__SECTION__NAME`, such as `UPESI__FSPIOP__LISTEN=0.0.0.0:4000`;
4. flags: `--data`, `--fspiop`, `--admin`, `--log-level`, `--log-format`, and `--set section.name=value` for any
   setting.

All settings are validated before a port is bound or a file is created. The command reports every mistake with
its location and exits with code 64.

`upesi config` prints the settings in effect with the origin of each, as a valid TOML file;
`--json` prints them as JSON.

The names contain the units: `_ms` milliseconds, `_s` seconds, `_bytes` bytes. Numbers may have underscores: `5_242_880`.
A list is an array of texts, or a text with commas: `10.20.0.0/16, fd00:20::/64`. An empty text means none.
";

fn push_section(page: &mut String, section: &Section, title: &str, has_all: bool) {
    let is_shown = |setting: &&Setting| setting.section == section.name && (has_all || !setting.is_expert);
    let shown: Vec<_> = CATALOGUE.iter().filter(is_shown).collect();
    if shown.is_empty() {
        return;
    }
    let help: Vec<_> = section.help.iter().map(|line| line.trim()).collect();
    page.push_str(&format!("\n## {title}\n\n{}\n\n", help.join("\n")));
    page.push_str("| name | default | values | meaning |\n|---|---|---|---|\n");
    for setting in shown {
        page.push_str(&reference_row(setting));
    }
}

fn reference_row(setting: &Setting) -> String {
    let shorter = [("a whole number from ", ""), ("a text of at most ", "text, "), (", or nothing", "")];
    let values =
        shorter.iter().fold(setting.values.clone(), |values, (long, short)| values.replace(long, short));
    format!("| `{}` | `{}` | {values} | {} |\n", setting.name, setting.default, setting.help_text())
}
