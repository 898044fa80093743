//! FX transfers in `upesi audit`: records that contradict the rules, an archive that contradicts the journal, and
//! damage.

use sha2::{Digest, Sha256};
use upesi_ledger::codec::Encoder;
use upesi_ledger::command::{
    AskedMoney, FulfilFxTransfer, FulfilState, Fulfilment, FundsPrepare, FxTransferCommand, NewFeeRule,
    Prepare, PrepareFxTransfer,
};
use upesi_ledger::{
    AbortKind, AccountId, Actor, AdminCommand, Command, Decision, Event, FeePayer, FeeTerms, FundsDirection,
    LedgerAccountTypeId, NoFee, Payload, Refusal, Stored as _,
};
use upesi_tables::archive::{Archive as _, ArchiveOptions, FjallArchive};
use upesi_types::{Amount, Currency, FxTransferId};

use super::audit::audited;
use super::journal::{PREIMAGE, TestJournal, amount, fsp, id, kes};

const FX_TRANSFER: u8 = 50;
const TRANSFER: u8 = 1;

fn tzs() -> Currency {
    Currency::parse("TZS").unwrap()
}

fn fx_transfer_id() -> FxTransferId {
    FxTransferId::new(id(FX_TRANSFER))
}

/// forex has accounts and money in both currencies; bluebank is paid in TZS.
fn world() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        journal.admin(AdminCommand::CreateHubAccount {
            name: fsp("Hub"),
            currency: tzs(),
            kind: kind.into(),
        });
    }
    for (number, name, currency) in [(211, "forex", kes()), (212, "forex", tzs()), (213, "bluebank", tzs())] {
        let (name, initial_position) = (fsp(name), Amount::ZERO);
        journal.admin(AdminCommand::CreateParticipant { name, currency, is_proxy: false });
        let net_debit_cap = amount("5000");
        journal.admin(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
        let participant = journal.ledger.participant_named(&name).unwrap();
        let account = participant.account(currency, LedgerAccountTypeId::SETTLEMENT).unwrap();
        journal.admin(AdminCommand::PrepareFunds(FundsPrepare {
            direction: FundsDirection::In,
            id: id(number),
            name,
            account,
            amount: amount("3000"),
            currency,
            external_reference: "bank".into(),
            reason: "prefund".into(),
            extensions: None,
            fingerprint: [1; 16],
        }));
    }
    journal
}

fn convert(journal: &TestJournal) -> Command {
    let money = |text: &str, currency| AskedMoney { amount: Ok(amount(text)), currency };
    Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
        id: fx_transfer_id(),
        determining_transfer: Some(id(TRANSFER)),
        source: fsp("greenbank"),
        destination: Some(fsp("forex")),
        initiator: fsp("greenbank"),
        counter_party: fsp("forex"),
        source_amount: money("12.5", kes()),
        target_amount: money("100", tzs()),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at: Some(journal.now().plus_ms(60_000)),
        fingerprint: [FX_TRANSFER; 16],
    })))
}

fn fulfil_fx_transfer() -> Command {
    Command::FxTransfer(FxTransferCommand::Fulfil(FulfilFxTransfer {
        fx_transfer: id(FX_TRANSFER).into(),
        source: fsp("forex"),
        destination: Some(fsp("greenbank")),
        state: FulfilState::Reserved,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint: [FX_TRANSFER + 1; 16],
    }))
}

fn prepare(journal: &TestJournal) -> Command {
    let Command::Prepare(prepare) = journal.prepare_command(TRANSFER, "100") else { unreachable!() };
    Command::Prepare(Prepare { currency: tzs(), ..prepare })
}

/// The first steps, of four, of a payment in two currencies.
pub(super) fn after(steps: usize) -> TestJournal {
    let mut journal = world();
    for step in 0..steps {
        let command = next(&journal, step);
        journal.command(&command, Payload::default());
    }
    journal
}

fn next(journal: &TestJournal, step: usize) -> Command {
    match step {
        0 => convert(journal),
        1 => fulfil_fx_transfer(),
        2 => prepare(journal),
        _ => journal.fulfil_command(TRANSFER),
    }
}

