//! What becomes of the machine's cores, as the kernel counts it in `/proc/stat`.
#![expect(clippy::float_arithmetic, reason = "a share of measured time; no money")]

use crate::statistics::{ratio, rounded};

/// Time of all cores, in the kernel's ticks: since the machine's start, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    all: u64,
    /// Wanted by this machine, and given to others by the hypervisor.
    stolen: u64,
}

impl CoreTime {
    /// Since the machine's start; `None` where `/proc` is not what Linux provides.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // User, nice, system, idle, waiting for IO, two kinds of interrupts, stolen. What follows is part of the first two.
        let ticks = line.split_ascii_whitespace().take(8).map(str::parse);
        let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// Adds what has passed between two moments.
    pub fn add_growth(&mut self, before: Option<Self>, after: Option<Self>) {
        if let (Some(before), Some(after)) = (before, after) {
            self.all += after.all.saturating_sub(before.all);
            self.stolen += after.stolen.saturating_sub(before.stolen);
        }
    }

    /// The part that went to others; `None` where no time has passed.
    pub fn stolen_share(self) -> Option<f64> {
        ratio(self.stolen as f64, self.all as f64).map(|share| rounded(share, 4))
    }
}

/// What a share that went to others means, for people.
pub(crate) fn taken(share: f64) -> String {
    format!("took {} of the cores' time", percent(share))
}

/// A share as people read it: `1.3 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_figure_and_guests_are_not_counted_twice() {
        let before = CoreTime::parse("cpu  100 0 50 800 10 0 20 20 40 0\ncpu0 1 2 3\nintr 5\n");
        assert_eq!(before, Some(CoreTime { all: 1_000, stolen: 20 }));
        let after = CoreTime::parse("cpu  150 0 60 1200 10 0 20 60 90 0\n");
        let mut passed = CoreTime::default();
        assert_eq!(passed.stolen_share(), None);
        passed.add_growth(before, after);
        assert_eq!(passed, CoreTime { all: 500, stolen: 40 });
        assert_eq!((passed.stolen_share(), percent(0.0801)), (Some(0.08), "8.0 %".to_owned()));
        // Kernels that tell less, and other systems.
        assert_eq!(CoreTime::parse("cpu  1 2 3 4\n"), None);
        passed.add_growth(before, None);
        assert_eq!(passed.all, 500);
    }
}
