//! Checks and findings of `upesi audit`.

use upesi_ledger::{
    AbortKind, AccountId, Actor, AdminCommand, CallbackContent, CallbackKey, Command, Decision, Event,
    LedgerAccountTypeId, Payload, Refusal, SettlementMode, Subject, Transfer, TransferState,
};
use upesi_process::exit::Exit;
use upesi_types::{Amount, Currency, ErrorCode, TransferId};

use super::journal::{PREIMAGE, SOURCE, TestJournal, amount, base64, fsp, id, prepare_body};
use crate::audit::{AuditOptions, AuditReport, JournalState, audit, to_json, to_text};

pub(super) fn audited(journal: &mut TestJournal) -> AuditReport {
    journal.close();
    let options = AuditOptions { directory: journal.path.clone(), allow_live: false, with_archive: true };
    audit(&options).unwrap()
}

fn worked() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    journal.prepare(1, "12.5");
    journal.fulfil(1);
    journal.prepare(2, "1000");
    journal.prepare(3, "87.5");
    journal
}

#[test]
fn sound_journal_is_reported_with_its_balances() {
    let mut journal = worked();
    let state = journal.ledger.clone();
    journal.write_snapshot(&state);
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
    let text = to_text(&report).replace(&journal.path.display().to_string(), "DIR");
    assert_eq!(
        text,
        "\
directory     DIR
records       1 to 13 in 1 segments, 13 replayed from the beginning
journal       13 records verified: checksums, chain, times, and zeros after them
transfers     2 reserved, 1 refused, 1 committed, 0 aborted (0 expired), 1 in flight
funds         2 movements
callbacks     5 owed, 0 delivered, 5 undelivered (0 parked)
requests      4 compared with their records, 0 could not be parsed
snapshots     compared at record 13
archive       not compared: it does not exist
store         not read: it does not exist
start         rehearsed

participant       account                      balance  cap
Hub          KES  HUB_RECONCILIATION              1000
Hub          KES  HUB_MULTILATERAL_SETTLEMENT        0
greenbank    KES  POSITION                         100  100
greenbank    KES  SETTLEMENT                      -500
bluebank     KES  POSITION                       -12.5  100
bluebank     KES  SETTLEMENT                      -500

sound: every record, sum, cap and callback is correct
"
    );
    let json: serde_json::Value = serde_json::from_str(&to_json(&report)).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(
        json["records"],
        serde_json::json!({
            "firstSeq": 1, "lastSeq": 13, "replayed": 13, "startedFromSnapshot": null, "segments": 1,
            "early": 0, "verified": 13,
        })
    );
    assert_eq!(
        json["balances"][2],
        serde_json::json!({
            "participant": "greenbank", "currency": "KES", "ledgerAccountType": "POSITION", "accountId": 3,
            "balance": "100", "netDebitCap": "100",
        })
    );
}

#[test]
fn empty_directory_is_sound() {
    let report = audited(&mut TestJournal::new(64 * 1024));
    assert!(report.is_sound(), "{:?}", report.findings);
    assert!(to_text(&report).contains("records       none\n"));
}

#[test]
fn transfer_ended_early_by_an_operator_is_sound() {
    let mut journal = worked();
    let expire = upesi_ledger::command::Expire { transfer: id(3), reason: "the payee is gone".into() };
    journal.command(&Command::Expire(expire), Payload::default());
    let report = audited(&mut journal);
    assert!(report.is_sound(), "{:?}", report.findings);
    let text = to_text(&report);
    assert!(text.contains("1 aborted (1 expired), 0 in flight"), "{text}");
}

/// A reservation that the ledger would not make.
fn forced_prepare(
    journal: &TestJournal,
    number: u8,
    units: &str,
    change: impl FnOnce(&mut Decision),
) -> Decision {
    // Decided by a new hub, because this one would reject it.
    let mut decision = TestJournal::onboarded().decide(&journal.prepare_command(99, "1"));
    if let Event::TransferPrepared(transfer) = &mut decision.events[0] {
        transfer.id = id(number);
        transfer.amount = amount(units);
        transfer.prepare_seq = journal.ledger.last_seq() + 1;
    }
    decision.callbacks[0].subject = Subject::transfer(id(number));
    change(&mut decision);
    decision
}

