//! The findings of an audit.

use upesi_journal::JournalError;
use upesi_process::exit::Failure;

use crate::directory::journal_failure;

/// Maximum number of findings that are stored and shown; further ones are only counted.
pub const FINDINGS_KEPT_MAX: usize = 100;

/// Findings, limited in number. Findings about rules are separate, so that they cannot displace others.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) kept: Vec<String>,
    pub(super) total: u64,
    pub(super) rules_kept: Vec<String>,
    pub(super) rules_total: u64,
}

impl Findings {
    pub(super) fn add(&mut self, finding: String) {
        self.total += 1;
        if self.kept.len() < FINDINGS_KEPT_MAX {
            self.kept.push(finding);
        }
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = String>) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }

    pub(super) fn extend_rules(&mut self, findings: impl IntoIterator<Item = String>) {
        for finding in findings {
            self.rules_total += 1;
            if self.rules_kept.len() < FINDINGS_KEPT_MAX {
                self.rules_kept.push(finding);
            }
        }
    }
}

/// Damage is a finding; a failing disk is not a fault of the data.
pub(super) fn note_damage(error: JournalError, findings: &mut Findings) -> Result<(), Failure> {
    match error {
        JournalError::Damaged { .. } | JournalError::NoSuchRecord { .. } => {
            // Every reader of the same place finds the same fault.
            let finding = error.to_string();
            if !findings.kept.contains(&finding) {
                findings.add(finding);
            }
            Ok(())
        }
        other => Err(journal_failure(other)),
    }
}
