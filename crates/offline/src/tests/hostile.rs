//! Hostile texts in every field and every output: no hidden text, no further line, no formula, no other path.

use upesi_ledger::command::{Abort, AuditedCommand, Authority, FundsPrepare, OperatorAction};
use upesi_ledger::{
    AdminCommand, AuditActor, Command, Event, FundsDirection, LedgerAccountTypeId, Payload, WindowId,
};
use upesi_process::csv;
use upesi_process::terminal::Escaping;
use upesi_process::times::{Zone, ZoneArguments};
use upesi_testsupport::hostile_texts::{Random, text};
use upesi_testsupport::parquet::read_parquet;
use upesi_types::text::{is_hidden, path};
use upesi_types::{ErrorCode, FspId};

use super::audit::audited;
use super::journal::{TestJournal, amount, fsp, id, kes};
use crate::audit::{to_json, to_text};
use crate::export::{ExportArguments, Format, Kind, export};
use crate::journal::filter::Filter;
use crate::journal::print::{PrintOptions, print};
use crate::trail::{EntryFilter, TrailOptions, trail};

const SEEDS: u64 = 60;
/// A name as earlier versions accepted it: any printable ASCII.
fn old_name(random: &mut Random) -> FspId {
    let name: String = text(random).chars().filter(|char| (' '..='~').contains(char)).take(28).collect();
    FspId::parse(&format!("{name}x1")).unwrap()
}

/// A day with hostile texts only.
fn day(random: &mut Random) -> (TestJournal, FspId) {
    let mut journal = TestJournal::onboarded();
    let name = old_name(random);
    let create = AdminCommand::CreateParticipant { name: fsp("otherbank"), currency: kes(), is_proxy: false };
    let mut decision = journal.decide(&Command::Admin(create));
    for event in &mut decision.events {
        if let Event::ParticipantCreated { name: created, .. } = event {
            *created = name;
        }
    }
    journal.write(&decision, Payload::default());
    let now = journal.now();
    journal.ledger.evolve(journal.ledger.last_seq() + 1, now, decision.events, &decision.callbacks);
    let participant = journal.ledger.participant_named(&fsp("greenbank")).unwrap();
    let account = participant.account(kes(), LedgerAccountTypeId::SETTLEMENT).unwrap();
    journal.admin(AdminCommand::PrepareFunds(FundsPrepare {
        direction: FundsDirection::In,
        id: id(230),
        name: fsp("greenbank"),
        account,
        amount: amount("5"),
        currency: kes(),
        external_reference: text(random).into(),
        reason: text(random).into(),
        extensions: Some(text(random).into()),
        fingerprint: [1; 16],
    }));
    journal.prepare(1, "2");
    journal.fulfil(1);
    journal.prepare(2, "3");
    let abort = Abort {
        transfer: id(2).into(),
        source: fsp("bluebank"),
        destination: Some(fsp("greenbank")),
        code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
        description: text(random).into(),
        fingerprint: [2; 16],
    };
    journal.command(&Command::Abort(abort), Payload::default());
    let by = AuditActor {
        operator: text(random).into(),
        known_by: text(random).into(),
        address: Some(text(random).into()),
        on_behalf_of: None,
        action: "iam.user".into(),
        reason: Some(text(random).into()),
    };
    let action = OperatorAction::Refused { object: text(random).into(), why: text(random).into() };
    journal.command(
        &Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALONE })),
        Payload::default(),
    );
    journal.admin(AdminCommand::CloseWindow { id: WindowId(1), reason: text(random).into() });
    (journal, name)
}

fn shows_all(output: &str, context: &str) {
    let hidden: Vec<char> = output.chars().filter(|char| is_hidden(*char) && *char != '\n').collect();
    assert!(hidden.is_empty(), "{context}: {hidden:?} in {output}");
}

/// The output of a command for a terminal.
fn printed(write: impl FnOnce(&mut dyn std::io::Write)) -> String {
    let mut kept = Vec::new();
    write(&mut Escaping::new(&mut kept));
    String::from_utf8(kept).unwrap()
}

