//! What every parser of the hub must withstand, and must be true of what it makes of any bytes.
//!
//! A [`Target`] takes bytes and panics where a promise is broken. The same targets run three ways: over their seeds
//! and over seeded mutations of them in `make test` (`tests/short.rs`), under libFuzzer with coverage in
//! `make fuzz` (`libfuzzer/`), and over one file with `cargo run -p upesi-fuzz -- TARGET FILE`.
//!
//! Test only: nothing depends on it.

mod mutation;
mod seeds;
mod targets;

pub use mutation::{Mutator, dictionary};

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
    /// How many mutations `make test` tries: what takes a little less than three seconds unoptimised on one core,
    /// so that each target has the same time, whatever it costs. A number and no duration, so that every machine
    /// tries the same inputs.
    pub inputs: u64,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "connection",
        promise: "a connection in pieces, through the server's own loop: it ends, and each request is answered once and in form",
        run: targets::connection::connection,
        seeds: seeds::connections,
        inputs: 5_000,
    },
    Target {
        name: "proxy_header",
        promise: "the first bytes of a balancer's connection: no header, one to read on, or one that ends where it says",
        run: targets::edge::proxy_header,
        seeds: seeds::proxy_headers,
        inputs: 500_000,
    },
    Target {
        name: "http2_requests",
        promise: "frames of HTTP/2 in pieces, through the server's own loop: it ends, and answers what was opened, in form",
        run: targets::http2::requests,
        seeds: seeds::http2_requests,
        inputs: 5_000,
    },
    Target {
        name: "http2_answers",
        promise: "frames of HTTP/2 that answer a request of the hub: an answer within its bounds, or none, and never a wait",
        run: targets::http2::answers,
        seeds: seeds::http2_answers,
        inputs: 5_000,
    },
    Target {
        name: "http_request",
        promise: "a request's head and body: refused with a valid FSPIOP error, or a command for the engine",
        run: targets::edge::http_request,
        seeds: seeds::http_requests,
        inputs: 135_000,
    },
    Target {
        name: "messages",
        promise: "a request that is passed on: refused with a valid FSPIOP error, or understood, and its path written again",
        run: targets::edge::messages,
        seeds: seeds::messages,
        inputs: 135_000,
    },
    Target {
        name: "headers",
        promise: "FSPIOP headers: refused with a valid FSPIOP error, and a header block is read as it was written",
        run: targets::edge::headers,
        seeds: seeds::header_blocks,
        inputs: 22_500,
    },
    Target {
        name: "routes",
        promise: "paths, templates and addresses: what is accepted can be written and read again",
        run: targets::edge::routes,
        seeds: seeds::paths,
        inputs: 13_500,
    },
    Target {
        name: "bodies",
        promise: "bodies of all resources: refused with a valid FSPIOP error, or understood",
        run: targets::wire::bodies,
        seeds: seeds::bodies,
        inputs: 11_700,
    },
    Target {
        name: "amounts",
        promise: "amounts, times and identifiers: what is accepted is written back as the same value",
        run: targets::wire::amounts,
        seeds: seeds::amounts,
        inputs: 1_000_000,
    },
    Target {
        name: "ilp_packet",
        promise: "ILP packets: refused or decoded, and what is encoded decodes to itself",
        run: targets::wire::ilp_packet,
        seeds: seeds::ilp_packets,
        inputs: 680_000,
    },
    Target {
        name: "ledger_record",
        promise: "records of the ledger: what is accepted is encoded to the same value",
        run: targets::stored::ledger_record,
        seeds: seeds::ledger_records,
        inputs: 680_000,
    },
    Target {
        name: "ledger_snapshot",
        promise: "snapshots of the ledger: what is accepted is encoded to the same state, and can be audited",
        run: targets::stored::ledger_snapshot,
        seeds: seeds::ledger_snapshots,
        inputs: 81_000,
    },
    Target {
        name: "archived_transfer",
        promise: "transfers of the archive: what is accepted is encoded to the same value",
        run: targets::stored::archived_transfer,
        seeds: seeds::archived_transfers,
        inputs: 720_000,
    },
    Target {
        name: "store_record",
        promise: "records of the store: what is accepted is encoded to the same changes",
        run: targets::stored::store_record,
        seeds: seeds::store_records,
        inputs: 1_270_000,
    },
    Target {
        name: "journal",
        promise: "a journal with bytes changed anywhere: refused, or read as it was written, without loss where bits are few",
        run: targets::journal::journal,
        seeds: seeds::journal_patches,
        inputs: 5_400,
    },
    Target {
        name: "segment",
        promise: "segments with right checksums: refused, or read, and opened without a change",
        run: targets::journal::segment,
        seeds: seeds::segments,
        inputs: 27_000,
    },
    Target {
        name: "snapshot_file",
        promise: "snapshot files: passed over as damaged, or what was written",
        run: targets::journal::snapshot_file,
        seeds: seeds::snapshot_files,
        inputs: 135_000,
    },
    Target {
        name: "oracle",
        promise: "answers of external oracles: not understood, or owners within limits and in order, and an outcome for each entry",
        run: targets::oracle::oracle,
        seeds: seeds::oracle_answers,
        inputs: 30_000,
    },
    Target {
        name: "config",
        promise: "files of settings: what they say, or every mistake named",
        run: targets::files::config,
        seeds: seeds::config_files,
        inputs: 1_800,
    },
    Target {
        name: "scheme_file",
        promise: "files of schemes: what they say, or every mistake named",
        run: targets::files::scheme_file,
        seeds: seeds::scheme_files,
        inputs: 18_000,
    },
    Target {
        name: "quote_rules",
        promise: "files of quote rules: understood or refused",
        run: targets::files::quote_rules,
        seeds: seeds::quote_rules,
        inputs: 360_000,
    },
    Target {
        name: "party_file",
        promise: "files of parties: every line understood or refused",
        run: targets::files::party_file,
        seeds: seeds::party_files,
        inputs: 180_000,
    },
    Target {
        name: "admin",
        promise: "requests to the admin API of a running hub: never an answer of 500 or above, and the books stay in order",
        run: targets::admin::admin,
        seeds: seeds::admin_requests,
        inputs: 100_000,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
