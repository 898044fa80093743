//! The log: structured events on stderr, as JSON or for people, at a level that can be changed while the program runs.

mod line;
mod repetitions;

use std::sync::{Arc, Mutex, PoisonError};

use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use self::line::{JsonLines, TextFields};
use self::repetitions::Bounded;
use crate::config::nearest;

/// The archive's store logs its housekeeping at `info`. Directives that name the store override these levels.
const STORE_LEVELS: [(&str, LevelFilter); 2] =
    [("fjall", LevelFilter::WARN), ("lsm_tree", LevelFilter::WARN)];

/// What directives may name: our crates that log, the access log, and the libraries that do.
pub const TARGETS: [&str; 17] = [
    "fjall",
    "lsm_tree",
    "upesi_access",
    "upesi_admin",
    "upesi_delivery",
    "upesi_directory",
    "upesi_engine",
    "upesi_gateway",
    "upesi_http",
    "upesi_hub",
    "upesi_kafka",
    "upesi_lab",
    "upesi_oidc",
    "upesi_quoting",
    "upesi_sim",
    "upesi_tables",
    "upesi_transfers",
];

/// Targets of earlier versions, and the target that logs their events now.
const RENAMED: [(&str, &str); 6] = [
    ("upesi", "upesi_hub"),
    ("upesi_archive", "upesi_tables"),
    ("upesi_callbacks", "upesi_delivery"),
    ("upesi_courier", "upesi_delivery"),
    ("upesi_relay", "upesi_delivery"),
    ("upesi_store", "upesi_tables"),
];

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line per event for people, coloured on a terminal.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl Format {
    /// From the setting `log.format`, whose values are checked by the catalogue.
    pub fn from_setting(word: &str) -> Self {
        if word == "json" { Self::Json } else { Self::Pretty }
    }
}

/// Why a level was refused.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// It is no level and no list of directives.
    #[error(
        "{0:?} is not a level: write off, error, warn, info, debug or trace, or directives such as info,upesi_delivery=debug"
    )]
    Malformed(String),
    /// A directive names what does not log.
    #[error("{target:?} is not a target, {}", known_targets(.meant))]
    UnknownTarget {
        /// What it names.
        target: String,
        /// What was meant, perhaps.
        meant: Option<&'static str>,
    },
    /// Another log was set up before this one.
    #[error("the log was already started in this process")]
    Started,
    /// The log is gone.
    #[error("the log has ended")]
    Ended,
}

fn known_targets(meant: &Option<&'static str>) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("there are {}", TARGETS.join(", ")),
    }
}

/// Changes the level of a running log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogControl {
    /// Absent where there is no log.
    handle: Option<reload::Handle<Targets, Registry>>,
    directives: Arc<Mutex<String>>,
}

impl LogControl {
    /// For a hub inside another program, which has the one log of the process: levels are checked and remembered, and
    /// change nothing.
    pub fn detached() -> Self {
        Self { handle: None, directives: Arc::new(Mutex::new("info".to_owned())) }
    }

    /// What is in force.
    pub fn level(&self) -> String {
        self.directives.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other directives in force, at once and for all threads.
    ///
    /// # Errors
    /// The directives are malformed; nothing was changed.
    pub fn set_level(&self, directives: &str) -> Result<(), LevelError> {
        let filter = filter(directives)?;
        let mut current = self.directives.lock().unwrap_or_else(PoisonError::into_inner);
        let tell =
            || tracing::info!(what = "log level", from = %current, to = directives, "an operator's change");
        // Under whichever of the two levels lets the line through.
        let is_told = tracing::enabled!(tracing::Level::INFO);
        if is_told {
            tell();
        }
        if let Some(handle) = &self.handle {
            handle.reload(filter).map_err(|_| LevelError::Ended)?;
        }
        if !is_told {
            tell();
        }
        directives.clone_into(&mut current);
        Ok(())
    }
}

impl upesi_admin::LogLevel for LogControl {
    fn level(&self) -> String {
        Self::level(self)
    }

