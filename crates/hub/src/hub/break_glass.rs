//! Break-glass: where its file is, and the metric of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use upesi_admin::{BREAK_GLASS_FILE, is_break_glass_open};

use crate::config::Settings;
use crate::exposition::head;

/// The file of a hub.
pub(super) fn file(settings: &Settings) -> PathBuf {
    settings.data.dir.join(BREAK_GLASS_FILE)
}

/// The same, if callers say who they are: only then anything is opened by it.
pub(super) fn watched(settings: &Settings) -> Option<PathBuf> {
    (settings.admin.authentication == "required").then(|| file(settings))
}

/// The metric, of a file that is watched.
pub(super) fn write(file: Option<&Path>, text: &mut String) {
    let Some(file) = file else { return };
    let name = "upesi_break_glass_open";
    head(text, name, "gauge", "1 while a token of break-glass is good");
    // Writing into a String does not fail.
    let _ = writeln!(text, "{name} {}", u64::from(is_break_glass_open(file)));
}
