//! Lines of the OpenMetrics text format, for values that are read at scrape time. Writing into a String cannot fail.

use std::fmt::Write as _;

/// The header of a metric family; its samples follow.
pub fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// A family with one sample that rises and falls.
pub fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "gauge", help);
    let _ = writeln!(text, "{name} {value}");
}

/// A family with one sample that only rises.
pub fn counter(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "counter", help);
    let _ = writeln!(text, "{name}_total {value}");
}

/// Escapes the value of a label.
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
