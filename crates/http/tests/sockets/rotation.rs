//! Certificates, authorities, revocation lists and block lists are replaced under load. No valid request fails, on new
//! and existing connections, with HTTP/1.1 and HTTP/2. If a file cannot be used, the previous content stays in effect.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use upesi_http::{Bytes, Full, Limits, Origin, Pool, PoolConfig, Request, SendError, ServerTls};
use upesi_pki::{Order, Usage};
use upesi_tls::{CertificateDer, CertificateFacts, Protocols, present_s};

use crate::common::http2::{Scheme, until};
use crate::common::{AMPLE, Running, ample};

const BOTH: Protocols = Protocols::Http2AndHttp1;

pub(super) async fn who(pool: &Pool) -> Result<String, SendError> {
    let request = Request::builder().uri("/who").body(Full::new(Bytes::new())).unwrap();
    let answer = pool.send(request, ample()).await?;
    Ok(String::from_utf8(answer.body.to_vec()).unwrap())
}

pub(super) fn pool(
    scheme: &Scheme,
    running: &Running,
    name: &str,
    protocols: Protocols,
    keep_alive: bool,
) -> Pool {
    let tls = Some(scheme.client_of(name, protocols));
    let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
    Pool::new(origin, PoolConfig { tls, keep_alive, ..PoolConfig::default() })
}

/// Honest clients that send requests continuously.
#[derive(Clone, Default)]
struct Load {
    stops: Arc<AtomicBool>,
    answered: Arc<[AtomicUsize; 4]>,
    failed: Arc<Mutex<Vec<String>>>,
}

