//! Stories of a running engine in a real directory: acknowledged data stays, across restarts of every kind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use upesi_engine::{
    Availability, Clock as _, DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions,
    NoEffects, Participants, Payload, RequestKind, StartError, StopReason, SubmitError,
};
use upesi_ledger::command::{
    AbortFxTransfer, AskedMoney, FulfilFxTransfer, FulfilState, Fulfilment, FxTransferCommand,
    PrepareFxTransfer,
};
use upesi_ledger::{CallbackContent, CallbackKey, Cause, Command, PublicState, Refusal, Reply, StateMethod};
use upesi_testsupport::scheme::{
    PREIMAGE, TestClock, amount, fulfil, id, name, onboard, onboard_in, position, prepare,
};
use upesi_types::{Currency, ErrorCode, FxTransferId, Timestamp};

const START_MS: i64 = 1_900_000_000_000;

fn options(directory: &TempDir, clock: &Arc<TestClock>) -> EngineOptions {
    EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: 16 * 1024,
        fold_every_records: 8,
        snapshot_every_records: 32,
        clock: Arc::clone(clock) as _,
        ..EngineOptions::new(directory.path())
    }
}

fn start(directory: &TempDir, clock: &Arc<TestClock>) -> (Engine, EngineHandle) {
    Engine::start(options(directory, clock), EngineMetrics::default(), Box::new(NoEffects)).unwrap()
}

fn payload(body: &str) -> Payload {
    Payload { headers: "content-type: text/plain\r\n".into(), body: body.to_owned().into() }
}

async fn accepted(engine: &EngineHandle, command: Command, body: &str) {
    assert_eq!(engine.submit(command, payload(body)).await, Ok(Reply::Accepted));
}

fn soon() -> Timestamp {
    Timestamp::from_ms(START_MS + 30_000)
}

/// Collects published records.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Arc<DurableRecord>>>>);

impl Effects for Kept {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.0.lock().unwrap().push(Arc::clone(record));
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

/// Collects the times between transfers' prepares and their ends.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<Duration>>>);

impl Effects for Ends {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.0.lock().unwrap().extend(record.prepared_before);
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

/// Collects the callbacks that are to be tried again.
#[derive(Clone, Default)]
struct Again(Arc<Mutex<Vec<CallbackKey>>>);

impl Effects for Again {
    fn publish(&mut self, _: &Arc<DurableRecord>) {}

    fn redeliver(&mut self, keys: &[CallbackKey]) {
        self.0.lock().unwrap().extend_from_slice(keys);
    }

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

#[tokio::test]
async fn money_moves_and_survives_a_restart() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    accepted(&handle, prepare(id(1), "greenbank", "bluewallet", "125.5", soon()), "prepare 1").await;
    accepted(&handle, prepare(id(2), "greenbank", "bluewallet", "10", soon()), "prepare 2").await;
    assert_eq!(position(&handle, "greenbank").await, amount("135.5"));
    accepted(&handle, fulfil(id(1), "greenbank", "bluewallet"), "fulfil 1").await;
    engine.shutdown();

