use std::sync::Arc;

use upesi_http::{Fingerprint, VerifiedIssuer};
use upesi_ledger::Block;

use super::proof::VerifiedToken;
use super::*;

const DIGEST: &str = "00f0c1d2e3f4a5b6c7d8e9f00112233445566778899aabbccddeeff001122334";

fn digest(first: char) -> String {
    DIGEST.replacen('0', &first.to_string(), 1)
}

fn print(first: char) -> Fingerprint {
    Fingerprint(upesi_types::unhex(&digest(first)).unwrap())
}

/// The hub, three DFSPs, and a proxy.
fn participants() -> Participants {
    let participant = |number, name: &str, bindings: &[&str]| Participant {
        is_proxy: name == "bridge",
        bindings: bindings.iter().map(|text| Binding::parse(text).unwrap()).collect(),
        ..Participant::new(
            ParticipantId::new(number).unwrap(),
            FspId::parse(name).unwrap(),
            upesi_types::Timestamp::EPOCH,
        )
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
                &format!("san-uri:fspiop:keyed/greenbank;issuer-key={}", digest('a')),
                &format!("san-dns:keyed.example;issuer-key={}", digest('a')),
                &format!("subject:OU=keyed;issuer=CN=Scheme;issuer-key={}", digest('a')),
            ],
        ),
        participant(
            3,
            "bluewallet",
            &[
                &format!("spki-sha256:{}", digest('3')),
                "san-dns:blue.example",
                "oauth-client:blue-client",
                "gateway:san-dns:edge.example;client=blue",
                "gateway:san-dns:edge.example;client=both",
            ],
        ),
        participant(4, "redmoney", &[]),
        participant(
            5,
            "bridge",
            &[
                "san-dns:bridge.example",
                "gateway:subject:CN=edge;issuer=CN=Scheme;client=far",
                "gateway:san-dns:edge2.example;client=both",
            ],
        ),
    ];
    Participants::new(all, &[])
}

/// Like `participants`, with farbank behind the proxy, and farwallet behind a proxy without a binding.
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

/// Facts of a certificate without a binding.
pub(super) fn facts() -> CertificateFacts {
    CertificateFacts {
        subject: "CN=somebody".into(),
        common_name: Some("somebody".into()),
        subject_parts: vec![("CN", "somebody".into())],
        has_alternative_names: false,
        issuer: "CN=Scheme".into(),
        serial: "01".into(),
        not_before_s: 0,
        not_after_s: 0,
        certificate_sha256: print('e'),
        spki_sha256: print('f'),
        dns: Vec::new(),
        uris: Vec::new(),
        verified_issuer: Some(VerifiedIssuer {
            spki_sha256: print('a'),
            is_of_only_authority: true,
            has_unique_name: true,
        }),
    }
}

fn found(change: impl FnOnce(&mut CertificateFacts)) -> Result<Option<String>, Denial> {
    let mut facts = facts();
    change(&mut facts);
    facts.has_alternative_names |= !facts.dns.is_empty() || !facts.uris.is_empty();
    let identity = bound_participant(&participants(), &facts)?;
    Ok(identity.map(|identity| format!("{} {}", identity.number, identity.name)))
}

fn part(attribute: &'static str, text: &str) -> impl FnOnce(&mut CertificateFacts) {
    move |facts| facts.subject_parts = vec![(attribute, text.into())]
}

#[test]
fn each_kind_of_binding_finds_its_participant() {
    let green = Ok(Some("2 greenbank".to_owned()));
    assert_eq!(found(|facts| facts.spki_sha256 = print('2')), green);
    assert_eq!(found(|facts| facts.spki_sha256 = print('3')), Ok(Some("3 bluewallet".to_owned())));
    assert_eq!(found(|facts| facts.certificate_sha256 = print('c')), green);
    assert_eq!(found(|facts| facts.uris = vec!["fspiop:scheme/greenbank".into()]), green);
    assert_eq!(found(|facts| facts.dns = vec!["GREEN.example".into()]), green);
    for (attribute, text) in [("CN", "greenbank"), ("OU", "green"), ("UID", "g1")] {
        assert_eq!(found(part(attribute, text)), green, "{attribute}");
    }
}