impl Load {
    fn start(&self, scheme: &Scheme, running: &Running) -> Vec<tokio::task::JoinHandle<()>> {
        let ways = [(Protocols::Http1, true), (Protocols::Http1, false), (BOTH, true), (BOTH, false)];
        let start = |(number, (protocols, keep_alive)): (usize, (Protocols, bool))| {
            let pool = pool(scheme, running, "bluewallet", protocols, keep_alive);
            let load = self.clone();
            tokio::spawn(async move {
                while !load.stops.load(Ordering::Relaxed) {
                    match who(&pool).await {
                        Ok(name) if name == "bluewallet" => {}
                        other => load.failed.lock().unwrap().push(format!("{number}: {other:?}")),
                    }
                    load.answered[number].fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        ways.into_iter().enumerate().map(start).collect()
    }

    /// Waits until each client has sent further requests.
    async fn goes_on(&self, what: &str) {
        let before: Vec<_> = self.answered.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let has_more = |(count, before): (&AtomicUsize, &usize)| count.load(Ordering::Relaxed) >= before + 5;
        until(what, || self.answered.iter().zip(&before).all(has_more)).await;
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "{what}: {failed:?}");
    }
}

/// A replacement of files, and the message of its reload.
type Step = (&'static str, Box<dyn FnMut(&mut Scheme)>, Result<bool, &'static str>);

fn steps(other: Scheme) -> Vec<Step> {
    let read = |scheme: &Scheme, name: &str| fs::read(scheme.file(name)).unwrap();
    let spoil = |name: &'static str, text: &'static str, expected: &'static str| -> [Step; 2] {
        let before = Arc::new(Mutex::new(Vec::new()));
        let kept = before.clone();
        let break_it = move |scheme: &mut Scheme| {
            *kept.lock().unwrap() = read(scheme, name);
            fs::write(scheme.file(name), text).unwrap();
        };
        let mend_it = move |scheme: &mut Scheme| {
            fs::write(scheme.file(name), before.lock().unwrap().as_slice()).unwrap();
        };
        [(name, Box::new(break_it), Err(expected)), ("it is mended", Box::new(mend_it), Ok(false))]
    };
    let issue = |scheme: &mut Scheme| {
        let order = Order { replaces: true, ..Order::new("hub", Usage::Server, present_s()) };
        scheme.authority.issue(&order.with_hosts(&["127.0.0.1"])).unwrap();
    };
    let join = move |scheme: &mut Scheme| {
        for name in ["ca.pem", "crl.pem"] {
            fs::write(scheme.file(name), [read(scheme, name), read(&other, name)].concat()).unwrap();
        }
    };
    let block = |scheme: &mut Scheme| {
        use rustls::pki_types::pem::PemObject as _;
        let green = CertificateDer::from_pem_file(scheme.file("greenbank.pem")).unwrap();
        let entry = format!("spki-sha256:{}\n", CertificateFacts::read(&green).unwrap().spki_sha256);
        fs::write(scheme.file("blocked"), entry).unwrap();
    };
    let revoke =
        |scheme: &mut Scheme| scheme.authority.revoke("greenbank", present_s(), 30).map(drop).unwrap();
    let mut steps: Vec<Step> = vec![("the server's certificate", Box::new(issue), Ok(true))];
    steps.extend(spoil("hub.key", "x", "hub.key has no private key"));
    steps.extend(spoil("hub.pem", "x", "hub.pem has no certificate"));
    steps.push(("the list of blocked clients", Box::new(block), Ok(true)));
    steps.extend(spoil("blocked", "x", "blocked has a line 1"));
    steps.push(("the revocation list", Box::new(revoke), Ok(true)));
    steps.extend(spoil("crl.pem", "x", "crl.pem has no revocation list"));
    steps.push(("another authority beside the first", Box::new(join), Ok(true)));
    steps.extend(spoil("ca.pem", "x", "ca.pem has no certificate"));
    steps
}

fn reload(running: &Running, tls: &ServerTls) -> Result<bool, String> {
    let reloaded = tls.reload().map_err(|error| error.to_string());
    running.server.recheck(|peer| tls.trusts(peer));
    reloaded
}

#[tokio::test]
async fn certificate_rotation_under_load_fails_no_valid_request() {
    let mut scheme = Scheme::new();
    fs::write(scheme.file("blocked"), "").unwrap();
    let tls = scheme.blocking(BOTH);
    let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
    let running = scheme.serve(limits, tls.clone());
    let green = pool(&scheme, &running, "greenbank", BOTH, true);
    assert_eq!(who(&green).await.unwrap(), "greenbank");
    let load = Load::default();
    let callers = load.start(&scheme, &running);
    load.goes_on("nothing yet").await;
    for (name, change, expected) in &mut steps(Scheme::named("Other")) {
        change(&mut scheme);
        match (reload(&running, &tls), expected) {
            (Ok(changed), Ok(expected)) => assert_eq!(changed, *expected, "{name}"),
            (Err(error), Err(expected)) => assert!(error.contains(*expected), "{name}: {error}"),
            (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
        load.goes_on(name).await;
    }
    assert!(who(&green).await.is_err(), "it is blocked and revoked");
    load.stops.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn both_authorities_are_trusted_during_a_rotation() {
    let (scheme, next) = (Scheme::new(), Scheme::named("Next"));
    let tls = scheme.server(BOTH, true);
    let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
    let running = scheme.serve(limits, tls.clone());
    let read = |scheme: &Scheme, name: &str| fs::read(scheme.file(name)).unwrap();
    let before = ["ca.pem", "crl.pem"].map(|name| read(&scheme, name));
    let after = ["ca.pem", "crl.pem"].map(|name| read(&next, name));
    let old = pool(&scheme, &running, "greenbank", BOTH, true);
    // The client trusts the server by the earlier authority, and is trusted by the new one.
    fs::write(next.file("ca.pem"), &before[0]).unwrap();
    let new = pool(&next, &running, "bluewallet", BOTH, true);
    let put = |files: [Vec<u8>; 2]| {
        for (name, bytes) in ["ca.pem", "crl.pem"].into_iter().zip(files) {
            fs::write(scheme.file(name), bytes).unwrap();
        }
        reload(&running, &tls)
    };
    assert_eq!(who(&old).await.unwrap(), "greenbank");
    assert!(who(&new).await.is_err());
    let both = [0, 1].map(|part: usize| [before[part].clone(), after[part].clone()].concat());
    assert_eq!(put(both), Ok(true));
    assert_eq!(
        (who(&old).await.unwrap(), who(&new).await.unwrap()),
        ("greenbank".into(), "bluewallet".into())
    );
    assert_eq!(put(after), Ok(true));
    until("the old one's connection has ended", || running.server.connections() == 1).await;
    assert!(who(&old).await.is_err());
    assert_eq!(who(&new).await.unwrap(), "bluewallet");
}
