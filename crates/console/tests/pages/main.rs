//! The pages of the console over a real hub: their contents, permissions, headers, exports, and hostile texts.

mod access;
mod common;
mod contents;
mod headers;
mod hostile;
