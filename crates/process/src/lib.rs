//! What all commands of the program share: exit codes, input and output, times, values of flags, signals, the version.

pub mod csv;
pub mod exit;
pub mod exposition;
pub mod hints;
pub mod panics;
pub mod progress;
pub mod signals;
pub mod terminal;
pub mod times;
pub mod values;
pub mod version;