    fn targets(&self) -> Vec<String> {
        TARGETS.map(str::to_owned).to_vec()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        Self::set_level(self, level).map_err(|error| match error {
            // An answer has no room for all of them.
            LevelError::UnknownTarget { target, meant: None } => {
                format!("names {target:?}, which is not a target; GET /log-level lists them")
            }
            LevelError::UnknownTarget { target, meant: Some(meant) } => {
                format!("names {target:?}, which is not a target; did you mean {meant}?")
            }
            LevelError::Malformed(_) => {
                "must be off, error, warn, info, debug or trace, or such as info,upesi_delivery=debug"
                    .to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// Whether directives are well-formed.
///
/// # Errors
/// What is wrong.
pub fn check(directives: &str) -> Result<(), LevelError> {
    filter(directives).map(drop)
}

/// Starts the log of this process on stderr.
///
/// # Errors
/// The directives are malformed, or there is a log already.
pub fn start(directives: &str, format: Format) -> Result<LogControl, LevelError> {
    let (filter, handle) = reload::Layer::new(filter(directives)?);
    let is_coloured = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = lines(format, std::io::stderr, is_coloured);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|_| LevelError::Started)?;
    Ok(LogControl { handle: Some(handle), directives: Arc::new(Mutex::new(directives.to_owned())) })
}

/// What writes a line for each event.
pub(crate) fn lines<S, W>(format: Format, writer: W, is_coloured: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer).fmt_fields(TextFields);
    match format {
        Format::Json => lines.event_format(Bounded::new(JsonLines, format)).boxed(),
        Format::Pretty => {
            let compact = lines.with_ansi(is_coloured).compact();
            compact.map_event_format(|lines| Bounded::new(lines, format)).boxed()
        }
    }
}

fn filter(directives: &str) -> Result<Targets, LevelError> {
    let read = directives.split(',').map(read_directive).collect::<Option<Vec<_>>>();
    let read = read.ok_or_else(|| LevelError::Malformed(directives.to_owned()))?;
    let mut filter = Targets::new().with_targets(STORE_LEVELS);
    for (target, level) in read {
        let Some(target) = target else {
            filter = filter.with_default(level);
            continue;
        };
        if !TARGETS.contains(&target) {
            let renamed = RENAMED.iter().find(|(old, _)| *old == target).map(|(_, now)| *now);
            let meant = renamed.or_else(|| nearest(target, TARGETS));
            return Err(LevelError::UnknownTarget { target: target.to_owned(), meant });
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
    fn levels_and_directives_are_told_from_misspelt_ones() {
        for good in ["info", "off", "WARN", "info,upesi_delivery=debug", "upesi_engine=trace"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["", "inof", "info,", "info,upesi_delivery", "=info", "upesi_delivery=", "upesi_delivery=loud"]
        {
            assert!(matches!(check(bad), Err(LevelError::Malformed(text)) if text == bad), "{bad}");
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
        ] {
            let filter = filter(directives).unwrap();
            let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
            for level in levels {
                let is_logged = filter.would_enable(target, &level);
                assert_eq!(is_logged, level <= expected, "{directives}: {target} at {level}");
            }
        }
    }

    #[test]
    fn targets_that_do_not_log_are_refused() {
        for (directives, target, meant) in [
            ("info,upesi_deliverys=debug", "upesi_deliverys", Some("upesi_delivery")),
            ("kafka=debug", "kafka", None),
            // A name from before the crates were merged.
            ("info,upesi_courier=debug", "upesi_courier", Some("upesi_delivery")),
            ("upesi_callbacks=debug", "upesi_callbacks", Some("upesi_delivery")),
            ("upesi_relay=debug", "upesi_relay", Some("upesi_delivery")),
            ("upesi_archive=debug", "upesi_archive", Some("upesi_tables")),
            ("upesi_store=debug", "upesi_store", Some("upesi_tables")),
            ("upesi=debug", "upesi", Some("upesi_hub")),
            // A misspelt module of a crate cannot be detected.
            ("upesi_delivery::lanes=debug", "upesi_delivery::lanes", None),
            ("info,upesi_engine[x=1]=debug", "upesi_engine[x=1]", Some("upesi_engine")),
        ] {
            match check(directives) {
                Err(LevelError::UnknownTarget { target: found, meant: also }) => {
                    assert_eq!((&*found, also), (target, meant), "{directives}");
                }
                other => panic!("{directives}: {other:?}"),
            }
        }
        let control: &dyn upesi_admin::LogLevel = &LogControl::detached();
        let refusal = control.set_level("upesi_enigne=debug").unwrap_err();
        assert_eq!(refusal, "names \"upesi_enigne\", which is not a target; did you mean upesi_engine?");
        let refusal = control.set_level("kafka=debug").unwrap_err();
        assert_eq!(refusal, "names \"kafka\", which is not a target; GET /log-level lists them");
        assert_eq!((control.level().as_str(), control.targets().len()), ("info", TARGETS.len()));
        let all = check("kafka=debug").unwrap_err().to_string();
        assert!(all.contains("there are fjall, lsm_tree, ") && all.contains(", upesi_tables"), "{all}");
    }

    #[test]
    fn every_crate_that_logs_is_a_target_and_no_other() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut logging = vec!["upesi_access".to_owned()];
        let entries = |folder| std::fs::read_dir(root.join(folder)).unwrap();
        for entry in entries("crates").chain(entries("tools")) {
            let directory = entry.unwrap().path();
            let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
            let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
            let name = directory.file_name().unwrap().to_string_lossy().into_owned();
            let is_ours_to_run = !matches!(name.as_str(), "testkit" | "torture" | "fuzz" | "models");
            if is_ours_to_run && dependencies.lines().any(|line| line.starts_with("tracing")) {
                let name = if name == "upesi" { name } else { format!("upesi_{name}") };
                logging.push(name);
            }
        }
        logging.sort();
        let ours: Vec<_> = TARGETS.into_iter().filter(|target| target.starts_with("upesi")).collect();
        assert_eq!(ours, logging);
    }

    #[test]
    fn the_level_can_be_changed_and_a_mistake_changes_nothing() {
        let (layer, handle) = reload::Layer::<Targets, Registry>::new(filter("info").unwrap());
        let control =
            LogControl { handle: Some(handle), directives: Arc::new(Mutex::new("info".to_owned())) };
        control.set_level("debug").unwrap();
        assert_eq!(control.level(), "debug");
        assert!(control.set_level("loud").is_err());
        assert_eq!(control.level(), "debug");
        drop(layer);
        assert!(matches!(control.set_level("info"), Err(LevelError::Ended)));
        assert_eq!(control.level(), "debug");
    }

    #[test]
    fn a_control_without_a_log_still_checks() {
        let control = LogControl::detached();
        control.set_level("warn").unwrap();
        assert!(matches!(control.set_level("loud"), Err(LevelError::Malformed(_))));
        assert_eq!(control.level(), "warn");
    }
}
