//! Converts copied stacks into a profile.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sampler::Samples;
use crate::stacks::{Profile, Stack};
use crate::symbols::{self, Symbols};
use crate::unwind::StackReader;

/// Names the functions on the copied stacks.
pub(crate) fn resolve(samples: &Samples) -> Profile {
    let files = symbols::of_this_process();
    let mut reader = StackReader::new(&files);
    let mut symbols = Symbols::new(&files);
    let mut threads: BTreeMap<i32, Arc<str>> = BTreeMap::new();
    let mut stacks: BTreeMap<Stack, u64> = BTreeMap::new();
    for sample in &samples.samples {
        let thread = threads.entry(sample.thread).or_insert_with(|| thread_name(sample.thread)).clone();
        let mut stack = Vec::with_capacity(64);
        for address in reader.addresses(sample) {
            stack.extend(symbols.names(address).iter().cloned());
        }
        stack.push(thread);
        stack.reverse();
        *stacks.entry(stack).or_default() += 1;
    }
    Profile {
        stacks,
        samples: samples.samples.len() as u64,
        lost: samples.lost as u64,
        hertz: samples.hertz,
        duration: samples.duration,
    }
}

/// The thread's name without the number at its end, so that threads of the same kind are counted together.
fn thread_name(thread: i32) -> Arc<str> {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    let name = name.trim().trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
    if name.is_empty() { "(ended)".into() } else { name.into() }
}
