//! Directives of the setting `log.level`: a level, or levels of single targets.

use tracing_subscriber::filter::{LevelFilter, Targets};
use upesi_process::hints::nearest;

/// The archive's store logs its housekeeping at `info`. Directives that name the store override these levels.
const STORE_LEVELS: [(&str, LevelFilter); 2] =
    [("fjall", LevelFilter::WARN), ("lsm_tree", LevelFilter::WARN)];

/// The targets that directives may name: the crates that log, the access log, and libraries.
pub const TARGETS: [&str; 18] = [
    "fjall",
    "lsm_tree",
    "upesi_access",
    "upesi_admin",
    "upesi_delivery",
    "upesi_directory",
    "upesi_engine",
    "upesi_gateway",
    "upesi_http",
    "upesi_kafka",
    "upesi_lab",
    "upesi_node",
    "upesi_offline",
    "upesi_oidc",
    "upesi_quoting",
    "upesi_sim",
    "upesi_tables",
    "upesi_transfers",
];

/// Targets of earlier versions, each with the target that now logs its events.
const RENAMED: [(&str, &str); 6] = [
    ("upesi", "upesi_node"),
    ("upesi_archive", "upesi_tables"),
    ("upesi_callbacks", "upesi_delivery"),
    ("upesi_courier", "upesi_delivery"),
    ("upesi_relay", "upesi_delivery"),
    ("upesi_store", "upesi_tables"),
];

/// A former target that directives may still name until the next release, and the targets that log its events now.
const DIVIDED: (&str, [&str; 2]) = ("upesi_hub", ["upesi_node", "upesi_offline"]);

/// Reason why directives are rejected.
#[derive(Debug, thiserror::Error)]
pub enum DirectivesError {
    /// The text is neither a level nor a list of directives.
    #[error(
        "{0:?} is not a level: write off, error, warn, info, debug or trace, or directives such as info,upesi_delivery=debug"
    )]
    Malformed(String),
    #[error("{target:?} is not a target; {}", known_targets(.meant))]
    UnknownTarget {
        target: String,
        /// A known target with a similar name.
        meant: Option<&'static str>,
    },
}

fn known_targets(meant: &Option<&'static str>) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("the targets are {}", TARGETS.join(", ")),
    }
}

/// Directives, with the filter that they describe.
#[derive(Clone, Debug, PartialEq)]
pub struct Directives {
    text: String,
    filter: Targets,
}

impl Directives {
    /// Parses directives.
    ///
    /// # Errors
    /// If they are malformed, or name an unknown target.
    pub fn parse(text: &str) -> Result<Self, DirectivesError> {
        Ok(Self { text: text.to_owned(), filter: parse(text)? })
    }

    /// The directives as they were written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn filter(&self) -> Targets {
        self.filter.clone()
    }
}

/// Parses directives into the filter that they describe.
///
/// # Errors
/// If they are malformed, or name an unknown target.
pub fn parse(directives: &str) -> Result<Targets, DirectivesError> {
    let read = directives.split(',').map(read_directive).collect::<Option<Vec<_>>>();
    let read = read.ok_or_else(|| DirectivesError::Malformed(directives.to_owned()))?;
    let mut filter = Targets::new().with_targets(STORE_LEVELS);
    for (target, level) in read {
        let Some(target) = target else {
            filter = filter.with_default(level);
            continue;
        };
        if target == DIVIDED.0 {
            filter = filter.with_targets(DIVIDED.1.map(|target| (target, level)));
            continue;
        }
        if !TARGETS.contains(&target) {
            let renamed = RENAMED.iter().find(|(old, _)| *old == target).map(|(_, now)| *now);
            let meant = renamed.or_else(|| nearest(target, TARGETS));
            return Err(DirectivesError::UnknownTarget { target: target.to_owned(), meant });
        }
        filter = filter.with_target(target, level);
    }
    Ok(filter)
}

