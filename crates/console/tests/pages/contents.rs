//! The content of each page.

use upesi_ledger::command::{
    AuditedCommand, Authority, OperatorAction, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{AdminCommand, AuditActor, BindingKind, ChangeSet, Command, SetChange};
use upesi_testsupport::scheme::{amount, id, kes, name, prepare};

use crate::access::operator;
use crate::common::{Hub, contains, link, text};

/// Two DFSPs: one payment is committed, one waits for the payee.
async fn traded() -> Hub {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.pay(1, "green", "blue", "1250.5").await;
    hub.submit(prepare(id(2), "blue", "green", "40", hub.expiry())).await;
    hub
}

#[tokio::test]
async fn overview_of_failing_receiver_names_it() {
    let hub = traded().await;
    hub.observe(2, 3, 2, 8);
    hub.observe(3, 2, 10, 0);
    let page = hub.page("/console").await;
    contains(
        &page,
        &[
            "Protections are off: no login",
            "As of 2031-04-01 10:00:00 UTC",
            "requests of green to blue fail",
            "8 of 10 requests failed in the last 5 minutes.",
            "In flight 1",
            "Committed 1",
            "In the open window 1",
            "4 callbacks are being delivered",
            "Failed requests by pair, in %",
            "sender ↓ receiver → blue green",
            "green 80",
            "Positions nearest to their limit",
            "DFSPs",
            "blue ✕ stopped",
            "80 %",
            "answered 503",
        ],
    );
    assert!(page.contains("title=\"green to blue: 8 of 10 requests failed\""), "{page}");
    assert!(page.contains("/console/transfers?q=payer%3Agreen%20payee%3Ablue"), "{page}");
}

#[tokio::test]
async fn overview_of_a_quiet_hub_says_so() {
    let hub = Hub::launch(None, "");
    contains(&hub.page("/console").await, &["No payments at the moment", "Nothing waits."]);
    let page = hub.page("/console/participants").await;
    contains(&page, &["Positions", "Hub"]);
}

#[tokio::test]
async fn overview_of_a_stopped_engine_is_its_verdict_alone() {
    let mut hub = traded().await;
    hub.stop_engine();
    let answer = hub.send("", "GET", "/console", "").await;
    assert_eq!(answer.status, 503);
    contains(&answer.body, &["Overview", "The hub accepts no payments", "engine:"]);
    for figure in ["Nothing waits", "Committed", "As of", "DFSPs"] {
        assert!(!text(&answer.body).contains(figure), "{figure}: {}", answer.body);
    }
}

#[tokio::test]
async fn positions_show_side_free_amount_and_filters() {
    let hub = traded().await;
    let page = hub.page("/console/participants").await;
    contains(
        &page,
        &["green KES ✓ active 1,250.50 owes", "999,998,749.50", "blue KES", "1,210.50 is owed", "40.00"],
    );
    assert!(page.contains("owes 1,250.50; cap 1,000,000,000.00; cover 1,000,000,000.00"), "{page}");
    let filtered = text(&hub.page("/console/participants?name=BLU&currency=KES").await);
    assert!(filtered.contains("blue KES") && !filtered.contains("green KES"), "{filtered}");
    let sorted = text(&hub.page("/console/participants?sort-positions=-position").await);
    let [green, blue] = ["green KES", "blue KES"].map(|name| sorted.find(name).unwrap());
    assert!(green < blue && sorted.contains("Position ▼"), "{sorted}");
    contains(&hub.page("/console/participants?show=problems").await, &["No participant matches."]);
}

#[tokio::test]
async fn participant_has_its_positions_accounts_transfers_and_endpoints() {
    let hub = traded().await;
    let page = hub.page("/console/participants/green").await;
    contains(
        &page,
        &[
            "State ✓ active Kind DFSP",
            "Lane ✓ sending",
            "Delivered 1,234,567",
            "1,250.50 owes",
            "Undelivered callbacks",
            "Transfers 2",
            "blue green 40.00 KES ◷ reserved",
            "green blue 1,250.50 KES ✓ committed",
            "SETTLEMENT KES ✓ active −1,000,000,000.00",
            "FSPIOP_CALLBACK_URL_TRANSFER_POST http://127.0.0.1:1/transfers",
        ],
    );
    let missing = hub.send("", "GET", "/console/participants/purple", "").await;
    assert_eq!(missing.status, 400);
    contains(
        &missing.body,
        &["Nothing found", "Participant 'purple' does not exist", "Back to the overview"],
    );
}

#[tokio::test]
async fn search_leads_to_a_transfer_or_a_list_and_keeps_parties_out_of_urls() {
    let hub = traded().await;
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let search = async |text: &str| hub.send(form, "POST", "/console/transfers", &format!("q={text}")).await;
    let found = search(&format!("%20{}%20", id(1))).await;
    assert_eq!(
        (found.status, found.header("location")),
        (303, Some(&*format!("/console/transfers/{}", id(1))))
    );
    let found = search("amount%3A40+state%3Areserved").await;
    let url = "/console/transfers?q=amount%3A40%20state%3Areserved";
    assert_eq!((found.status, found.header("location")), (303, Some(url)));
    let page = hub.page(url).await;
    contains(&page, &["Transfers", "blue green 40.00 KES ◷ reserved"]);
    assert!(page.contains("value=\"amount:40 state:reserved\""), "{page}");
    let personal = search("%2B260001000000001").await;
    assert_eq!((personal.status, personal.header("location")), (200, None));
    contains(&personal.body, &["•••001 looks like the identifier of a party"]);
    assert!(!personal.body.contains("260001000000001"), "{}", personal.body);
    for text in ["payer%3A%2B260001000000001", "tel%3A%2B260001000000001", "green+x2600010000"] {
        let personal = search(text).await;
        assert_eq!((personal.status, personal.header("location")), (200, None), "{text}");
        assert!(!personal.body.contains("2600010000"), "{}", personal.body);
    }
    for text in ["amount%3A260001000000001", "2600010", "260+001+000", "payer%3Atel2600010", "payer%3Aamina"]
    {
        let found = search(text).await;
        assert_eq!((found.status, found.header("location")), (200, None), "{text}");
        for link in found.body.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(!link.contains("260") && !link.contains("amina"), "{text}: {link}");
        }
    }
    let unknown = search(&format!("{}+purple", id(1))).await;
    assert_eq!((unknown.status, unknown.header("location")), (200, None));
    contains(&unknown.body, &["purple is neither an identifier of a transfer"]);
    let wrong = hub.page("/console/transfers?q=payer%3Apurple").await;
    contains(&wrong, &["Participant 'purple' does not exist"]);
    contains(
        &hub.page("/console/transfers?q=green").await,
        &["green was read as the payer or the payee.", "1,250.50"],
    );
}

