//! Runs one target of `tools/fuzz` under libFuzzer; the variable `UPESI_FUZZ_TARGET` names it. `make fuzz` runs all
//! targets.
//!
//! `UPESI_FUZZ_SEEDS` names a folder. Before libFuzzer reads it, the target's own seeds are written to it, and the
//! words in them to a dictionary beside it.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn choose() {
    let name = std::env::var("UPESI_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = upesi_fuzz::target(&name) else {
        panic!("set UPESI_FUZZ_TARGET to a target of tools/fuzz; {name:?} is not a target");
    };
    TARGET.get_or_init(|| target.run);
    let Some(folder) = std::env::var_os("UPESI_FUZZ_SEEDS") else { return };
    let folder = Path::new(&folder);
    let seeds = (target.seeds)();
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a writable folder");
    }
    std::fs::write(folder.with_extension("dict"), upesi_fuzz::dictionary(&seeds)).expect("a writable folder");
}

fuzz_target!(init: choose(), |input: &[u8]| {
    TARGET.get().expect("is chosen before the first input")(input);
});