    let (engine, handle) = start(&directory, &clock);
    assert_eq!(position(&handle, "greenbank").await, amount("135.5"));
    assert_eq!(position(&handle, "bluewallet").await, amount("-125.5"));
    let committed = handle.transfer(id(1)).await.unwrap().unwrap();
    assert_eq!(committed.public_state(), PublicState::Committed);
    assert_eq!(handle.payload(committed.prepare_seq).await.unwrap().unwrap(), payload("prepare 1"));
    accepted(&handle, fulfil(id(2), "greenbank", "bluewallet"), "fulfil 2").await;
    assert_eq!(position(&handle, "bluewallet").await, amount("-135.5"));
    let findings = handle.read(upesi_ledger::audit::check).await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    engine.shutdown();
}

#[tokio::test]
async fn finished_transfers_leave_memory_and_are_still_known() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    let count = 200;
    for number in 0..count {
        accepted(&handle, prepare(id(number), "greenbank", "bluewallet", "1", soon()), "prepare").await;
        accepted(&handle, fulfil(id(number), "greenbank", "bluewallet"), "fulfil").await;
    }
    engine.shutdown();
    // After an orderly end everything is archived and the snapshot covers the journal, so nothing is replayed.
    let (engine, handle) = start(&directory, &clock);
    assert_eq!(handle.read(upesi_ledger::Ledger::finished_len).await, Ok(0));
    for number in 0..count {
        let found = handle.transfer(id(number)).await.unwrap().unwrap();
        assert_eq!(found.public_state(), PublicState::Committed, "{number}");
    }
    // A repeated prepare of an archived transfer returns the outcome and moves nothing.
    accepted(&handle, prepare(id(3), "greenbank", "bluewallet", "1", soon()), "prepare").await;
    accepted(&handle, fulfil(id(4), "greenbank", "bluewallet"), "fulfil").await;
    assert_eq!(position(&handle, "greenbank").await, amount("200"));
    assert_eq!(position(&handle, "bluewallet").await, amount("-200"));
    engine.shutdown();
}

#[tokio::test]
async fn deleted_archive_is_rebuilt_from_the_journal() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    for number in 0..100 {
        accepted(&handle, prepare(id(number), "greenbank", "bluewallet", "1", soon()), "prepare").await;
        accepted(&handle, fulfil(id(number), "greenbank", "bluewallet"), "fulfil").await;
    }
    engine.shutdown();
    std::fs::remove_dir_all(directory.path().join("archive")).unwrap();
    let (engine, handle) = start(&directory, &clock);
    for number in 0..100 {
        assert!(handle.transfer(id(number)).await.unwrap().is_some(), "{number}");
    }
    engine.shutdown();
}

#[tokio::test]
async fn undelivered_callbacks_survive_and_can_be_read_back() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let kept = Kept::default();
    let (engine, handle) =
        Engine::start(options(&directory, &clock), EngineMetrics::default(), Box::new(kept.clone())).unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    accepted(&handle, prepare(id(1), "greenbank", "bluewallet", "1", soon()), "the body").await;
    let record = kept.0.lock().unwrap().last().cloned().unwrap();
    let key = record.keys().next().unwrap();
    assert_eq!((record.callbacks.len(), &record.callbacks[0].content), (1, &CallbackContent::ForwardPrepare));
    engine.shutdown();

    let (engine, handle) = start(&directory, &clock);
    let pending = handle.pending_callbacks(key.target, None, 10).await.unwrap().callbacks;
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].key, pending[0].callback()), (key, &record.callbacks[0]));
    assert_eq!(pending[0].record, record);
    let beyond = CallbackKey { index: key.index + 1, ..key };
    assert_eq!(handle.callbacks(vec![beyond, key]).await, Ok(pending), "the record owes no other");
    assert_eq!(
        handle.pending_callbacks(key.target, Some((key.seq, key.index)), 10).await.unwrap().callbacks,
        []
    );
    handle.submit_quietly(Command::Delivered(vec![key])).unwrap();
    assert_eq!(handle.pending_callbacks(key.target, None, 10).await.unwrap().callbacks, []);
    engine.shutdown();
    let (engine, handle) = start(&directory, &clock);
    assert_eq!(handle.read(|ledger| ledger.outbox().len()).await, Ok(0));
    engine.shutdown();
}

#[tokio::test]
async fn parked_callbacks_are_listed_and_put_back() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let again = Again::default();
    let started =
        Engine::start(options(&directory, &clock), EngineMetrics::default(), Box::new(again.clone()));
    let (engine, handle) = started.unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    accepted(&handle, prepare(id(1), "greenbank", "bluewallet", "1", soon()), "").await;
    let key: CallbackKey = handle.read(|ledger| ledger.outbox().iter().next().unwrap().0).await.unwrap();
    handle.submit_quietly(Command::Park { key, attempts: 7, reason: "refused".into() }).unwrap();
    let parked = handle.read(move |ledger| ledger.outbox().get(key).unwrap().parked.cloned()).await.unwrap();
    assert_eq!(parked.map(|parked| (parked.attempts, parked.reason)), Some((7, "refused".into())));
    assert_eq!(handle.pending_callbacks(key.target, None, 10).await.unwrap().callbacks, []);
    assert_eq!(*again.0.lock().unwrap(), []);
    let reply = handle.submit(Command::Redeliver(vec![key]), Payload::default()).await.unwrap();
    assert!(matches!(reply, Reply::Admin(Ok(_))), "{reply:?}");
    assert_eq!(*again.0.lock().unwrap(), [key]);
    assert_eq!(handle.pending_callbacks(key.target, None, 10).await.unwrap().callbacks.len(), 1);
    engine.shutdown();
}

