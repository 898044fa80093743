//! Memory of this process: the figures of the kernel, of the allocator, and of the parts of the program.

use serde_json::{Map, Value, json};

/// A part of the program that may hold much memory, or many items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the contents, such as `callbacks waiting in lanes`.
    pub what: String,
    /// Number of items, if known.
    pub count: Option<u64>,
    /// Size in bytes, if known.
    pub bytes: Option<u64>,
}

/// The memory of this process, in bytes.
#[derive(Clone, Debug)]
pub struct MemorySummary(Value);

impl MemorySummary {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", self.0)
    }
}

/// Lines of `/proc/self/status` in the summary, with their names there. See proc(5).
const STATUS: [(&str, &str); 7] = [
    ("VmRSS", "resident"),
    ("VmHWM", "residentPeak"),
    ("RssAnon", "residentAnonymous"),
    ("RssFile", "residentOfFiles"),
    ("RssShmem", "residentShared"),
    ("VmSwap", "swapped"),
    ("VmSize", "virtual"),
];

/// Reads the figures of the kernel and the allocator. Takes some microseconds.
pub fn summary(holders: &[Holder]) -> MemorySummary {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allocator = ask().map(|allocator| {
        json!({
            "inUse": allocator.in_use,
            "keptFree": allocator.kept_free,
            "bookkeeping": allocator.bookkeeping,
        })
    });
    let held: Vec<Value> = holders
        .iter()
        .map(|holder| json!({ "what": holder.what, "count": holder.count, "bytes": holder.bytes }))
        .collect();
    MemorySummary(json!({
        "process": process(&status),
        "allocator": allocator,
        "threads": number(&status, "Threads"),
        "holders": held,
    }))
}

fn process(status: &str) -> Value {
    let member = |(line, name): &(&str, &str)| {
        let kib = number(status, line)?;
        Some(((*name).to_owned(), Value::from(kib.saturating_mul(1024))))
    };
    Value::Object(STATUS.iter().filter_map(member).collect::<Map<_, _>>())
}

/// The number after `name:`.
fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

// The allocator of every process that links this crate, and its statistics.
//
// The allocator is jemalloc instead of the C library's. The threads of the engine and the journal free memory that
// the ports' threads have allocated, and glibc then takes locks and searches
// (docs/decisions/0011-profile-on-demand.md).

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Statistics of the allocator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// Memory that the program has allocated.
    pub(crate) in_use: u64,
    /// Memory that the program has freed, and that the allocator retains for its next allocations.
    pub(crate) kept_free: u64,
    /// Memory for the allocator's own data.
    pub(crate) bookkeeping: u64,
}

/// Reads the current statistics. Takes the lock of each arena in turn, for microseconds.
#[cfg(feature = "jemalloc")]
fn ask() -> Option<Allocator> {
    use tikv_jemalloc_ctl::{epoch, stats};
    // The statistics are those of the last epoch; each call begins a new one.
    epoch::advance().ok()?;
    let (in_use, resident, bookkeeping) =
        (stats::allocated::read().ok()?, stats::resident::read().ok()?, stats::metadata::read().ok()?);
    let kept_free = resident.saturating_sub(in_use).saturating_sub(bookkeeping);
    Some(Allocator { in_use: in_use as u64, kept_free: kept_free as u64, bookkeeping: bookkeeping as u64 })
}

/// The allocator of the C library has no such statistics.
#[cfg(not(feature = "jemalloc"))]
const fn ask() -> Option<Allocator> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_status_without_a_line_omits_it() {
        assert_eq!(process("VmRSS:\t  12 kB\nThreads:\t3\n"), json!({ "resident": 12_288 }));
        assert_eq!(number("Threads:\t3\n", "Thread"), None);
    }
}