#[tokio::test]
async fn list_of_transfers_is_newest_first_and_continues() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=103 {
        hub.clock.advance(10);
        hub.pay(number, "green", "blue", &number.to_string()).await;
    }
    let page = hub.page("/console/transfers").await;
    contains(
        &page,
        &["Transfers 100", "blue 103.00 KES", "blue 102.00 KES", "blue 4.00 KES", "Continue the search"],
    );
    let rest = hub.page(&link(&page, "/console/transfers?cursor=")).await;
    contains(&rest, &["Transfers 3", "blue 3.00 KES", "blue 2.00 KES", "blue 1.00 KES"]);
}

/// Such a text is never a part of a URL, so the following pages and the export need requests with a body.
#[tokio::test]
async fn search_outside_the_url_continues_and_exports() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=103 {
        hub.pay(number, "green", "blue", "26000100").await;
    }
    hub.pay(104, "green", "blue", "5").await;
    let post = async |rest: &str| {
        hub.send("", "POST", "/console/transfers", &format!("q=amount%3A26000100{rest}")).await
    };
    let first = post("").await;
    assert_eq!((first.status, first.header("location")), (200, None));
    contains(&first.body, &["Transfers 100", "26,000,100.00 KES", "CSV", "Continue the search"]);
    assert!(
        first.body.contains("<input type=\"hidden\" name=\"q\" value=\"amount:26000100\">"),
        "{}",
        first.body
    );
    assert!(!first.body.contains("q=amount%3A26"), "{}", first.body);
    let (_, cursor) = first.body.split_once("name=\"cursor\" value=\"").unwrap();
    let cursor = cursor.split('"').next().unwrap();
    contains(&post(&format!("&cursor={cursor}")).await.body, &["Transfers 3"]);
    let csv = post("&csv=transfers").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    assert_eq!(csv.body.matches("26000100.00,KES").count(), 100, "{}", csv.body);
    assert_eq!(csv.body.lines().count(), 101);
}