fn prepared(decision: &mut Decision) -> &mut Transfer {
    match &mut decision.events[0] {
        Event::TransferPrepared(transfer) => transfer,
        other => panic!("{other:?}"),
    }
}

fn committed(id: TransferId, fulfilment: [u8; 32]) -> Event {
    let settled = SettlementMode::InWindow;
    Event::TransferCommitted { id, fulfilment, fingerprint: [0; 16], extensions: None, settled }
}

fn aborted(id: TransferId, kind: AbortKind) -> Event {
    let cause = Refusal::Expired.into();
    Event::TransferAborted { id, kind, cause, fingerprint: None, operator_reason: None }
}

/// A decision with only these events, by an actor that may cause them.
fn only(events: Vec<Event>) -> Decision {
    let actor = match &events[0] {
        Event::TransferAborted { operator_reason: Some(_), .. } => Actor::Operator,
        Event::TransferAborted { kind: AbortKind::Expired, .. } => Actor::Clock,
        Event::TransferCommitted { .. } | Event::TransferAborted { .. } => Actor::Dfsp(fsp("bluebank")),
        Event::TransferPrepared(_) => Actor::Dfsp(fsp("greenbank")),
        Event::CallbacksDelivered(_) => Actor::Delivery,
        Event::ArchiveDivided | Event::FinishedRemoved { .. } => Actor::Retention,
        _ => Actor::Operator,
    };
    Decision { actor, events, ..Decision::default() }
}

