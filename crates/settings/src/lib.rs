//! One typed tree of settings, from defaults, TOML file, environment and flags in this order. It is validated as a
//! whole before the hub opens any file or port.

mod catalogue;
mod checks;
pub mod directives;
mod mistake;
mod setting;
mod sources;
#[cfg(test)]
mod tests;
pub mod trial;
mod values;
mod variables;

use std::collections::BTreeMap;

use serde_json::json;
use setting::Values;
use sources::Gathered;

pub use catalogue::{
    Admin, AdminTls, Admission, BrokerSasl, BrokerTls, CATALOGUE, Callbacks, Cluster, Data, Engine, Fspiop,
    FspiopTls, Hub, Jws, Log, Lookup, Metrics, Oidc, OidcDfsps, Oracles, OutboundTls, Pkcs11, Quotes, Relay,
    SECTIONS, Security, Settings, Shutdown, Store, Tls,
};
pub use checks::{is_outbound_guarded, missing_for_production};
pub use mistake::{Mistake, Origin};
pub use setting::{Kind, Raw, Setting, Value};
pub use sources::Sources;
pub use values::{
    SignatureMode, SignatureModes, Unprotected, address_lists, guard_rules, listed, networks, peers,
    quote_rules, rate_exceptions, roles_of_groups,
};
pub use variables::{VARIABLE_PREFIX, mistakes as environment_mistakes};

/// The settings in effect, with the origin of each.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The typed tree.
    pub settings: Settings,
    /// Every setting with its value and origin, in the order of the catalogue.
    pub entries: Vec<(&'static Setting, Value, Origin)>,
}

/// Reads all sources and validates the whole.
///
/// # Errors
/// Every mistake in every source, in the order of the sources, then contradictions between values.
pub fn load(sources: &Sources) -> Result<Effective, Vec<Mistake>> {
    let Gathered { mut given, mut mistakes } = Gathered::gather(sources);
    let mut understood = BTreeMap::new();
    for setting in CATALOGUE {
        let (raw, origin) = given
            .remove(setting.key)
            .unwrap_or_else(|| (Raw::Plain(setting.default.to_owned()), Origin::Default));
        match setting.kind.read(&raw) {
            Ok(value) => {
                understood.insert(setting.key, (value, origin));
            }
            Err(text) => mistakes.push(Mistake { origin, text: format!("{}: {text}", setting.key) }),
        }
    }
    mistakes.extend(checks::contradictions(&understood));
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let values = understood.iter().map(|(key, (value, _))| (*key, value.clone())).collect();
    let settings = Settings::from_values(&Values(&values));
    let origin_of = |key: &str| understood.get(key).map_or(Origin::Default, |(_, origin)| origin.clone());
    let (profile, relaxed) = (origin_of("security.profile"), origin_of("security.relaxed"));
    let mistakes = checks::short_of_production(&settings, &profile, &relaxed);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let entries = CATALOGUE
        .iter()
        .filter_map(|setting| {
            let (value, origin) = understood.remove(setting.key)?;
            Some((setting, value, origin))
        })
        .collect();
    Ok(Effective { settings, entries })
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
pub fn to_toml(effective: &Effective) -> String {
    let mut page = String::new();
    for (section, _) in SECTIONS {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&format!("[{section}]\n"));
        for (setting, value, origin) in
            effective.entries.iter().filter(|(setting, ..)| setting.section == *section)
        {
            let line = format!("{} = {}", setting.name, value.to_toml());
            page.push_str(&format!("{line:<ORIGIN_COLUMN$} # {origin}\n"));
        }
    }
    page
}

/// One JSON array; each element has `key`, `value` and `origin`.
pub fn to_json(effective: &Effective) -> String {
    let entries: Vec<_> = effective
        .entries
        .iter()
        .map(|(setting, value, origin)| {
            let origin = match origin {
                Origin::Default => json!({"kind": "default"}),
                Origin::File { path, line } => json!({"kind": "file", "path": path, "line": line}),
                Origin::Environment(name) => json!({"kind": "environment", "name": name}),
                Origin::Flag(flag) => json!({"kind": "flag", "flag": flag}),
            };
            json!({"key": setting.key, "value": value.to_json(), "origin": origin})
        })
        .collect();
    format!("{:#}\n", serde_json::Value::from(entries))
}

/// Every setting with its default, values and meaning, as Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         `upesi serve` needs no configuration. Settings come from these sources; later ones override earlier ones:\n\n\
         1. the defaults below;\n\
         2. a TOML file, named with `--config FILE` or the variable `UPESI_CONFIG`;\n\
         3. environment variables `UPESI__SECTION__NAME`, such as `UPESI__FSPIOP__LISTEN=0.0.0.0:4000`;\n\
         4. flags: `--data`, `--fspiop`, `--admin`, `--log-level`, `--log-format`, and `--set section.name=value` for \
         any\n   setting.\n\n\
         All settings are validated before a port is bound or a file is created. The command reports every mistake with\n\
         its location and exits with code 64.\n\n\
         `upesi config` prints the settings in effect with the origin of each, as a valid TOML file;\n\
         `--json` prints them as JSON.\n\n\
         The names contain the units: `_ms` milliseconds, `_s` seconds, `_bytes` bytes. Numbers may have underscores: \
         `5_242_880`.\n",
    );
    for (section, help) in SECTIONS {
        let help: Vec<_> = help.iter().map(|line| line.trim()).collect();
        page.push_str(&format!("\n## [{section}]\n\n{}\n\n", help.join("\n")));
        page.push_str("| name | default | values | meaning |\n|---|---|---|---|\n");
        for setting in CATALOGUE.iter().filter(|setting| setting.section == *section) {
            page.push_str(&reference_row(setting));
        }
    }
    page
}

fn reference_row(setting: &Setting) -> String {
    let default = match setting.kind.read(&Raw::Plain(setting.default.to_owned())) {
        Ok(value) => value.to_toml(),
        Err(_) => setting.default.to_owned(),
    };
    let values =
        setting.kind.to_string().replace("a whole number from ", "").replace("a text of at most ", "text, ");
    format!("| `{}` | `{default}` | {values} | {} |\n", setting.name, setting.help_text())
}
