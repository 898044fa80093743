//! What `upesi lab profile` tells of a profile that was taken: tables for a terminal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use upesi_profile::StageShares;

use upesi_hub::exit::{Exit, Failure, Outcome, write_out};

/// Lines of each list.
const SHARES_SHOWN: usize = 12;

/// Stages and threads by their share, the functions that used most themselves, and memory; or only the shares, as JSON.
pub fn tell(out: &Path, as_json: bool) -> Outcome {
    let read = |name: &str| {
        let path = out.join(name);
        fs::read_to_string(&path)
            .map_err(|error| Failure::new(Exit::InputOutput, format!("{}: {error}", path.display())))
    };
    if as_json {
        return write_out(&read("shares.json")?);
    }
    let folded = read("profile.folded")?;
    let stages = StageShares::of_folded(&folded);
    let total = stages.samples;
    let mut text = format!(
        "\nCPU time by stage, of {total} samples, ± 95 %; and where in it, in % of all\n{}",
        stages.table()
    );
    text.push_str("\nby thread\n");
    text.push_str(&shares(stacks(&folded).map(|(stack, count)| (first(stack), count)), total));
    text.push_str("\nby function, what it calls not included\n");
    text.push_str(&shares(stacks(&folded).map(|(stack, count)| (last(stack), count)), total));
    text.push_str("\nmemory, before and after, in MiB\n");
    text.push_str(&memory(&heap(out, "heap-before.json"), &heap(out, "heap-after.json")));
    text.push_str(&format!(
        "\n{} for a browser; profile.folded, shares.json, heap-before.json and heap-after.json beside it\n",
        out.join("profile.svg").display()
    ));
    write_out(&text)
}

/// A heap summary; nothing where it cannot be read, as the profile is what was asked for.
fn heap(out: &Path, name: &str) -> Value {
    fs::read(out.join(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Where memory was: as kernel, allocator and hub count it. What a summary does not name is left out.
fn memory(before: &Value, after: &Value) -> String {
    let mut text = String::new();
    let mut row = |what: &str, before: Option<&Value>, after: Option<&Value>| {
        let Some(after) = after.and_then(Value::as_u64) else { return };
        let before = before.and_then(Value::as_u64).map_or_else(|| "?".to_owned(), mebibytes);
        text.push_str(&format!("  {before:>9} {:>9}  {what}\n", mebibytes(after)));
    };
    for (pointer, what) in [
        ("/process/resident", "resident, says the kernel"),
        ("/process/residentAnonymous", "of it memory of its own, not of files"),
        ("/allocator/inUse", "handed out, says the allocator (jemalloc)"),
        ("/allocator/keptFree", "given back and kept for later, says the allocator"),
        ("/allocator/bookkeeping", "what the allocator needs for itself"),
    ] {
        row(what, before.pointer(pointer), after.pointer(pointer));
    }
    for holder in after["holders"].as_array().into_iter().flatten() {
        let what = holder["what"].as_str().unwrap_or_default();
        let earlier = before["holders"].as_array().into_iter().flatten();
        let earlier =
            earlier.filter(|earlier| earlier["what"] == what).find_map(|earlier| earlier.get("bytes"));
        row(&format!("{what}, counts the hub"), earlier, holder.get("bytes"));
    }
    text
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn stacks(folded: &str) -> impl Iterator<Item = (&str, u64)> {
    folded.lines().filter_map(|line| {
        let (stack, count) = line.rsplit_once(' ')?;
        Some((stack, count.parse().ok()?))
    })
}

fn first(stack: &str) -> &str {
    stack.split(';').next().unwrap_or(stack)
}

fn last(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap_or(stack)
}

fn shares<'text>(counts: impl Iterator<Item = (&'text str, u64)>, total: u64) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let line = |(name, count): (&str, u64)| {
        let per_mille = count * 1000 / total.max(1);
        format!("  {:>3}.{} %  {name}\n", per_mille / 10, per_mille % 10)
    };
    sorted.into_iter().take(SHARES_SHOWN).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_shares_come_first() {
        let folded = "engine;run;write 6\nedge;poll 3\nengine;run 1\nno count\n";
        let by =
            |name: fn(&str) -> &str| shares(stacks(folded).map(|(stack, count)| (name(stack), count)), 10);
        assert_eq!(by(first), "   70.0 %  engine\n   30.0 %  edge\n");
        assert_eq!(by(last), "   60.0 %  write\n   30.0 %  poll\n   10.0 %  run\n");
    }

    #[test]
    fn memory_is_told_as_kernel_allocator_and_hub_count_it() {
        let summary = |resident: u64, bytes: u64| {
            serde_json::json!({
                "process": { "resident": resident << 20 },
                "allocator": null,
                "holders": [
                    { "what": "transfers", "count": 3, "bytes": bytes },
                    { "what": "lanes", "count": 2, "bytes": null },
                ],
            })
        };
        let text = memory(&summary(40, 1 << 19), &summary(52, 3 << 20));
        assert_eq!(
            text,
            "       40.0      52.0  resident, says the kernel\n        0.5       3.0  transfers, counts the hub\n"
        );
        assert_eq!(memory(&Value::Null, &Value::Null), "");
    }
}
