//! Changes by forms: fields, preview, permission, approval, and repeated requests.

use upesi_engine::Clock as _;
use upesi_testsupport::scheme::id;
use upesi_types::text::url_part;

use crate::access::operator;
use crate::common::{Answer, Hub, contains, link, text};
use crate::login::{OWN, cookie_of, next_code, user};

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

async fn post(hub: &Hub, lines: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let body: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", url_part(value))).collect();
    hub.send(&format!("{FORM}{lines}"), "POST", path, &body.join("&")).await
}

/// The hidden fields of a form, and the given ones.
fn with_hidden<'a>(html: &'a str, fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let form = html.split_once("action=\"/console/changes/").unwrap().1.split("</form>").next().unwrap();
    let attribute = |tag: &'a str, name: &str| {
        tag.split_once(&format!("{name}=\"")).unwrap().1.split('"').next().unwrap()
    };
    let hidden = form.split("<input type=\"hidden\"").skip(1);
    let hidden = hidden.map(|tag| (attribute(tag, "name"), attribute(tag, "value")));
    hidden.chain(fields.iter().copied()).collect()
}

#[tokio::test]
async fn deposit_shows_its_effect_and_is_made_once_however_often_it_is_sent() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let participant = hub.page("/console/participants/green").await;
    let url = link(&participant, "/console/changes/deposit");
    let form = hub.page(&url).await;
    contains(
        &form,
        &[
            "Record a deposit",
            "DFSP green",
            "Currency KES",
            "Amount",
            "Reference of the bank",
            "Show the effect",
        ],
    );
    let typed = [("amount", "3000000.50"), ("reference", "advice 17"), ("reason", "morning <b>")];
    let path = "/console/changes/deposit";
    let preview =
        post(&hub, "", path, &with_hidden(&form, &[&typed[..], &[("step", "preview")]].concat())).await;
    assert_eq!(preview.status, 200, "{}", preview.body);
    contains(
        &preview.body,
        &[
            "Effect",
            "Cover 1,000,000,000.00 1,003,000,000.50 Cap 1,000,000,000.00 1,000,000,000.00 Free",
            "3,000,000.50 KES",
            "advice 17",
            "at once",
            "Make the change",
        ],
    );
    assert!(!preview.body.contains("<b>"), "{}", preview.body);
    assert!(!hub.page("/console/funds").await.contains("advice 17"));
    let fields = with_hidden(&preview.body, &[("step", "make")]);
    for _ in 0..3 {
        let made = post(&hub, "", path, &fields).await;
        assert_eq!(
            (made.status, made.header("location")),
            (303, Some("/console/funds?participant=green")),
            "{}",
            made.body
        );
    }
    let funds = text(&hub.page("/console/funds?participant=green").await);
    assert_eq!(funds.matches("deposit 3,000,000.50 KES ✓ complete advice 17").count(), 1, "{funds}");
    contains(&hub.page("/console/participants/green").await, &["1,003,000,000.50"]);
    // The same form with another amount is another movement under the same identifier.
    let mut other = fields.clone();
    other.iter_mut().filter(|(name, _)| *name == "amount").for_each(|(_, value)| *value = "5");
    let refused = post(&hub, "", path, &other).await;
    assert!(refused.status >= 400, "{}", refused.body);
    contains(&refused.body, &["The change was not made", "The hub says", "You can send the form again"]);
    contains(&hub.page("/console/participants/green").await, &["1,003,000,000.50"]);
}

#[tokio::test]
async fn mistakes_are_shown_at_their_fields_and_keep_what_was_typed() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let url = "/console/changes/deposit?participant=green&currency=KES";
    let form = hub.page(url).await;
    for (amount, wrong) in [
        ("1e5", "Write digits only"),
        ("1,000", "Write digits only"),
        ("-5", "Write digits only"),
        ("1.505", "does not have so many decimals"),
        ("0", "must be above 0"),
        ("", "Fill in this field"),
    ] {
        let typed = [("amount", amount), ("reference", "a\"><script>"), ("reason", "r"), ("step", "make")];
        let answer = post(&hub, "", "/console/changes/deposit", &with_hidden(&form, &typed)).await;
        assert_eq!(answer.status, 400, "{amount}");
        contains(&answer.body, &["Amount", wrong, "Show the effect"]);
        assert!(
            answer.body.contains("aria-invalid=\"true\" aria-describedby=\"wrong-amount hint-amount\""),
            "{}",
            answer.body
        );
        assert!(answer.body.contains("value=\"a&#34;&#62;&#60;script&#62;\""), "{}", answer.body);
    }
    assert!(!hub.page("/console/funds").await.contains("script"));
}