#[tokio::test]
async fn times_name_their_zone() {
    let hub = traded().await;
    let page = hub.page("/console/transfers").await;
    contains(&page, &["Prepared (UTC)", "2031-04-01 10:00:00"]);
    let page = hub.page(&format!("/console/transfers/{}", id(1))).await;
    contains(&page, &["Begin (UTC)", "Time (UTC)", "Prepared 2031-04-01 10:00:00 UTC"]);
    contains(&hub.page("/console/settlement").await, &["Opened (UTC)", "Changed (UTC)"]);
    contains(&hub.page("/console/system").await, &["Value", "Started 2031-04-01 10:00:00 UTC"]);
    contains(&hub.page("/console/participants/green").await, &["Created 2031-04-01 10:00:00 UTC"]);
    let csv = hub.page("/console/transfers?csv=transfers").await;
    assert!(csv.starts_with("prepared,transfer,") && csv.contains("\r\n2031-04-01T10:00:00.000Z,"), "{csv}");
}

#[tokio::test]
async fn transfer_is_told_in_a_sentence_a_timeline_and_movements() {
    let hub = traded().await;
    let page = hub.page(&format!("/console/transfers/{}", id(1))).await;
    contains(
        &page,
        &[
            "✓ committed",
            "1,250.50 KES",
            "green pays 1,250.50 KES to blue: committed since 2031-04-01 10:00:00.000 UTC .",
            "Next step the hub has to deliver the pending callbacks",
            "Settlement settlement window 1 is open, not in a settlement yet.",
            "Timeline",
            "Prepare green POST /transfers",
            "Callback blue POST /transfers",
            "◷ pending",
            "End blue",
            "Effect on the positions",
            "green 3 reserved +1,250.50 KES",
            "blue 5 committed −1,250.50 KES",
            "Positions now",
        ],
    );
    let waiting = hub.page(&format!("/console/transfers/{}", id(2))).await;
    contains(&waiting, &["◷ reserved", "blue pays 40.00 KES to green", "waits for the payee"]);
    let unknown = hub.send("", "GET", &format!("/console/transfers/{}", id(9)), "").await;
    assert_eq!(unknown.status, 400);
    contains(&unknown.body, &["Nothing found", "does not exist"]);
}

#[tokio::test]
async fn transfer_that_its_commit_settles_releases_the_payer_and_moves_covers() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let model = r#"{"name":"GROSSKES","settlementGranularity":"GROSS","settlementInterchange":"BILATERAL",
        "settlementDelay":"IMMEDIATE","currency":"KES","requireLiquidityCheck":true,
        "ledgerAccountType":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#;
    hub.change("POST", "/settlementModels", model).await;
    hub.pay(1, "green", "blue", "1250.5").await;
    let page = hub.page(&format!("/console/transfers/{}", id(1))).await;
    contains(
        &page,
        &[
            "Effect on the positions",
            "green 3 reserved +1,250.50 KES",
            "green 3 released −1,250.50 KES",
            "The commit settled the transfer",
            "Positions now",
            "green 0.00",
            "blue 0.00",
        ],
    );
}

#[tokio::test]
async fn callbacks_show_lanes_and_undelivered_messages() {
    let hub = traded().await;
    let page = hub.page("/console/callbacks").await;
    contains(&page, &["blue ✕ stopped", "1,234,567", "answered 503", "green ✓ sending"]);
    contains(&page, &["Undelivered callbacks", "blue ◷ pending POST /transfers", &id(1).to_string()]);
}

