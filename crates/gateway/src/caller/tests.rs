use std::sync::Arc;

use upesi_ledger::Block;

use super::*;

const DIGEST: &str = "00f0c1d2e3f4a5b6c7d8e9f00112233445566778899aabbccddeeff001122334";

fn digest(first: char) -> String {
    DIGEST.replacen('0', &first.to_string(), 1)
}

/// The hub, three DFSPs, and a proxy.
fn participants() -> Participants {
    let participant = |number, name: &str, bindings: &[&str]| Participant {
        id: ParticipantId::new(number).unwrap(),
        name: FspId::parse(name).unwrap(),
        is_active: true,
        is_proxy: name == "bridge",
        created_at: upesi_types::Timestamp::EPOCH,
        accounts: Vec::new(),
        limits: Vec::new(),
        endpoints: Vec::new(),
        bindings: bindings.iter().map(|text| Binding::parse(text).unwrap()).collect(),
    };
    let all = vec![
        participant(1, "Hub", &[]),
        participant(
            2,
            "greenbank",
            &[
                &format!("spki-sha256:{}", digest('2')),
                &format!("cert-sha256:{}", digest('c')),
                "san-uri:fspiop:scheme/greenbank",
                "san-dns:green.example",
                "subject:CN=greenbank;issuer=CN=Scheme",
                "subject:OU=green;issuer=CN=Scheme",
                "subject:UID=g1;issuer=CN=Scheme",
            ],
        ),
        participant(3, "bluewallet", &[&format!("spki-sha256:{}", digest('3')), "san-dns:blue.example"]),
        participant(4, "redmoney", &[]),
        participant(5, "bridge", &["san-dns:bridge.example"]),
    ];
    Participants::new(all, &[])
}

/// The same, with farbank behind the proxy, and farwallet behind one that is not bound.
fn participants_behind() -> Participants {
    let known = participants();
    let ids = known.ids().collect::<Vec<_>>();
    let mut all: Vec<_> = ids.iter().map(|id| known.get(*id).unwrap().clone()).collect();
    for (number, name) in [(6, "farbank"), (7, "farwallet")] {
        let id = ParticipantId::new(number).unwrap();
        all.push(Participant {
            id,
            name: FspId::parse(name).unwrap(),
            bindings: Vec::new(),
            ..all[0].clone()
        });
    }
    let [red, bridge, farbank, farwallet] = [4, 5, 6, 7].map(|number| ParticipantId::new(number).unwrap());
    Participants::new(all, &[]).behind([(farbank, bridge), (farwallet, red)].into())
}

/// Facts of a certificate that is bound to nobody.
fn facts() -> Facts {
    Facts {
        subject: "CN=somebody".into(),
        common_name: Some("somebody".into()),
        subject_parts: vec![("CN", "somebody".into())],
        has_alternative_names: false,
        issuer: "CN=Scheme".into(),
        serial: "01".into(),
        not_before_s: 0,
        not_after_s: 0,
        certificate_sha256: digest('e'),
        spki_sha256: digest('f'),
        dns: Vec::new(),
        uris: Vec::new(),
    }
}

fn found(change: impl FnOnce(&mut Facts)) -> Result<Option<String>, Denial> {
    let mut facts = facts();
    change(&mut facts);
    facts.has_alternative_names |= !facts.dns.is_empty() || !facts.uris.is_empty();
    let identity = bound_participant(&participants(), &facts)?;
    Ok(identity.map(|identity| format!("{} {}", identity.number, identity.name)))
}

fn part(attribute: &'static str, text: &str) -> impl FnOnce(&mut Facts) {
    move |facts| facts.subject_parts = vec![(attribute, text.into())]
}

#[test]
fn each_kind_of_binding_finds_its_participant() {
    let green = Ok(Some("2 greenbank".to_owned()));
    assert_eq!(found(|facts| facts.spki_sha256 = digest('2')), green);
    assert_eq!(found(|facts| facts.spki_sha256 = digest('3')), Ok(Some("3 bluewallet".to_owned())));
    assert_eq!(found(|facts| facts.certificate_sha256 = digest('c')), green);
    assert_eq!(found(|facts| facts.uris = vec!["fspiop:scheme/greenbank".into()]), green);
    assert_eq!(found(|facts| facts.dns = vec!["GREEN.example".into()]), green);
    for (attribute, text) in [("CN", "greenbank"), ("OU", "green"), ("UID", "g1")] {
        assert_eq!(found(part(attribute, text)), green, "{attribute}");
    }
}

