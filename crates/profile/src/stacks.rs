//! A profile: the number of samples of each stack.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::flame;

/// Thread and functions, outermost first.
pub(crate) type Stack = Vec<Arc<str>>;

/// The CPU time of the process during a profile.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) stacks: BTreeMap<Stack, u64>,
    pub samples: u64,
    /// Samples that did not fit into the buffer.
    pub lost: u64,
    /// Samples per second of CPU time.
    pub hertz: u64,
    /// Time during which samples were taken.
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

    /// One stack per line, outermost function first, separated by semicolons and followed by the count. Flame graph
    /// tools read this format.
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

    /// Reads the output of [`folded`](Self::folded) for a profile of this duration. The output contains neither the
    /// rate nor the lost samples. Skips lines that are not stacks.
    pub fn from_folded(folded: &str, duration: Duration) -> Self {
        let mut stacks: BTreeMap<Stack, u64> = BTreeMap::new();
        for (stack, count) in lines(folded) {
            *stacks.entry(stack.split(';').map(Arc::from).collect()).or_default() += count;
        }
        let samples = stacks.values().sum();
        Self { stacks, samples, duration, ..Self::default() }
    }

    /// A flame graph as SVG for a browser: by thread, with the outermost function on top. A click enlarges a function,
    /// and typing searches.
    pub fn flame_graph(&self, title: &str) -> String {
        flame::draw(self, title)
    }
}

/// The lines of folded stacks: the stack and its count.
pub(crate) fn lines(folded: &str) -> impl Iterator<Item = (&str, u64)> {
    folded.lines().filter_map(|line| {
        let (stack, count) = line.rsplit_once(' ')?;
        Some((stack, count.parse().ok()?))
    })
}
