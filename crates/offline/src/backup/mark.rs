//! The mark of a restore: a file in the restored directory. When the hub starts there, it records the restore in the
//! audit trail. The trail does not contain actions after the backup, so this entry shows the point where the data was
//! set back.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use upesi_admin::replace_private;
use upesi_engine::{EngineHandle, Payload};
use upesi_journal::durable;
use upesi_keys::read_limited_text;
use upesi_ledger::command::{AuditedCommand, Authority, OperatorAction};
use upesi_ledger::{AuditActor, Change, Command};

use crate::audit::AuditReport;

/// Name of the file. Its lines: the number of the backup's last record; then, if there were findings about rules,
/// whether they were accepted, and their number; then the first of them.
const MARK: &str = "restored";
/// Maximum size of a mark, in bytes.
const MARK_BYTES_MAX: u64 = 4_096;
/// Maximum length of a finding in the mark, in characters.
const FINDING_CHARS_MAX: usize = 300;
const ACCEPTED: &str = "accepted";
const NOT_ACCEPTED: &str = "not-accepted";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestoreMark {
    pub(super) last_record: u64,
    /// Number of findings about rules.
    findings: u64,
    first_finding: String,
    /// Whether a hub may start on the directory.
    pub(super) is_accepted: bool,
}

impl RestoreMark {
    pub(super) fn of(audit: &AuditReport, is_accepted: bool) -> Self {
        let first = audit.findings_by_kind().1.first();
        let first_finding = first.map_or_else(String::new, |text| {
            text.chars().filter(|char| !char.is_control()).take(FINDING_CHARS_MAX).collect()
        });
        let (last_record, findings) = (audit.last_seq, audit.rule_findings_total);
        Self { last_record, findings, first_finding, is_accepted }
    }

    fn text(&self) -> String {
        let Self { last_record, findings, first_finding, is_accepted } = self;
        if *findings == 0 {
            return format!("{last_record}\n");
        }
        let word = if *is_accepted { ACCEPTED } else { NOT_ACCEPTED };
        format!("{last_record}\n{word} {findings}\n{first_finding}\n")
    }

    /// An unreadable mark counts as one with findings that were not accepted.
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        // Only the hub's user can write here.
        let last_record = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        let Some(line) = lines.next() else {
            return Self { last_record, findings: 0, first_finding: String::new(), is_accepted: true };
        };
        let (word, findings) = line.split_once(' ').unwrap_or((line, ""));
        let first_finding = lines.next().unwrap_or_default().to_owned();
        let findings = findings.parse().unwrap_or(1);
        Self { last_record, findings, first_finding, is_accepted: word == ACCEPTED }
    }

    pub(super) fn read(directory: &Path) -> io::Result<Option<Self>> {
        match read_limited_text(&directory.join(MARK), MARK_BYTES_MAX) {
            Ok(text) => Ok(Some(Self::parse(&text))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn leave(&self, directory: &Path) -> io::Result<()> {
        let mut file = File::create_new(directory.join(MARK))?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()
    }

    pub(super) fn replace(&self, directory: &Path) -> io::Result<()> {
        replace_private(&directory.join(MARK), &self.text())
    }
}

/// Rejects a directory that was restored with findings about rules, until they are accepted.
///
/// # Errors
/// The text states the remedy.
pub fn check_accepted(data: &Path) -> Result<(), String> {
    let mark = RestoreMark::read(data).map_err(|error| format!("{}: {error}", data.join(MARK).display()))?;
    let Some(RestoreMark { findings, first_finding, is_accepted: false, .. }) = mark else { return Ok(()) };
    Err(format!(
        "{} was restored with {findings} findings about rules, which were not accepted; the first: {first_finding}; \
         to accept them, repeat upesi restore with --accept-findings",
        data.display()
    ))
}

/// Records the restore in the audit trail if there is a mark, and then removes the mark. A crash in between causes a
/// second entry.
pub async fn enter_in_the_trail(data: &Path, handle: &EngineHandle) {
    let file = data.join(MARK);
    let Ok(Some(RestoreMark { last_record, findings, first_finding, .. })) = RestoreMark::read(data) else {
        return;
    };
    let reason = (findings > 0)
        .then(|| format!("{findings} findings about rules were accepted: {first_finding}").into());
    let by = AuditActor {
        operator: "restore".into(),
        known_by: "nothing".into(),
        address: None,
        on_behalf_of: None,
        action: "process.restore".into(),
        reason,
    };
    let to = format!("restored from a backup that ends with record {last_record}");
    let action = OperatorAction::External(Change::new("data directory", "a later state", to));
    let command = Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALONE }));
    let entered = match handle.submit(command, Payload::default()).await {
        Ok(_) => fs::remove_file(&file).and_then(|()| durable::sync_parent(&file)),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    match entered {
        Ok(()) => tracing::warn!(last_record, "this data directory was restored from a backup"),
        Err(error) => {
            tracing::error!(%error, "cannot record the restore in the audit trail; the next start tries again")
        }
    }
}
