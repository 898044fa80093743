//! The house rules as tests: `make tidy`, which `make test` also runs. Clippy checks the length of functions
//! (`clippy.toml`), and rustfmt the width of code. The Makefile contains the build for a bare target and `cargo deny`.
//!
//! Two rules are also commands (`upesi-tidy`): `make prose` counts constructions, and `make format` wraps comments.

pub mod change;
pub mod documented;
pub mod imports;
pub mod layers;
pub mod prose;
pub mod spelling;
pub mod texts;
pub mod tree;
pub mod width;
pub mod wrap;
