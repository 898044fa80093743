//! The phase of a world.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Trouble,
    /// The faults have ended, and everything that was accepted finishes.
    Finishing,
    Over,
}
