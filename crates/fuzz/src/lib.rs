//! What every parser of the hub must withstand, and must be true of what it makes of any bytes.
//!
//! A [`Target`] takes bytes and panics where a promise is broken. The same targets run three ways: over their seeds and over
//! seeded mutations of them in `make test` (`tests/short.rs`), under libFuzzer with coverage in `make fuzz` (`fuzz/`), and
//! over one file with `cargo run -p upesi-fuzz -- TARGET FILE`.
//!
//! Test only: nothing depends on it.

mod mutation;
mod seeds;
mod targets;

pub use mutation::Mutator;

/// One thing that takes bytes from outside.
pub struct Target {
    /// Its name on the command line, and of the folder of its corpus.
    pub name: &'static str,
    /// What it is, and what must hold.
    pub promise: &'static str,
    /// Judges one input; panics where the promise is broken.
    pub run: fn(&[u8]),
    /// Inputs to begin with: valid ones, so that mutations get far.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "http_request",
        promise: "a request's head and body: refused with a valid FSPIOP error, or a command for the engine",
        run: targets::edge::http_request,
        seeds: seeds::http_requests,
    },
    Target {
        name: "headers",
        promise: "FSPIOP headers: refused with a valid FSPIOP error, and a header block is read as it was written",
        run: targets::edge::headers,
        seeds: seeds::header_blocks,
    },
    Target {
        name: "routes",
        promise: "paths, templates and addresses: what is accepted can be written and read again",
        run: targets::edge::routes,
        seeds: seeds::paths,
    },
    Target {
        name: "bodies",
        promise: "bodies of all resources: refused with a valid FSPIOP error, or understood",
        run: targets::wire::bodies,
        seeds: seeds::bodies,
    },
    Target {
        name: "amounts",
        promise: "amounts, times and identifiers: what is accepted is written back as the same value",
        run: targets::wire::amounts,
        seeds: seeds::amounts,
    },
    Target {
        name: "ilp_packet",
        promise: "ILP packets: refused or decoded, and what is encoded decodes to itself",
        run: targets::wire::ilp_packet,
        seeds: seeds::ilp_packets,
    },
    Target {
        name: "ledger_record",
        promise: "records of the ledger: what is accepted is encoded to the same value",
        run: targets::stored::ledger_record,
        seeds: seeds::ledger_records,
    },
    Target {
        name: "ledger_snapshot",
        promise: "snapshots of the ledger: what is accepted is encoded to the same state, and can be audited",
        run: targets::stored::ledger_snapshot,
        seeds: seeds::ledger_snapshots,
    },
    Target {
        name: "journal",
        promise: "a journal with bytes changed anywhere: refused, or read as it was written",
        run: targets::stored::journal,
        seeds: seeds::journal_patches,
    },
    Target {
        name: "config",
        promise: "configuration and scheme files and quote rules: settings, or every mistake named",
        run: targets::files::config,
        seeds: seeds::config_files,
    },
    Target {
        name: "admin",
        promise: "requests to the admin API of a running hub: never an answer of 500 or above, and the books stay in order",
        run: targets::admin::admin,
        seeds: seeds::admin_requests,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
