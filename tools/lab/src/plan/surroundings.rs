//! The context of a scenario's execution.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::plan::parameter::Parameter;

/// The context of a scenario's execution.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    pub name: String,
    pub title: String,
    pub description: String,
    /// Parameters that distinguish this run from others of the same scenario.
    pub parameters: BTreeMap<String, Parameter>,
    /// Directory for `result.json`, logs and data; `None` keeps nothing.
    pub out: Option<PathBuf>,
    /// Directory where recorded streams are kept for other runs; `None` keeps nothing.
    pub recordings: Option<PathBuf>,
    /// The commit this program was built from, if known.
    pub commit: Option<String>,
}
