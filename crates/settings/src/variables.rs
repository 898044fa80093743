//! Known environment variables that begin with `UPESI_`.

use upesi_process::hints::nearest;

use super::catalogue::CATALOGUE;
use super::former;
use super::mistake::{Mistake, ValueOrigin};
use super::setting::{DFSP, Setting};

/// Prefix of the environment variables that are settings.
pub const VARIABLE_PREFIX: &str = "UPESI__";
/// Prefix of all environment variables of the project.
pub const PREFIX: &str = "UPESI_";

/// Variables that the command reads in addition to settings.
const OF_THE_COMMAND: [&str; 8] = [
    "UPESI_ADMIN_ANCHORS",
    "UPESI_ADMIN_CERTIFICATE",
    "UPESI_ADMIN_KEY",
    "UPESI_ADMIN_TOKEN",
    "UPESI_ADMIN_TOKEN_FILE",
    "UPESI_ADMIN_URL",
    "UPESI_CONFIG",
    "UPESI_CONTEXT",
];

/// Variables of the build, the tests and the tools of this repository, which developers may have set.
const OF_THE_TOOLS: [&str; 31] = [
    "UPESI_AUDITED_OPERATIONS",
    "UPESI_AUDITED_SEED",
    "UPESI_BENCH_DIR",
    "UPESI_BINARY",
    "UPESI_BUILT_FROM",
    "UPESI_CLUSTER_LOSS",
    "UPESI_CLUSTER_TAKE_OVERS",
    "UPESI_COMMIT",
    "UPESI_CRASH_BINARY",
    "UPESI_CRASH_KILLS",
    "UPESI_CRASH_SEED",
    "UPESI_DASHBOARDS",
    "UPESI_ENGINE_SEED",
    "UPESI_ENGINE_SEEDS",
    "UPESI_FUZZ_SEED",
    "UPESI_FUZZ_SEEDS",
    "UPESI_FUZZ_TARGET",
    "UPESI_FUZZ_TIMES",
    "UPESI_NODES_SEED",
    "UPESI_NODES_SEEDS",
    "UPESI_POWER_LIVES",
    "UPESI_POWER_SEED",
    "UPESI_PROMETHEUS",
    "UPESI_RELAYS_ALONE",
    "UPESI_TABLES_CRASH_DIRECTORY",
    "UPESI_TESTS_MAY_SKIP",
    "UPESI_VERSION",
    "UPESI_WORLD_SEED",
    "UPESI_WORLD_SEEDS",
    "UPESI_WRITE_DOCS",
    "UPESI_WRITE_FIXTURE",
];

/// The key of the setting that a variable sets. `UPESI__DFSP__GREENBANK__SIGNATURES` sets `dfsp.GREENBANK.signatures`.
pub fn key(name: &str) -> Option<String> {
    if let Some((dfsp, of_dfsp)) = parts_of_dfsp(name) {
        let found = dfsp_settings().find(|known| known.to_uppercase() == of_dfsp)?;
        return Some(format!("{DFSP}.{dfsp}.{found}"));
    }
    CATALOGUE.iter().find(|setting| setting.variable() == name).map(|setting| setting.key.clone())
}

/// The name of the DFSP and the setting in a variable's name: `GREENBANK` and `SIGNATURES`.
fn parts_of_dfsp(name: &str) -> Option<(&str, &str)> {
    let parts = name.strip_prefix(VARIABLE_PREFIX)?.strip_prefix("DFSP__")?.rsplit_once("__");
    parts.filter(|(dfsp, _)| !dfsp.is_empty())
}

/// The names of the settings of a single DFSP.
pub fn dfsp_settings() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().filter(|setting| setting.section == DFSP).map(|setting| setting.name)
}

/// The mistake in an environment variable, or `None` if the variable is known. The values of settings are not checked
/// here.
pub fn mistake(name: &str, value: &str) -> Option<Mistake> {
    let is_known = !name.starts_with(PREFIX)
        || OF_THE_COMMAND.contains(&name)
        || OF_THE_TOOLS.contains(&name)
        || key(name).is_some()
        || is_service_link(name, value);
    if is_known {
        return None;
    }
    let former = name.strip_prefix(VARIABLE_PREFIX).and_then(|rest| former::successor(&written_key(rest)));
    if let Some(successor) = former {
        let text = format!("this variable no longer has an effect: {successor}");
        return Some(Mistake { origin: ValueOrigin::Environment(name.to_owned()), text });
    }
    let text = match meant(name) {
        Some(meant) => format!("this variable has no effect; did you mean {meant}?"),
        None => "this variable has no effect; write UPESI__SECTION__NAME; `upesi config` lists them all"
            .to_owned(),
    };
    Some(Mistake { origin: ValueOrigin::Environment(name.to_owned()), text })
}

/// All mistakes in the variables of an environment.
pub fn mistakes(environment: &[(std::ffi::OsString, std::ffi::OsString)]) -> Vec<Mistake> {
    let mut found: Vec<_> = environment
        .iter()
        .filter_map(|(name, value)| mistake(&name.to_string_lossy(), &value.to_string_lossy()))
        .collect();
    found.sort_by_key(|mistake| mistake.origin.to_string());
    found
}

/// The key of a setting that a wrong key may mean.
pub(super) fn suggestion(key: &str) -> Option<&'static str> {
    let by_key = nearest(key, CATALOGUE.iter().map(|setting| setting.key.as_str()));
    // The right name in the wrong section.
    let name = key.split_once('.').map_or(key, |(_, name)| name);
    by_key
        .or_else(|| CATALOGUE.iter().find(|setting| setting.name == name).map(|setting| setting.key.as_str()))
}

