use super::*;
use crate::test_support::open_store;

fn spec(kind: PartyIdType, currency: &str, url: &str, is_default: bool) -> OracleSpec {
    OracleSpec { kind, currency: Currency::parse(currency), url: url.into(), is_default }
}

fn msisdn(currency: &str) -> OracleSpec {
    spec(PartyIdType::Msisdn, currency, "http://oracle:3000", false)
}

const NOW: Timestamp = Timestamp::from_ms(1_900_000_000_000);

/// The selected source: `built-in`, the oracle's number, or `none`.
fn asked(registry: &OracleRegistry, kind: PartyIdType, currency: &str) -> String {
    match registry.oracles().select(kind, Currency::parse(currency)) {
        None => "none".to_owned(),
        Some(OracleKind::BuiltIn) => "built-in".to_owned(),
        Some(OracleKind::External(oracle)) => oracle.id.to_string(),
    }
}

#[tokio::test]
async fn oracle_replaces_the_built_in_directory_until_deleted() {
    let place = tempfile::tempdir().unwrap();
    let store = open_store(&place.path().join("s"));
    let registry = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
    let all = |registry: &OracleRegistry| {
        ["", "USD", "KES"].map(|currency| asked(registry, PartyIdType::Msisdn, currency)).join(" ")
    };
    assert_eq!(all(&registry), "built-in built-in built-in");
    assert_eq!(registry.create(msisdn("USD"), NOW).await.unwrap(), 1);
    assert_eq!(all(&registry), "1 1 built-in");
    assert_eq!(registry.create(msisdn(""), NOW).await.unwrap(), 2);
    assert_eq!(all(&registry), "2 1 2");
    let default = OracleChange { is_default: Some(true), ..OracleChange::default() };
    registry.update(1, default).await.unwrap();
    assert_eq!(all(&registry), "1 1 2", "the default one before the one without currency");
    registry.delete(1).await.unwrap();
    assert_eq!(all(&registry), "2 2 2");
    registry.delete(2).await.unwrap();
    assert_eq!(all(&registry), "built-in built-in built-in");
    // A new oracle can take the place of the deleted one, but it gets another number.
    assert_eq!(registry.create(msisdn("USD"), NOW).await.unwrap(), 3);
    assert_eq!(registry.create(msisdn("KES"), NOW).await.unwrap(), 4);
    assert_eq!(all(&registry), "3 3 4", "the oldest if none is default and all have a currency");
    assert_eq!(asked(&registry, PartyIdType::Iban, "USD"), "built-in", "another type is not affected");
    drop((registry, store));
    let registry =
        OracleRegistry::open(&open_store(&place.path().join("s")), false, Schemes::default()).unwrap();
    assert_eq!(all(&registry), "3 3 4", "after a restart");
    assert_eq!(asked(&registry, PartyIdType::Iban, "USD"), "none", "the built-in directory is disabled");
    assert_eq!(registry.create(msisdn("ZMW"), NOW).await.unwrap(), 5);
}

