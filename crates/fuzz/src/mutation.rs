//! Seeded changes of an input, for runs without a fuzzer: no feedback, only many variations of what is nearly right.

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

/// SplitMix64: one seed, one sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 for 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }
}

/// Makes inputs from seeds.
#[derive(Debug)]
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Inputs near these seeds, which are not empty, drawn from `seed`.
    pub const fn new(seeds: &'a [Vec<u8>], seed: u64) -> Self {
        Self { seeds, random: Random::new(seed) }
    }

    /// The next input: a seed with one to six changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.pick().to_vec();
        for _ in 0..=self.random.below(6) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn pick(&mut self) -> &'a [u8] {
        &self.seeds[self.random.below(self.seeds.len())]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let end = (at + 1 + self.random.below(16)).min(input.len());
        let has_byte = at < input.len();
        match self.random.below(8) {
            0 if has_byte => input[at] ^= 1 << self.random.below(8),
            1 if has_byte => input[at] = self.random.bits() as u8,
            2 if has_byte => input[at] = input[at].wrapping_add([1, 255][self.random.below(2)]),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let token = TOKENS[self.random.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
            6 => {
                let part = input[at..end].to_vec();
                let times = 1 + self.random.below(4);
                input.splice(at..at, part.repeat(times));
            }
            _ => {
                let other = self.pick();
                let from = self.random.below(other.len() + 1);
                let to = (from + self.random.below(64)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}
