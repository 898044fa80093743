//! Bulk transfers in `upesi audit`: records that contradict the rules.

use sha2::{Digest, Sha256};
use upesi_ledger::command::{BulkCommand, FulfilBulk, PrepareBulk};
use upesi_ledger::{
    AbortKind, Actor, AdminCommand, AskedItem, CallbackContent, Cause, Command, Decision, Event, ItemOutcome,
    ItemResult, NewItems, Payload, PublicBulkState, Refusal,
};
use upesi_types::{Amount, BulkId, ErrorCode};

use super::audit::audited;
use super::journal::{PREIMAGE, TestJournal, amount, fsp, id, kes};

const BULK: u8 = 60;
/// The steps of [`next`] that are requests of DFSPs.
const TAKEN: usize = 0;
const ANSWERED: usize = 5;
/// The step that ends the bulk transfer.
const ENDED: usize = 8;

fn bulk_id() -> BulkId {
    BulkId::new(id(BULK))
}

/// Three items. The second one is over the cap.
fn taken(journal: &TestJournal) -> Command {
    let item = |(number, units)| {
        let asked = AskedItem {
            amount: Ok(amount(units)),
            currency: kes(),
            ilp_packet: "DIIBeQ".into(),
            condition: Some(Sha256::digest(PREIMAGE).into()),
            extensions: None,
        };
        (id(number), asked)
    };
    let items = [(1, "12.5"), (2, "400"), (3, "7")].map(item);
    Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: bulk_id(),
        quote: id(61),
        source: fsp("greenbank"),
        destination: Some(fsp("bluebank")),
        payer: fsp("greenbank"),
        payee: fsp("bluebank"),
        items: NewItems::new(items.into()).unwrap(),
        expires_at: journal.now().plus_ms(60_000),
        fingerprint: [BULK; 16],
        extensions: None,
    })))
}

/// The first one is fulfilled, the third declined.
fn answered() -> Command {
    let declined = Cause::Payee { code: ErrorCode::PAYEE_REJECTED_TRANSACTION, description: "no".into() };
    let results = vec![
        (id(1), ItemResult::Fulfil { fulfilment: PREIMAGE, extensions: None }),
        (id(3), ItemResult::Abort(declined)),
    ];
    Command::Bulk(BulkCommand::Fulfil(Box::new(FulfilBulk {
        bulk: id(BULK).into(),
        source: fsp("bluebank"),
        destination: Some(fsp("greenbank")),
        state: PublicBulkState::Completed,
        fault: None,
        results,
        fingerprint: [BULK + 1; 16],
        extensions: None,
    })))
}

/// The following command: the bulk transfer is accepted, three items are decided, the payee receives it and answers,
/// two results take effect, the bulk transfer ends.
fn next(journal: &TestJournal, step: usize) -> Command {
    match step {
        TAKEN => taken(journal),
        ANSWERED => answered(),
        _ => Command::StepBulk,
    }
}

fn after(steps: usize) -> TestJournal {
    let mut journal = TestJournal::onboarded();
    for step in 0..steps {
        let command = next(&journal, step);
        journal.command(&command, Payload::default());
    }
    journal
}

#[test]
fn bulk_transfer_is_sound_after_each_step() {
    for steps in 0..=ENDED + 1 {
        let mut journal = after(steps);
        let state = journal.ledger.clone();
        journal.write_snapshot(&state);
        let report = audited(&mut journal);
        assert_eq!(report.findings, Vec::<String>::new(), "after {steps} steps");
        assert_eq!(journal.ledger.live_bulks_len(), usize::from((1..=ENDED).contains(&steps)), "{steps}");
    }
}

/// A bulk transfer from greenbank to farbank, which is behind a proxy, or back.
fn behind_a_proxy(journal: &mut TestJournal, is_back: bool) {
    let (proxy, far, currency) = (fsp("proxybank"), fsp("farbank"), kes());
    journal.admin(AdminCommand::CreateParticipant { name: proxy, currency, is_proxy: true });
    journal.admin(AdminCommand::OpenAccounts {
        name: proxy,
        currency,
        net_debit_cap: amount("100"),
        initial_position: Amount::ZERO,
    });
    journal.admin(AdminCommand::AddProxied { proxy, name: far });
    journal.admin(AdminCommand::SetParticipantActivity { name: proxy, is_active: false });
    let Command::Bulk(BulkCommand::Prepare(mut prepare)) = taken(journal) else { unreachable!() };
    let (payer, payee) = if is_back { (far, prepare.payer) } else { (prepare.payer, far) };
    (prepare.source, prepare.payer, prepare.payee) = (payer, payer, payee);
    prepare.destination = Some(payee);
    journal.command(&Command::Bulk(BulkCommand::Prepare(prepare)), Payload::default());
    while journal.ledger.live_bulks_len() > 0 {
        journal.command(&Command::StepBulk, Payload::default());
    }
}

#[test]
fn bulk_transfer_behind_inactive_proxy_has_rejected_items() {
    for is_back in [false, true] {
        let mut journal = TestJournal::onboarded();
        behind_a_proxy(&mut journal, is_back);
        assert_eq!(journal.ledger.totals().refused, 3);
        assert_eq!(audited(&mut journal).findings, Vec::<String>::new(), "from it: {is_back}");
    }
}

