//! The targets, by where their bytes come from.

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod edge;
mod engine;
pub(crate) mod files;
pub(crate) mod http2;
pub(crate) mod journal;
pub(crate) mod oracle;
pub(crate) mod stored;
pub(crate) mod wire;

use upesi_delivery::relayed::ErrorInformation;
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

/// What somebody else told as an error can be told on.
fn assert_can_be_told(error: &ErrorInformation) {
    let body = error.to_body();
    let read = parse_error_body(&body).map(|read| (read.code, read.description.into_owned()));
    assert_eq!(read, Ok((error.code, error.description.clone())));
}

/// Judges each refusal once: most of what reads one input refuses it in the same words.
#[derive(Default)]
struct Refusals(Vec<SyncError>);

impl Refusals {
    fn judge(&mut self, refusal: Option<SyncError>) {
        let Some(error) = refusal.filter(|error| !self.0.contains(error)) else { return };
        assert_valid_refusal(&error);
        self.0.push(error);
    }
}

/// One of several things to try with an input, where trying them all would make it cost as much as all of them.
fn chosen<T: Copy>(all: &[T], input: &[u8]) -> T {
    all[input.len() % all.len()]
}
