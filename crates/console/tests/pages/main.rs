//! The pages of the console over a real hub: their contents, permissions, headers, exports, hostile texts, and the
//! login.

mod access;
mod changes;
mod common;
mod contents;
mod headers;
mod hostile;
mod languages;
mod login;
mod provider_login;
