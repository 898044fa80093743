//! What can happen to a sector of a file that was written and synced.

use upesi_journal::SECTOR_BYTES;
use upesi_journal::sim_disk::Random;

/// What happens to a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Flip,
    Flips,
    /// Another sector's contents, of the same file or another: a write that went to the wrong place.
    Misdirected,
    /// Bytes that never belonged there.
    Foreign,
    /// Zeros: a write that never arrived.
    Lost,
    /// What was there halfway through the life: a later write that never arrived.
    Stale,
}

impl Change {
    /// All but a single bit.
    pub const LARGER: [Self; 5] = [Self::Flips, Self::Misdirected, Self::Foreign, Self::Lost, Self::Stale];

    /// Mostly a single bit.
    pub fn draw(random: &mut Random) -> Self {
        Self::LARGER.get(random.below(13) as usize).copied().unwrap_or(Self::Flip)
    }

    /// In the evidence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flip => "one bit",
            Self::Flips => "several bits",
            Self::Misdirected => "misdirected",
            Self::Foreign => "foreign",
            Self::Lost => "lost",
            Self::Stale => "stale",
        }
    }

    /// A file after it happened to one of its sectors; `None` where that changed nothing. `early` is the file
    /// halfway through the life, and `files` are those to which a write may go instead; none of them is empty.
    pub fn apply<N>(
        self,
        bytes: &[u8],
        early: Option<&[u8]>,
        files: &[(N, Vec<u8>)],
        random: &mut Random,
    ) -> Option<Vec<u8>> {
        let mut changed = bytes.to_vec();
        // Most of a segment is free room; what is in use is of more interest.
        let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let range = if random.one_in(8) { bytes.len() } else { used.max(1) };
        let at = random.below(range as u64) as usize;
        let start = at / SECTOR_BYTES * SECTOR_BYTES;
        let end = bytes.len().min(start + SECTOR_BYTES);
        match self {
            Self::Flip => changed[at] ^= 1 << random.below(8),
            Self::Flips => {
                for _ in 0..2 + random.below(30) {
                    changed[start + random.below((end - start) as u64) as usize] ^= 1 << random.below(8);
                }
            }
            Self::Foreign => changed[start..end].fill_with(|| random.bits() as u8),
            Self::Lost => changed[start..end].fill(0),
            Self::Stale => changed[start..end].copy_from_slice(early?.get(start..end)?),
            Self::Misdirected => {
                let (_, other) = &files[random.below(files.len() as u64) as usize];
                let from = random.below(other.len().div_ceil(SECTOR_BYTES) as u64) as usize * SECTOR_BYTES;
                let length = (end - start).min(other.len() - from);
                changed[start..start + length].copy_from_slice(&other[from..from + length]);
            }
        }
        (changed != bytes).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_BYTES: usize = 5 * SECTOR_BYTES / 2;

    /// Sectors in which two files of a length differ.
    fn differing(one: &[u8], other: &[u8]) -> usize {
        assert_eq!(one.len(), other.len());
        one.chunks(SECTOR_BYTES).zip(other.chunks(SECTOR_BYTES)).filter(|(one, other)| one != other).count()
    }

    #[test]
    fn each_changes_one_sector_and_nothing_else() {
        let file = |byte| (byte, vec![byte; FILE_BYTES]);
        let (files, early) = ([file(1), file(2), file(3)], file(9).1);
        for change in [Change::Flip].into_iter().chain(Change::LARGER) {
            let mut random = Random::new(7);
            let changes =
                (0..100).filter_map(|_| change.apply(&files[0].1, Some(&early), &files, &mut random));
            let changes: Vec<_> = changes.collect();
            assert!(changes.len() > 30, "{change:?}: {}", changes.len());
            for changed in changes {
                assert_eq!(differing(&changed, &files[0].1), 1, "{change:?}");
                let is_as = match change {
                    Change::Stale => changed.contains(&9),
                    Change::Lost => changed.contains(&0),
                    Change::Misdirected => changed.contains(&2) || changed.contains(&3),
                    Change::Flip | Change::Flips | Change::Foreign => true,
                };
                assert!(is_as, "{change:?}");
            }
        }
    }

    #[test]
    fn what_changes_nothing_is_none() {
        let (files, mut random) = ([((), vec![0; FILE_BYTES])], Random::new(7));
        let bytes = files[0].1.as_slice();
        for (change, early) in [
            (Change::Lost, None),
            (Change::Misdirected, None),
            (Change::Stale, Some(bytes)),
            (Change::Stale, Some(&bytes[..10])),
            (Change::Stale, None),
        ] {
            assert_eq!(change.apply(bytes, early, &files, &mut random), None, "{change:?}");
        }
    }

    /// What seeds have meant since the first of them was drawn.
    #[test]
    fn a_seed_draws_what_it_always_drew() {
        let mut random = Random::new(1);
        let drawn: Vec<_> = (0..50).map(|_| random.below(13)).collect();
        let mut random = Random::new(1);
        for number in drawn {
            let expected = match number {
                0 => Change::Flips,
                1 => Change::Misdirected,
                2 => Change::Foreign,
                3 => Change::Lost,
                4 => Change::Stale,
                _ => Change::Flip,
            };
            assert_eq!(Change::draw(&mut random), expected);
        }
    }
}
