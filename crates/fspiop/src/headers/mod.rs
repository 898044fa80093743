//! Headers: the checks of a request and the rewriting for the messages it causes.

mod block;
mod check;
mod forward;
mod media_type;

pub use block::{Block, push_header};
pub use check::{CheckedHeaders, HeaderRules, Parties, check_headers, check_no_accept, check_parties};
pub use forward::{Forward, MessageSource, SpanId, rewrite_for_forward};
pub use media_type::write_content_type;

/// Finds header values by name, so that this crate need not know the HTTP library.
pub trait HeaderLookup {
    /// The first value of a header whose name is given in lower case.
    fn get(&self, lower_case_name: &str) -> Option<&[u8]>;
}

impl<T: HeaderLookup + ?Sized> HeaderLookup for &T {
    fn get(&self, lower_case_name: &str) -> Option<&[u8]> {
        (**self).get(lower_case_name)
    }
}