#[tokio::test]
async fn due_transfers_expire_without_a_request() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let kept = Kept::default();
    let mut options = options(&directory, &clock);
    options.tick_interval = std::time::Duration::from_millis(1);
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(kept.clone())).unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    for number in 0..150 {
        accepted(&handle, prepare(id(number), "greenbank", "bluewallet", "1", soon()), "").await;
    }
    clock.advance(30_001);
    // Each query is a turn of the engine, and each turn checks the deadlines, so this loop ends.
    while handle.read(upesi_ledger::Ledger::reserved_len).await.unwrap() > 0 {}
    assert_eq!(position(&handle, "greenbank").await, amount("0"));
    let told = kept.0.lock().unwrap().iter().flat_map(|record| record.callbacks.clone()).collect::<Vec<_>>();
    let expired =
        |content: &CallbackContent| matches!(content, CallbackContent::Error(Cause::Hub(Refusal::Expired)));
    assert_eq!(told.iter().filter(|callback| expired(&callback.content)).count(), 300);
    engine.shutdown();
}

#[tokio::test]
async fn each_change_of_positions_is_measured_once() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (ends, mut registry) = (Ends::default(), Registry::default());
    let metrics = EngineMetrics::new(&mut registry);
    let mut options = options(&directory, &clock);
    options.tick_interval = Duration::from_millis(1);
    let responses = metrics.response_times.clone();
    let (engine, handle) = Engine::start(options, metrics, Box::new(ends.clone())).unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    for number in 1..=3 {
        accepted(&handle, prepare(id(number), "greenbank", "bluewallet", "1", soon()), "").await;
    }
    // Here and below, a repetition changes nothing. A rejection is decided like any other outcome.
    accepted(&handle, prepare(id(1), "greenbank", "bluewallet", "1", soon()), "").await;
    accepted(&handle, prepare(id(4), "greenbank", "bluewallet", "9000000000", soon()), "").await;
    clock.advance(250);
    accepted(&handle, fulfil(id(1), "greenbank", "bluewallet"), "").await;
    accepted(&handle, fulfil(id(1), "greenbank", "bluewallet"), "").await;
    let get =
        upesi_ledger::command::Get { transfer: id(1).into(), source: name("greenbank"), is_proxied: false };
    handle.submit(Command::Get(get), Payload::default()).await.unwrap();
    clock.advance(30_000);
    // The other two transfers expire.
    while handle.read(upesi_ledger::Ledger::reserved_len).await.unwrap() > 0 {}
    engine.shutdown();

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let count = |series: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{series} is not in\n{text}")).parse().unwrap()
    };
    let of_handler = |name: &str| {
        count(&format!(
            r#"moja_cl_transfer_{name}_count{{serviceName="central-handler-{name}",success="true"}}"#
        ))
    };
    assert_eq!(["prepare", "fulfil", "get", "position"].map(of_handler), [5, 2, 1, 4 + 1 + 2]);
    assert!(count("upesi_engine_decide_seconds_count") > 0);
    assert!(count("upesi_engine_wait_seconds_count") > 0);
    assert_eq!(["upesi_conversions_live", "upesi_bulks_live", "upesi_fees_charged"].map(count), [0; 3]);
    assert_eq!(count("upesi_engine_decide_seconds_count"), count("upesi_engine_batch_commands_count"));
    let takes_time =
        |line: &str| line.strip_prefix("upesi_engine_decide_seconds_sum ").is_some_and(|sum| sum != "0.0");
    assert!(text.lines().any(takes_time), "{text}");
    let ends = ends.0.lock().unwrap().clone();
    let [end] = ends[..] else { panic!("one was ended by its payee: {ends:?}") };
    assert!((Duration::from_millis(249)..=Duration::from_millis(250)).contains(&end), "{end:?}");
    let [of_payee] = &responses.summaries(clock.now())[..] else { panic!("responses of the payee only") };
    let [transfers] = of_payee.kinds[..] else { panic!("for transfers only: {of_payee:?}") };
    assert_eq!((transfers.kind, transfers.recent), (RequestKind::Transfer, [1, 0, 2, 0]), "two expired");
    let p99 = transfers.p99.unwrap();
    assert!((Duration::from_millis(229)..=Duration::from_millis(263)).contains(&p99), "{p99:?}");
    let [pair] = of_payee.pairs[..] else { panic!("one payer: {of_payee:?}") };
    assert_eq!((pair.asked, pair.requests, pair.failed), (of_payee.asked, 3, 2));
}

