//! Callbacks to a sender wait until the sender has its answer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use upesi_engine::{
    ANSWER_TAKES, AnswerListener, DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions,
    Participants, Payload, ReplyTo,
};
use upesi_ledger::command::Get;
use upesi_ledger::{CallbackKey, Command, ParticipantId};
use upesi_testsupport::scheme::{TestClock, id, name, onboard, prepare};
use upesi_types::Timestamp;

const START_MS: i64 = 1_900_000_000_000;
const AMPLE: Duration = Duration::from_secs(60);

/// Events in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Published { transfer: String, asker: Option<ParticipantId> },
    Answer(String),
    MayGo(String),
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Event>>>);

impl Log {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn place(&self, event: &Event) -> usize {
        self.events().iter().position(|found| found == event).unwrap_or_else(|| panic!("no {event:?}"))
    }

    fn may_go(&self) -> usize {
        self.events().iter().filter(|event| matches!(event, Event::MayGo(_))).count()
    }

    async fn until_may_go(&self, count: usize) {
        let started = Instant::now();
        while self.may_go() < count {
            assert!(started.elapsed() < AMPLE, "{} of {count}", self.may_go());
            tokio::task::yield_now().await;
        }
        assert_eq!(self.may_go(), count);
    }
}

fn transfer(record: &DurableRecord) -> String {
    record.callbacks[0].subject.id.to_string()
}

impl Effects for Log {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.note(Event::Published { transfer: transfer(record), asker: record.asker });
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}

    fn answers(&self) -> Option<Arc<dyn AnswerListener>> {
        Some(Arc::new(self.clone()))
    }
}

impl AnswerListener for Log {
    fn answered(&self, records: &[Arc<DurableRecord>]) {
        records.iter().for_each(|record| self.note(Event::MayGo(transfer(record))));
    }
}

/// Callbacks do not wait for answers.
struct WithoutAnswers(Log);

impl Effects for WithoutAnswers {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.0.publish(record);
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

async fn start(directory: &TempDir, log: &Log) -> (Engine, EngineHandle, ParticipantId) {
    start_with(directory, log.clone()).await
}

async fn start_with(
    directory: &TempDir,
    effects: impl Effects + 'static,
) -> (Engine, EngineHandle, ParticipantId) {
    let clock = TestClock::starting_at(START_MS);
    let options = EngineOptions { clock, ..EngineOptions::new(directory.path()) };
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(effects)).unwrap();
    onboard(&handle, &["greenbank", "bluewallet"]).await;
    let greenbank = handle.read(|ledger| ledger.participant_id(&name("greenbank"))).await.unwrap().unwrap();
    (engine, handle, greenbank)
}

fn get(number: u64) -> Command {
    Command::Get(Get { transfer: id(number).into(), source: name("greenbank"), is_proxied: false })
}

/// Rejected, because its payee is unknown.
fn refused(number: u64) -> Command {
    prepare(id(number), "greenbank", "nobody", "1", Timestamp::from_ms(START_MS + 30_000))
}

