//! The mark of a restore: a file in the restored directory, of which the hub makes an entry in the audit trail when
//! it starts there. What was recorded after the backup is not in that trail: whoever reads it sees where it was taken
//! back.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use upesi_engine::{EngineHandle, Payload};
use upesi_journal::durable;
use upesi_ledger::command::{Act, Deed};
use upesi_ledger::{Attribution, Change, Command};

/// The file, which has the number of the backup's last record.
const FILE: &str = "restored";

/// Leaves the mark in a directory that was restored up to a record.
pub(super) fn leave(directory: &Path, last_record: u64) -> io::Result<()> {
    let mut file = File::create_new(directory.join(FILE))?;
    writeln!(file, "{last_record}")?;
    file.sync_all()
}

/// Makes the entry, if there is a mark, and then removes that. A crash in between makes a second entry.
pub(crate) async fn enter(data: &Path, handle: &EngineHandle) {
    let file = data.join(FILE);
    let Ok(text) = fs::read_to_string(&file) else { return };
    // Whoever may write here owns the hub anyhow; a number stays a number.
    let last_record: u64 = text.trim().parse().unwrap_or(0);
    let by = Attribution {
        operator: "restore".into(),
        known_by: "nothing".into(),
        address: None,
        on_behalf_of: None,
        action: "process.restore".into(),
        reason: None,
    };
    let to = format!("restored from a backup that ends with record {last_record}");
    let deed = Deed::Elsewhere(Change::new("data directory", "a later state", to));
    let command = Command::Act(Box::new(Act { by, deed, is_alone: true }));
    let entered = match handle.submit(command, Payload::default()).await {
        Ok(_) => fs::remove_file(&file).and_then(|()| durable::sync_parent(&file)),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    match entered {
        Ok(()) => tracing::warn!(last_record, "this data directory was restored from a backup"),
        Err(error) => {
            tracing::error!(%error, "the restore is not in the audit trail: the next start tries again")
        }
    }
}
