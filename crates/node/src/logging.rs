//! The log: structured events on stderr, as JSON or as text for users. Operators can change the level at any time.

mod line;
mod repetitions;

use std::sync::{Arc, Mutex, PoisonError};

use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};
use upesi_settings::LogFormat;
use upesi_settings::directives::{Directives, DirectivesError, TARGETS, parse};

use self::line::{JsonLines, TextFields};
use self::repetitions::RateLimitedFormat;

/// The reason why a log cannot be started, or why its level cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// The directives are rejected.
    #[error(transparent)]
    Directives(#[from] DirectivesError),
    /// Another log was set up before this one.
    #[error("the log was already started in this process")]
    Started,
    /// The log has ended.
    #[error("the log has ended")]
    Ended,
}

/// Changes the level of a running log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogControl {
    /// `None` if the process's log belongs to another program.
    handle: Option<reload::Handle<Targets, Registry>>,
    directives: Arc<Mutex<String>>,
}

impl LogControl {
    /// Creates the control of a hub inside another program, which has the log of the process. Levels are checked and
    /// stored, but have no effect.
    pub fn detached() -> Self {
        Self { handle: None, directives: Arc::new(Mutex::new("info".to_owned())) }
    }

    /// The directives in effect.
    pub fn level(&self) -> String {
        self.directives.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the directives, immediately and for all threads.
    ///
    /// # Errors
    /// The directives are malformed; nothing was changed.
    pub fn set_level(&self, directives: &str) -> Result<(), LevelError> {
        let filter = parse(directives)?;
        let mut current = self.directives.lock().unwrap_or_else(PoisonError::into_inner);
        let tell =
            || tracing::info!(what = "log level", from = %current, to = directives, "an operator's change");
        // Logs the change under the level that permits the line: the old one, or else the new one.
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
            // A response is too short for the list of targets.
            LevelError::Directives(DirectivesError::UnknownTarget { target, meant: None }) => {
                format!("names {target:?}, which is not a target; GET /log-level lists them")
            }
            LevelError::Directives(DirectivesError::UnknownTarget { target, meant: Some(meant) }) => {
                format!("names {target:?}, which is not a target; did you mean {meant}?")
            }
            LevelError::Directives(DirectivesError::Malformed(_)) => {
                "must be off, error, warn, info, debug or trace, or such as info,upesi_delivery=debug"
                    .to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// Starts the log of this process on stderr.
///
/// # Errors
/// The process already has a log.
pub fn start(directives: &Directives, format: LogFormat) -> Result<LogControl, LevelError> {
    let (filter, handle) = reload::Layer::new(directives.filter());
    let is_coloured = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = lines(format, std::io::stderr, is_coloured);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|_| LevelError::Started)?;
    Ok(LogControl { handle: Some(handle), directives: Arc::new(Mutex::new(directives.text().to_owned())) })
}

/// The layer that writes a line for each event.
pub(crate) fn lines<S, W>(format: LogFormat, writer: W, is_coloured: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer).fmt_fields(TextFields);
    match format {
        LogFormat::Json => lines.event_format(RateLimitedFormat::new(JsonLines, format)).boxed(),
        LogFormat::Pretty => {
            let compact = lines.with_ansi(is_coloured).compact();
            compact.map_event_format(|lines| RateLimitedFormat::new(lines, format)).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_log_targets_are_reported() {
        let control: &dyn upesi_admin::LogLevel = &LogControl::detached();
        let refusal = control.set_level("upesi_enigne=debug").unwrap_err();
        assert_eq!(refusal, "names \"upesi_enigne\", which is not a target; did you mean upesi_engine?");
        let refusal = control.set_level("kafka=debug").unwrap_err();
        assert_eq!(refusal, "names \"kafka\", which is not a target; GET /log-level lists them");
        assert_eq!((control.level().as_str(), control.targets().len()), ("info", TARGETS.len()));
    }

    #[test]
    fn log_level_changes_and_an_invalid_one_has_no_effect() {
        let (layer, handle) = reload::Layer::<Targets, Registry>::new(parse("info").unwrap());
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
    fn control_without_a_log_rejects_invalid_levels() {
        let control = LogControl::detached();
        control.set_level("warn").unwrap();
        assert!(matches!(
            control.set_level("loud"),
            Err(LevelError::Directives(DirectivesError::Malformed(_)))
        ));
        assert_eq!(control.level(), "warn");
    }
}
