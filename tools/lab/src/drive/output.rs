//! The directory of a run's result.

use std::path::Path;

use crate::drive::error::LabError;
use crate::result::LabResult;

pub(crate) fn create(out: Option<&Path>) -> Result<(), LabError> {
    let Some(out) = out else { return Ok(()) };
    std::fs::create_dir_all(out).map_err(LabError::io("create", out))
}

pub(crate) fn write(result: &LabResult, out: Option<&Path>) -> Result<(), LabError> {
    let Some(out) = out else { return Ok(()) };
    create(Some(out))?;
    result.write(out).map_err(LabError::io("write into", out))
}
