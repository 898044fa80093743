//! A day with a close, a settlement and an aborted one. From the first close on, the disk fails at each operation. The
//! engine recovers from the data after a kill and after a power loss, and continues. The day ends as without a failure.

use upesi_engine::{EngineHandle, StopReason, SubmitError};
use upesi_journal::sim_disk::{DiskFault, SimDisk, SurvivingData};
use upesi_ledger::command::{AdvanceItem, NewSettlement, SettlementAbort, SettlementAdvance};
use upesi_ledger::{AdminCommand, Ledger, SettlementId, SettlementState, WindowId};
use upesi_testsupport::scheme::{admin, fulfil, id, prepare, try_onboard};

use super::{runtime, soon, start};

const DFSPS: [&str; 3] = ["greenbank", "bluewallet", "redmoney"];
/// Steps before the first close.
const STEPS_BEFORE_CLOSE: usize = 2;
const STEPS: usize = 19;

async fn pay(engine: &EngineHandle, number: u64, payer: usize, value: &str) -> Result<(), SubmitError> {
    let (payer, payee) = (DFSPS[payer % 3], DFSPS[(payer + 1) % 3]);
    let payload = super::Payload { headers: "a: b\r\n".into(), body: "{}".into() };
    engine.submit(prepare(id(number), payer, payee, value, soon()), payload.clone()).await?;
    engine.submit(fulfil(id(number), payer, payee), payload).await.map(drop)
}

async fn settle(engine: &EngineHandle, number: u32, window: u32) -> Result<(), SubmitError> {
    // A window of an aborted settlement would be taken again.
    if engine.read(move |ledger| ledger.settlement(SettlementId(number)).is_some()).await? {
        return Ok(());
    }
    let windows = vec![WindowId(window)];
    let new = NewSettlement { model: "DEFERREDNET".into(), reason: "end of day".into(), windows };
    admin(engine, AdminCommand::CreateSettlement(new)).await.map(drop)
}

/// Advances the selected accounts: all of them or a part.
async fn advance(
    engine: &EngineHandle,
    number: u32,
    state: SettlementState,
    keep: fn(usize) -> bool,
) -> Result<(), SubmitError> {
    let id = SettlementId(number);
    let items = engine.read(move |ledger| {
        let accounts = ledger.settlement(id).map_or(&[][..], |settlement| &settlement.accounts).iter();
        let item = |account: &upesi_ledger::SettlementAccount| AdvanceItem {
            participant: ledger.account(account.account).unwrap().participant.number(),
            account: account.account.number(),
            state,
            reason: "paid".into(),
            external_reference: None,
        };
        accounts.enumerate().filter(|(at, _)| keep(*at)).map(|(_, account)| item(account)).collect()
    });
    let advance = SettlementAdvance { id, items: items.await? };
    admin(engine, AdminCommand::AdvanceSettlement(advance)).await.map(drop)
}

/// A step of the day. A repeated step is rejected, or changes nothing.
async fn step(engine: &EngineHandle, number: usize) -> Result<(), SubmitError> {
    use SettlementState as S;
    let all = |_: usize| true;
    let close = |window| {
        let (id, reason) = (WindowId(window), "end of day".into());
        admin(engine, AdminCommand::CloseWindow { id, reason })
    };
    match number {
        0 => try_onboard(engine, &DFSPS).await.map(drop),
        1 => {
            for (number, value) in (1..).zip(["100.25", "7", "30.5", "0.0001", "12"]) {
                pay(engine, number, number as usize, value).await?;
            }
            Ok(())
        }
        2 => close(1).await.map(drop),
        3 => pay(engine, 8, 0, "55").await,
        4 => settle(engine, 1, 1).await,
        5 => advance(engine, 1, S::Recorded, all).await,
        6 => advance(engine, 1, S::Reserved, all).await,
        7 => advance(engine, 1, S::Committed, all).await,
        8 => advance(engine, 1, S::Settled, |at| at == 0).await,
        9 => advance(engine, 1, S::Settled, |at| at > 0).await,
        10 => close(2).await.map(drop),
        11 => settle(engine, 2, 2).await,
        12 => advance(engine, 2, S::Recorded, all).await,
        13 => advance(engine, 2, S::Reserved, all).await,
        14 => {
            let (id, reason) = (SettlementId(2), "bank unavailable".into());
            let abort = SettlementAbort { id, reason, external_reference: None };
            admin(engine, AdminCommand::AbortSettlement(abort)).await.map(drop)
        }
        15 => settle(engine, 3, 2).await,
        16 => {
            advance(engine, 3, S::Recorded, all).await?;
            advance(engine, 3, S::Reserved, all).await
        }
        17 => advance(engine, 3, S::Committed, all).await,
        _ => advance(engine, 3, S::Settled, all).await,
    }
}