/// Reads a level, or `target=level`.
fn read_directive(directive: &str) -> Option<(Option<&str>, LevelFilter)> {
    let (target, level) = match directive.rsplit_once('=') {
        Some(("", _)) => return None,
        Some((target, level)) => (Some(target.trim()), level),
        None => (None, directive),
    };
    let level = match level.trim().to_ascii_lowercase().as_str() {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    };
    Some((target, level))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn misspelt_levels_and_directives_are_rejected() {
        for good in ["info", "off", "WARN", "info,upesi_delivery=debug", "upesi_engine=trace"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in
            ["", "inof", "info,", "info,upesi_delivery", "=info", "upesi_delivery=", "upesi_delivery=loud"]
        {
            assert!(matches!(parse(bad), Err(DirectivesError::Malformed(text)) if text == bad), "{bad}");
        }
    }

    #[test]
    fn the_most_precise_directive_decides() {
        for (directives, target, expected) in [
            ("info", "upesi_engine", LevelFilter::INFO),
            ("info", "fjall", LevelFilter::WARN),
            ("info", "lsm_tree::tree", LevelFilter::WARN),
            ("info", "another", LevelFilter::INFO),
            ("Debug, fjall=info", "fjall", LevelFilter::INFO),
            ("info,upesi_delivery=debug", "upesi_delivery::lane", LevelFilter::DEBUG),
            ("info,upesi_delivery=debug", "upesi_engine", LevelFilter::INFO),
            ("upesi_delivery=off,trace", "upesi_delivery", LevelFilter::OFF),
            ("upesi_delivery=debug", "upesi_engine", LevelFilter::OFF),
            ("info,upesi_hub=debug", "upesi_node::serve", LevelFilter::DEBUG),
            ("info,upesi_hub=debug", "upesi_offline::export", LevelFilter::DEBUG),
            ("info,upesi_hub=debug", "upesi_engine", LevelFilter::INFO),
        ] {
            let filter = parse(directives).unwrap();
            let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
            for level in levels {
                let is_logged = filter.would_enable(target, &level);
                assert_eq!(is_logged, level <= expected, "{directives}: {target} at {level}");
            }
        }
    }

    #[test]
    fn unknown_targets_are_rejected() {
        for (directives, target, meant) in [
            ("info,upesi_deliverys=debug", "upesi_deliverys", Some("upesi_delivery")),
            ("kafka=debug", "kafka", None),
            // A name from before the crates were merged.
            ("info,upesi_courier=debug", "upesi_courier", Some("upesi_delivery")),
            ("upesi_callbacks=debug", "upesi_callbacks", Some("upesi_delivery")),
            ("upesi_relay=debug", "upesi_relay", Some("upesi_delivery")),
            ("upesi_archive=debug", "upesi_archive", Some("upesi_tables")),
            ("upesi_store=debug", "upesi_store", Some("upesi_tables")),
            ("upesi=debug", "upesi", Some("upesi_node")),
            // A misspelt module of a crate cannot be detected.
            ("upesi_delivery::lanes=debug", "upesi_delivery::lanes", None),
            ("info,upesi_engine[x=1]=debug", "upesi_engine[x=1]", Some("upesi_engine")),
        ] {
            match parse(directives) {
                Err(DirectivesError::UnknownTarget { target: found, meant: also }) => {
                    assert_eq!((&*found, also), (target, meant), "{directives}");
                }
                other => panic!("{directives}: {other:?}"),
            }
        }
        let all = parse("kafka=debug").unwrap_err().to_string();
        assert!(all.contains("the targets are fjall, lsm_tree, ") && all.contains(", upesi_tables"), "{all}");
    }

    #[test]
    fn targets_are_exactly_the_crates_that_log() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut logging = vec!["upesi_access".to_owned()];
        let depends_on_tracing = |line: &str| line.split(['.', ' ', '=']).next() == Some("tracing");
        let entries = |folder| std::fs::read_dir(root.join(folder)).unwrap();
        for entry in entries("crates").chain(entries("tools")) {
            let directory = entry.unwrap().path();
            let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
            let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
            let name = directory.file_name().unwrap().to_string_lossy().into_owned();
            let is_ours_to_run = !matches!(name.as_str(), "testkit" | "torture" | "fuzz" | "models");
            if is_ours_to_run && dependencies.lines().any(depends_on_tracing) {
                let name = if name == "upesi" { name } else { format!("upesi_{name}") };
                logging.push(name);
            }
        }
        logging.sort();
        let ours: Vec<_> = TARGETS.into_iter().filter(|target| target.starts_with("upesi")).collect();
        assert_eq!(ours, logging);
    }
}