fn fx_transfer(number: u64) -> Command {
    let money = |value: &str, currency: &str| AskedMoney {
        amount: Ok(amount(value)),
        currency: Currency::parse(currency).unwrap(),
    };
    Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
        id: FxTransferId::new(id(number)),
        determining_transfer: Some(id(number + 100)),
        source: name("greenbank"),
        destination: Some(name("fxbank")),
        initiator: name("greenbank"),
        counter_party: name("fxbank"),
        source_amount: money("10", "KES"),
        target_amount: money("1", "USD"),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at: Some(soon()),
        fingerprint: [5; 16],
    })))
}

/// Response times include FXPs like payees: answers, errors, and missing answers. The end of an FX transfer after the
/// answer is not counted.
#[tokio::test]
async fn fx_transfers_are_in_the_response_times() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let metrics = EngineMetrics::new(&mut Registry::default());
    let responses = metrics.response_times.clone();
    let mut options = options(&directory, &clock);
    options.tick_interval = Duration::from_millis(1);
    let (engine, handle) = Engine::start(options, metrics, Box::new(NoEffects)).unwrap();
    onboard(&handle, &["greenbank", "fxbank"]).await;
    onboard_in(&handle, "fxbank", Currency::parse("USD").unwrap()).await;
    for number in 1..=3 {
        accepted(&handle, fx_transfer(number), "").await;
    }
    clock.advance(250);
    let (source, destination, fingerprint) = (name("fxbank"), Some(name("greenbank")), [6; 16]);
    let fulfil = FulfilFxTransfer {
        fx_transfer: id(1).into(),
        source,
        destination,
        state: FulfilState::Reserved,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint,
    };
    accepted(&handle, Command::FxTransfer(FxTransferCommand::Fulfil(fulfil)), "").await;
    let abort = AbortFxTransfer {
        fx_transfer: id(2).into(),
        source,
        destination,
        code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
        description: "no".into(),
        fingerprint,
    };
    accepted(&handle, Command::FxTransfer(FxTransferCommand::Abort(abort)), "").await;
    clock.advance(30_000);
    // The third one expires without an answer, and so does the first one, whose transfer never comes.
    while handle.read(upesi_ledger::Ledger::live_fx_transfers_len).await.unwrap() > 0 {}
    let fxp = handle.read(|ledger| ledger.participant_id(&name("fxbank")).unwrap()).await.unwrap();
    engine.shutdown();

    let [of_fxp] = &responses.summaries(clock.now())[..] else { panic!("responses of the FXP only") };
    assert_eq!(of_fxp.asked, fxp);
    let [transfers] = of_fxp.kinds[..] else { panic!("for transfers only: {of_fxp:?}") };
    assert_eq!((transfers.kind, transfers.recent), (RequestKind::Transfer, [1, 1, 1, 0]));
    let p50 = transfers.p50.unwrap();
    assert!((Duration::from_millis(200)..=Duration::from_millis(313)).contains(&p50), "{p50:?}");
    let [pair] = of_fxp.pairs[..] else { panic!("one initiator: {of_fxp:?}") };
    assert_eq!((pair.requests, pair.failed), (3, 2));
}

#[tokio::test]
async fn query_of_a_party_is_answered_by_callback() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let kept = Kept::default();
    let (engine, handle) =
        Engine::start(options(&directory, &clock), EngineMetrics::default(), Box::new(kept.clone())).unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    accepted(&handle, prepare(id(1), "greenbank", "bluewallet", "1", soon()), "").await;
    let (transfer, source) = (id(1).into(), name("greenbank"));
    let get = upesi_ledger::command::Get { transfer, source, is_proxied: false };
    accepted(&handle, Command::Get(get.clone()), "").await;
    let unknown = upesi_ledger::command::Get { transfer: id(2).into(), ..get };
    accepted(&handle, Command::Get(unknown), "").await;
    let told = kept.0.lock().unwrap().iter().flat_map(|record| record.callbacks.clone()).collect::<Vec<_>>();
    let CallbackContent::State(StateMethod::Put, view) = &told[told.len() - 2].content else {
        panic!("{told:?}")
    };
    assert_eq!(view.state, PublicState::Reserved);
    assert!(matches!(
        &told[told.len() - 1].content,
        CallbackContent::Error(Cause::Hub(Refusal::TransferUnknown))
    ));
    engine.shutdown();
}