/// A last record that should not exist, and its findings.
type Case = (&'static str, fn(&TestJournal) -> Decision, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "over the cap",
        |journal| forced_prepare(journal, 9, "1", |_| {}),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000009 took the payer's position to 101 over its cap 100",
        ],
    ),
    (
        "over the cover",
        |journal| forced_prepare(journal, 9, "400.0001", |_| {}),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000009 took the payer's position to 500.0001 over its cover 500",
        ],
    ),
    (
        "not forwarded",
        |journal| forced_prepare(journal, 9, "0", |decision| decision.callbacks.clear()),
        &["record 14: transfer 00000000-0000-4000-8000-000000000009 is forwarded 0 times, not once"],
    ),
    (
        "prepared while in flight",
        |journal| forced_prepare(journal, 3, "0", |_| {}),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is prepared again while it is in flight; the records after it were not replayed",
        ],
    ),
    (
        "prepared after its end",
        |journal| forced_prepare(journal, 1, "0", |_| {}),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000001 is prepared again; the records after it were not replayed",
        ],
    ),
    (
        "a wrong fulfilment, and no party notified",
        |_| only(vec![committed(id(3), [8; 32])]),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is committed with a fulfilment that is not the condition's preimage",
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is committed, but the payer is notified 0 times, not once",
        ],
    ),
    (
        "committed twice",
        |_| only(vec![committed(id(1), PREIMAGE)]),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000001 ends, but is not in flight; the records after it were not replayed",
        ],
    ),
    (
        "expired early",
        |journal| {
            let mut decision = only(vec![aborted(id(3), AbortKind::Expired)]);
            let target = journal.ledger.participant_id(&fsp("greenbank")).unwrap();
            let content = CallbackContent::Error(Refusal::Expired.into());
            decision.callbacks.push(upesi_ledger::Callback {
                target,
                subject: Subject::transfer(id(3)),
                content,
            });
            decision
        },
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000003 expires before its time, 2031-04-01T12:01:13.000Z",
            "record 14: transfer 00000000-0000-4000-8000-000000000003 expires, but the payee is notified 0 times, not once",
        ],
    ),
    (
        "ended by an operator, but not as expired",
        |_| {
            let mut event = aborted(id(3), AbortKind::InvalidFulfil);
            if let Event::TransferAborted { operator_reason, .. } = &mut event {
                *operator_reason = Some("stuck".into());
            }
            only(vec![event])
        },
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is ended by an operator, but as ABORTED_INVALID_FULFIL",
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is aborted, but the payer is notified 0 times, not once",
        ],
    ),
    (
        "refused after it was reserved",
        |_| only(vec![aborted(id(3), AbortKind::Rejected)]),
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000003 was reserved, but is aborted as ABORTED_REJECTED",
            "record 14: transfer 00000000-0000-4000-8000-000000000003 is aborted, but the payer is notified 0 times, not once",
        ],
    ),
    (
        "a deposit twice",
        |journal| {
            let funds = journal.ledger.funds(id(201)).unwrap().clone();
            only(vec![Event::FundsPrepared(funds)])
        },
        &[
            "record 14: funds 00000000-0000-4000-8000-0000000000c9 are recorded twice; the records after it were not replayed",
        ],
    ),
    (
        "an account that does not exist",
        |_| only(vec![Event::AccountOpened { id: AccountId::new(99).unwrap() }]),
        &["record 14: account 99 does not exist; the records after it were not replayed"],
    ),
    (
        "a gap in the numbers",
        |journal| {
            let participant = journal.ledger.participant_id(&fsp("greenbank")).unwrap();
            let (currency, kind) = (super::journal::kes(), LedgerAccountTypeId::POSITION);
            let id = AccountId::new(8).unwrap();
            only(vec![Event::AccountCreated { id, participant, currency, kind, is_opened: false }])
        },
        &["record 14: account 8 follows account 6; the records after it were not replayed"],
    ),
    (
        "a callback delivered that is not owed",
        |journal| {
            let target = journal.ledger.participant_id(&fsp("greenbank")).unwrap();
            only(vec![Event::CallbacksDelivered(vec![CallbackKey { target, seq: 10, index: 0 }])])
        },
        &["record 14: callback 10.0 to participant 2 is not owed; the records after it were not replayed"],
    ),
    // The ledger would panic at these two.
    (
        "a reservation below zero",
        |journal| {
            forced_prepare(journal, 9, "200", |decision| {
                let transfer = prepared(decision);
                transfer.amount = transfer.amount.negated();
            })
        },
        &[
            "record 14: transfer 00000000-0000-4000-8000-000000000009 reserves an amount below zero; the records after it were not replayed",
        ],
    ),
    (
        "reservations that exceed the range of amounts",
        |journal| {
            forced_prepare(journal, 9, "0", |decision| {
                let transfer = prepared(decision);
                transfer.amount = Amount::MAX;
                // The money returns to the payer of the reserved transfer, whose position can hold the whole amount.
                std::mem::swap(&mut transfer.payer, &mut transfer.payee);
                std::mem::swap(&mut transfer.payer_account, &mut transfer.payee_account);
            })
        },
        &[
            "record 14: the reservations of account 5 exceed the range of amounts; the records after it were not replayed",
        ],
    ),
];

#[test]
fn contradictions_of_every_kind_are_found() {
    for (name, make, expected) in CASES {
        let mut journal = worked();
        let decision = make(&journal);
        journal.write(&decision, Payload::default());
        let report = audited(&mut journal);
        assert_eq!(report.findings, *expected, "{name}");
        assert!(to_text(&report).contains(&format!("NOT SOUND: {} findings\n", expected.len())), "{name}");
    }
}

#[test]
fn damage_is_found_and_records_before_it_are_reported() {
    let mut journal = worked();
    journal.close();
    let segment = journal.segments().remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    // In the frame of the third record. Each frame takes at least one sector after the header.
    let at = 3 * 512 + 200;
    bytes[at] ^= 0x40;
    std::fs::write(&segment, bytes).unwrap();
    let report = audited(&mut journal);
    assert!(!report.is_sound());
    assert!(report.findings[0].contains("is damaged at byte"), "{:?}", report.findings);
    assert!(report.last_seq < 13);
}

