//! The log: structured events on stderr, as JSON or for people, at a level that can be changed while the program runs.

use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// The archive's store tells of its housekeeping at `info`; directives that name it still win.
const STORE_LEVELS: &str = "fjall=warn,lsm_tree=warn";

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
        "{0:?} is not a level: write off, error, warn, info, debug or trace, or directives such as info,upesi_courier=debug"
    )]
    Malformed(String),
    /// Another log was set up before this one.
    #[error("the log was already started in this process")]
    Started,
    /// The log is gone.
    #[error("the log has ended")]
    Ended,
}

/// Changes the level of a running log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogControl {
    /// Absent where there is no log.
    handle: Option<reload::Handle<EnvFilter, Registry>>,
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
        if let Some(handle) = &self.handle {
            handle.reload(filter).map_err(|_| LevelError::Ended)?;
        }
        directives.clone_into(&mut current);
        Ok(())
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
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
        Format::Pretty => {
            lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).compact().boxed()
        }
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|_| LevelError::Started)?;
    Ok(LogControl { handle: Some(handle), directives: Arc::new(Mutex::new(directives.to_owned())) })
}

fn filter(directives: &str) -> Result<EnvFilter, LevelError> {
    let malformed = || LevelError::Malformed(directives.to_owned());
    let sound = directives.split(',').all(is_directive);
    if !sound {
        return Err(malformed());
    }
    EnvFilter::builder().parse(format!("{STORE_LEVELS},{directives}")).map_err(|_| malformed())
}

/// A level, or `target=level`. The filter itself would take a misspelt level for the name of a target and so fall silent.
fn is_directive(directive: &str) -> bool {
    let level = directive
        .rsplit_once('=')
        .map_or(directive, |(target, level)| if target.is_empty() { "" } else { level });
    ["off", "error", "warn", "info", "debug", "trace"]
        .iter()
        .any(|known| level.trim().eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_told_from_misspelt_ones() {
        for good in ["info", "off", "WARN", "info,upesi_courier=debug", "upesi_engine=trace"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["", "inof", "info,", "info,upesi_courier", "=info", "upesi_courier=", "upesi_courier=loud"]
        {
            assert!(matches!(check(bad), Err(LevelError::Malformed(text)) if text == bad), "{bad}");
        }
    }

    #[test]
    fn the_level_can_be_changed_and_a_mistake_changes_nothing() {
        let (layer, handle) = reload::Layer::<EnvFilter, Registry>::new(filter("info").unwrap());
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
