//! The page.
use crate::input::Results;
pub(crate) fn page(_results: &Results) -> String {
    String::new()
}