#[test]
fn different_or_damaged_snapshot_is_found() {
    let mut journal = worked();
    let mut other = TestJournal::onboarded();
    other.prepare(1, "12.5");
    other.fulfil(1);
    other.prepare(2, "1000");
    other.prepare(3, "87.4999");
    journal.write_snapshot(&other.ledger);
    let report = audited(&mut journal);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let finding = &report.findings[0];
    assert!(
        finding.starts_with("snapshot of record 13: the state replayed from the journal differs"),
        "{finding}"
    );

    let mut journal = worked();
    journal.write_snapshot(&journal.ledger);
    let file = super::journal::files(&journal.path.join("snapshots")).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let report = audited(&mut journal);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(report.findings[0].contains("the checksum does not match"), "{:?}", report.findings);
}

#[test]
fn snapshot_without_finished_transfers_is_sound() {
    let mut journal = worked();
    let mut archived_more = journal.ledger.clone();
    assert_eq!(archived_more.drain_finished(11).count(), 1);
    journal.write_snapshot(&archived_more);
    let report = audited(&mut journal);
    assert_eq!((report.findings, report.snapshots), (vec![], vec![13]));
}

#[test]
fn snapshot_beyond_the_journals_end_is_found() {
    let mut journal = TestJournal::onboarded();
    let mut longer = worked();
    journal.write_snapshot(&longer.ledger);
    longer.close();
    let report = audited(&mut journal);
    let [start, snapshot] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert!(start.starts_with("a hub would not start: journal/"), "{start}");
    assert_eq!(snapshot, "there is a snapshot of record 13, but the journal ends with record 9");
}

/// Several segments, and the state after record 11 of 20.
fn grown() -> (TestJournal, upesi_ledger::Ledger) {
    let mut journal = TestJournal::new(4096);
    journal.onboard();
    journal.prepare(1, "12.5");
    journal.fulfil(1);
    let early = journal.ledger.clone();
    for number in 2..10 {
        journal.prepare(number, "1");
    }
    journal.fulfil(2);
    (journal, early)
}

/// The first segments are removed, and the only snapshot is of a record several segments later. No start and no replay
/// reads the early segment, which is the first remaining one.
fn with_early_segments() -> (TestJournal, std::path::PathBuf) {
    let (mut journal, _) = grown();
    for number in 10..30 {
        // So long that a segment holds one, with space left.
        let command = journal.prepare_command(number, "1");
        let body = format!("{:1500}", prepare_body(&command));
        journal.command(&command, Payload { headers: SOURCE, body: body.as_bytes() });
    }
    journal.write_snapshot(&journal.ledger);
    journal.write_archive(|_, bytes| Some(bytes));
    assert!(upesi_journal::delete_segments_below(&*journal.disk(), 25).unwrap() > 0);
    journal.close();
    assert!(journal.segments().len() > 2);
    let early = journal.segments().remove(0);
    (journal, early)
}

/// Flips a bit. The directory must then be rejected with code 65, and the report must name the place.
fn flipped(journal: &mut TestJournal, file: &std::path::Path, at: usize, named: usize) -> AuditReport {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
    let report = audited(journal);
    let name = format!("journal/{}", file.file_name().unwrap().to_str().unwrap());
    let place = format!("{name} is damaged at byte {named}: ");
    assert!(
        report.findings.iter().any(|finding| finding.starts_with(&place)),
        "{place}: {:?}",
        report.findings
    );
    assert_eq!(report.journal, JournalState::Damaged);
    assert!(to_text(&report).contains("journal       DAMAGED, see below\n"));
    assert!(!report.is_sound());
    report
}

#[test]
fn flipped_bit_in_a_segment_before_the_replay_is_found() {
    let (mut journal, early) = with_early_segments();
    assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    // In the body of the first frame, after the segment's header.
    let report = flipped(&mut journal, &early, 512 + 100, 512);
    assert!(report.findings[0].contains("the checksum does not match"), "{:?}", report.findings);
    assert_eq!(report.findings_total, 1, "the same damage is reported once: {:?}", report.findings);
    assert_eq!(report.last_seq, journal.ledger.last_seq(), "the rest is replayed all the same");
}