#[tokio::test]
async fn sender_has_its_answer_before_its_callback_is_released() {
    const COUNT: u64 = 500;
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, greenbank) = start(&directory, &log).await;
    let tasks: Vec<_> = (1..=COUNT)
        .map(|number| {
            let (handle, log) = (handle.clone(), log.clone());
            tokio::spawn(async move {
                // The commands are queries for unknown transfers, and prepares that are rejected because of an unknown
                // payee.
                let command = match number % 2 {
                    0 => get(number),
                    _ => {
                        prepare(id(number), "greenbank", "nobody", "1", Timestamp::from_ms(START_MS + 30_000))
                    }
                };
                handle.submit(command, Payload::default()).await.unwrap();
                log.note(Event::Answer(id(number).to_string()));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    log.until_may_go(COUNT as usize).await;
    for number in 1..=COUNT {
        let transfer = id(number).to_string();
        let published = log.place(&Event::Published { transfer: transfer.clone(), asker: Some(greenbank) });
        let answer = log.place(&Event::Answer(transfer.clone()));
        let may_go = log.place(&Event::MayGo(transfer));
        assert!(published < answer && answer < may_go, "{number}: {published} {answer} {may_go}");
    }
    engine.shutdown();
}

/// The other node needs time to forward the answer.
#[tokio::test]
async fn callback_waits_longer_if_another_node_sends_the_answer() {
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, _) = start(&directory, &log).await;
    handle.submit_for(ReplyTo::Node, refused(1), Payload::default()).await.unwrap();
    let answered = Instant::now();
    log.until_may_go(1).await;
    assert!(answered.elapsed() >= ANSWER_TAKES, "after {:?}", answered.elapsed());
    engine.shutdown();
}

#[tokio::test]
async fn a_callback_to_the_other_party_waits_for_no_answer() {
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, _) = start(&directory, &log).await;
    let prepare = prepare(id(1), "greenbank", "bluewallet", "1", Timestamp::from_ms(START_MS + 30_000));
    handle.submit(prepare, Payload::default()).await.unwrap();
    log.place(&Event::Published { transfer: id(1).to_string(), asker: None });
    // Afterwards another held callback takes the same way.
    handle.submit(get(2), Payload::default()).await.unwrap();
    log.until_may_go(1).await;
    engine.shutdown();
}

#[tokio::test]
async fn records_have_no_requester_if_callbacks_do_not_wait() {
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, _) = start_with(&directory, WithoutAnswers(log.clone())).await;
    let published = |number| Event::Published { transfer: id(number).to_string(), asker: None };
    for (number, command) in [(1, refused(1)), (2, get(2))] {
        handle.submit(command, Payload::default()).await.unwrap();
        assert_eq!(log.events().last(), Some(&published(number)));
    }
    engine.shutdown();
}

#[tokio::test]
async fn one_task_sends_the_replies_of_a_runtime() {
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, _) = start(&directory, &log).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for number in 1..=20 {
        handle.submit(get(number), Payload::default()).await.unwrap();
    }
    assert_eq!((before, tasks()), (1, 1));
    engine.shutdown();
}

/// A sender that hangs up, at any moment, still gets its callback.
#[tokio::test]
async fn callbacks_of_disconnected_senders_are_released() {
    const COUNT: u64 = 200;
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let (engine, handle, _) = start(&directory, &log).await;
    for number in 1..=COUNT {
        let asking = handle.clone();
        let task = tokio::spawn(async move { asking.submit(refused(number), Payload::default()).await });
        // Submitted, and perhaps answered.
        for _ in 0..number % 4 + 1 {
            tokio::task::yield_now().await;
        }
        task.abort();
    }
    // The earlier commands have been decided.
    handle.submit(refused(COUNT + 1), Payload::default()).await.unwrap();
    let published = log.events().iter().filter(|event| matches!(event, Event::Published { .. })).count();
    assert!(published > COUNT as usize / 2, "{published}");
    log.until_may_go(published).await;
    engine.shutdown();
}

/// A sender whose whole runtime ends still gets its callback.
#[test]
fn callbacks_of_an_ended_runtime_are_released() {
    let (directory, log) = (TempDir::new().unwrap(), Log::default());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lasting = runtime();
    let (engine, handle, _) = lasting.block_on(start(&directory, &log));
    for number in 1..=50 {
        let short = runtime();
        let asking = handle.clone();
        short.block_on(async {
            tokio::spawn(async move { asking.submit(refused(number), Payload::default()).await });
            tokio::task::yield_now().await;
        });
    }
    lasting.block_on(async {
        handle.submit(refused(51), Payload::default()).await.unwrap();
        let published = log.events().iter().filter(|event| matches!(event, Event::Published { .. })).count();
        assert_eq!(published, 51);
        log.until_may_go(51).await;
    });
    engine.shutdown();
}
