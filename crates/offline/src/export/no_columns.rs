//! Replaces Parquet in a build without it: a table cannot be begun.

use std::fs::File;
use std::io;

use super::kind::Kind;
use super::value::Row;

/// A table that cannot be created.
pub(super) enum ParquetTable {}

impl ParquetTable {
    pub(super) fn new(_: File, _: Kind) -> io::Result<Self> {
        let text = "this upesi was built without Parquet: `make build` builds one that has it";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    pub(super) fn add(&mut self, _: Row<'_>) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn finish(self) -> io::Result<File> {
        match self {}
    }
}