#[test]
fn what_only_resembles_a_binding_finds_nobody() {
    let nobody = Ok(None);
    assert_eq!(found(|_| {}), nobody);
    assert_eq!(found(|facts| facts.spki_sha256 = digest('c')), nobody, "the digest of a certificate");
    assert_eq!(found(|facts| facts.certificate_sha256 = digest('2')), nobody, "the digest of a key");
    assert_eq!(found(|facts| facts.uris = vec!["fspiop:scheme/Greenbank".into()]), nobody);
    for name in ["*.example", "green.example.", "a.green.example", "fspiop:scheme/greenbank"] {
        assert_eq!(found(|facts| facts.dns = vec![name.into()]), nobody, "{name}");
    }
    for (attribute, text) in [("CN", "Greenbank"), ("OU", "greenbank"), ("UID", "greenbank"), ("CN", "green")]
    {
        assert_eq!(found(part(attribute, text)), nobody, "{attribute}={text}");
    }
    let of_another_issuer = |facts: &mut Facts| {
        part("CN", "greenbank")(facts);
        facts.issuer = "CN=Other".into();
    };
    assert_eq!(found(of_another_issuer), nobody);
    let with_the_issuer_in_its_name = |facts: &mut Facts| {
        part("CN", "greenbank;issuer=CN=Scheme")(facts);
        facts.issuer = "CN=Other".into();
    };
    assert_eq!(found(with_the_issuer_in_its_name), nobody);
    let with_alternative_names = |facts: &mut Facts| {
        part("CN", "greenbank")(facts);
        facts.has_alternative_names = true;
    };
    assert_eq!(found(with_alternative_names), nobody, "they say more than the common name");
}

#[test]
fn a_certificate_of_two_participants_is_that_of_none() {
    let both = |facts: &mut Facts| {
        facts.spki_sha256 = digest('2');
        facts.dns = vec!["other.example".into(), "blue.example".into()];
    };
    assert_eq!(found(both), Err(Denial::Ambiguous));
    let twice = |facts: &mut Facts| {
        facts.spki_sha256 = digest('2');
        facts.dns = vec!["green.example".into()];
    };
    assert_eq!(found(twice), Ok(Some("2 greenbank".to_owned())));
}

fn callers(are_bindings_required: bool) -> Callers {
    let shared = SharedParticipants::default();
    shared.set(Arc::new(participants()));
    Callers::new(shared, are_bindings_required, AddressLists::default(), &mut Registry::default())
}

fn headers(source: Option<&str>, proxy: Option<&str>) -> HeaderMap {
    let named = [(SOURCE, source), (PROXY, proxy)];
    named
        .into_iter()
        .filter_map(|(name, value)| {
            Some((name.parse().unwrap(), HeaderValue::from_bytes(value?.as_bytes()).unwrap()))
        })
        .collect()
}

#[test]
fn a_bound_caller_is_itself_and_a_proxy_brings_senders_from_elsewhere() {
    let callers = callers(true);
    let identity = |number, name: &str| PeerIdentity { number, name: name.into() };
    let (green, bridge) = (identity(2, "greenbank"), identity(5, "bridge"));
    for (who, source, proxy, expected) in [
        (&green, Some("greenbank"), None, Ok(())),
        // Refused by the check of the headers.
        (&green, None, None, Ok(())),
        (&green, Some("bluewallet"), None, Err(Denial::Source)),
        (&green, Some("Greenbank"), None, Err(Denial::Source)),
        (&green, Some("greenbank1"), None, Err(Denial::Source)),
        (&green, Some("greenban"), None, Err(Denial::Source)),
        (&green, Some("greenb\u{430}nk"), None, Err(Denial::Source)),
        (&green, Some(""), None, Err(Denial::Source)),
        (&green, Some("Hub"), None, Err(Denial::Source)),
        (&green, Some("greenbank"), Some("greenbank"), Err(Denial::Proxy)),
        (&green, Some("farbank"), Some("greenbank"), Err(Denial::Proxy)),
        (&green, Some("farbank"), Some("bridge"), Err(Denial::Proxy)),
        (&bridge, Some("bridge"), None, Ok(())),
        (&bridge, Some("farbank"), Some("bridge"), Ok(())),
        (&bridge, Some("farbank"), None, Err(Denial::Source)),
        (&bridge, Some("farbank"), Some("Bridge"), Err(Denial::Proxy)),
        (&bridge, Some("farbank"), Some(""), Err(Denial::Proxy)),
        (&bridge, Some("greenbank"), Some("bridge"), Err(Denial::Source)),
        (&bridge, Some("GREENBANK"), Some("bridge"), Err(Denial::Source)),
        (&bridge, Some("Hub"), Some("bridge"), Err(Denial::Source)),
    ] {
        let found = callers.check_bound(&headers(source, proxy), who);
        assert_eq!(found, expected, "{} as {source:?} by {proxy:?}", who.name);
    }
}

#[test]
fn an_unbound_caller_may_name_who_is_not_bound_only_if_the_settings_say_so() {
    for (source, proxy, expected) in [
        (Some("redmoney"), None, Ok(())),
        (Some("nobody"), None, Ok(())),
        (None, None, Ok(())),
        (Some("greenbank"), None, Err(Denial::Source)),
        (Some("GREENBANK"), None, Err(Denial::Source)),
        (Some("bluewallet"), None, Err(Denial::Source)),
        (Some("farbank"), Some("bridge"), Err(Denial::Proxy)),
        (Some("farbank"), Some("redmoney"), Ok(())),
    ] {
        let headers = headers(source, proxy);
        assert_eq!(callers(false).check_unbound(&headers), expected, "{source:?} by {proxy:?}");
        assert_eq!(callers(true).check_unbound(&headers), Err(Denial::Unbound));
    }
}

