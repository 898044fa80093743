//! One target of `crates/fuzz` under libFuzzer: `UPESI_FUZZ_TARGET` says which. `make fuzz` runs them all.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let run = TARGET.get_or_init(|| {
        let name = std::env::var("UPESI_FUZZ_TARGET").unwrap_or_default();
        let Some(target) = upesi_fuzz::target(&name) else {
            panic!("set UPESI_FUZZ_TARGET to a target of crates/fuzz; {name:?} is none");
        };
        target.run
    });
    run(input);
});
