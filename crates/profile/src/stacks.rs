//! A profile: how often which stack was seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::flame;

/// Thread and functions, outermost first.
pub(crate) type Stack = Vec<Arc<str>>;

/// Where the CPU time of the process went for a while.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) stacks: BTreeMap<Stack, u64>,
    /// Samples taken.
    pub samples: u64,
    /// Samples for which there was no room.
    pub lost: u64,
    /// Samples per second of CPU time.
    pub hertz: u64,
    /// How long samples were taken.
    pub duration: Duration,
}

impl Profile {
    /// CPU time used, over all threads.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_millis((self.samples + self.lost) * 1000 / self.hertz.max(1))
    }

    /// Threads by the number of samples, the busiest first.
    pub fn threads(&self) -> Vec<(Arc<str>, u64)> {
        let mut by_name: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for (stack, count) in &self.stacks {
            if let Some(thread) = stack.first() {
                *by_name.entry(thread).or_default() += count;
            }
        }
        let mut threads: Vec<_> = by_name.into_iter().map(|(name, count)| (name.clone(), count)).collect();
        threads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        threads
    }

    /// One stack per line, outermost first, with semicolons between and the count behind: the format that flame graph
    /// tools read.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, count) in &self.stacks {
            for (index, name) in stack.iter().enumerate() {
                if index > 0 {
                    text.push(';');
                }
                text.extend(name.chars().map(|letter| if letter == ';' { ':' } else { letter }));
            }
            // Writing into a String does not fail.
            let _ = writeln!(text, " {count}");
        }
        text
    }

    /// Of stacks that [`folded`](Self::folded) wrote, taken for this long. Rate and what was lost are not among
    /// them; what is no stack is passed over.
    pub fn from_folded(folded: &str, duration: Duration) -> Self {
        let mut stacks: BTreeMap<Stack, u64> = BTreeMap::new();
        for (stack, count) in lines(folded) {
            *stacks.entry(stack.split(';').map(Arc::from).collect()).or_default() += count;
        }
        let samples = stacks.values().sum();
        Self { stacks, samples, duration, ..Self::default() }
    }

    /// A flame graph, which any browser shows: by thread, outermost function on top. A click enlarges, typing searches.
    pub fn flame_graph(&self, title: &str) -> String {
        flame::draw(self, title)
    }
}

/// The lines of folded stacks: what is before the count, and the count.
pub(crate) fn lines(folded: &str) -> impl Iterator<Item = (&str, u64)> {
    folded.lines().filter_map(|line| {
        let (stack, count) = line.rsplit_once(' ')?;
        Some((stack, count.parse().ok()?))
    })
}
