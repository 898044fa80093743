use super::*;

fn expected(paid: i128, reserved: i128, received: i128) -> ExpectedPosition {
    let value = paid + reserved - received;
    ExpectedPosition { low: value, high: value, reserved, paid, received }
}

/// Ten transfers of 2 from `one` to `two`, all committed, at a hub that was in use before.
fn good() -> Evidence {
    let currency = Currency::parse("XXX").unwrap();
    let amounts = |values: [i64; 3]| {
        let names = ["one", "two", "bystander"].map(str::to_owned);
        names.into_iter().zip(values.map(|value| Amount::from_units(value).unwrap())).collect()
    };
    let books = |name: &str, position| (FspId::parse(name).unwrap(), BTreeMap::from([(currency, position)]));
    Evidence {
        sides: vec![Side {
            currency,
            amount: Amount::from_units(20_000).unwrap(),
            before: amounts([70_000, -70_000, 0]),
            after: amounts([270_000, -270_000, 0]),
            settled: BTreeMap::new(),
            in_windows: Some(10),
            committed: 10,
        }],
        expected: BTreeMap::from([
            books("one", expected(200_000, 0, 0)),
            books("two", expected(0, 0, 200_000)),
        ]),
        transfers: TransferCounts { committed: 10, incoming_committed: 10, ..TransferCounts::default() },
        counters: Counters { callbacks: 10, ..Counters::default() },
        originated: Originated { sent: 10, accepted: 10, refused: 0, unanswered: 0 },
        settlement: None,
        findings: Vec::new(),
    }
}

#[test]
fn an_honest_hub_passes() {
    let summary = audit(&good());
    assert_eq!(summary.findings, Vec::<String>::new());
    assert!(summary.ok && summary.performed && summary.positions_ok && summary.sum_ok);
    assert_eq!((summary.accepted, summary.finished, summary.in_flight, summary.lost), (10, 10, 0, 0));
    assert_eq!(summary.doubled, 0);
}

#[test]
fn money_beyond_the_books_is_told_in_transfers_and_what_is_missing_is_not_set_against_it() {
    for (positions, doubled) in [
        // Credited twice; twice for two transfers; a little more than the books say.
        ([270_000, -290_000, 0], 1),
        ([270_000, -310_000, 0], 2),
        ([270_000, -270_001, 0], 1),
        // Given back to the payer though the payee was paid.
        ([250_000, -270_000, 0], 1),
        // Credited to somebody else.
        ([270_000, -250_000, -20_000], 1),
        // The whole transfer a second time.
        ([290_000, -290_000, 0], 1),
        // Forgotten, or charged for nothing: wrong, and nothing twice.
        ([270_000, -250_000, 0], 0),
        ([290_000, -270_000, 0], 0),
    ] {
        let mut evidence = good();
        for (name, units) in ["one", "two", "bystander"].into_iter().zip(positions) {
            evidence.sides[0].after.insert(name.to_owned(), Amount::from_units(units).unwrap());
        }
        let summary = audit(&evidence);
        assert_eq!((summary.doubled, summary.ok), (doubled, false), "{positions:?}");
        let is_told = summary.findings.iter().any(|finding| finding.contains("was counted twice"));
        assert_eq!(is_told, doubled > 0, "{:?}", summary.findings);
    }
}

#[test]
fn every_kind_of_fault_is_found() {
    type Fault = fn(&mut Evidence);
    fn set(evidence: &mut Evidence, name: &str, units: i64) {
        evidence.sides[0].after.insert(name.to_owned(), Amount::from_units(units).unwrap());
    }
    let faults: [(Fault, &str); 10] = [
        (|evidence| set(evidence, "one", 290_000), "one: the hub"),
        (|evidence| set(evidence, "two", -269_999), "sum to 0.0001"),
        (|evidence| evidence.sides[0].after.retain(|name, _| name != "two"), "no position"),
        (|evidence| set(evidence, "bystander", 1), "bystander"),
        (|evidence| evidence.originated.accepted = 11, "11 accepted transfers are not 10 finished"),
        (|evidence| evidence.sides[0].in_windows = Some(9), "windows hold 9 commits in XXX, but 10"),
        (|evidence| evidence.findings.push("settlement 1 is PENDING".to_owned()), "settlement 1 is PENDING"),
        (|evidence| evidence.counters.contradictions = 1, "contradict"),
        (|evidence| evidence.counters.wrong_fulfilments_received = 1, "fulfilment"),
        (|evidence| evidence.counters.callbacks_unexpected = 1, "does not know"),
    ];
    for (fault, text) in faults {
        let mut evidence = good();
        fault(&mut evidence);
        let summary = audit(&evidence);
        assert!(!summary.ok);
        assert!(
            summary.findings.iter().any(|finding| finding.contains(text)),
            "{text}: {:?}",
            summary.findings
        );
    }
}

