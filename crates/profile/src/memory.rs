//! Where the memory of this process is: as the kernel sees it, as the allocator sees it, and who in the program
//! holds how much.

use serde_json::{Map, Value, json};

/// Something in the program that may hold much memory, or many things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What it holds, such as `callbacks waiting in lanes`.
    pub what: String,
    /// How many.
    pub count: Option<u64>,
    /// Bytes, where that is known.
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

/// Lines of `/proc/self/status` that are shown, and what as. See proc(5).
const STATUS: [(&str, &str); 7] = [
    ("VmRSS", "resident"),
    ("VmHWM", "residentPeak"),
    ("RssAnon", "residentAnonymous"),
    ("RssFile", "residentOfFiles"),
    ("RssShmem", "residentShared"),
    ("VmSwap", "swapped"),
    ("VmSize", "virtual"),
];

/// Asks kernel and allocator. Takes some microseconds.
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

/// The number behind `name:`.
fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

// The allocator of every process that has this crate in it, and what it says of itself.
//
// jemalloc instead of the C library's: what an edge allocates, the engine's thread or the journal's lets go of, which
// glibc answers with locks and searches (docs/decisions/0011-profile-on-demand.md).

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes as the allocator counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// Handed out to the program.
    pub(crate) in_use: u64,
    /// Returned by the program and kept for its next allocations.
    pub(crate) kept_free: u64,
    /// What it needs for itself.
    pub(crate) bookkeeping: u64,
}

/// Asks for the present numbers. It takes the lock of each arena in turn, for microseconds.
#[cfg(feature = "jemalloc")]
fn ask() -> Option<Allocator> {
    use tikv_jemalloc_ctl::{epoch, stats};
    // The numbers are those of the last epoch; each call begins one.
    epoch::advance().ok()?;
    let (in_use, resident, bookkeeping) =
        (stats::allocated::read().ok()?, stats::resident::read().ok()?, stats::metadata::read().ok()?);
    let kept_free = resident.saturating_sub(in_use).saturating_sub(bookkeeping);
    Some(Allocator { in_use: in_use as u64, kept_free: kept_free as u64, bookkeeping: bookkeeping as u64 })
}

/// The C library's allocator has no such numbers.
#[cfg(not(feature = "jemalloc"))]
const fn ask() -> Option<Allocator> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_there_is_left_out() {
        assert_eq!(process("VmRSS:\t  12 kB\nThreads:\t3\n"), json!({ "resident": 12_288 }));
        assert_eq!(number("Threads:\t3\n", "Thread"), None);
    }
}