#[test]
fn flipped_bit_in_free_space_of_a_segment_is_found() {
    let (mut journal, early) = with_early_segments();
    let bytes = std::fs::read(&early).unwrap();
    let last = bytes.len() - 1;
    assert!(bytes[last - 511..].iter().all(|byte| *byte == 0), "the last sector is free room");
    let report = flipped(&mut journal, &early, last, bytes.len() - 512);
    assert!(report.findings[0].contains("there is data after the end"), "{:?}", report.findings);
}

#[test]
fn journal_without_first_segments_is_replayed_from_a_snapshot() {
    let (mut journal, early) = grown();
    journal.write_snapshot(&early);
    journal.write_archive(|_, bytes| Some(bytes));
    assert!(journal.segments().len() > 2);
    assert!(upesi_journal::delete_segments_below(&*journal.disk(), early.last_seq()).unwrap() > 0);
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!(report.started_from, Some(11));
    assert_eq!(report.last_seq, journal.ledger.last_seq());
    assert_eq!(report.totals, journal.ledger.totals());
    assert_eq!(report.early_records, 12 - report.first_seq);
    assert_eq!(report.journal, JournalState::Verified(report.last_seq + 1 - report.first_seq));
    let text = to_text(&report);
    let read = format!(
        "replayed from the snapshot of record 11, {} before it were only read\n",
        report.early_records
    );
    assert!(text.contains(&read), "{text}");
    assert!(
        text.contains("sound: every existing record, and every sum, cap and callback since record 11"),
        "{text}"
    );

    let (mut journal, early) = grown();
    upesi_journal::delete_segments_below(&*journal.disk(), early.last_seq()).unwrap();
    let report = audited(&mut journal);
    assert_eq!(report.findings.len(), 1);
    assert!(report.findings[0].ends_with("but no valid snapshot reaches it"), "{:?}", report.findings);
}

#[test]
fn directory_in_use_is_rejected_unless_allowed() {
    let mut journal = worked();
    let options =
        |allow_live| AuditOptions { directory: journal.path.clone(), allow_live, with_archive: true };
    let failure = audit(&options(false)).unwrap_err();
    assert_eq!(failure.exit, Exit::Temporary);
    assert!(failure.message.contains("--allow-live"), "{failure}");
    let report = audit(&options(true)).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.archive.left_out.as_deref(), Some("a hub is using it"));
    assert!(audited(&mut journal).is_sound());
}

#[test]
fn archive_must_contain_exactly_the_decided_transfers() {
    let with = |change: fn(TransferId, Vec<u8>) -> Option<Vec<u8>>| {
        let mut journal = worked();
        journal.write_archive(change);
        audited(&mut journal)
    };
    let report = with(|_, bytes| Some(bytes));
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!((report.archive.compared, report.archive.stored, report.archive.watermark), (2, 2, 13));

    let report = with(|transfer, bytes| (transfer != id(1)).then_some(bytes));
    assert_eq!(
        report.findings,
        [
            "transfer 00000000-0000-4000-8000-000000000001: finished with record 11, but is not in the archive",
            "the archive has 1 of the 2 transfers that finished by its watermark",
        ]
    );

    let report = with(|_, mut bytes| {
        // The changed byte is in the amount, after id, parties and accounts.
        bytes[17 + 16] ^= 1;
        Some(bytes)
    });
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
    assert!(report.findings[0].ends_with("the archive differs from the journal"), "{:?}", report.findings);
}

