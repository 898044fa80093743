//! Fuzz targets for every parser of the hub: a parser must withstand any bytes, and its results must keep promises.
//!
//! A [`Target`] takes bytes and panics if a promise is broken. The same targets run in three ways: over their seeds and
//! seeded mutations of them in `make test` (`tests/short.rs`), under libFuzzer with coverage in `make fuzz`
//! (`libfuzzer/`), and over one file with `cargo run -p upesi-fuzz -- TARGET FILE`.
//!
//! Tests only: no other crate depends on this one.

mod seeds;
mod targets;

use std::collections::BTreeSet;
use std::fmt::Write;

use upesi_journal::sim_disk::Random;

/// A parser or component that takes bytes from outside.
pub struct Target {
    /// Its name on the command line, and the folder of its corpus.
    pub name: &'static str,
    /// A description of the target and of its promise.
    pub promise: &'static str,
    /// Judges one input. Panics if the promise is broken.
    pub run: fn(&[u8]),
    /// Initial inputs. They are valid, so that mutations reach far.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Number of mutations in `make test`. A debug build on one core tries them in a little less than three seconds, so
    /// that all targets have the same time. It is a number and not a duration, so that every machine tries the same
    /// inputs.
    pub inputs: u64,
}

/// Each target: its name, its function, its seeds, its mutations and its promise.
macro_rules! targets {
    ($($name:ident: $module:ident::$run:ident, $seeds:ident, $inputs:literal, $promise:literal;)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            promise: $promise,
            run: targets::$module::$run,
            seeds: seeds::$seeds,
            inputs: $inputs,
        }),*];
    };
}

targets! {
    connection: connection::connection, connections, 5_000,
        "a connection in pieces, through the server's own loop: it ends, and each request has one valid \
         response";
    proxy_header: edge::proxy_header, proxy_headers, 500_000,
        "the first bytes of a load balancer's connection: no header, an incomplete one, or one of the \
         declared length";
    http2_requests: http2::requests, http2_requests, 5_000,
        "frames of HTTP/2 in pieces, through the server's own loop: it ends, and each opened stream has a \
         valid response";
    http2_answers: http2::answers, http2_answers, 5_000,
        "frames of HTTP/2 that answer a request of the hub: a response within the limits, or an error \
         without a wait";
    http_request: edge::http_request, http_requests, 135_000,
        "a request's head and body: rejected with a valid FSPIOP error, or a command for the engine";
    messages: edge::messages, messages, 135_000,
        "a request that is forwarded: rejected with a valid FSPIOP error, or parsed, and its path is \
         written unchanged";
    headers: edge::headers, header_blocks, 22_500,
        "FSPIOP headers: rejected with a valid FSPIOP error, and a header block is read as it was written";
    routes: edge::routes, paths, 13_500,
        "paths, templates and addresses: an accepted one can be written and read again";
    bodies: edge::bodies, bodies, 11_700,
        "bodies of all resources: rejected with a valid FSPIOP error, or parsed";
    amounts: edge::amounts, amounts, 1_000_000,
        "amounts, times and identifiers: an accepted one is written as the same value";
    ilp_packet: edge::ilp_packet, ilp_packets, 680_000,
        "ILP packets: rejected or decoded, and an encoded packet decodes to itself";
    ledger_record: journal::ledger_record, ledger_records, 680_000,
        "records of the ledger: an accepted one is encoded to the same value";
    ledger_snapshot: journal::ledger_snapshot, ledger_snapshots, 81_000,
        "snapshots of the ledger: an accepted one is encoded to the same state, and can be audited";
    ledger_commands: ledger::ledger_commands, ledger_commands, 3_000,
        "commands of DFSPs and operators at the edges of the range of amounts: no panic, and every invariant holds";
    archived_transfer: journal::archived_transfer, archived_transfers, 720_000,
        "transfers of the archive: an accepted one is encoded to the same value";
    store_record: journal::store_record, store_records, 1_270_000,
        "records of the store: an accepted one is encoded to the same changes";
    journal: journal::journal, journal_patches, 5_400,
        "a journal with bytes changed anywhere: rejected, or read as it was written, without loss if few \
         bits changed";
    segment: journal::segment, segments, 27_000,
        "segments with right checksums: rejected, or read, and opened without a change";
    snapshot_file: journal::snapshot_file, snapshot_files, 135_000,
        "snapshot files: skipped as damaged, or read as they were written";
    oracle: oracle::oracle, oracle_answers, 30_000,
        "answers of external oracles: rejected, or owners within limits and in order, and an outcome for \
         each entry";
    config: admin::config, config_files, 1_800,
        "files of settings: read, or rejected with every mistake";
    scheme_file: admin::scheme_file, scheme_files, 18_000,
        "files of schemes: read, or rejected with every mistake";
    quote_rules: admin::quote_rules, quote_rules, 360_000,
        "files of quote rules: read or rejected";
    party_file: admin::party_file, party_files, 180_000,
        "files of parties: every line read or rejected";
    admin: admin::admin, admin_requests, 100_000,
        "requests to the admin API of a running hub: never a status of 500 or above, and the books stay \
         consistent";
}

/// Finds a target by its name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

// Seeded mutations of an input, for runs without a fuzzer. They have no feedback; they are many variations of nearly
// valid inputs.

/// Maximum length of mutated inputs, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Texts that have a meaning for some parser.
const TOKENS: [&[u8]; 24] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"1e9",
    b"-0",
    b"99999999999999999999",
    b"0.00001",
    b"\xff\xfe",
    b"\r\n",
    b"\r\n\r\n",
    b"%00",
    b"%2F",
    b"../",
    b"{{transferId}}",
    b"2031-02-30T00:00:00.000Z",
    b"\0",
    b"=",
];

/// Length of words in a dictionary, in bytes, as libFuzzer accepts them.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 2..=64;

/// Words that mutations should insert as a whole, in the notation of libFuzzer's dictionaries: the words of the seeds,
/// and texts that have a meaning for some parser.
pub fn dictionary(seeds: &[Vec<u8>]) -> String {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let words = seeds.iter().flat_map(|seed| seed.split(move |byte| !is_inside(byte)));
    let words = words.filter(|word| WORD_BYTES.contains(&word.len()));
    let all: BTreeSet<&[u8]> = words.chain(TOKENS).collect();
    let mut text = String::new();
    for word in all {
        text.push('"');
        word.iter().for_each(|byte| write!(text, "\\x{byte:02x}").expect("a String takes everything"));
        text.push_str("\"\n");
    }
    text
}

#[derive(Debug)]
/// Makes inputs from seeds.
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Creates a mutator of these seeds, which must not be empty. `seed` determines its draws.
    pub fn new(seeds: &'a [Vec<u8>], seed: u64) -> Self {
        Self { seeds, random: Random::new(seed) }
    }

    /// The next input: a seed with one to six changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.pick().to_vec();
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn pick(&mut self) -> &'a [u8] {
        &self.seeds[self.below(self.seeds.len())]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = (at + 1 + self.below(16)).min(input.len());
        let has_byte = at < input.len();
        match self.below(8) {
            0 if has_byte => input[at] ^= 1 << self.below(8),
            1 if has_byte => input[at] = self.random.bits() as u8,
            2 if has_byte => input[at] = input[at].wrapping_add([1, 255][self.below(2)]),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let token = TOKENS[self.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
            6 => {
                let part = input[at..end].to_vec();
                let times = 1 + self.below(4);
                input.splice(at..at, part.repeat(times));
            }
            _ => {
                let other = self.pick();
                let from = self.below(other.len() + 1);
                let to = (from + self.below(64)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}
