//! Storage of transfers: numbered slots that never move.

use alloc::vec::Vec;

/// Slots of one block, which has a few hundred kilobytes.
const BLOCK_SLOTS: usize = 2_048;

/// Numbered slots, allocated in blocks. Adding slots never moves existing ones. Moving them would block a ledger with
/// millions of transfers in flight while it copies them all.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    blocks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { blocks: Vec::new(), free: Vec::new() }
    }

    /// Fills an empty slot, preferably one that was used before, and returns its number.
    pub(super) fn fill(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            let (block, place) = place(slot);
            self.blocks[block][place] = Some(value);
            return slot;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK_SLOTS) {
            self.blocks.push(Vec::with_capacity(BLOCK_SLOTS));
        }
        let last = self.blocks.len() - 1;
        self.blocks[last].push(Some(value));
        (last * BLOCK_SLOTS + self.blocks[last].len() - 1) as u32
    }

    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        let (block, place) = place(slot);
        let value = self.blocks[block][place].take()?;
        self.free.push(slot);
        Some(value)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        let (block, place) = place(slot);
        self.blocks[block][place].as_ref()
    }

    /// The filled slots, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.blocks.iter().flatten()).filter_map(|(slot, value)| Some((slot, value.as_ref()?)))
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (block, place) = place(slot);
        self.blocks[block][place].as_mut()
    }
}

const fn place(slot: u32) -> (usize, usize) {
    (slot as usize / BLOCK_SLOTS, slot as usize % BLOCK_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_slot_never_moves() {
        let mut slots = Slots::new();
        let count = 3 * BLOCK_SLOTS as u32 + 1;
        let first = slots.fill(0);
        let address = core::ptr::from_ref(slots.get(first).unwrap());
        for number in 1..count {
            assert_eq!(slots.fill(number), number);
        }
        assert_eq!(core::ptr::from_ref(slots.get(first).unwrap()), address);
        assert!((0..count).all(|number| slots.get(number) == Some(&number)));
    }

    #[test]
    fn an_emptied_slot_is_filled_again_before_a_new_one() {
        let mut slots: Slots<u32> = Slots::new();
        let (a, b) = (slots.fill(1), slots.fill(2));
        assert_eq!((slots.take(a), slots.take(a)), (Some(1), None), "once");
        assert_eq!(slots.get(a), None);
        assert_eq!(slots.fill(3), a);
        assert_eq!(slots.fill(4), b + 1);
        *slots.get_mut(a).unwrap() += 10;
        assert_eq!([a, b, b + 1].map(|slot| slots.get(slot).copied()), [Some(13), Some(2), Some(4)]);
    }
}