#[test]
fn withdrawals_are_checked_until_their_end() {
    let mut journal = TestJournal::onboarded();
    let account = journal.ledger.funds(id(201)).unwrap().account;
    let funds = upesi_ledger::command::FundsPrepare {
        direction: upesi_ledger::FundsDirection::Out,
        id: id(210),
        name: fsp("greenbank"),
        account,
        amount: amount("20"),
        currency: super::journal::kes(),
        external_reference: "bank".into(),
        reason: "withdraw".into(),
        extensions: None,
        fingerprint: [2; 16],
    };
    journal.admin(AdminCommand::PrepareFunds(funds.clone()));
    journal.admin(AdminCommand::PrepareFunds(upesi_ledger::command::FundsPrepare { id: id(211), ..funds }));
    for (number, action) in
        [(210, upesi_ledger::command::FundsAction::Commit), (211, upesi_ledger::command::FundsAction::Abort)]
    {
        let end = upesi_ledger::command::FundsEnd {
            action,
            id: id(number),
            name: fsp("greenbank"),
            account,
            reason: "done".into(),
        };
        journal.command(&Command::Admin(AdminCommand::EndFunds(end)), Payload::default());
    }
    let report = audited(&mut journal);
    assert_eq!(report.findings, Vec::<String>::new());
    let settlement = report.ledger.account(account).unwrap();
    assert_eq!(settlement.balance, amount("-480"));
    assert!(report.ledger.reserved_transfers().all(|transfer| transfer.state == TransferState::Reserved));
}

/// A prepare of 10.00 whose event differs. `forge` changes the event; the body stays as received.
fn forged(forge: impl Fn(&mut upesi_ledger::Transfer)) -> Vec<String> {
    let mut journal = worked();
    let command = journal.prepare_command(4, "10");
    let body = prepare_body(&command);
    let mut decision = journal.decide(&command);
    let Event::TransferPrepared(transfer) = &mut decision.events[0] else { unreachable!() };
    forge(transfer);
    journal.write(&decision, Payload { headers: SOURCE, body: body.as_bytes() });
    audited(&mut journal).findings
}

#[test]
fn event_that_contradicts_its_request_is_found() {
    type Forge = fn(&mut upesi_ledger::Transfer);
    let cases: [(Forge, &[&str]); 6] = [
        (|_| {}, &[]),
        (|transfer| transfer.amount = amount("1"), &["amount 1, but its request contains 10"]),
        (
            |transfer| transfer.currency = Currency::parse("USD").unwrap(),
            &["currency USD, but its request contains KES"],
        ),
        (|transfer| transfer.payee = transfer.payer, &["payee greenbank, but its request contains bluebank"]),
        (
            |transfer| transfer.expires_at = transfer.expires_at.plus_ms(1),
            &["expiration 1932811274001, but its request contains 1932811274000"],
        ),
        (
            |transfer| transfer.condition = [0; 32],
            &["condition 0000000000000000000000000000000000000000000000000000000000000000, but its request"],
        ),
    ];
    for (forge, expected) in cases {
        let findings = forged(forge);
        assert_eq!(findings.is_empty(), expected.is_empty(), "{findings:?}");
        for text in expected {
            assert!(findings.iter().any(|finding| finding.contains(text)), "{text}: {findings:?}");
        }
    }
}

#[test]
fn fulfil_or_error_that_contradicts_its_request_is_found() {
    let told = |journal: &mut TestJournal, decision: &Decision, body: &str| {
        journal.write(decision, Payload { headers: b"", body: body.as_bytes() });
        audited(journal).findings.join("; ")
    };
    for (body, expected) in [
        (format!("{{\"fulfilment\":\"{}\"}}", base64(&PREIMAGE)), ""),
        (format!("{{\"fulfilment\":\"{}\"}}", base64(&[8; 32])), "but its request contains 0808080808"),
        ("{\"transferState\":\"COMMITTED\"}".to_owned(), "is committed by a request without fulfilment"),
    ] {
        let mut journal = worked();
        let decision = journal.decide(&journal.fulfil_command(3));
        let found = told(&mut journal, &decision, &body);
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{body}: {found}");
    }
    for (code, expected) in [("5104", ""), ("5105", "with the code 5104, but its request contains 5105")] {
        let mut journal = worked();
        let command = Command::Abort(upesi_ledger::command::Abort {
            transfer: id(3).into(),
            source: fsp("bluebank"),
            destination: Some(fsp("greenbank")),
            code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
            description: "no".into(),
            fingerprint: [3; 16],
        });
        let decision = journal.decide(&command);
        let body =
            format!("{{\"errorInformation\":{{\"errorCode\":\"{code}\",\"errorDescription\":\"no\"}}}}");
        let found = told(&mut journal, &decision, &body);
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{code}: {found}");
    }
}

