//! Keys and certificates that are blocked before a revocation list names them: at once, on open connections, and for
//! earlier sessions.

use std::fs;

use upesi_http::{HandshakeOutcome, Limits, Origin, Pool, PoolConfig};
use upesi_tls::{BlockedDigest, CertificateDer, CertificateFacts, Protocols};

use crate::common::AMPLE;
use crate::common::http2::{Scheme, until};
use crate::rotation::who;

fn facts(scheme: &Scheme, name: &str) -> CertificateFacts {
    use rustls::pki_types::pem::PemObject as _;
    CertificateFacts::read(&CertificateDer::from_pem_file(scheme.file(&format!("{name}.pem"))).unwrap())
        .unwrap()
}

#[tokio::test]
async fn only_blocked_clients_are_rejected_immediately() {
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
async fn external_blocks_apply_in_addition_to_the_file() {
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
async fn blocked_intermediate_authority_counts_as_revoked() {
    let scheme = Scheme::new();
    // The client's file has only its own certificate. Here it also sends the certificate of its authority.
    let (own, ca) = (scheme.file("greenbank.pem"), scheme.file("ca.pem"));
    let chain = [fs::read(&own).unwrap(), fs::read(ca).unwrap()].concat();
    fs::write(own, chain).unwrap();
    fs::write(scheme.file("blocked"), format!("spki-sha256:{}", facts(&scheme, "ca").spki_sha256)).unwrap();
    let tls = scheme.blocking(Protocols::Http1);
    let (running, counts) = scheme.serve_counted(Limits::default(), tls);
    let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
    let tls = Some(scheme.client(Protocols::Http1));
    assert!(who(&Pool::new(origin, PoolConfig { tls, ..PoolConfig::default() })).await.is_err());
    until("it is counted", || counts.of(HandshakeOutcome::Revoked) == 1).await;
}

#[tokio::test]
async fn unreadable_list_leaves_the_current_one_in_effect() {
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
