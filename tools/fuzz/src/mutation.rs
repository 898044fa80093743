//! Seeded changes of an input, for runs without a fuzzer: no feedback, only many variations of what is nearly right.

use std::collections::BTreeSet;
use std::fmt::Write;

use upesi_journal::sim_disk::Random;

/// Longest input that mutations make, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Texts that mean something to some parser.
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

/// Lengths of words that are worth a place in a dictionary, in bytes; libFuzzer takes none that is longer.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 2..=64;

/// What mutations should put in as a whole, in the notation of libFuzzer's dictionaries: the words of the seeds,
/// and texts that mean something to some parser.
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
    /// Inputs near these seeds, which are not empty, drawn from `seed`.
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
