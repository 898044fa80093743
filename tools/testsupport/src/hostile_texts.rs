//! Hostile texts for tests of outputs: control characters, formulas, paths, separators.

const PIECES: [&str; 30] = [
    "=cmd|'/c calc'!A1",
    "+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    " =1",
    "＝1",
    "\u{1b}[2K",
    "\u{1b}]0;x\u{7}",
    "\r",
    "\n",
    "\r\n99 fake line",
    "\u{0}",
    "\u{7f}",
    "\u{9b}31m",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{2028}",
    "\u{feff}",
    "\u{e0041}",
    "\"",
    ",",
    ";",
    "\\",
    "../../etc/passwd",
    "%2e%2e%2f",
    "?a=b#c",
    "日本",
    "plain",
];

/// A random generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }
}

/// A text of up to four of the pieces.
pub fn text(random: &mut Random) -> String {
    (0..1 + random.below(4)).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect()
}