#[tokio::test]
async fn invalid_changes_are_client_errors() {
    let place = tempfile::tempdir().unwrap();
    let registry =
        OracleRegistry::open(&open_store(&place.path().join("s")), true, Schemes::default()).unwrap();
    registry.create(msisdn("USD"), NOW).await.unwrap();
    registry.create(msisdn(""), NOW).await.unwrap();
    for (spec, text) in [
        (msisdn("USD"), "Oracle 1 is already active for MSISDN in USD"),
        (msisdn(""), "Oracle 2 is already active for MSISDN without a currency"),
    ] {
        let error = registry.create(spec, NOW).await.unwrap_err();
        assert_eq!((error.code().number(), error.to_string()), (3003, text.to_owned()));
        assert_eq!(error.code().http_status(), 400);
    }
    let long = format!("http://{}", "x".repeat(URL_CHARS_MAX));
    for (url, reason) in [
        ("", "is not a URL that can be called; write it as http://host:port"),
        ("oracle", "is not a URL"),
        ("oracle:3000/", "is not a URL"),
        ("http://", "is not a URL"),
        ("http:///x", "is not a URL"),
        ("http://:3000", "is not a URL"),
        ("http://oracle:", "is not a URL"),
        ("http://oracle:99999", "must have a port from 1 to 65535"),
        ("http://a b", "is not a URL"),
        ("http://é", "is not a URL"),
        ("http://x/é", "is not a URL"),
        ("http://#", "must not have a fragment"),
        ("http://x/#y", "must not have a fragment"),
        ("http://me:secret@x", "must not carry credentials before its host"),
        ("ftp://x", "must begin with http://"),
        ("https://x", "must begin with http:// (https:// needs outbound_tls.anchors_file)"),
        ("http://x?y", "must have neither query nor placeholders"),
        ("http://{{x}}", "must have neither query nor placeholders"),
        (&long, "must have at most 512 characters"),
    ] {
        let error = registry.create(spec(PartyIdType::Iban, "", url, false), NOW).await.unwrap_err();
        let (code, text) = (error.code().number(), error.to_string());
        assert!(code == 3101 && text.contains(&format!("The oracle's address {reason}")), "{url}: {text}");
    }
    for url in ["http://x", "http://x:3000/", "http://[::1]:3000/v1", "http://10.0.0.7/a%20b"] {
        let id = registry.create(spec(PartyIdType::Iban, "", url, false), NOW).await.unwrap();
        registry.delete(id).await.unwrap();
    }
    registry.delete(1).await.unwrap();
    for id in [0, 1, 3, 7, u32::MAX] {
        let changed = registry.update(id, OracleChange::default()).await.unwrap_err();
        assert_eq!((changed.code().number(), changed.to_string()), (3003, "Oracle not found".to_owned()));
        assert!(matches!(registry.delete(id).await, Err(OracleError::NotFound { .. })));
    }
}

#[tokio::test]
async fn update_keeps_unnamed_fields_and_may_repeat_its_own_values() {
    let place = tempfile::tempdir().unwrap();
    let registry =
        OracleRegistry::open(&open_store(&place.path().join("s")), true, Schemes::default()).unwrap();
    registry.create(msisdn(""), NOW).await.unwrap();
    registry.create(msisdn("USD"), NOW).await.unwrap();
    let moved = OracleChange {
        kind: Some(PartyIdType::Msisdn),
        currency: None,
        url: Some("http://new:1".into()),
        is_default: None,
    };
    registry.update(1, moved).await.unwrap();
    let oracles = registry.oracles();
    let first = oracles.get(1).unwrap();
    assert_eq!(first.spec, spec(PartyIdType::Msisdn, "", "http://new:1", false));
    assert_eq!(first.created_at, NOW);
    let onto_other = OracleChange { currency: Currency::parse("USD"), ..OracleChange::default() };
    assert!(matches!(registry.update(1, onto_other).await, Err(OracleError::Duplicate { id: 2, .. })));
    let elsewhere = OracleChange { kind: Some(PartyIdType::Email), ..OracleChange::default() };
    registry.update(1, elsewhere).await.unwrap();
    assert_eq!(asked(&registry, PartyIdType::Email, "KES"), "1");
}

#[tokio::test]
async fn concurrent_changes_are_decided_in_order() {
    let place = tempfile::tempdir().unwrap();
    let registry =
        OracleRegistry::open(&open_store(&place.path().join("s")), true, Schemes::default()).unwrap();
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let registry = registry.clone();
            tokio::spawn(async move { registry.create(msisdn("USD"), NOW).await.is_ok() })
        })
        .collect();
    let mut made = 0;
    for attempt in attempts {
        made += usize::from(attempt.await.unwrap());
    }
    assert_eq!((made, registry.oracles().count()), (1, 1));
}

#[tokio::test]
async fn oracles_above_the_limit_are_rejected() {
    let place = tempfile::tempdir().unwrap();
    let registry =
        OracleRegistry::open(&open_store(&place.path().join("s")), true, Schemes::default()).unwrap();
    let currencies: Vec<_> = Currency::all().collect();
    let mut made = 0;
    let refusal = 'full: loop {
        for kind in PartyIdType::ALL {
            for currency in &currencies {
                let spec = OracleSpec { kind: *kind, currency: Some(*currency), ..msisdn("") };
                match registry.create(spec, NOW).await {
                    Ok(_) => made += 1,
                    Err(error) => break 'full error,
                }
            }
        }
    };
    assert!(matches!(refusal, OracleError::TooMany), "{refusal}");
    assert_eq!(made, ORACLES_MAX);
    registry.delete(1).await.unwrap();
    registry.create(msisdn(""), NOW).await.unwrap();
}