#[test]
fn a_transfer_without_outcome_is_lost_even_when_the_positions_agree() {
    let mut evidence = good();
    evidence.originated.accepted += 1;
    evidence.originated.sent += 1;
    evidence.transfers.accepted = 1;
    evidence.sides[0].after.insert("one".into(), Amount::from_units(290_000).unwrap());
    let currency = evidence.sides[0].currency;
    evidence
        .expected
        .insert(FspId::parse("one").unwrap(), BTreeMap::from([(currency, expected(200_000, 20_000, 0))]));
    let summary = audit(&evidence);
    assert!(summary.positions_ok && summary.sum_ok, "{:?}", summary.findings);
    assert_eq!(summary.lost, 1);
    assert!(!summary.ok);
}

#[test]
fn an_unanswered_post_may_or_may_not_have_happened() {
    for hub in [270_000, 290_000] {
        let mut evidence = good();
        evidence.originated = Originated { sent: 11, accepted: 10, refused: 0, unanswered: 1 };
        evidence.transfers.sent = 1;
        evidence.sides[0].after.insert("one".into(), Amount::from_units(hub).unwrap());
        let (name, currency) = (FspId::parse("one").unwrap(), evidence.sides[0].currency);
        let position = ExpectedPosition { high: 220_000, ..expected(200_000, 0, 0) };
        evidence.expected.insert(name, BTreeMap::from([(currency, position)]));
        assert_eq!(audit(&evidence).findings, Vec::<String>::new(), "{hub}");
    }
}

/// What was settled is no longer on the positions, and still paid and received.
#[test]
fn what_settlements_moved_is_set_against_the_positions() {
    let mut evidence = good();
    let side = &mut evidence.sides[0];
    side.settled = BTreeMap::from([("one".to_owned(), 150_000), ("two".to_owned(), -150_000)]);
    for (name, units) in [("one", 120_000), ("two", -120_000)] {
        side.after.insert(name.to_owned(), Amount::from_units(units).unwrap());
    }
    assert_eq!(audit(&evidence).findings, Vec::<String>::new());
    evidence.sides[0].settled.insert("two".to_owned(), -150_001);
    let summary = audit(&evidence);
    assert!(!summary.positions_ok && !summary.sum_ok, "{:?}", summary.findings);
}

/// Each currency is judged by itself: what one has too much does not make good for another.
#[test]
fn every_currency_is_judged() {
    let mut evidence = good();
    let other = Currency::parse("XTS").unwrap();
    evidence.sides.push(Side { currency: other, in_windows: None, ..evidence.sides[0].clone() });
    for (name, books) in &mut evidence.expected {
        let paid = if name.as_str() == "one" { expected(200_000, 0, 0) } else { expected(0, 0, 200_000) };
        books.insert(other, paid);
    }
    let summary = audit(&evidence);
    assert!(summary.ok && summary.positions.len() == 6, "{summary:?}");
    evidence.sides[1].after.insert("one".to_owned(), Amount::from_units(270_001).unwrap());
    evidence.sides[0].after.insert("one".to_owned(), Amount::from_units(269_999).unwrap());
    let summary = audit(&evidence);
    let wrong: Vec<_> =
        summary.positions.iter().filter(|check| !check.ok).map(|check| &*check.currency).collect();
    assert_eq!(wrong, ["XXX", "XTS"]);
}
