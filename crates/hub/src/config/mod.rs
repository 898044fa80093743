//! One typed tree of settings: defaults, then the TOML file, then the environment, then flags; validated as a whole
//! before anything is opened.

mod catalogue;
mod checks;
mod issuers;
mod networks;
mod origin;
mod print;
mod profile;
mod rates;
mod setting;
mod signatures;
mod similar;
mod sources;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;

pub use catalogue::{
    Admin, AdminTls, Admission, BrokerSasl, BrokerTls, CATALOGUE, Callbacks, Cluster, Data, Engine, Fspiop,
    FspiopTls, Hub, Jws, Log, Lookup, Metrics, Oidc, OidcDfsps, Oracles, OutboundTls, Pkcs11, Quotes, Relay,
    SECTIONS, Security, Settings, Shutdown, Store, Tls,
};
pub(crate) use issuers::{listed, roles_of_groups};
pub(crate) use networks::{address_lists, guard_rules, networks, peers};
pub use origin::{Mistake, Origin};
pub use print::{reference, to_json, to_toml};
pub use profile::missing_for_production;
pub(crate) use rates::rate_exceptions;
pub use setting::{Kind, Raw, Setting, Value};
pub use signatures::{SignatureMode, SignatureModes};
pub use similar::nearest;
pub use sources::{Sources, VARIABLE_PREFIX};
pub use variables::mistakes as environment_mistakes;

use setting::Values;
use sources::Gathered;

/// The settings in effect, with where each came from.
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
/// Every mistake in every source, in the order of the sources, then the contradictions between right values.
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
    let mistakes = profile::contradictions(&settings, &profile, &relaxed);
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

/// The rules that quotes are judged by, from the file of `quotes.rules_file`; no file, no rules.
///
/// # Errors
/// Why the file cannot be read, or which of its rules is wrong.
pub fn quote_rules(file: &str) -> Result<upesi_quoting::Rules, String> {
    if file.is_empty() {
        return Ok(upesi_quoting::Rules::default());
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    upesi_quoting::Rules::parse(&text).map_err(|error| error.to_string())
}

/// All mistakes as one text, a line each.
pub fn describe(mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let count = match mistakes.len() {
        1 => "1 mistake".to_owned(),
        count => format!("{count} mistakes"),
    };
    format!("the configuration has {count}; nothing was started\n  {}", lines.join("\n  "))
}
