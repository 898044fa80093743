//! The targets, by where their bytes come from.

pub(crate) mod admin;
pub(crate) mod edge;
pub(crate) mod files;
pub(crate) mod stored;
pub(crate) mod wire;

use upesi_fspiop::SyncError;
use upesi_fspiop::body::parse_error_body;

/// Every refusal is a FSPIOP error that a DFSP can read.
fn assert_valid_refusal(error: &SyncError) {
    assert!((400..=599).contains(&error.status), "{error:?}");
    assert!(error.description.chars().count() <= 128, "{error:?}");
    let body = error.to_body();
    let read = parse_error_body(&body).expect("the hub's own errors follow the schema");
    assert_eq!((read.code, &*read.description), (error.code, &*error.description));
}