/// Each record by an actor who may not cause it, and by one who may.
#[test]
fn record_by_the_wrong_actor_is_found() {
    let (payer, payee) = (Actor::Dfsp(fsp("greenbank")), Actor::Dfsp(fsp("bluebank")));
    let cases: [(Actor, Option<&str>); 4] = [
        (payee, None),
        (payer, Some("TransferCommitted is caused by greenbank, which is not permitted")),
        (Actor::Operator, Some("TransferCommitted is caused by an operator, which is not permitted")),
        (Actor::Clock, Some("TransferCommitted is caused by the hub's clock, which is not permitted")),
    ];
    for (actor, expected) in cases {
        let mut journal = worked();
        let decision = Decision { actor, ..journal.decide(&journal.fulfil_command(3)) };
        let body = format!("{{\"fulfilment\":\"{}\"}}", base64(&PREIMAGE));
        journal.write(&decision, Payload { headers: b"", body: body.as_bytes() });
        let findings = audited(&mut journal).findings;
        let expected: Vec<_> = expected.map(|text| format!("record 14: {text}")).into_iter().collect();
        assert_eq!(findings, expected, "{actor:?}");
    }
}

/// Rejected with this reason, although the request and the books have none.
#[test]
fn rejection_without_reason_is_found() {
    for (kind, refusal, code, is_right) in [
        (AbortKind::Rejected, Refusal::CapExceeded, 4200, true),
        (AbortKind::Rejected, Refusal::CoverShort, 4001, false),
        (
            AbortKind::Rejected,
            Refusal::CurrencyUngoverned { currency: Currency::parse("KES").unwrap() },
            6000,
            false,
        ),
        (AbortKind::Invalid, Refusal::ConditionInvalid, 3100, false),
        (AbortKind::Invalid, Refusal::CapExceeded, 4200, false),
    ] {
        let mut journal = worked();
        // The position is now 100 of 100, with a cover of 500.
        let command = journal.prepare_command(4, "10.5");
        let mut decision = journal.decide(&command);
        let Event::TransferPrepared(transfer) = &mut decision.events[0] else { unreachable!() };
        let TransferState::Aborted(end) = &mut transfer.state else { unreachable!() };
        (end.kind, end.cause) = (kind, refusal.into());
        let body = prepare_body(&command);
        journal.write(&decision, Payload { headers: SOURCE, body: body.as_bytes() });
        let findings = audited(&mut journal).findings;
        let expected = format!("is rejected as {} with {code} without a reason", kind.as_str());
        assert_eq!(findings.is_empty(), is_right, "{findings:?}");
        assert!(is_right || findings[0].ends_with(&expected), "{findings:?}");
    }
}

/// A directory that the replay accepts may still not start. Then the start reports it.
#[test]
fn directory_that_prevents_a_start_is_not_sound() {
    let (mut journal, early) = grown();
    journal.write_snapshot(&early);
    journal.write_archive(|_, bytes| Some(bytes));
    let archive = journal.path.join("archive");
    upesi_journal::delete_segments_below(&*journal.disk(), early.last_seq()).unwrap();
    assert_eq!(audited(&mut journal).findings, Vec::<String>::new());
    std::fs::remove_dir_all(archive).unwrap();
    let findings = audited(&mut journal).findings;
    assert!(
        matches!(&findings[..], [finding] if finding.starts_with("a hub would not start: the archive in ")),
        "{findings:?}"
    );
}
