//! Restores of backups whose records contradict the auditor's rules, and of damaged ones.

use std::path::Path;

use upesi_engine::{Engine, EngineMetrics, EngineOptions, NoEffects};
use upesi_ledger::{AbortKind, Event, Payload, Refusal};
use upesi_process::exit::{Exit, Failure};

use super::journal::{TestJournal, id};
use crate::backup::{
    BackupArguments, RestoreArguments, RestoreReport, backup, check_accepted, enter_in_the_trail, restore,
};

/// A data directory whose last record is changed, and a backup of it.
fn backed_up(directory: &Path, change: impl Fn(&mut upesi_ledger::Decision)) -> RestoreArguments {
    let mut journal = TestJournal::onboarded();
    let mut decision = journal.decide(&journal.prepare_command(1, "12.5"));
    change(&mut decision);
    journal.write(&decision, Payload::default());
    journal.close();
    let from = directory.join("backup");
    backup(&BackupArguments { data: journal.path.clone(), to: from.clone(), json: false }).unwrap();
    let data = directory.join("restored");
    RestoreArguments { from, data, alone: false, accept_findings: false, json: false }
}

fn accepting(arguments: &RestoreArguments) -> Result<RestoreReport, Failure> {
    restore(&RestoreArguments { accept_findings: true, ..arguments.clone() })
}

/// The prepare is recorded, but not forwarded.
fn not_forwarded(decision: &mut upesi_ledger::Decision) {
    decision.callbacks.clear();
}

/// A transfer that is not reserved ends.
fn ends_nothing(decision: &mut upesi_ledger::Decision) {
    decision.callbacks.clear();
    decision.events = vec![Event::TransferAborted {
        id: id(9),
        kind: AbortKind::Expired,
        cause: Refusal::Expired.into(),
        fingerprint: None,
        operator_reason: None,
    }];
}

#[test]
fn restore_with_rule_findings_waits_for_acceptance() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = backed_up(directory.path(), not_forwarded);
    let report = restore(&arguments).unwrap();
    assert!(!report.is_accepted && report.files > 0);
    assert_eq!((report.audit.findings_total, report.audit.rule_findings_total), (1, 1));
    assert!(report.audit.findings[0].contains("is forwarded 0 times"), "{:?}", report.audit.findings);
    let text = crate::audit::to_text(&report.audit);
    assert!(
        text.contains("NOT SOUND: 1 findings\n1 of decisions that violate the auditor's rules"),
        "{text}"
    );
    assert!(arguments.data.join("FORMAT").exists(), "the directory has its name");
    assert!(!directory.path().join("restored.restoring").exists());
    let refused = check_accepted(&arguments.data).unwrap_err();
    assert!(refused.contains("1 findings about rules") && refused.contains("--accept-findings"), "{refused}");
    // The backup is restored only if the operator accepts the findings.
    assert_eq!(restore(&arguments).unwrap_err().exit, Exit::CannotCreate);
    let report = accepting(&arguments).unwrap();
    assert!(report.is_accepted && report.files == 0);
    assert_eq!(check_accepted(&arguments.data), Ok(()));
    assert_eq!(accepting(&arguments).unwrap_err().exit, Exit::CannotCreate, "it is accepted already");

    // The findings are accepted from the beginning, with another directory.
    let at_once = RestoreArguments { data: directory.path().join("other"), ..arguments };
    assert!(accepting(&at_once).unwrap().is_accepted);
    assert_eq!(check_accepted(&at_once.data), Ok(()));
}

#[test]
fn accepted_findings_are_recorded_in_the_audit_trail() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = backed_up(directory.path(), not_forwarded);
    accepting(&arguments).unwrap();
    let options = EngineOptions::new(&arguments.data);
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(enter_in_the_trail(&arguments.data, &handle));
    engine.shutdown();
    assert!(!arguments.data.join("restored").exists());
    let mut records = upesi_engine::follow_from_oldest(&upesi_journal::EmbeddedLog::for_reading(
        &(std::sync::Arc::new(upesi_journal::RealDisk::new(&arguments.data, upesi_journal::Access::Read))
            as _),
    ))
    .unwrap();
    let mut reasons = Vec::new();
    while let Some(followed) = records.next().unwrap() {
        for event in followed.record.events {
            if let Event::OperatorActed(entry) = event {
                reasons.push(entry.by.reason.unwrap_or_default());
            }
        }
    }
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].starts_with("1 findings about rules were accepted: record "), "{}", reasons[0]);
    assert!(reasons[0].contains("is forwarded 0 times"), "{}", reasons[0]);
}

#[test]
fn damage_is_not_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = backed_up(directory.path(), ends_nothing);
    for result in [restore(&arguments), accepting(&arguments)] {
        let failure = result.unwrap_err();
        assert_eq!(failure.exit, Exit::Data, "{failure}");
        assert!(failure.message.contains("restored.restoring"), "{failure}");
        assert!(!arguments.data.exists());
    }
}
