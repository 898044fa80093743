//! What operators are told while a part of the hub fails: the engine's queue is full, the archive cannot be read, the
//! disk failed the store.

use crate::common::{Hub, Settings, id, refusal};
use crate::held::HeldEngine;
use upesi_engine::SubmitError;
use upesi_journal::sim_disk::{Fault, SimDisk};

const HUB_ACCOUNT: &str = r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#;

#[tokio::test]
async fn a_full_queue_is_busy_and_recovers() {
    let hub = Hub::launch(Settings { queue_commands_max: 1, ..Settings::default() });
    let held = HeldEngine::hold(&hub.handle);
    let busy = (503, refusal(2005, "Server busy - the hub is busy"));
    let transfer = format!("/transfers/{}", id(1));
    for (method, path, body) in [
        ("GET", "/participants", ""),
        ("GET", transfer.as_str(), ""),
        ("POST", "/participants/Hub/accounts", HUB_ACCOUNT),
    ] {
        assert_eq!(hub.call(method, path, body).await, busy, "{method} {path}");
    }
    // What needs no engine is answered all the same, and so are mistakes.
    hub.get("/health").await;
    hub.expect("POST", "/participants/Hub/accounts", "{}", 400).await;
    held.release();
    // Where a question finds room, the command before it has left the queue.
    while hub.handle.read(|_| ()).await == Err(SubmitError::Busy) {
        std::thread::yield_now();
    }
    hub.expect("POST", "/participants/Hub/accounts", HUB_ACCOUNT, 201).await;
}

#[tokio::test]
async fn an_archive_that_cannot_be_read_is_the_hubs_fault() {
    let hub = Hub::start();
    hub.handle.archive().unwrap().apply(&[(id(1), b"rotten".to_vec())], 0).unwrap();
    let text = "Internal server error - the archive of finished transfers cannot be read: ";
    let told = format!(r#"{{"errorInformation":{{"errorCode":"2001","errorDescription":"{text}"#);
    for path in ["transfers", "transactions"] {
        let (status, body) = hub.call("GET", &format!("/{path}/{}", id(1)), "").await;
        assert!(status == 500 && body.starts_with(&told), "{path}: {status} {body}");
    }
    let absent = refusal(3208, &format!("Transfer ID not found - There is no transfer {}", id(2)));
    let (_, body) = hub.call("GET", &format!("/transfers/{}", id(2)), "").await;
    assert_eq!(body, absent, "others can be looked up");
}

#[tokio::test]
async fn a_store_that_its_disk_failed_is_told_of_while_payments_go_on() {
    let disk = SimDisk::new(1);
    let hub = Hub::launch(Settings { store_log: Some(disk.clone()), ..Settings::default() });
    hub.prepare_scheme().await;
    hub.onboard("green", 0).await;
    let (known, other) = ("/directory/parties/MSISDN/26097", "/directory/parties/MSISDN/26098");
    let owner = r#"{"fspId":"green"}"#;
    hub.expect("PUT", known, owner, 204).await;
    let parts = |store: &str| {
        let well = |name: &str| format!(r#"{{"name":"{name}","status":"OK"}}"#);
        let [journal, archive, engine, clock, datastore, broker] =
            ["journal", "archive", "engine", "clock", "datastore", "broker"].map(well);
        format!(r#""services":[{journal},{archive},{engine},{clock},{store},{datastore},{broker}]}}"#)
    };
    let health = hub.get("/health").await;
    assert!(health.ends_with(&parts(r#"{"name":"store","status":"OK"}"#)), "{health}");

    let next = disk.operations().len() as u64;
    (next..next + 100).for_each(|ordinal| disk.inject(ordinal, Fault::Broken));
    // 500, unless what the store does between changes met the fault before.
    let (status, answer) = hub.call("PUT", other, owner).await;
    assert!(matches!(status, 500 | 503), "{status} {answer}");
    let refused = hub.expect("PUT", other, owner, 503).await;
    let told = r#"{"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the store in "#;
    assert!(refused.starts_with(told), "{refused}");

    let health = hub.get("/health").await;
    assert!(health.starts_with(r#"{"status":"OK","#), "{health}");
    let detail = "the disk failed it: changes are refused until a restart, reads go on";
    let down = format!(r#"{{"name":"store","status":"DOWN","detail":"{detail}"}}"#);
    assert!(health.ends_with(&parts(&down)), "{health}");
    assert!(hub.get(known).await.ends_with(r#""entries":[{"fspId":"green"}]}"#));
    assert!(hub.get(other).await.ends_with(r#""entries":[]}"#));
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
}
