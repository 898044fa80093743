//! The README's table of reliability, written from the evidence.

use std::path::Path;

use crate::evidence::{Evidence, EvidenceError};
use crate::{noted, trials};

/// Where the table begins.
pub const BEGIN: &str = "<!-- reliability: written by `torture table` from docs/evidence, do not edit -->";
/// Where it ends.
pub const END: &str = "<!-- end of reliability -->";

/// A text with its table written anew. A text without markers is left as it is.
pub fn updated(text: &str, evidence: &Path) -> Result<String, EvidenceError> {
    let Some((before, rest)) = text.split_once(BEGIN) else { return Ok(text.to_owned()) };
    let Some((_, after)) = rest.split_once(END) else { return Ok(text.to_owned()) };
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", table(evidence)?))
}

/// One line for each trial, and for each thing that other programs try.
pub fn table(directory: &Path) -> Result<String, EvidenceError> {
    let mut lines =
        String::from("| what | tried | violations | goal | commit, date |\n|---|---:|---:|---:|---|\n");
    for subject in trials::TRIALS.iter().map(|trial| trial.subject()).chain(noted::subjects()) {
        let evidence = Evidence::read(directory, subject.name)?;
        let last = evidence.runs.last().map_or_else(
            || "not run yet".to_owned(),
            |run| format!("{}, {}", run.commit, run.date.split('T').next().unwrap_or_default()),
        );
        lines.push_str(&format!(
            "| {} | {} | {} | {} | {last} |\n",
            subject.what,
            grouped(evidence.count),
            grouped(evidence.violations),
            grouped(subject.goal)
        ));
    }
    Ok(lines)
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in
            [(0, "0"), (7, "7"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let updated = updated(&text, directory.path()).unwrap();
        assert!(updated.starts_with("before\n") && updated.ends_with(&format!("{END}\nafter\n")));
        assert!(!updated.contains("old") && updated.contains("not run yet"));
        assert_eq!(super::updated(&updated, directory.path()).unwrap(), updated);
        assert_eq!(super::updated("no markers", directory.path()).unwrap(), "no markers");
    }
}
