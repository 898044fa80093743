//! Limits how often a place in the code may log. Further lines are counted, so that no client can fill the disk.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

use upesi_settings::LogFormat;

/// Number of lines that a place may log in a burst.
const LINES_BURST: u32 = 100;
/// Interval between lines after the burst.
const LINES_INTERVAL: Duration = Duration::from_millis(500);
/// Targets without this limit: operators turn on the access log, and the admin port limits its own lines.
const UNBOUNDED: [&str; 2] = ["upesi_access", "upesi_admin"];

/// Formats events with another formatter, up to the limit of each place in the code.
#[derive(Debug)]
pub(super) struct RateLimitedFormat<F> {
    lines: F,
    format: LogFormat,
    /// The number of entries is limited by the number of places in the code.
    places: Mutex<HashMap<Identifier, CallSite>>,
}

#[derive(Clone, Copy, Debug)]
struct CallSite {
    left: u32,
    since: Instant,
    left_out: u64,
}

impl CallSite {
    const fn new(now: Instant) -> Self {
        Self { left: LINES_BURST, since: now, left_out: 0 }
    }

    /// The number of lines that were suppressed before this line; `None` if this line is suppressed, too.
    fn note(&mut self, now: Instant) -> Option<u64> {
        let intervals = now.saturating_duration_since(self.since).as_millis() / LINES_INTERVAL.as_millis();
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(intervals).min(LINES_BURST);
        self.since = if self.left == LINES_BURST { now } else { self.since + LINES_INTERVAL * intervals };
        match self.left.checked_sub(1) {
            None => {
                self.left_out += 1;
                None
            }
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.left_out))
            }
        }
    }
}

impl<F> RateLimitedFormat<F> {
    pub(super) fn new(lines: F, format: LogFormat) -> Self {
        Self { lines, format, places: Mutex::default() }
    }

    fn note(&self, metadata: &Metadata<'_>) -> Option<u64> {
        let crate_name = metadata.target().split("::").next().unwrap_or_default();
        if *metadata.level() > Level::INFO || UNBOUNDED.contains(&crate_name) {
            return Some(0);
        }
        let now = Instant::now();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(metadata.callsite()).or_insert_with(|| CallSite::new(now)).note(now)
    }

    fn write_left_out(&self, writer: &mut Writer<'_>, count: u64) -> fmt::Result {
        const MESSAGE: &str = "similar log lines were suppressed";
        match self.format {
            LogFormat::Json => {
                writer.write_str("{\"timestamp\":\"")?;
                SystemTime.format_time(writer)?;
                let head = "\"level\":\"WARN\",\"message\"";
                writeln!(writer, "\",{head}:\"{MESSAGE}\",\"count\":{count},\"target\":\"upesi_node\"}}")
            }
            LogFormat::Pretty => {
                SystemTime.format_time(writer)?;
                writeln!(writer, "  WARN upesi_node: {MESSAGE} count={count}")
            }
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for RateLimitedFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match self.note(event.metadata()) {
            None => return Ok(()),
            Some(0) => {}
            Some(count) => self.write_left_out(&mut writer, count)?,
        }
        self.lines.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::line::tests::logged;

    #[test]
    fn a_burst_is_written_then_one_line_per_interval() {
        let start = Instant::now();
        let mut place = CallSite::new(start);
        assert_eq!((0..1_000).filter(|_| place.note(start).is_some()).count(), LINES_BURST as usize);
        assert_eq!(place.note(start + LINES_INTERVAL / 2), None);
        assert_eq!(place.note(start + LINES_INTERVAL), Some(901));
        assert_eq!(place.note(start + LINES_INTERVAL), None);
        let later = start + 10_000 * LINES_INTERVAL;
        assert_eq!(place.note(later), Some(1));
        assert_eq!((0..1_000).filter(|_| place.note(later).is_some()).count(), LINES_BURST as usize - 1);
    }

    #[test]
    fn repeated_lines_of_one_place_do_not_suppress_others() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let text = logged(format, || {
                for number in 0..20_000 {
                    tracing::warn!(number, "flood");
                }
                tracing::warn!("another");
            });
            let flooding = text.lines().filter(|line| line.contains("flood")).count();
            // More lines are written only if this takes minutes.
            assert!((100..500).contains(&flooding), "{flooding}");
            assert!(text.lines().any(|line| line.contains("another")));
        }
    }

    #[test]
    fn access_admin_and_debug_lines_are_not_suppressed() {
        let count = |event: fn(u32)| {
            let text = logged(LogFormat::Json, || (0..300).for_each(event));
            text.lines().filter(|line| line.contains("told")).count()
        };
        assert_eq!(count(|_| tracing::info!(target: "upesi_access", "told")), 300);
        assert_eq!(count(|_| tracing::warn!(target: "upesi_admin::service", "told")), 300);
        assert_eq!(count(|_| tracing::debug!("told")), 300);
    }
}