/// The number of earlier steps, the fault of the next one, and its finding.
type Case = (usize, fn(&mut Decision), &'static str);

const NOT_ASKED: &str = "is accepted, but its payee does not receive the reserved items exactly once";
const NOT_TOLD: &str = "ends, but a party is not notified of the results exactly once";

fn alone(decision: &mut Decision, actor: Actor, event: Event) {
    (decision.actor, decision.events) = (actor, vec![event]);
    decision.callbacks.clear();
}

const RECEIVED_CASES: &[Case] = &[
    (
        TAKEN,
        |decision| {
            let Event::BulkReceived(bulk) = &mut decision.events[0] else { unreachable!() };
            bulk.payee = bulk.payer;
        },
        "is from a DFSP to itself",
    ),
    (
        TAKEN,
        |decision| {
            let Event::BulkReceived(bulk) = &mut decision.events[0] else { unreachable!() };
            bulk.expires_at = bulk.received_at.plus_ms(-1);
        },
        "is accepted although it expired",
    ),
    (
        1,
        |decision| {
            let Event::TransferPrepared(transfer) = &mut decision.events[0] else { unreachable!() };
            transfer.amount = Amount::parse_decimal("1.25").unwrap();
        },
        "has an item whose reservation differs from the request",
    ),
    (
        1,
        |decision| {
            let Event::BulkItemDecided { refused, .. } = &mut decision.events[1] else { unreachable!() };
            *refused = Some(Refusal::CoverShort.into());
        },
        "has an item that contradicts its transfer",
    ),
    (1, |decision| decision.events.truncate(1), "is forwarded 0 times"),
    (
        2,
        |decision| {
            let Event::BulkItemDecided { place, .. } = &mut decision.events[1] else { unreachable!() };
            *place = 2;
        },
        "is decided out of order",
    ),
];

const ASKED_CASES: &[Case] = &[
    (4, |decision| decision.callbacks.clear(), NOT_ASKED),
    (
        4,
        |decision| {
            let CallbackContent::BulkRequest(request) = &mut decision.callbacks[0].content else {
                unreachable!()
            };
            request.items.pop();
        },
        NOT_ASKED,
    ),
    (
        3,
        |decision| alone(decision, Actor::Bulks, Event::BulkAccepted { id: bulk_id() }),
        "before all its items",
    ),
    (
        5,
        |decision| {
            let Event::BulkAnswered { results, .. } = &mut decision.events[0] else { unreachable!() };
            results.insert(1, ItemResult::Abort(Refusal::Expired.into()));
        },
        "is answered for items that are not reserved",
    ),
    (
        6,
        |decision| {
            let Event::TransferCommitted { fulfilment, .. } = &mut decision.events[0] else { unreachable!() };
            *fulfilment = [8; 32];
        },
        "is committed without a committing result of its payee",
    ),
    (
        6,
        |decision| {
            let expired = Event::TransferAborted {
                id: id(1),
                kind: AbortKind::Expired,
                cause: Refusal::Expired.into(),
                fingerprint: None,
                operator_reason: None,
            };
            alone(decision, Actor::Clock, expired);
        },
        "expires although its payee has answered for it",
    ),
    (
        5,
        |decision| {
            let aborted = Event::TransferAborted {
                id: id(3),
                kind: AbortKind::ByPayee,
                cause: Refusal::Expired.into(),
                fingerprint: None,
                operator_reason: None,
            };
            alone(decision, Actor::Bulks, aborted);
        },
        "is aborted without a result of its payee",
    ),
];

const ENDED_CASES: &[Case] = &[
    (
        7,
        |decision| alone(decision, Actor::Bulks, Event::BulkEnded { id: bulk_id(), cause: None }),
        "items that are open",
    ),
    (
        ENDED,
        |decision| {
            decision.callbacks.pop();
        },
        NOT_TOLD,
    ),
    (
        ENDED,
        |decision| {
            let again = decision.callbacks[0].clone();
            decision.callbacks.push(again);
        },
        NOT_TOLD,
    ),
    (
        ENDED,
        |decision| {
            let CallbackContent::BulkState(view) = &mut decision.callbacks[0].content else { unreachable!() };
            view.state = PublicBulkState::Rejected;
        },
        NOT_TOLD,
    ),
    (
        ENDED,
        |decision| {
            let CallbackContent::BulkState(view) = &mut decision.callbacks[1].content else { unreachable!() };
            view.items[0].1 = ItemOutcome::Failed(Refusal::Expired.into());
        },
        NOT_TOLD,
    ),
];

#[test]
fn faults_of_bulk_transfers_are_found() {
    for (steps, damage, expected) in [RECEIVED_CASES, ASKED_CASES, ENDED_CASES].concat() {
        let mut journal = after(steps);
        let mut decision = journal.decide(&next(&journal, steps));
        damage(&mut decision);
        journal.write(&decision, Payload::default());
        let findings = audited(&mut journal).findings;
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
    }
}