#[test]
fn certificate_that_only_resembles_a_binding_is_unbound() {
    let nobody = Ok(None);
    assert_eq!(found(|_| {}), nobody);
    assert_eq!(found(|facts| facts.spki_sha256 = print('c')), nobody, "the digest of a certificate");
    assert_eq!(found(|facts| facts.certificate_sha256 = print('2')), nobody, "the digest of a key");
    assert_eq!(found(|facts| facts.uris = vec!["fspiop:scheme/Greenbank".into()]), nobody);
    for name in ["*.example", "green.example.", "a.green.example", "fspiop:scheme/greenbank"] {
        assert_eq!(found(|facts| facts.dns = vec![name.into()]), nobody, "{name}");
    }
    for (attribute, text) in [("CN", "Greenbank"), ("OU", "greenbank"), ("UID", "greenbank"), ("CN", "green")]
    {
        assert_eq!(found(part(attribute, text)), nobody, "{attribute}={text}");
    }
    let of_another_issuer = |facts: &mut CertificateFacts| {
        part("CN", "greenbank")(facts);
        facts.issuer = "CN=Other".into();
    };
    assert_eq!(found(of_another_issuer), nobody);
    let with_the_issuer_in_its_name = |facts: &mut CertificateFacts| {
        part("CN", "greenbank;issuer=CN=Scheme")(facts);
        facts.issuer = "CN=Other".into();
    };
    assert_eq!(found(with_the_issuer_in_its_name), nobody);
    let with_alternative_names = |facts: &mut CertificateFacts| {
        part("CN", "greenbank")(facts);
        facts.has_alternative_names = true;
    };
    assert_eq!(
        found(with_alternative_names),
        nobody,
        "alternative names are used instead of the common name"
    );
}

/// A certificate with one of the names, from an issuer below one of two trusted authorities.
fn of_one_of_two(facts: &mut CertificateFacts, issuer: char, has_unique_name: bool) {
    let spki_sha256 = print(issuer);
    let is_of_only_authority = false;
    facts.verified_issuer = Some(VerifiedIssuer { spki_sha256, is_of_only_authority, has_unique_name });
}

#[test]
fn subject_name_is_bound_to_the_key_of_its_issuer() {
    let (green, nobody, no_key) = (Ok(Some("2 greenbank".to_owned())), Ok(None), Err(Denial::IssuerKey));
    let uri = |text: &'static str| move |facts: &mut CertificateFacts| facts.uris = vec![text.into()];
    let dns = |text: &'static str| move |facts: &mut CertificateFacts| facts.dns = vec![text.into()];
    type Change<'a> = &'a dyn Fn(&mut CertificateFacts);
    let ou = |text: &'static str| {
        move |facts: &mut CertificateFacts| facts.subject_parts = vec![("OU", text.into())]
    };
    for change in [&uri("fspiop:keyed/greenbank") as Change<'_>, &dns("keyed.example"), &ou("keyed")] {
        for (issuer, has_unique_name, expected) in
            [('a', false, &green), ('a', true, &green), ('b', false, &nobody), ('b', true, &nobody)]
        {
            let changed = found(|facts| {
                change(facts);
                of_one_of_two(facts, issuer, has_unique_name);
            });
            assert_eq!(&changed, expected, "{issuer} {has_unique_name}");
        }
        // An unknown issuer is treated as missing.
        let changed = found(|facts| {
            change(facts);
            facts.verified_issuer = None;
        });
        assert_eq!(changed, nobody);
    }
    // Without a key in the binding, only a trusted authority with a unique name is identified by its name.
    for (change, told, untold) in [
        (&uri("fspiop:scheme/greenbank") as Change<'_>, &no_key, &no_key),
        (&dns("green.example"), &no_key, &no_key),
        (&dns("edge.example"), &no_key, &no_key),
        (&ou("green"), &green, &no_key),
    ] {
        for (has_unique_name, expected) in [(true, told), (false, untold)] {
            let changed = found(|facts| {
                change(facts);
                of_one_of_two(facts, 'b', has_unique_name);
            });
            assert_eq!(&changed, expected, "{has_unique_name}");
        }
    }
    // The text in a certificate is not the key of its issuer.
    let suffixed: &'static str = format!("fspiop:keyed/greenbank;issuer-key={}", digest('a')).leak();
    assert_eq!(found(uri(suffixed)), nobody);
    let by_key = found(|facts| {
        facts.spki_sha256 = print('2');
        of_one_of_two(facts, 'b', false);
    });
    assert_eq!(by_key, green, "a key needs no issuer");
}

