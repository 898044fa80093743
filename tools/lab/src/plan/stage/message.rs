//! The kinds of messages that a stage is fed with.

use crate::plan::section::Section;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// `POST /transfers`.
    Prepare,
    /// `PUT /transfers/{ID}` with a fulfilment.
    Fulfil,
}

impl MessageKind {
    const NAMES: [&str; 2] = ["prepare", "fulfil"];

    /// Reads the key `what`; prepares by default.
    pub(crate) fn read(keys: &mut Section<'_>) -> Self {
        if keys.choice("what", &Self::NAMES) == Some(1) { Self::Fulfil } else { Self::Prepare }
    }

    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
