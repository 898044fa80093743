//! Certificates, authorities, revocation lists and block lists are replaced under load. No valid request fails, on new
//! and existing connections, with HTTP/1.1 and HTTP/2. If a file cannot be used, the previous content stays in effect.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use upesi_http::{Bytes, Full, Limits, Origin, Outcome, Pool, PoolConfig, Request, SendError, ServerTls};
use upesi_pki::{Order, Usage};
use upesi_tls::{BlockedDigest, CertificateDer, Facts, Protocols, present_s};

use crate::common::http2::{Scheme, until};
use crate::common::{AMPLE, Running, ample};

const BOTH: Protocols = Protocols::Http2AndHttp1;

async fn who(pool: &Pool) -> Result<String, SendError> {
    let request = Request::builder().uri("/who").body(Full::new(Bytes::new())).unwrap();
    let answer = pool.send(request, ample()).await?;
    Ok(String::from_utf8(answer.body.to_vec()).unwrap())
}

fn pool(scheme: &Scheme, running: &Running, name: &str, protocols: Protocols, keep_alive: bool) -> Pool {
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
        let entry = format!("spki-sha256:{}\n", Facts::read(&green).unwrap().spki_sha256);
        fs::write(scheme.file("blocked"), entry).unwrap();
    };
    let revoke =
        |scheme: &mut Scheme| scheme.authority.revoke("greenbank", present_s(), 30).map(drop).unwrap();
    let mut steps: Vec<Step> = vec![("the server's certificate", Box::new(issue), Ok(true))];
    steps.extend(spoil("hub.key", "x", "hub.key has no private key"));
    steps.extend(spoil("hub.pem", "x", "hub.pem has no certificate"));
    steps.push(("the list of those who are blocked", Box::new(block), Ok(true)));
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
async fn what_is_replaced_under_load_costs_no_honest_request() {
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
async fn both_authorities_count_while_one_replaces_the_other_and_then_the_new_one_alone() {
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

// Keys and certificates that are blocked before a revocation list names them: at once, on open connections, and for
// earlier sessions.

fn facts(scheme: &Scheme, name: &str) -> Facts {
    use rustls::pki_types::pem::PemObject as _;
    Facts::read(&CertificateDer::from_pem_file(scheme.file(&format!("{name}.pem"))).unwrap()).unwrap()
}

#[tokio::test]
async fn who_is_blocked_is_refused_at_once_and_nobody_else_is() {
    for protocols in [Protocols::Http1, Protocols::Http2AndHttp1] {
        let scheme = Scheme::new();
        let green = facts(&scheme, "greenbank");
        let block = |lines: &str| fs::write(scheme.file("blocked"), lines).unwrap();
        block("# nobody\n\n");
        let tls = scheme.blocking(protocols);
        let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
        let running = scheme.serve(limits, tls.clone());
        let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
        // A client configuration remembers its sessions, and would resume them.
        let pool = |name: &str| {
            let tls = Some(scheme.client_of(name, protocols));
            Pool::new(origin.clone(), PoolConfig { tls, ..PoolConfig::default() })
        };
        let pools = [pool("greenbank"), pool("bluewallet")];
        for entry in [
            format!("spki-sha256:{}", green.spki_sha256),
            format!("cert-sha256:{}", green.certificate_sha256),
            format!("  SPKI-SHA256:{} # stolen", green.spki_sha256.to_string().to_uppercase()),
        ] {
            assert_eq!(who(&pools[0]).await.unwrap(), "greenbank");
            assert_eq!(who(&pools[1]).await.unwrap(), "bluewallet");
            until("both stand", || running.server.connections() == 2).await;
            block(&format!("{entry}\n"));
            assert!(tls.reload().unwrap(), "{entry}");
            assert_eq!(running.server.recheck(|peer| tls.trusts(peer)), 1, "{entry}");
            until("one has ended", || running.server.connections() == 1).await;
            assert!(who(&pools[0]).await.is_err(), "{entry}");
            assert_eq!(who(&pools[1]).await.unwrap(), "bluewallet", "by the connection of before");
            block("");
            assert!(tls.reload().unwrap(), "{entry}");
        }
        assert_eq!(who(&pools[0]).await.unwrap(), "greenbank", "it is lifted");
    }
}

/// Blocks through the admin API: no file is read, and the content of the file stays in effect.
#[tokio::test]
async fn blocks_from_elsewhere_count_besides_those_of_the_file() {
    for protocols in [Protocols::Http1, Protocols::Http2AndHttp1] {
        let scheme = Scheme::new();
        let (green, blue) = (facts(&scheme, "greenbank"), facts(&scheme, "bluewallet"));
        let by_file = || {
            fs::write(scheme.file("blocked"), format!("spki-sha256:{}\n", blue.spki_sha256)).unwrap();
        };
        by_file();
        let tls = scheme.blocking(protocols);
        let running = scheme.serve(Limits::default(), tls.clone());
        let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
        let pool = |name: &str| {
            let tls = Some(scheme.client_of(name, protocols));
            Pool::new(origin.clone(), PoolConfig { tls, ..PoolConfig::default() })
        };
        let pools = [pool("greenbank"), pool("bluewallet")];
        for block in [
            format!("spki-sha256:{}", green.spki_sha256),
            format!("cert-sha256:{}", green.certificate_sha256),
        ] {
            let block = BlockedDigest::parse(&block).unwrap();
            assert_eq!(who(&pools[0]).await.unwrap(), "greenbank");
            assert!(who(&pools[1]).await.is_err(), "by the file");
            until("one stands", || running.server.connections() == 1).await;
            assert!(tls.block([block]).unwrap());
            assert!(!tls.block([block]).unwrap(), "nothing changed");
            assert_eq!(running.server.recheck(|peer| tls.trusts(peer)), 1);
            until("it has ended", || running.server.connections() == 0).await;
            // An earlier session is not resumed, and reading the file again lifts no block.
            assert!(who(&pools[0]).await.is_err());
            fs::write(scheme.file("blocked"), format!("# {block:?}\n")).unwrap();
            assert!(tls.reload().unwrap());
            assert!(who(&pools[0]).await.is_err());
            assert_eq!(who(&pools[1]).await.unwrap(), "bluewallet");
            by_file();
            assert!(tls.reload().unwrap());
            until("it is gone", || running.server.recheck(|peer| tls.trusts(peer)) == 0).await;
            // A broken file has no effect either.
            fs::write(scheme.file("blocked"), "nonsense").unwrap();
            assert!(tls.block([]).unwrap());
            assert_eq!(who(&pools[0]).await.unwrap(), "greenbank");
            assert!(who(&pools[1]).await.is_err(), "still by the file");
            by_file();
        }
    }
}

#[tokio::test]
async fn an_authority_on_the_way_may_be_blocked_and_is_counted_as_revoked() {
    let scheme = Scheme::new();
    // The client's file has only its own certificate. Here it also sends that of its authority.
    let (own, ca) = (scheme.file("greenbank.pem"), scheme.file("ca.pem"));
    let chain = [fs::read(&own).unwrap(), fs::read(ca).unwrap()].concat();
    fs::write(own, chain).unwrap();
    fs::write(scheme.file("blocked"), format!("spki-sha256:{}", facts(&scheme, "ca").spki_sha256)).unwrap();
    let tls = scheme.blocking(Protocols::Http1);
    let (running, counts) = scheme.serve_counted(Limits::default(), tls);
    let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
    let tls = Some(scheme.client(Protocols::Http1));
    assert!(who(&Pool::new(origin, PoolConfig { tls, ..PoolConfig::default() })).await.is_err());
    until("it is counted", || counts.of(Outcome::Revoked) == 1).await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_leaves_in_force_what_was() {
    let scheme = Scheme::new();
    let entry = format!("spki-sha256:{}\n", facts(&scheme, "greenbank").spki_sha256);
    fs::write(scheme.file("blocked"), &entry).unwrap();
    let tls = scheme.blocking(Protocols::Http1);
    let running = scheme.serve(Limits::default(), tls.clone());
    let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
    for (lines, expected) in [
        (Some("spki-sha256:12"), "has a line 1 that is not spki-sha256:"),
        (Some("# a\nsha256:0\n"), "has a line 2 that"),
        (Some("greenbank"), "has a line 1 that"),
        (None, "No such file"),
    ] {
        match lines {
            Some(lines) => fs::write(scheme.file("blocked"), lines).unwrap(),
            None => fs::remove_file(scheme.file("blocked")).unwrap(),
        }
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains("blocked") && error.contains(expected), "{error}");
        let client = Some(scheme.client(Protocols::Http1));
        let pool = Pool::new(origin.clone(), PoolConfig { tls: client, ..PoolConfig::default() });
        assert!(who(&pool).await.is_err(), "{lines:?}");
    }
}
