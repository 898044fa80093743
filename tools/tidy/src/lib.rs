//! The house rules as tests: `make tidy`, which `make test` runs too. Function length is clippy's
//! (`clippy.toml`), code width rustfmt's; the build for a bare target and `cargo deny` are in the Makefile.

pub mod layers;
pub mod prose;
pub mod tree;
