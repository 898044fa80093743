//! Replaces workbooks in a build without them: none is read or written.

use super::cell::Cell;

const ABSENT: &str = "this upesi was built without workbooks: use CSV, or the upesi that `make build` builds";

pub(super) fn read(_: Vec<u8>) -> Result<Vec<Vec<String>>, String> {
    Err(ABSENT.to_owned())
}

pub(super) fn write(_: &[Vec<Cell>], _: &str) -> Result<Vec<u8>, &'static str> {
    Err(ABSENT)
}