/// The key that a variable's name stands for, without its prefix: `FSPIOP__LISTEN` for `fspiop.listen`.
fn written_key(rest: &str) -> String {
    rest.to_lowercase().replacen("__", ".", 1)
}

/// The known variable that is closest to a misspelt one.
fn meant(name: &str) -> Option<String> {
    let setting = |rest: &str| {
        let meant = suggestion(&written_key(rest));
        let found = CATALOGUE.iter().find(|setting| Some(setting.key.as_str()) == meant);
        found.map(Setting::variable)
    };
    if let Some((dfsp, of_dfsp)) = parts_of_dfsp(name) {
        let meant = nearest(&of_dfsp.to_lowercase(), dfsp_settings())?;
        return Some(format!("{VARIABLE_PREFIX}DFSP__{dfsp}__{}", meant.to_uppercase()));
    }
    if let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) {
        return setting(rest);
    }
    let variables: Vec<String> = CATALOGUE.iter().map(Setting::variable).collect();
    let known = OF_THE_COMMAND.into_iter().chain(variables.iter().map(String::as_str));
    nearest(name, known).map(str::to_owned)
}

/// Whether Kubernetes or Docker has set this variable in a container for a service whose name begins with `upesi`:
/// `UPESI_SERVICE_HOST=10.0.0.1`, `UPESI_PORT=tcp://10.0.0.1:4000`, `UPESI_PORT_4000_TCP_ADDR=10.0.0.1`.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") {
        return true;
    }
    if name.ends_with("_PORT") {
        return value.contains("://");
    }
    name.match_indices("_PORT_").any(|(at, part)| {
        let mut words = name[at + part.len()..].split('_');
        words.next().is_some_and(is_number)
            && words.next().is_some_and(|word| matches!(word, "TCP" | "UDP" | "SCTP"))
            && words.next().is_none_or(|word| matches!(word, "PROTO" | "PORT" | "ADDR"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn unknown_variable_is_rejected_with_a_suggestion() {
        for (name, expected) in [
            ("UPESI_ADMIN_ULR", "did you mean UPESI_ADMIN_URL?"),
            ("UPESI_CONFG", "did you mean UPESI_CONFIG?"),
            ("UPESI_FSPIOP__LISTEN", "did you mean UPESI__FSPIOP__LISTEN?"),
            ("UPESI_DATA_DIR", "did you mean UPESI__DATA__DIR?"),
            ("UPESI__FSPIOP__LISTEM", "did you mean UPESI__FSPIOP__LISTEN?"),
            ("UPESI__DFSP__GREENBANK__SIGNATURE", "did you mean UPESI__DFSP__GREENBANK__SIGNATURES?"),
            ("UPESI__DFSP__NETWORKS", "did you mean UPESI__DFSP__NAME__NETWORKS?"),
            ("UPESI_PORT", "write UPESI__SECTION__NAME"),
            ("UPESI_KAFKA_BROKERS", "write UPESI__SECTION__NAME"),
        ] {
            let found = mistake(name, "x").expect(name).to_string();
            assert!(found.starts_with(&format!("env {name}: this variable has no effect")), "{found}");
            assert!(found.contains(expected), "{found}");
        }
        let environment = [("UPESI_B", "1"), ("PATH", "/bin"), ("UPESI_A", "2"), ("UPESI_COMMIT", "0")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let names: Vec<_> = mistakes(&environment).iter().map(|found| found.origin.to_string()).collect();
        assert_eq!(names, ["env UPESI_A", "env UPESI_B"]);
    }

    #[test]
    fn variables_of_a_kubernetes_service_are_ignored() {
        for (name, value) in [
            ("UPESI_SERVICE_HOST", "10.0.0.1"),
            ("UPESI_SERVICE_PORT", "4000"),
            ("UPESI_SERVICE_PORT_FSPIOP", "4000"),
            ("UPESI_PORT", "tcp://10.0.0.1:4000"),
            ("UPESI_PORT_4000_TCP", "tcp://10.0.0.1:4000"),
            ("UPESI_ADMIN_PORT_4001_TCP_ADDR", "10.0.0.1"),
        ] {
            assert_eq!(mistake(name, value), None, "{name}");
        }
        assert!(mistake("UPESI_PORT_FSPIOP", "4000").is_some());
    }

    /// Variable names in a source file: `UPESI_` and capitals, except examples of settings.
    fn names_in(text: &str) -> impl Iterator<Item = &str> {
        text.match_indices(PREFIX).filter_map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            (!name.starts_with(VARIABLE_PREFIX) && name.len() > PREFIX.len()).then_some(name)
        })
    }

    fn collect(directory: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "out") {
                    collect(&path, names);
                }
            } else if !path.ends_with("settings/src/variables.rs")
                && let Ok(text) = fs::read_to_string(&path)
            {
                names.extend(names_in(&text).map(str::to_owned));
            }
        }
    }

    #[test]
    fn known_variables_are_exactly_those_of_the_repository() {
        let mut used = BTreeSet::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut used);
        // Misspelt on purpose, or set by a cluster.
        used.retain(|name| name != "UPESI_ADMIN_ULR" && !is_service_link(name, "tcp://10.0.0.1:4000"));
        let known: BTreeSet<String> =
            OF_THE_COMMAND.into_iter().chain(OF_THE_TOOLS).map(str::to_owned).collect();
        assert_eq!(used, known);
    }
}