#[test]
fn certificate_bound_to_two_participants_is_ambiguous() {
    let both = |facts: &mut CertificateFacts| {
        facts.spki_sha256 = print('2');
        facts.dns = vec!["other.example".into(), "blue.example".into()];
    };
    assert_eq!(found(both), Err(Denial::Ambiguous));
    let and_a_gateways = |facts: &mut CertificateFacts| {
        facts.spki_sha256 = print('2');
        facts.dns = vec!["edge.example".into()];
    };
    assert_eq!(found(and_a_gateways), Err(Denial::Ambiguous));
    let twice = |facts: &mut CertificateFacts| {
        facts.spki_sha256 = print('2');
        facts.dns = vec!["green.example".into()];
    };
    assert_eq!(found(twice), Ok(Some("2 greenbank".to_owned())));
}

fn callers(are_bindings_required: bool) -> Callers {
    let shared = SharedParticipants::default();
    shared.set(Arc::new(participants()));
    Callers::new(shared, are_bindings_required, AddressLists::default(), None, &mut Registry::default())
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
fn bound_client_sends_for_itself_and_a_proxy_for_participants_behind_it() {
    let callers = callers(true);
    let identity = |number, name: &str| PeerIdentity { number, name: name.into() };
    let (green, bridge) = (identity(2, "greenbank"), identity(5, "bridge"));
    for (who, source, proxy, expected) in [
        (&green, Some("greenbank"), None, Ok(())),
        // Rejected by the check of the headers.
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
fn unbound_client_may_name_unbound_participants_if_the_settings_permit_it() {
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
fn rejections_do_not_reveal_the_wrong_part_of_the_proof() {
    let shown = |denial: Denial| {
        let error = denial.error();
        (error.status, error.code.number(), error.description)
    };
    let unproven = shown(Denial::Unbound);
    assert_eq!(
        unproven,
        (403, 3000, "Generic client error - the certificate does not belong to a participant".into())
    );
    assert_eq!((shown(Denial::Ambiguous), shown(Denial::Rebound)), (unproven.clone(), unproven));
    let by_token = shown(Denial::NoToken);
    assert_eq!(by_token, (401, 3000, "Generic client error - a token of the participant is required".into()));
    let expired = Denial::Token(ProofError::Token(upesi_oidc::TokenFault::Expired));
    assert_eq!((shown(Denial::Token(ProofError::Form)), shown(expired)), (by_token.clone(), by_token));
    let reasons =
        [upesi_oidc::TokenFault::Expired, upesi_oidc::TokenFault::Early, upesi_oidc::TokenFault::Signature]
            .map(|fault| Denial::Token(ProofError::Token(fault)).name());
    assert_eq!(reasons, ["token_expired", "token_not_yet_valid", "token"]);
    let no_participant = shown(Denial::Client);
    assert_eq!((no_participant.0, no_participant.1), (403, 3000));
    let by_gateway = [ProofError::NoName, ProofError::UnknownName].map(|flaw| shown(Denial::Gateway(flaw)));
    assert_eq!(by_gateway, [no_participant.clone(), no_participant.clone()]);
    assert_eq!(shown(Denial::Disagreement), no_participant);
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
fn blocked_participant_and_participants_behind_it_are_rejected() {
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
    // If a proxy is blocked, all DFSPs behind it are blocked.
    set(&["bridge"]);
    assert_eq!(check(Some(&bridge), "farbank", Some("bridge")), Err(Denial::Blocked));
    assert_eq!(check(None, "farbank", None), Err(Denial::BlockedSource));
    assert_eq!(check(Some(&green), "greenbank", None), Ok(()));
    assert!(Denial::Blocked.ends_connection() && !Denial::BlockedSource.ends_connection());
}

/// The participant of a client with these names in its certificate and these lines of `X-Client-Id`.
fn spoken(dns: &[&str], lines: &[&str]) -> Result<Option<String>, Denial> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("x-client-id", HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    let mut facts = facts();
    facts.dns = dns.iter().map(|name| (*name).to_owned()).collect();
    let proof = callers(true).prove_with(None, &mut headers, Some(&facts))?;
    let is_left = headers.contains_key("x-client-id");
    Ok(proof.map(|proof| {
        assert!(proof.is_by_gateway && !is_left, "the header is removed from the request");
        proof.identity.name.into()
    }))
}

#[test]
fn gateway_acts_only_for_participants_bound_to_it() {
    let no_name = Err(Denial::Gateway(ProofError::NoName));
    let unknown = Err(Denial::Gateway(ProofError::UnknownName));
    for (dns, lines, expected) in [
        (&["edge.example"][..], &["blue"][..], Ok(Some("bluewallet".to_owned()))),
        (&["EDGE.example"], &["blue"], Ok(Some("bluewallet".to_owned()))),
        (&["edge.example"], &[], no_name.clone()),
        (&["edge.example"], &[""], no_name.clone()),
        (&["edge.example"], &["blue", "blue"], no_name.clone()),
        (&["edge.example"], &["bl\u{fc}e"], no_name.clone()),
        (&["edge.example"], &["Blue"], unknown.clone()),
        (&["edge.example"], &["bluewallet"], unknown.clone()),
        (&["edge.example"], &["greenbank"], unknown.clone()),
        (&["edge.example"], &["far"], unknown.clone()),
        (&["edge2.example"], &["blue"], unknown),
        (&["edge.example", "edge2.example"], &["both"], Err(Denial::Ambiguous)),
        // From other clients, the hub ignores the header.
        (&["blue.example"], &["greenbank"], Ok(None)),
        (&["stranger.example"], &["blue"], Ok(None)),
        (&[], &["blue"], Ok(None)),
    ] {
        assert_eq!(spoken(dns, lines), expected, "{dns:?} says {lines:?}");
    }
}

#[test]
fn token_and_gateway_must_identify_one_bound_participant() {
    let callers = callers(true);
    let token = |client: &str, certificate| VerifiedToken {
        client: Binding::new(BindingKind::OauthClient, client).unwrap(),
        certificate,
        good_until_s: 0,
    };
    let mut edge = facts();
    edge.dns = vec!["edge.example".into()];
    let prove = |token: &VerifiedToken, facts: Option<&CertificateFacts>, name: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("x-client-id", HeaderValue::from_str(name).unwrap());
        let proof = callers.prove_with(Some(token), &mut headers, facts)?;
        Ok(proof.map(|proof| (String::from(proof.identity.name), proof.is_by_gateway)))
    };
    let blue = |is_by_gateway| Ok(Some(("bluewallet".to_owned(), is_by_gateway)));
    let confirmation = Err(Denial::Token(ProofError::Token(upesi_oidc::TokenFault::Confirmation)));
    assert_eq!(prove(&token("blue-client", None), None, "whoever"), blue(false));
    assert_eq!(prove(&token("blue-client", None), Some(&edge), "blue"), blue(true));
    assert_eq!(prove(&token("Blue-client", None), None, "blue"), Err(Denial::Client));
    assert_eq!(prove(&token("blue-client", Some(print('e').0)), Some(&edge), "blue"), blue(true));
    assert_eq!(prove(&token("blue-client", Some(print('e').0)), None, "blue"), confirmation);
    assert_eq!(prove(&token("blue-client", Some(print('1').0)), Some(&edge), "blue"), confirmation);
    edge.subject_parts = vec![("CN", "edge".into())];
    edge.has_alternative_names = false;
    edge.dns.clear();
    assert_eq!(prove(&token("blue-client", None), Some(&edge), "far"), Err(Denial::Disagreement));
}

#[test]
fn authenticated_identity_replaces_the_header() {
    let headers = headers(Some("bluewallet"), None);
    let identity = PeerIdentity { number: 2, name: "greenbank".into() };
    assert_eq!(Caller::new(&headers, Some(&identity)).name(), "greenbank");
    assert_eq!(Caller::named(&headers).name(), "bluewallet");
    assert_eq!(Caller::named(&HeaderMap::new()).name(), "-");
}

#[test]
fn participant_behind_a_proxy_must_send_through_it() {
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
    // The proxy is bound, so only it may send for farbank.
    let found = callers.check_unbound(&headers(Some("farbank"), Some("bridge")));
    assert_eq!(found, Err(Denial::Proxy));
}
