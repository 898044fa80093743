//! Progress of long commands: on stderr, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Interval between redraws of a line of unknown length.
const TICK: Duration = Duration::from_millis(200);

/// A line that is removed on drop.
pub struct Progress(ProgressBar);

impl Progress {
    /// Work of unknown length.
    pub fn unknown(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        // A thread redraws it, which is not needed if the line is hidden.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self::of(bar, "{spinner} {msg}, {elapsed}", what)
    }

    /// A number of items.
    pub fn count(what: &'static str, total: u64) -> Self {
        let template = "{msg} {bar:30} {percent:>3}% of {human_len}, {eta} left";
        Self::of(ProgressBar::new(total), template, what)
    }

    /// A number of bytes.
    pub fn bytes(what: &'static str, total: u64) -> Self {
        let template = "{msg} {bar:30} {percent:>3}% of {binary_total_bytes}, {eta} left";
        Self::of(ProgressBar::new(total), template, what)
    }

    fn of(bar: ProgressBar, template: &str, what: &'static str) -> Self {
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_message(what);
        bar.tick();
        Self(bar)
    }

    /// Sets the progress.
    pub fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Advances the progress.
    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