#[test]
fn payment_in_two_currencies_is_sound_after_each_step() {
    for steps in 0..=4 {
        let mut journal = after(steps);
        let state = journal.ledger.clone();
        journal.write_snapshot(&state);
        let report = audited(&mut journal);
        assert_eq!(report.findings, Vec::<String>::new(), "after {steps} steps");
    }
}

/// The number of earlier steps, the fault of the next one, and its finding.
type Case = (usize, fn(&mut Decision), &'static str);

const CASES: &[Case] = &[
    (
        0,
        |decision| {
            let Event::FxTransferPrepared(fx_transfer) = &mut decision.events[0] else { unreachable!() };
            fx_transfer.source.amount = amount("500.5");
        },
        "takes its debtor's position over its cover",
    ),
    (
        0,
        |decision| {
            let Event::FxTransferPrepared(fx_transfer) = &mut decision.events[0] else { unreachable!() };
            let accounts = fx_transfer.accounts.as_mut().unwrap();
            std::mem::swap(&mut accounts.initiator_source, &mut accounts.fxp_source);
        },
        "is reserved on an account that is not its party's position",
    ),
    (0, |decision| decision.callbacks.clear(), "is reserved, but not forwarded exactly once"),
    (
        1,
        |decision| {
            let Event::FxTransferFulfilled { fulfilment, .. } = &mut decision.events[0] else {
                unreachable!()
            };
            fulfilment[7] ^= 1;
        },
        "is fulfilled with a value that is not the preimage of its condition",
    ),
    (
        3,
        |decision| decision.events.retain(|event| !matches!(event, Event::FxTransferCommitted { .. })),
        "is still in flight although its transfer",
    ),
    (
        3,
        |decision| {
            let ended = Event::FxTransferAborted {
                id: fx_transfer_id(),
                kind: AbortKind::Expired,
                cause: Refusal::Expired.into(),
                answer: None,
            };
            decision.events[1] = ended;
        },
        "is aborted although its transfer is committed",
    ),
    (
        2,
        |decision| {
            let alone = Event::FxTransferAborted {
                id: fx_transfer_id(),
                kind: AbortKind::ByPayee,
                cause: Refusal::Expired.into(),
                answer: None,
            };
            (decision.actor, decision.events) = (Actor::Dfsp(fsp("forex")), vec![alone]);
        },
        "is fulfilled and aborted without its transfer",
    ),
    (
        2,
        |decision| {
            let alone = Event::FxTransferCommitted {
                id: fx_transfer_id(),
                settled: upesi_ledger::SettlementMode::InWindow,
                further: None,
            };
            decision.events = vec![alone];
        },
        "is committed without its transfer",
    ),
];

#[test]
fn faults_of_fx_transfers_are_found() {
    for (steps, damage, expected) in CASES {
        let mut journal = after(*steps);
        let mut decision = journal.decide(&next(&journal, *steps));
        damage(&mut decision);
        journal.write(&decision, Payload::default());
        let findings = audited(&mut journal).findings;
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
    }
}

/// A payment in two currencies up to the commit. A rule of the second currency would charge it, but its payer has no
/// account in that currency.
fn before_the_fee() -> TestJournal {
    let mut journal = after(3);
    journal.admin(AdminCommand::CreateFeeRule(NewFeeRule {
        terms: FeeTerms {
            name: "WALLET".into(),
            currency: tzs(),
            payers: Vec::new(),
            payees: Vec::new(),
            amount_min: Amount::ZERO,
            amount_max: None,
            rate: 15_000,
            decimals: 2,
            fixed: Amount::ZERO,
            paid_by: FeePayer::Payer,
        },
        from: None,
        until: None,
    }));
    journal
}

#[test]
fn fee_without_account_in_a_converted_payment_is_audited() {
    type Change = fn(&mut Vec<Event>);
    let is_fee = |event: &Event| matches!(event, Event::FeeNotCharged { .. });
    let changes: [Option<Change>; 5] = [
        None,
        Some(|events| events.retain(|event| !matches!(event, Event::FeeNotCharged { .. }))),
        Some(|events| {
            let Some(Event::FeeNotCharged { reason, .. }) = events.last_mut() else { unreachable!() };
            *reason = NoFee::Room;
        }),
        Some(|events| {
            let Some(Event::FeeNotCharged { amount: due, .. }) = events.last_mut() else { unreachable!() };
            *due = amount("1.51");
        }),
        Some(|events| {
            let Some(Event::FeeNotCharged { transfer, rule, amount, .. }) = events.pop() else {
                unreachable!()
            };
            // From the FXP, which has an account for fees in the currency, to the payee.
            let (payer, payee) = (AccountId::new(9).unwrap(), AccountId::new(10).unwrap());
            events.push(Event::FeeCharged { transfer, rule, payer, payee, amount });
        }),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut journal = before_the_fee();
        let mut decision = journal.decide(&next(&journal, 3));
        let fee = decision.events.iter().find(|event| is_fee(event)).cloned();
        let (transfer, reason) = (id(TRANSFER), NoFee::Account);
        assert_eq!(fee, Some(Event::FeeNotCharged { transfer, rule: 1, amount: amount("1.5"), reason }));
        // Fees are moved to the end of the events, where the cases expect them.
        decision.events.sort_by_key(is_fee);
        if let Some(change) = change {
            change(&mut decision.events);
        }
        journal.write(&decision, Payload::default());
        let findings = audited(&mut journal).findings;
        let found = findings.iter().any(|finding| finding.contains("it records the fees"));
        assert_eq!(found, change.is_some(), "case {at}: {findings:?}");
        assert!(change.is_some() || findings.is_empty(), "{findings:?}");
    }
}

fn segment(steps: usize) -> (TestJournal, Vec<u8>) {
    let mut journal = after(steps);
    journal.close();
    let bytes = std::fs::read(&journal.segments()[0]).unwrap();
    (journal, bytes)
}

/// A flipped bit in the record of each step is damage, and the findings before it are reported.
#[test]
fn damaged_record_of_an_fx_transfer_is_found() {
    let first = world().ledger.last_seq() + 1;
    for step in 0..4 {
        let (mut journal, mut bytes) = segment(4);
        // The same journal without it ends where its frame begins.
        let before = segment(step).1;
        let frame = (0..bytes.len()).find(|at| before.get(*at) != bytes.get(*at)).unwrap();
        bytes[frame + 90] ^= 0x10;
        std::fs::write(&journal.segments()[0], bytes).unwrap();
        let report = audited(&mut journal);
        assert!(
            report.findings.iter().any(|one| one.contains("is damaged at byte")),
            "{:?}",
            report.findings
        );
        assert_eq!(report.last_seq, first + step as u64 - 1, "step {step}");
    }
}

/// The archive must hold each FX transfer as the journal decided it.
#[test]
fn fx_transfer_that_the_archive_changed_or_lost_is_found() {
    type Change = fn(Vec<u8>) -> Option<Vec<u8>>;
    let with = |change: Change| {
        let mut journal = after(4);
        let archive = FjallArchive::open(journal.path.join("archive"), &ArchiveOptions::default()).unwrap();
        let seq = journal.ledger.last_seq();
        let mut entries = Vec::new();
        for transfer in journal.ledger.drain_finished(seq) {
            let mut bytes = Vec::new();
            transfer.encode(&mut Encoder(&mut bytes));
            entries.push((transfer.id, bytes));
        }
        for (_, fx_transfer) in journal.ledger.take_finished_fx_transfers(seq) {
            let mut bytes = Vec::new();
            fx_transfer.encode(&mut Encoder(&mut bytes));
            entries.extend(change(bytes).map(|bytes| (fx_transfer.id.archive_key(), bytes)));
        }
        archive.apply(&entries, seq).unwrap();
        archive.sync().unwrap();
        drop(archive);
        audited(&mut journal)
    };
    let report = with(Some);
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!((report.archive.compared, report.archive.stored), (2, 2));
    let lost = with(|_| None).findings;
    assert!(
        lost[0].starts_with("FX transfer ") && lost[0].ends_with("but is not in the archive"),
        "{lost:?}"
    );
    for at in [3, 40, 60] {
        let changed = match at {
            3 => with(|mut bytes| {
                bytes[3] ^= 1;
                Some(bytes)
            }),
            40 => with(|mut bytes| {
                bytes[40] ^= 1;
                Some(bytes)
            }),
            _ => with(|mut bytes| {
                bytes.truncate(60);
                Some(bytes)
            }),
        };
        let found = changed.findings.iter().any(|finding| finding.starts_with("FX transfer "));
        assert!(found, "byte {at}: {:?}", changed.findings);
    }
}