#[test]
fn refusals_do_not_say_which_part_of_the_proof_was_wrong() {
    let shown = |denial: Denial| {
        let error = denial.error();
        (error.status, error.code.number(), error.description)
    };
    let unproven = shown(Denial::Unbound);
    assert_eq!(
        unproven,
        (403, 3000, "Generic client error - the certificate is not that of a participant".into())
    );
    assert_eq!((shown(Denial::Ambiguous), shown(Denial::Rebound)), (unproven.clone(), unproven));
    assert_eq!(
        shown(Denial::Source),
        (403, 3100, "Generic validation error - Invalid fspiop-source header".into())
    );
    assert_eq!(
        shown(Denial::Proxy),
        (403, 3100, "Generic validation error - Invalid fspiop-proxy header".into())
    );
}

#[test]
fn who_is_blocked_is_let_in_no_more_nor_whom_it_stands_for() {
    let callers = callers(false);
    let identity = |number, name: &str| PeerIdentity { number, name: name.into() };
    let (green, bridge) = (identity(2, "greenbank"), identity(5, "bridge"));
    let check = |who: Option<&PeerIdentity>, source: &str, proxy: Option<&str>| {
        callers.check_blocks(&headers(Some(source), proxy), who)
    };
    let set = |blocked: &[&str]| {
        let blocks = blocked.iter().map(|name| Block::Participant(FspId::parse(name).unwrap()));
        callers.participants.set(Arc::new(participants_behind().without(blocks.collect())));
    };
    set(&[]);
    assert_eq!(check(Some(&green), "greenbank", None), Ok(()));
    set(&["greenbank", "farbank"]);
    for (who, source, proxy, expected) in [
        (Some(&green), "greenbank", None, Err(Denial::Blocked)),
        (None, "GreenBank", None, Err(Denial::BlockedSource)),
        (None, "bluewallet", None, Ok(())),
        (None, "bluewallet", Some("greenbank"), Err(Denial::BlockedSource)),
        (Some(&bridge), "farbank", Some("bridge"), Err(Denial::BlockedSource)),
        (Some(&bridge), "nobody", Some("bridge"), Ok(())),
    ] {
        assert_eq!(check(who, source, proxy), expected, "{source} by {proxy:?}");
    }
    // With a proxy all behind it are blocked.
    set(&["bridge"]);
    assert_eq!(check(Some(&bridge), "farbank", Some("bridge")), Err(Denial::Blocked));
    assert_eq!(check(None, "farbank", None), Err(Denial::BlockedSource));
    assert_eq!(check(Some(&green), "greenbank", None), Ok(()));
    assert!(Denial::Blocked.ends_connection() && !Denial::BlockedSource.ends_connection());
}

#[test]
fn the_identity_stands_for_the_header() {
    let headers = headers(Some("bluewallet"), None);
    let identity = PeerIdentity { number: 2, name: "greenbank".into() };
    assert_eq!(Caller::new(&headers, Some(&identity)).name(), "greenbank");
    assert_eq!(Caller::named(&headers).name(), "bluewallet");
    assert_eq!(Caller::named(&HeaderMap::new()).name(), "-");
}

#[test]
fn who_is_behind_a_proxy_comes_through_it_and_through_no_other() {
    let callers = callers(false);
    callers.participants.set(Arc::new(participants_behind()));
    let bridge = PeerIdentity { number: 5, name: "bridge".into() };
    for (source, proxy, expected) in [
        ("farbank", Some("bridge"), Ok(())),
        ("FARBANK", Some("bridge"), Ok(())),
        ("nobody", Some("bridge"), Ok(())),
        ("farwallet", Some("bridge"), Err(Denial::Source)),
        ("greenbank", Some("bridge"), Err(Denial::Source)),
        ("farbank", None, Err(Denial::Source)),
        ("farbank", Some("farbank"), Err(Denial::Proxy)),
    ] {
        let found = callers.check_bound(&headers(Some(source), proxy), &bridge);
        assert_eq!(found, expected, "{source} by {proxy:?}");
    }
    for (source, proxy, expected) in [
        ("greenbank", None, Ok(())),
        ("nobody", Some("bridge"), Ok(())),
        ("farwallet", Some("redmoney"), Ok(())),
        ("farwallet", Some("bridge"), Err(Denial::Proxy)),
        ("farwallet", Some("RedMoney"), Err(Denial::Proxy)),
        ("farwallet", Some(""), Err(Denial::Proxy)),
        ("farwallet", None, Err(Denial::Proxy)),
        ("FarWallet", None, Err(Denial::Proxy)),
    ] {
        let found = callers.check_route(&headers(Some(source), proxy));
        assert_eq!(found, expected, "{source} by {proxy:?}");
    }
    // The proxy is bound, so that only it may bring farbank.
    let found = callers.check_unbound(&headers(Some("farbank"), Some("bridge")));
    assert_eq!(found, Err(Denial::Proxy));
}
