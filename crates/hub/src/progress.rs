//! Progress of long commands: on stderr, and only where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line without an end to come is drawn.
const TICK: Duration = Duration::from_millis(200);

/// A line that is removed when it goes.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work of unknown length.
    pub(crate) fn unknown(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        // A thread draws it, so there is none where nobody looks.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self::of(bar, "{spinner} {msg}, {elapsed}", what)
    }

    /// So many things.
    pub(crate) fn count(what: &'static str, total: u64) -> Self {
        let template = "{msg} {bar:30} {percent:>3}% of {human_len}, {eta} left";
        Self::of(ProgressBar::new(total), template, what)
    }

    /// So many bytes.
    pub(crate) fn bytes(what: &'static str, total: u64) -> Self {
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

    /// So much is done now.
    pub(crate) fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// So much more is done.
    pub(crate) fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