#[tokio::test]
async fn after_the_end_commands_are_refused() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    engine.shutdown();
    let refused = handle.submit(prepare(id(1), "a1", "b1", "1", soon()), Payload::default()).await;
    assert_eq!(refused, Err(SubmitError::Stopped));
    assert_eq!(handle.read(upesi_ledger::Ledger::last_seq).await, Err(SubmitError::Stopped));
    assert_eq!(handle.stopped().await, StopReason::Shutdown);
    assert_eq!(handle.status().serving, Availability::Stopped(StopReason::Shutdown));
}

#[tokio::test]
async fn handover_decides_accepted_commands_and_no_others() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    let taken = handle.submit(prepare(id(1), "greenbank", "bluewallet", "1", soon()), Payload::default());
    let refused = async {
        let later = prepare(id(2), "greenbank", "bluewallet", "1", soon());
        (handle.hand_over(Some(2)).await, handle.submit(later, Payload::default()).await)
    };
    let (taken, (reason, later)) = tokio::join!(biased; taken, refused);
    assert_eq!((reason, later), (StopReason::HandedOver, Err(SubmitError::Stopped)));
    assert!(matches!(taken, Ok(Reply::Accepted)), "{taken:?}");
    assert_eq!(handle.hand_over(None).await, StopReason::HandedOver, "the first one counts");
    engine.shutdown();
}

#[tokio::test]
async fn pages_of_pending_callbacks_are_complete() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, handle) = start(&directory, &clock);
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    for number in 1..=6 {
        accepted(&handle, prepare(id(number), "greenbank", "bluewallet", "1", soon()), "").await;
    }
    let payee = handle.read(|ledger| ledger.participant_id(&name("bluewallet"))).await.unwrap().unwrap();
    for (limit, expected) in [(1, vec![1; 6]), (3, vec![3, 3]), (4, vec![4, 2]), (6, vec![6]), (7, vec![6])] {
        let (mut after, mut lengths) = (None, Vec::new());
        loop {
            let page = handle.pending_callbacks(payee, after, limit).await.unwrap();
            lengths.push(page.callbacks.len());
            after = page.more_after;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(lengths, expected, "at most {limit}");
    }
    engine.shutdown();
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let mut options = options(&directory, &clock);
    options.queue_commands_max = 1;
    let metrics = EngineMetrics::default();
    let (engine, handle) = Engine::start(options, metrics.clone(), Box::new(NoEffects)).unwrap();
    // A query blocks the engine's thread, so that later commands queue up.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let holder = tokio::spawn({
        let handle = handle.clone();
        async move {
            handle
                .read(move |_| {
                    let _ = entered.send(());
                    let _ = held.recv();
                })
                .await
        }
    });
    inside.await.unwrap();
    handle.submit_quietly(Command::Tick).unwrap();
    // Queries and commands are rejected. Delivery reports are not, because a lost report would leave its callbacks
    // undelivered.
    assert_eq!(handle.read(upesi_ledger::Ledger::last_seq).await, Err(SubmitError::Busy));
    assert_eq!(handle.submit_quietly(Command::Tick), Ok(()));
    release.send(()).unwrap();
    holder.await.unwrap().unwrap();
    engine.shutdown();
    assert_eq!(metrics.refused_busy.get(), 1, "the question");
    assert_eq!(handle.submit_quietly(Command::Tick), Err(SubmitError::Stopped));
    assert_eq!(metrics.refused_busy.get(), 1, "a full queue is counted separately");
}

#[tokio::test]
async fn one_directory_has_one_engine() {
    let (directory, clock) = (TempDir::new().unwrap(), TestClock::starting_at(START_MS));
    let (engine, _handle) = start(&directory, &clock);
    let second = Engine::start(options(&directory, &clock), EngineMetrics::default(), Box::new(NoEffects));
    assert!(matches!(second, Err(StartError::Data(_))));
    engine.shutdown();
}
