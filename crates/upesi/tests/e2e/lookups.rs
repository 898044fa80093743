//! Account lookup as DFSPs see it: registrations, lookups, answers, and all their failures.

use crate::common::World;
use crate::common::dfsp::Dfsp;
use crate::common::dialogue::hold;
use crate::common::message::Message;
use crate::common::story::part;

#[test]
fn lookup_dialogues() {
    hold(&mut World::with_lookups(&[]), part(include_str!("dialogues/lookups.txt"), "lookups"));
}

#[test]
fn registration_dialogues() {
    let mut world = World::with_lookups(&[]);
    world.open_account("redmoney", "USD");
    hold(&mut world, part(include_str!("dialogues/lookups.txt"), "participants"));
}

/// For a scheme that needs answers of DFSPs that the hub sent no request to.
#[test]
fn unasked_answers_are_forwarded_if_allowed() {
    hold(
        &mut World::with_lookups(&[("relay.unasked_answers", "true")]),
        r#"
        dialogue A lookup
          redmoney PUT /parties/MSISDN/<n> to=greenbank {"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"<n>"}}}
          → greenbank PUT sent
          redmoney PUT /participants/MSISDN/<n>/error to=greenbank {"errorInformation":{"errorCode":"3204","errorDescription":"x"}}
          → greenbank PUT sent

        dialogue A quote
          redmoney PUT /quotes/<id>/error to=greenbank {"errorInformation":{"errorCode":"5103","errorDescription":"x"}}
          → greenbank PUT sent
        "#,
    );
}

/// For a scheme that lets every DFSP change the parties of others.
#[test]
fn registration_can_be_changed_by_others_without_ownership_check() {
    hold(
        &mut World::with_lookups(&[("lookup.ownership_check", "false")]),
        r#"
        dialogue A DFSP changes another DFSP's party
          bluewallet POST /participants/MSISDN/<n> {"fspId":"bluewallet"}
          → bluewallet PUT {"partyList":[{"fspId":"bluewallet","partyIdType":"MSISDN","partyIdentifier":"<n>"}]}
          redmoney PUT /participants/MSISDN/<n> {"fspId":"redmoney"}
          → redmoney PUT {"partyList":[{"fspId":"redmoney","partyIdType":"MSISDN","partyIdentifier":"<n>"}]}
          greenbank DELETE /participants/MSISDN/<n>
          → greenbank PUT {"fspId":"greenbank"}
          greenbank GET /participants/MSISDN/<n>
          → greenbank ERROR 3204 Party not found
        "#,
    );
}

#[test]
fn extended_party_id_types_are_accepted_if_allowed() {
    hold(
        &mut World::with_lookups(&[("fspiop.extended_party_id_types", "true")]),
        r#"
        dialogue A consent
          bluewallet POST /participants/CONSENT/<n> {"fspId":"bluewallet"}
          → bluewallet PUT {"partyList":[{"fspId":"bluewallet","partyIdType":"CONSENT","partyIdentifier":"<n>"}]}
          greenbank GET /parties/CONSENT/<n>
          → bluewallet GET sent
        "#,
    );
}

#[test]
fn lookup_of_unserved_type_is_answered_with_3003() {
    let mut world = World::with_lookups(&[("lookup.builtin_directory", "false")]);
    hold(&mut world, part(include_str!("dialogues/lookups.txt"), "no directory"));
}

#[test]
fn undeliverable_lookups_are_reported_to_the_sender() {
    let mut world = World::with_lookups(&[
        ("callbacks.breaker_threshold", "1000000"),
        ("callbacks.request_timeout_ms", "1500"),
        ("callbacks.connect_timeout_ms", "1500"),
    ]);
    world.onboard("newcomer");
    hold(&mut world, part(include_str!("dialogues/lookups.txt"), "undelivered lookups"));
}

/// Some clients send a body with a GET; no receiver expects it.
#[test]
fn body_of_a_get_is_not_forwarded() {
    let world = World::with_lookups(&[]);
    for body in ["{}", "no JSON", "{\"fspId\":"] {
        let about = format!("ALIAS/{}", world.new_number());
        world.deliver(Message::of(
            "GET",
            &format!("/parties/{about}"),
            "greenbank",
            Some("bluewallet"),
            body,
        ));
        assert_eq!(world.dfsp("bluewallet").next_attempt(&about).body, "");
    }
    world.expect_silence();
}

/// A change of an operator applies to the next message.
#[test]
fn changed_endpoint_applies_to_the_next_message() {
    let world = World::with_lookups(&[]);
    let elsewhere = Dfsp::start("elsewhere");
    let base = elsewhere.base_url();
    let ask = |path: &str| {
        world.deliver(Message::of("GET", path, "greenbank", Some("bluewallet"), ""));
    };
    for (endpoint, path, arrives_at) in [
        ("{base}/parties/{{partyIdType}}/{{partyIdentifier}}", "ALIAS/a%C3%A9", "/parties/ALIAS/a%C3%A9"),
        ("{base}/{{fsp}}/{{{partyIdentifier}}}", "ALIAS/b", "/bluewallet/b"),
        ("{base}/find?type={{partyIdType}}", "ALIAS/c?currency=KES", "/find?type=ALIAS&currency=KES"),
        ("{base}/{{Type}}/{{ID}}{{SubId}}", "ALIAS/d", "/ALIAS/d"),
    ] {
        world.set_endpoint("bluewallet", "PARTIES_GET", &endpoint.replace("{base}", &base));
        let before = elsewhere.count();
        ask(&format!("/parties/{path}"));
        world.until(&(before + 1), || elsewhere.count());
        let seen = elsewhere.unexpected().pop().unwrap();
        assert_eq!(seen.path, arrives_at);
        let path = path.split('?').next().unwrap();
        // The sender's header, which it signed.
        assert_eq!(seen.header("fspiop-uri"), Some(&*format!("/switch/parties/{path}")));
    }
    // An endpoint that could not be called is rejected, and the previous one stays.
    for endpoint in ["{base}/{{partyId}}", "{base}/{{ID", "https://bluewallet/parties"] {
        let value = endpoint.replace("{base}", &base);
        let body = format!(r#"{{"type":"FSPIOP_CALLBACK_URL_PARTIES_GET","value":"{value}"}}"#);
        let answer = world.admin("POST", "/participants/bluewallet/endpoints", &body);
        assert_eq!((answer.status, answer.error_code()), (400, Some("3101")), "{value}: {answer:?}");
    }
    let before = elsewhere.count();
    ask("/parties/ALIAS/e");
    world.until(&(before + 1), || elsewhere.count());
    assert_eq!(elsewhere.unexpected().pop().unwrap().path, "/ALIAS/e");
    assert_eq!(world.dfsp("bluewallet").count(), 0);
}
