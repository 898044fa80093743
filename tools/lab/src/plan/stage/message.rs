//! The kinds of messages that are the input of a stage.

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// `POST /transfers`.
    Prepare,
    /// `PUT /transfers/{ID}` with a fulfilment.
    Fulfil,
}

impl MessageKind {
    const NAMES: [&str; 2] = ["prepare", "fulfil"];

    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