fn check_prints(journal: &TestJournal, context: &str) {
    for json in [false, true] {
        let (directory, filter) = (journal.path.clone(), Filter::default());
        let zone = Zone::utc();
        let options =
            PrintOptions { directory, from_seq: None, filter, limit: None, json, payload: false, zone };
        let text = printed(|output| print(&options, output, &mut Vec::new()).unwrap());
        assert_eq!(text.lines().count() as u64, journal.ledger.last_seq(), "{context}: a line per record");
        shows_all(&text, context);
        let options = TrailOptions {
            directory: journal.path.clone(),
            filter: EntryFilter::default(),
            limit: None,
            verify_only: false,
            json,
            zone: Zone::utc(),
            checkpoints: None,
        };
        let entries = printed(|output| trail(&options, output, &mut Vec::new()).unwrap());
        assert_eq!(entries.lines().count() as u64, journal.ledger.trail().count, "{context}: {entries}");
        shows_all(&entries, context);
        if json {
            for line in text.lines().chain(entries.lines()) {
                serde_json::from_str::<serde_json::Value>(line).expect(line);
            }
        }
    }
}

fn check_exports(journal: &TestJournal, context: &str) {
    let directory = tempfile::tempdir().unwrap();
    for kind in [Kind::Transfers, Kind::FxTransfers, Kind::BulkItems, Kind::Settlements, Kind::Obligations] {
        for format in [Format::Csv, Format::Jsonl, Format::Parquet] {
            let out = directory.path().join(format!("{}.{}", kind.file_prefix(), format.ending()));
            let (data, before, from, window, dfsp) = (journal.path.clone(), None, None, None, None);
            let (zone, out) = (ZoneArguments::default(), out);
            let arguments =
                ExportArguments { data, kind, before, from, zone, window, dfsp, format, out: out.clone() };
            let rows = export(&arguments).unwrap() as usize;
            let bytes = std::fs::read(&out).unwrap();
            match format {
                Format::Csv => check_csv(&bytes, rows, kind, context),
                Format::Jsonl => {
                    let text = String::from_utf8(bytes).unwrap();
                    shows_all(&text, context);
                    assert_eq!(text.lines().count(), rows, "{context}");
                }
                Format::Parquet => {
                    // Other programs read columns, so an apostrophe would be part of a text.
                    let (lines, _) = read_parquet(&out, &kind.names());
                    let cells = csv::rows(&lines.join("\r\n"), rows).unwrap();
                    assert_eq!((lines.len(), cells.len()), (rows, rows), "{context}");
                    cells.iter().flatten().for_each(|cell| shows_all(cell, context));
                }
            }
        }
    }
}

fn check_csv(bytes: &[u8], rows: usize, kind: Kind, context: &str) {
    let cells = csv::rows(std::str::from_utf8(bytes).unwrap(), rows + 1).unwrap();
    assert_eq!(cells.len(), rows + 1, "{context}");
    for row in &cells {
        assert_eq!(row.len(), kind.names().len(), "{context}: {row:?}");
        for cell in row {
            shows_all(cell, context);
            let is_number = upesi_types::Amount::parse_decimal(cell).is_ok();
            assert!(is_number || !cell.starts_with(['=', '+', '-', '@', '＝']), "{context}: {cell:?}");
        }
    }
}

#[test]
fn texts_from_outside_cannot_change_an_output() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let context = format!("seed {seed}");
        let (mut journal, name) = day(&mut random);
        let report = audited(&mut journal);
        assert_eq!(report.findings, Vec::<String>::new(), "{context}");
        let shown = printed(|output| output.write_all(to_text(&report).as_bytes()).unwrap());
        shows_all(&shown, &context);
        let json = printed(|output| output.write_all(to_json(&report).as_bytes()).unwrap());
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
        shows_all(&json, &context);
        check_prints(&journal, &context);
        check_exports(&journal, &context);
        // A name is always one segment of a path.
        let url = path(&["participants", name.as_str(), "limits"]);
        assert_eq!(url.matches('/').count(), 3, "{context}: {url}");
        assert!(url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte)), "{url}");
    }
}