#[tokio::test]
async fn withdrawal_has_two_steps_and_never_exceeds_the_cover() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let participant = hub.page("/console/participants/green").await;
    let form = hub.page(&link(&participant, "/console/changes/withdraw")).await;
    let typed = [("amount", "250"), ("reference", "w1"), ("reason", "request"), ("step", "make")];
    let made = post(&hub, "", "/console/changes/withdraw", &with_hidden(&form, &typed)).await;
    assert_eq!(made.status, 303, "{}", made.body);
    let funds = hub.page("/console/funds").await;
    contains(
        &funds,
        &[
            "Withdrawals that wait for the bank",
            "withdrawal 250.00 KES ◷ waits for the bank w1",
            "The bank has paid",
        ],
    );
    let form = hub.page(&link(&funds, "/console/changes/pay-out")).await;
    let fields = with_hidden(&form, &[("reason", "paid"), ("step", "make")]);
    assert_eq!(post(&hub, "", "/console/changes/pay-out", &fields).await.status, 303);
    contains(
        &hub.page("/console/funds").await,
        &["No withdrawal waits.", "withdrawal 250.00 KES ✓ complete w1 paid"],
    );
    let too_much = [("amount", "99999999999"), ("reference", "w2"), ("reason", "r"), ("step", "preview")];
    let form = hub.page(&link(&participant, "/console/changes/withdraw")).await;
    let preview = post(&hub, "", "/console/changes/withdraw", &with_hidden(&form, &too_much)).await;
    let made =
        post(&hub, "", "/console/changes/withdraw", &with_hidden(&preview.body, &[("step", "make")])).await;
    assert_eq!(made.status, 303, "{}", made.body);
    contains(&hub.page("/console/funds").await, &["No withdrawal waits.", "▲ not made w2"]);
}

#[tokio::test]
async fn cap_and_activity_of_a_participant_change_after_their_preview() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let path = "/console/changes/cap";
    let form = hub.page(&link(&hub.page("/console/participants/green").await, path)).await;
    let typed = [("limit", "5000"), ("alarm", "80"), ("reason", "lower risk")];
    let preview = post(&hub, "", path, &with_hidden(&form, &typed)).await;
    contains(
        &preview.body,
        &[
            "Cap 1,000,000,000.00 5,000.00 Free 1,000,000,000.00 5,000.00",
            "5,000.00 KES",
            "80 %",
            "lower risk",
        ],
    );
    assert_eq!(post(&hub, "", path, &with_hidden(&preview.body, &[("step", "make")])).await.status, 303);
    contains(&hub.page("/console/participants/green").await, &["5,000.00"]);
    // The audit trail has the reason, although the operation has no field for it.
    contains(&hub.page("/console/audit").await, &["lower risk"]);
    let suspend =
        hub.page(&link(&hub.page("/console/participants/green").await, "/console/changes/suspend")).await;
    let fields = with_hidden(&suspend, &[("reason", "certificate"), ("step", "make")]);
    assert_eq!(post(&hub, "", "/console/changes/suspend", &fields).await.status, 303);
    let page = hub.page("/console/participants/green").await;
    contains(&page, &["Resume the participant", "▲ inactive"]);
}

#[tokio::test]
async fn window_is_closed_settled_and_advanced_to_its_end() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.pay(1, "green", "blue", "1250.5").await;
    let make = async |page: &str, form: &str, fields: &[(&str, &str)]| {
        let form = hub.page(&link(&hub.page(page).await, form)).await;
        let kind =
            form.split_once("action=\"/console/changes/").unwrap().1.split('"').next().unwrap().to_owned();
        let sent = [fields, &[("reason", "day"), ("step", "make")]].concat();
        let answer = post(&hub, "", &format!("/console/changes/{kind}"), &with_hidden(&form, &sent)).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        answer.header("location").unwrap().to_owned()
    };
    assert_eq!(make("/console/windows/1", "/console/changes/close-window", &[]).await, "/console/windows/1");
    contains(&hub.page("/console/windows/1").await, &["Settle the window DEFERREDNET", "closed"]);
    assert_eq!(make("/console/windows/1", "/console/changes/settle", &[]).await, "/console/settlement");
    for stage in ["recorded", "reserved", "committed", "settled"] {
        let shown = make("/console/settlements/1", "/console/changes/advance", &[]).await;
        assert_eq!(shown, "/console/settlements/1");
        contains(&hub.page("/console/settlements/1").await, &["State", stage]);
    }
    let settled = hub.page("/console/settlements/1").await;
    assert!(!settled.contains("/console/changes/"), "{settled}");
    let again = [("settlement", "1"), ("reason", "day"), ("step", "make")];
    let refused = post(&hub, "", "/console/changes/advance", &again).await;
    assert_eq!(refused.status, 400);
    contains(&refused.body, &["The change was not made", "the settlement has ended"]);
}