async fn day(engine: &EngineHandle) -> Result<(), SubmitError> {
    for number in 0..STEPS {
        step(engine, number).await?;
    }
    Ok(())
}

/// Balances, the content of each window, and the end of each settlement with the net of each account.
fn end_of_day(ledger: &Ledger) -> String {
    let mut lines: Vec<_> = ledger
        .accounts()
        .iter()
        .map(|account| format!("account {} has {}", account.id.number(), account.balance))
        .collect();
    for window in ledger.windows() {
        let pairs = ledger.window_pairs(window);
        lines.push(format!("window {} is {} of {pairs:?}", window.id.0, window.state.as_str()));
    }
    for settlement in ledger.settlements() {
        let nets: Vec<_> = settlement
            .accounts
            .iter()
            .map(|one| (one.account.number(), one.net, one.state.as_str()))
            .collect();
        lines.push(format!("settlement {} is {} of {nets:?}", settlement.id.0, settlement.state.as_str()));
    }
    lines.join("\n")
}

async fn told(engine: &EngineHandle) -> String {
    let (findings, end) =
        engine.read(|ledger| (upesi_ledger::audit::check(ledger), end_of_day(ledger))).await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    end
}

#[test]
fn a_close_and_each_stage_survive_a_crash_at_any_operation() {
    runtime().block_on(async {
        let disk = SimDisk::new(0);
        let (engine, handle) = start(&disk);
        for number in 0..STEPS_BEFORE_CLOSE {
            step(&handle, number).await.unwrap();
        }
        let first = disk.operations().len();
        let seq = |handle: &EngineHandle| {
            let handle = handle.clone();
            async move { handle.read(Ledger::last_seq).await.unwrap() }
        };
        let before = seq(&handle).await;
        for number in STEPS_BEFORE_CLOSE..STEPS {
            step(&handle, number).await.unwrap();
        }
        let expected = told(&handle).await;
        let records = seq(&handle).await - before;
        engine.shutdown();
        for state in ["window 1 is SETTLED", "window 2 is SETTLED", "settlement 2 is ABORTED"] {
            assert!(expected.contains(state), "{expected}");
        }
        let last = disk.operations().len();
        let mut ends = std::collections::BTreeSet::new();
        for ordinal in first..last {
            ends.extend(crash_at(ordinal as u64, &expected).await);
        }
        // Every record was once the last one that was durable, and once not durable.
        let between: Vec<_> = (before..before + records).filter(|seq| !ends.contains(seq)).collect();
        assert!(
            between.is_empty(),
            "no crash came behind the records {between:?} of {before}…{}",
            before + records
        );
    });
}

/// Fails at an operation, and completes the day with the remaining data. Returns the last durable records.
async fn crash_at(ordinal: u64, expected: &str) -> Vec<u64> {
    let disk = SimDisk::new(ordinal);
    disk.inject(ordinal, DiskFault::Broken);
    let (engine, handle) = start(&disk);
    match day(&handle).await {
        // The operation was part of the shutdown.
        Ok(()) => engine.shutdown(),
        Err(error) => {
            assert_eq!(error, SubmitError::Stopped, "operation {ordinal}");
            assert!(matches!(handle.stopped().await, StopReason::Journal(_)), "operation {ordinal}");
            drop(engine);
        }
    }
    let mut kept = Vec::new();
    for after in [
        disk.after_kill(),
        disk.after_power_loss(SurvivingData::Nothing),
        disk.after_power_loss(SurvivingData::Some(ordinal)),
    ] {
        let (engine, handle) = start(&after);
        kept.push(handle.read(Ledger::last_seq).await.unwrap());
        let found = told(&handle).await;
        day(&handle).await.unwrap_or_else(|error| panic!("operation {ordinal}: {error}"));
        assert_eq!(told(&handle).await, expected, "operation {ordinal}, which left\n{found}");
        engine.shutdown();
    }
    kept
}