#[tokio::test]
async fn window_and_settlement_show_obligations_and_a_zero_sum() {
    let hub = traded().await;
    hub.pay(3, "blue", "green", "250").await;
    hub.change("POST", "/v2/settlementWindows/1", r#"{"state":"CLOSED","reason":"end of day"}"#).await;
    let body = r#"{"settlementModel":"DEFERREDNET","reason":"EOD","settlementWindows":[{"id":1}]}"#;
    hub.change("POST", "/v2/settlements", body).await;
    let list = hub.page("/console/settlement").await;
    contains(
        &list,
        &[
            "Settlement windows",
            "1 ◷ in settlement 2 1,500.50 KES",
            "Settlements",
            "1 ◷ created DEFERREDNET 1 2",
        ],
    );
    let window = hub.page("/console/windows/1").await;
    contains(
        &window,
        &[
            "Payers by payees, KES",
            "blue 250.00 250.00",
            "green 1,250.50 1,250.50",
            "Total received 1,250.50 250.00",
            "Net receives 1,000.50 pays 1,000.50",
        ],
    );
    assert!(!window.contains("Sum of all net amounts"), "{window}");
    let settlement = hub.page("/console/settlements/1").await;
    contains(
        &settlement,
        &["◷ created recorded", "green 3 1,000.50 pays KES", "blue 5 1,000.50 receives KES"],
    );
    contains(&settlement, &["✓ Sum of all net amounts: 0.00 KES"]);
    let missing = hub.send("", "GET", "/console/settlements/9", "").await;
    contains(&missing.body, &["Settlement with ID '9' not found"]);
}

#[tokio::test]
async fn every_window_and_settlement_is_reachable() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=102 {
        hub.pay(number, "green", "blue", "5").await;
        let path = format!("/v2/settlementWindows/{number}");
        hub.change("POST", &path, r#"{"state":"CLOSED","reason":"end of day"}"#).await;
        let windows = format!("[{{\"id\":{number}}}]");
        let body = format!(
            "{{\"settlementModel\":\"DEFERREDNET\",\"reason\":\"EOD\",\"settlementWindows\":{windows}}}"
        );
        hub.change("POST", "/v2/settlements", &body).await;
    }
    contains(&hub.page("/console").await, &["102 settlements are in progress"]);
    let page = hub.page("/console/settlement").await;
    contains(
        &page,
        &["Settlement windows 100", "103 open", "102 ◷", "4 ◷", "Older windows", "Settlements 100"],
    );
    let older = hub.page(&link(&page, "/console/settlement?windows-before=")).await;
    contains(&older, &["Settlement windows 3", "3 ◷", "1 ◷", "Settlements 100", "Older settlements"]);
    let older = hub.page(&link(&page, "/console/settlement?settlements-before=")).await;
    contains(&older, &["Settlement windows 100", "Settlements 2", "2 ◷ created", "1 ◷ created"]);
}

#[tokio::test]
async fn window_of_many_dfsps_says_that_the_matrix_is_left_out() {
    let names: Vec<_> = (1..=41).map(|number| format!("dfsp{number}")).collect();
    let hub = Hub::with_dfsps(&names.iter().map(|name| &**name).collect::<Vec<_>>()).await;
    for (number, name) in (1..).zip(&names[1..]) {
        hub.pay(number, "dfsp1", name, "5").await;
    }
    let page = hub.page("/console/windows/1").await;
    contains(&page, &["The matrix of KES is left out, because it has more than 40 DFSPs.", "dfsp1 dfsp41 1"]);
    assert!(!text(&page).contains("Payers by payees"), "{page}");
}

#[tokio::test]
async fn audit_trail_is_newest_first_and_filtered() {
    let hub = traded().await;
    for (name, active) in [("green", false), ("green", true)] {
        hub.change("PUT", &format!("/participants/{name}"), &format!("{{\"isActive\":{active}}}")).await;
        hub.clock.advance(60_000);
    }
    let page = hub.page("/console/audit").await;
    contains(&page, &["anonymous participant.enable", "✓ done", "anonymous participant.disable"]);
    let filtered = text(&hub.page("/console/audit?action=participant.disable").await);
    assert!(
        filtered.contains("participant.disable") && !filtered.contains("participant.enable"),
        "{filtered}"
    );
    for (range, disables, enables) in [
        ("from=2031-04-01T10:01:00.000Z", false, true),
        ("to=2031-04-01T10:01:00.000Z", true, false),
        ("from=2031-04-01T10:00:00.000Z&to=2031-04-01T10:02:00.000Z", true, true),
        ("from=2031-04-01T10:05:00.000Z", false, false),
        ("to=2031-04-01T09:00:00.000Z", false, false),
    ] {
        let page = text(&hub.page(&format!("/console/audit?{range}")).await);
        let shown = ["participant.disable", "participant.enable"].map(|action| page.contains(action));
        assert_eq!(shown, [disables, enables], "{range}: {page}");
    }
}

#[tokio::test]
async fn system_shows_parts_and_progress() {
    let hub = traded().await;
    let page = hub.page("/console/system").await;
    contains(
        &page,
        &[
            "Version",
            "Last record",
            "Clock agrees with the clock of the machine",
            "journal ✓ works",
            "archive ✓ works",
        ],
    );
}

#[tokio::test]
async fn approvals_without_second_person_say_so() {
    let hub = Hub::with_dfsps(&["green"]).await;
    contains(&hub.page("/console/approvals").await, &["requires no second person", "No proposal waits."]);
}

/// An operator's action. The policy may require a second person for it.
async fn act(hub: &Hub, operator: &str, action: OperatorAction) {
    let by = AuditActor {
        operator: operator.into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "limit.raise".into(),
        reason: Some("more business".into()),
    };
    hub.submit(Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }))).await;
}

