//! Headers: checks a request's headers, and rewrites them for the messages that the request causes.

mod block;
mod check;
mod forward;
mod media_type;

pub use check::{CheckedHeaders, HeaderRules, Parties, check_headers, check_no_accept, check_parties};
pub use forward::{Forward, MessageSource, SpanId, TraceId, rewrite_for_forward};
pub use media_type::write_content_type;

pub use self::block::{Block, push_header};

/// Finds header values by name, so that this crate does not depend on an HTTP library.
pub trait HeaderLookup {
    /// The values of a header in order. The name must be in lower case.
    fn get_all<'a>(&'a self, lower_case_name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    /// The first value of a header. The name must be in lower case.
    fn get<'a>(&'a self, lower_case_name: &'a str) -> Option<&'a [u8]> {
        self.get_all(lower_case_name).next()
    }
}