#[tokio::test]
async fn form_needs_the_permission_of_its_operation() {
    let hub = Hub::launch(Some(false), "answered 503");
    upesi_testsupport::scheme::onboard(&hub.handle, &["green", "blue"]).await;
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let url = "/console/changes/deposit?participant=green&currency=KES";
    for (role, of, expected) in
        [("viewer", None, 403), ("treasury", None, 200), ("dfsp-user", Some("green"), 403)]
    {
        let token = operator(&hub, &admin, &format!("one-{role}"), role, of).await;
        let lines = format!("authorization: Bearer {token}\r\n");
        assert_eq!(hub.send(&lines, "GET", url, "").await.status, expected, "{role}");
        let fields = [
            ("participant", "green"),
            ("currency", "KES"),
            ("id", &*id(77).to_string()),
            ("amount", "5"),
            ("reference", "r"),
            ("reason", "r"),
            ("step", "make"),
        ];
        let expected = if expected == 200 { 303 } else { expected };
        assert_eq!(post(&hub, &lines, "/console/changes/deposit", &fields).await.status, expected, "{role}");
        let page = hub.send(&lines, "GET", "/console/participants/green", "").await;
        assert_eq!(page.body.contains("/console/changes/deposit"), expected == 303, "{role}");
    }
}

/// A hub for two people, with the users amina (treasury) and joseph (approver of treasury), each with a session.
async fn two_people() -> (Hub, [String; 2], upesi_testsupport::second_factor::Device) {
    let hub = Hub::launch(Some(true), "answered 503");
    upesi_testsupport::scheme::onboard(&hub.handle, &["green", "blue"]).await;
    // The only administrator acts alone.
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let amina = user(&hub, &admin, "amina", "treasury").await;
    let joseph = user(&hub, &admin, "joseph", "treasury-approver").await;
    let cookies = [cookie_of(&hub, "amina", &amina).await, cookie_of(&hub, "joseph", &joseph).await];
    (hub, cookies.map(|cookie| format!("{cookie}{OWN}")), joseph)
}

