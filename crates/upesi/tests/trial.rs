//! Three commands make a secured hub and two DFSPs: what README and docs/tls.md say.

mod support_command;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use support_command::upesi;
use tokio::time::Instant;
use upesi_http::{Answer, Bytes, ClientTls, Full, Method, Pool, PoolConfig, Request, SendError, Target};
use upesi_pki::Trial;
use upesi_tls::ClientFiles;

/// Longer than any answer takes.
const AMPLE: Duration = Duration::from_secs(60);

/// A process that is killed with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A call with these files, or in the clear.
fn call(files: Option<ClientFiles>, url: &str, body: &'static str) -> Result<Answer, SendError> {
    let tls = files.map(|files| ClientTls::load(files).unwrap());
    let target = Target::parse(url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = Pool::new(target.origin, PoolConfig { tls, ..PoolConfig::default() });
        let method = if body.is_empty() { Method::GET } else { Method::POST };
        let request = Request::builder().method(method).uri(target.path.as_str());
        pool.send(request.body(Full::new(Bytes::from(body))).unwrap(), Instant::now() + AMPLE).await
    })
}

#[test]
fn three_commands_make_a_secured_hub_and_two_dfsps() {
    let directory = tempfile::tempdir().unwrap();
    let (dir, data) = (directory.path().join("trial"), directory.path().join("data"));
    let made = upesi(&["pki", "trial", "--dir", text(&dir), "greenbank", "bluewallet"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let ports = [free_port(), free_port()];
    let [fspiop, admin] = ports.map(|port| format!("127.0.0.1:{port}"));
    let hub = upesi(&["serve", "--config", text(&dir.join("hub.toml")), "--data", text(&data)])
        .args(["--fspiop", &fspiop, "--admin", &admin, "--set", "data.reserve_bytes=0"])
        .stderr(Stdio::null())
        .spawn();
    let _hub = Running(hub.unwrap());
    let mut dfsps = upesi(&["sim", "--trial", text(&dir), "--listen", "127.0.0.1:0", "--currency", "KES"])
        .args(["--hub", &format!("https://{fspiop}"), "--admin", &format!("https://{admin}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(dfsps.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let progress = BufReader::new(dfsps.stderr.take().unwrap()).lines().map_while(Result::ok);
    let dfsps = Running(dfsps);
    let base = said.strip_prefix("greenbank ").unwrap_or_else(|| panic!("{said}")).to_owned();
    // The scheme is applied when its last line, the count, is printed.
    let applied: Vec<String> = progress.take_while(|line| !line.contains("unchanged")).collect();
    let bindings = applied.iter().filter(|line| line.contains("binding")).count();
    assert_eq!(bindings, 2, "{applied:#?}");

    let trial = Trial::open(&dir).unwrap();
    let payment =
        r#"{"to":{"idType":"MSISDN","idValue":"260001000000001"},"amount":"12.5","currency":"KES"}"#;
    let register = r#"{"idType":"MSISDN","idValue":"260001000000001"}"#;
    let bluewallet = base.replace("greenbank", "bluewallet");
    let registered =
        call(Some(trial.dfsp("bluewallet")), &format!("{bluewallet}/parties"), register).unwrap();
    assert!(registered.status.is_success(), "{registered:?}");
    let paid = call(Some(trial.dfsp("greenbank")), &format!("{base}/payments"), payment).unwrap();
    let body = String::from_utf8_lossy(&paid.body);
    assert!(paid.status.is_success() && body.contains("COMMITTED"), "{} {body}", paid.status);
    let accounts = format!("https://{admin}/participants/greenbank/positions?currency=KES");
    let position = call(Some(trial.operator()), &accounts, "").unwrap();
    assert!(String::from_utf8_lossy(&position.body).contains("12.5"), "{position:?}");

    // A DFSP is no operator, an operator no DFSP, and who has no certificate is neither.
    call(Some(trial.dfsp("greenbank")), &accounts, "").unwrap_err();
    call(Some(trial.operator()), &format!("https://{fspiop}/health"), "").unwrap_err();
    let stranger = ClientFiles { identity: None, ..trial.operator() };
    call(Some(stranger), &format!("https://{fspiop}/health"), "").unwrap_err();
    let clear = call(None, &format!("http://{fspiop}/transfers/1"), "").unwrap();
    assert_eq!(clear.status, 400);
    drop(dfsps);
}