fn raise(cap: &str) -> AdminCommand {
    AdminCommand::SetLimit {
        name: name("blue"),
        currency: kes(),
        net_debit_cap: amount(cap),
        alarm_basis_points: 1_000,
    }
}

fn decision(id: u64, kind: ProposalDecisionKind) -> OperatorAction {
    OperatorAction::Decide(ProposalDecision { id, kind, comment: None })
}

#[tokio::test]
async fn ended_proposals_are_newest_first_and_all_reachable() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    for number in 1..=104 {
        act(&hub, "maker", OperatorAction::Change(raise("2000000000"))).await;
        if number < 104 {
            act(&hub, "maker", decision(number, ProposalDecisionKind::Withdraw)).await;
        }
    }
    let page = hub.page("/console/approvals").await;
    let ended = "Ended proposals, newest first";
    contains(
        &page,
        &["Open 1", "Proposal 104", &format!("{ended} 100"), "103 ▲ withdrawn", "102 ▲ withdrawn"],
    );
    contains(&page, &["4 ▲ withdrawn", "Next page"]);
    let rest = hub.page(&link(&page, "/console/approvals?before=")).await;
    contains(&rest, &["Proposal 104", &format!("{ended} 3"), "3 ▲ withdrawn", "1 ▲ withdrawn"]);
    assert!(!text(&rest).contains("Next page"), "{rest}");
}

/// A set that stopped waits for a person, as a pending one does.
#[tokio::test]
async fn stopped_change_set_is_open_with_its_reason() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let bind = |to: &str| AdminCommand::AddBinding {
        name: name(to),
        kind: BindingKind::SanDns,
        value: "a.example".into(),
    };
    let changes = [raise("2000000000"), bind("green")].map(SetChange::new);
    let set = AdminCommand::ChangeSet(ChangeSet { name: "new rules".into(), changes: changes.into() });
    act(&hub, "maker", OperatorAction::Change(set)).await;
    act(&hub, "checker", decision(1, ProposalDecisionKind::Approve(|_| "the binding exists".to_owned())))
        .await;
    hub.submit(Command::Admin(bind("blue"))).await;
    upesi_admin::continue_change_sets(hub.handle.clone()).await;
    let page = hub.page("/console/approvals").await;
    contains(
        &page,
        &["Open 1", "Proposal 1", "The change set has stopped: 1 of 2 changes are made.", "Ended"],
    );
    contains(&page, &["Approve Proposal 1", "No proposal has ended yet."]);
}

#[tokio::test]
async fn connections_show_bindings_keys_blocks_and_what_is_missing() {
    let hub = traded().await;
    let contents = [
        ("POST", "/participants/green/bindings", r#"{"kind":"subject","value":"CN=green;issuer=CN=scheme"}"#),
        ("POST", "/blocks", r#"{"kind":"participant","value":"blue"}"#),
    ];
    for (method, path, body) in contents {
        hub.change(method, path, body).await;
    }
    let page = hub.page("/console/connections").await;
    contains(
        &page,
        &[
            "green ✓ active ✓ sending subject: 1 ▲ none",
            "blue ✓ active ✕ stopped none ▲ none",
            "No participant has a valid signature key.",
            "The hub does not sign its messages.",
            "Blocks CSV Kind Value Since (UTC) participant blue 2031-04-01 10:00:00",
        ],
    );
}

#[tokio::test]
async fn operators_show_roles_and_credentials() {
    let hub = Hub::launch(Some(false), "");
    let admin = operator(&hub, &hub.bootstrap(), "ida", "iam-admin", None).await;
    operator(&hub, &admin, "vera", "viewer", None).await;
    let page = hub.send(&format!("authorization: Bearer {admin}\r\n"), "GET", "/console/operators", "").await;
    contains(
        &page.body,
        &[
            "ida ✓ active iam-admin 1 2031-04-01 10:00:00",
            "vera ✓ active viewer 1 2031-04-01 10:00:00",
            "Credential Kind Created (UTC) Ends (UTC) ida 1 token 2031-04-01 10:00:00 2031-06-30 10:00:00",
            "No user is logged in.",
            "Actions that need a second operator",
            "This hub requires no second person.",
        ],
    );
}

#[tokio::test]
async fn directory_of_a_hub_without_one_says_so() {
    let hub = traded().await;
    contains(
        &hub.page("/console/directory").await,
        &["This hub has no directory.", "The hub has no oracle."],
    );
}
