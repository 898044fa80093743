//! An export of the audit trail is verified without the journal: every change in it is named.

use std::fs;

use serde_json::{Value, json};
use upesi_process::exit::Exit;

use super::trail::{Keys, options, printed, with_entries};
use crate::trail::{ExportOptions, TrailOptions, verify_export};

/// An export, and the checkpoint of its end.
struct Export {
    keys: Keys,
    lines: Vec<String>,
    directory: tempfile::TempDir,
}

impl Export {
    fn new() -> Self {
        let (keys, journal) = (Keys::new(), with_entries());
        let (text, _, failure) = printed(&TrailOptions { json: true, ..options(&journal) });
        assert_eq!(failure, None);
        let trail = journal.ledger.trail();
        let checkpoint = keys.key.sign(trail.count, journal.now(), trail.head).to_string();
        fs::write(&keys.checkpoints, checkpoint + "\n").unwrap();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        Self { keys, lines, directory: tempfile::tempdir().unwrap() }
    }

    /// The messages, or the error.
    fn verify_text(&self, text: &str, first: u64, is_signed: bool) -> Result<String, String> {
        let export = self.directory.path().join("export");
        fs::write(&export, text).unwrap();
        let checkpoints = is_signed.then(|| (self.keys.checkpoints.clone(), self.keys.public.clone()));
        let mut told = Vec::new();
        let outcome = verify_export(&ExportOptions { export, first, checkpoints }, &mut told);
        let failed = outcome.map_err(|failure| {
            assert_eq!(failure.exit, Exit::Data);
            failure.to_string()
        });
        failed.map(|()| String::from_utf8(told).unwrap())
    }

    fn verify(&self, lines: &[String]) -> Result<String, String> {
        self.verify_text(&lines.iter().map(|line| format!("{line}\n")).collect::<String>(), 1, true)
    }

    fn fails(&self, lines: &[String], why: &str) {
        let failed = self.verify(lines).unwrap_err();
        assert!(failed.contains(why), "{why}: {failed}");
    }
}

#[test]
fn export_is_verified_by_its_chain_and_checkpoints() {
    let export = Export::new();
    let told = export.verify(&export.lines).unwrap();
    assert!(told.contains("entries 1 to 4 of the audit trail: the chain is intact"), "{told}");
    assert!(
        told.contains("1 checkpoints have a valid signature; 1 snapshots and checkpoints compared"),
        "{told}"
    );
}

/// Every member of every row is changed, except the number of the record: only its order is verified.
#[test]
fn edited_row_is_reported() {
    let export = Export::new();
    let mut edits = 0;
    for (index, line) in export.lines.iter().enumerate() {
        let row: Value = serde_json::from_str(line).unwrap();
        for (name, value) in row.as_object().unwrap() {
            let other = match (name.as_str(), value) {
                ("record", _) => json!(0),
                ("outcome", _) => json!(if value == "done" { "refused" } else { "done" }),
                ("at", _) => json!("2031-04-01T10:00:00.999Z"),
                ("chain" | "effects", _) => json!("0".repeat(64)),
                (_, Value::Number(number)) => json!(number.as_u64().unwrap() + 1),
                (_, Value::Null) => json!("x"),
                (_, Value::String(text)) => json!(format!("{text} ")),
                other => panic!("{other:?}"),
            };
            let mut edited = row.clone();
            edited[name] = other;
            let mut lines = export.lines.clone();
            lines[index] = edited.to_string();
            export.fails(&lines, &format!("line {}", index + 1));
            edits += 1;
        }
    }
    assert_eq!(edits, 4 * 17);
}

#[test]
fn missing_moved_added_or_truncated_rows_are_reported() {
    let export = Export::new();
    let without = |at: usize| [&export.lines[..at], &export.lines[at + 1..]].concat();
    export.fails(&without(0), "line 1: found entry 2 instead of entry 1");
    export.fails(&without(1), "line 2: found entry 3 instead of entry 2");
    export.fails(&without(3), "the trail ends with entry 3, but the checkpoint of");
    export.fails(&[], "the trail ends with entry 0, but the checkpoint of");
    let mut moved = export.lines.clone();
    moved.swap(1, 2);
    export.fails(&moved, "line 2: found entry 3 instead of entry 2");
    let twice = [&export.lines[..2], &export.lines[1..]].concat();
    export.fails(&twice, "line 3: found entry 2 instead of entry 3");
    let whole: String = export.lines.iter().map(|line| format!("{line}\n")).collect();
    let cut = export.verify_text(whole.trim_end(), 1, true).unwrap_err();
    assert!(cut.contains("line 4 is incomplete: the export was cut off"), "{cut}");
    let odd = export.verify_text(&format!("{whole}x\n"), 1, true).unwrap_err();
    assert!(odd.contains("line 5 is not an entry of an export"), "{odd}");
    // Without checkpoints a truncated end cannot be detected; that is their purpose.
    let short: String = export.lines[..3].iter().map(|line| format!("{line}\n")).collect();
    assert!(export.verify_text(&short, 1, false).is_ok());
}

/// Later exports lack removed entries. The verifying user states the number of the first entry.
#[test]
fn export_of_a_later_part_begins_with_the_stated_entry() {
    let export = Export::new();
    let later: String = export.lines[2..].iter().map(|line| format!("{line}\n")).collect();
    assert!(export.verify_text(&later, 3, true).unwrap().contains("entries 3 to 4"));
    let failed = export.verify_text(&later, 2, true).unwrap_err();
    assert!(failed.contains("line 1: found entry 3 instead of entry 2"), "{failed}");
}