#[tokio::test]
async fn second_person_approves_with_a_new_code_and_the_proposer_cannot() {
    let (hub, [amina, joseph], device) = two_people().await;
    let url = "/console/changes/deposit?participant=green&currency=KES";
    let form = hub.send(&amina, "GET", url, "").await.body;
    let short = [("amount", "3000"), ("reference", "advice 17"), ("reason", "deposit")];
    let mistake = post(&hub, &amina, "/console/changes/deposit", &with_hidden(&form, &short)).await;
    assert_eq!(mistake.status, 400);
    contains(&mistake.body, &["Reason", "write at least 10 characters"]);
    let typed = [("amount", "3000"), ("reference", "advice 17"), ("reason", "deposit of green")];
    let preview = post(&hub, &amina, "/console/changes/deposit", &with_hidden(&form, &typed)).await.body;
    contains(&preview, &["A second operator has to approve this change.", "Propose the change"]);
    let fields = with_hidden(&preview, &[("step", "make")]);
    // A repeated form does not make a second proposal.
    for _ in 0..2 {
        let proposed = post(&hub, &amina, "/console/changes/deposit", &fields).await;
        assert_eq!(proposed.header("location"), Some("/console/approvals#proposal-1"), "{}", proposed.body);
    }
    let own = hub.send(&amina, "GET", "/console/approvals", "").await.body;
    contains(&own, &["Open 1", "Withdraw the proposal"]);
    assert!(!own.contains("/console/changes/approve"), "{own}");
    let forced = post(&hub, &amina, "/console/changes/approve", &[("proposal", "1"), ("step", "make")]).await;
    assert_eq!(forced.status, 403, "{}", forced.body);
    let queue = hub.send(&joseph, "GET", "/console/approvals", "").await.body;
    let url = link(&queue, "/console/changes/approve");
    let form = hub.send(&joseph, "GET", &url, "").await.body;
    contains(
        &form,
        &["Approve", "deposit of green", "amina", "Effect now", "Cover 1,000,000,000.00 1,000,003,000.00"],
    );
    assert!(!form.contains("type=\"password\""), "{form}");
    // Six minutes later, the last code is too old.
    hub.clock.advance(6 * 60_000);
    let form = hub.send(&joseph, "GET", &url, "").await.body;
    contains(&form, &["An approval needs a code from the last 5 minutes.", "Password", "Code"]);
    let without =
        post(&hub, &joseph, "/console/changes/approve", &with_hidden(&form, &[("step", "make")])).await;
    assert!(without.status >= 400, "{}", without.status);
    let wrong = [("password", "correct horse battery"), ("code", "000000"), ("step", "make")];
    let refused = post(&hub, &joseph, "/console/changes/approve", &with_hidden(&form, &wrong)).await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    contains(&refused.body, &["The change was not made", "Name, password or code is wrong"]);
    assert!(!refused.body.contains("correct horse battery"), "{}", refused.body);
    let code = next_code(&hub, &device);
    let right = [
        ("password", "correct horse battery"),
        ("code", &*code),
        ("comment", "advice seen"),
        ("step", "make"),
    ];
    let fields = with_hidden(&form, &right);
    let approved = post(&hub, &joseph, "/console/changes/approve", &fields).await;
    assert_eq!(
        (approved.status, approved.header("location")),
        (303, Some("/console/approvals")),
        "{}",
        approved.body
    );
    let page = hub.send(&joseph, "GET", "/console/approvals", "").await.body;
    contains(&page, &["Open 0", "1 ✓ executed", "joseph", "deposit of green"]);
    // A second approval finds nothing to approve.
    let again = post(&hub, &joseph, "/console/changes/approve", &[("proposal", "1"), ("step", "make")]).await;
    assert!(again.status >= 400, "{}", again.body);
    let funds = hub.send(&amina, "GET", "/console/funds", "").await.body;
    assert_eq!(text(&funds).matches("✓ complete advice 17").count(), 1, "{funds}");
}

#[tokio::test]
async fn rejection_needs_a_reason_that_the_proposer_sees() {
    let (hub, [amina, joseph], _) = two_people().await;
    let fields = [
        ("participant", "green"),
        ("currency", "KES"),
        ("limit", "2000000000"),
        ("alarm", "80"),
        ("reason", "request of green"),
        ("step", "make"),
    ];
    let proposed = post(&hub, &amina, "/console/changes/cap", &fields).await;
    assert_eq!(proposed.status, 303, "{}", proposed.body);
    let queue = hub.send(&joseph, "GET", "/console/approvals", "").await.body;
    let form = hub.send(&joseph, "GET", &link(&queue, "/console/changes/reject"), "").await.body;
    let empty =
        post(&hub, &joseph, "/console/changes/reject", &with_hidden(&form, &[("step", "make")])).await;
    assert_eq!(empty.status, 400);
    contains(&empty.body, &["Reason", "Fill in this field."]);
    let fields = with_hidden(&form, &[("reason", "no request of the DFSP"), ("step", "make")]);
    assert_eq!(post(&hub, &joseph, "/console/changes/reject", &fields).await.status, 303);
    let page = hub.send(&amina, "GET", "/console/approvals", "").await.body;
    contains(&page, &["Open 0", "✕ rejected", "no request of the DFSP"]);
}

#[tokio::test]
async fn form_with_a_session_needs_the_proof_of_a_page_of_the_hub() {
    let (hub, [amina, _], _) = two_people().await;
    let cookie = amina.split_once("\r\n").unwrap().0;
    let fields = [
        ("participant", "green"),
        ("currency", "KES"),
        ("limit", "2000000000"),
        ("alarm", "80"),
        ("reason", "r"),
        ("step", "make"),
    ];
    for lines in [
        format!("{cookie}\r\n"),
        format!("{cookie}\r\norigin: http://evil.example\r\nsec-fetch-site: cross-site\r\n"),
        format!("{cookie}\r\norigin: null\r\n"),
    ] {
        let answer = post(&hub, &lines, "/console/changes/cap", &fields).await;
        assert_eq!(answer.status, 403, "{lines}: {}", answer.body);
    }
    contains(&hub.send(&amina, "GET", "/console/approvals", "").await.body, &["Open 0"]);
    let unknown = post(&hub, &amina, "/console/changes/nothing", &fields).await;
    assert_eq!(unknown.status, 400);
    assert!(hub.clock.now().as_ms() > 0);
}
