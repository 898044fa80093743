//! Texts that DFSPs and operators can fill, with markup, formulas and hidden characters, in each page and export.

use upesi_ledger::command::{Abort, AuditedCommand, Authority, OperatorAction, Prepare};
use upesi_ledger::{AdminCommand, AuditActor, Command, EndpointType};
use upesi_testsupport::scheme::{amount, id, kes, name, onboard, prepare};
use upesi_types::ErrorCode;

use crate::common::Hub;
use crate::headers::PAGES;

/// Names of new participants have neither quotation marks nor brackets.
const NAME: &str = "green";
const LONG: &str = "\"'><img src=x onerror=alert(1)>\u{202e}=cmd|'/c calc'!A1";

/// The API accepts no hidden characters from operators.
const TYPED: &str = "\"'><img src=x onerror=alert(1)>=cmd|'/c calc'!A1";

/// A hub whose every free text is hostile.
async fn filled() -> Hub {
    let hub = Hub::launch(None, LONG);
    onboard(&hub.handle, &[NAME, "blue"]).await;
    let Command::Prepare(with_extensions) = prepare(id(1), NAME, "blue", "12.5", hub.expiry()) else {
        unreachable!("a prepare")
    };
    let list = format!("[{{\"key\":{:?},\"value\":\"=1+1\"}}]", "</code><script>y</script>");
    hub.submit(Command::Prepare(Prepare { extensions: Some(list.into()), ..with_extensions })).await;
    hub.submit(Command::Abort(Abort {
        transfer: id(1).into(),
        source: name("blue"),
        destination: Some(name(NAME)),
        code: ErrorCode::from_number(5100).unwrap(),
        description: LONG.into(),
        fingerprint: [4; 16],
    }))
    .await;
    hub.pay(2, NAME, "blue", "100").await;
    let keys = hub.handle.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<_>>());
    for key in keys.await.unwrap() {
        hub.submit(Command::Park { key, attempts: 7, reason: LONG.into() }).await;
    }
    let endpoint = AdminCommand::SetEndpoint {
        name: name("blue"),
        kind: EndpointType::TRANSFER_POST,
        value: "http://x/\"><script>z</script>".into(),
    };
    hub.submit(Command::Admin(endpoint)).await;
    let raise = AdminCommand::SetLimit {
        name: name("blue"),
        currency: kes(),
        net_debit_cap: amount("2000000000"),
        alarm_basis_points: 1_000,
    };
    let by = AuditActor {
        operator: TYPED.into(),
        known_by: TYPED.into(),
        address: None,
        on_behalf_of: None,
        action: "".into(),
        reason: Some(TYPED.into()),
    };
    // One is proposed, and the other is made at once.
    for is_alone in [false, true] {
        let (action, authority) =
            (OperatorAction::Change(raise.clone()), Authority { is_alone, ..Authority::ALL });
        let act = AuditedCommand { by: by.clone(), action, authority };
        hub.submit(Command::Audited(Box::new(act))).await;
    }
    let reason = format!("{TYPED:?}").replace("\\'", "'");
    hub.change("POST", "/v2/settlementWindows/1", &format!("{{\"state\":\"CLOSED\",\"reason\":{reason}}}"))
        .await;
    let body = format!(
        "{{\"settlementModel\":\"DEFERREDNET\",\"reason\":{reason},\"settlementWindows\":[{{\"id\":1}}]}}"
    );
    hub.change("POST", "/v2/settlements", &body).await;
    hub.observe(2, 3, 1, 9);
    hub
}

fn all_pages() -> Vec<String> {
    let own = upesi_types::text::path(&["console", "participants", NAME]);
    let query = upesi_types::text::url_part(LONG);
    let objects = [
        own,
        "/console/participants/blue".to_owned(),
        format!("/console/transfers/{}", id(1)),
        format!("/console/transfers/{}", id(2)),
        "/console/windows/1".to_owned(),
        "/console/settlements/1".to_owned(),
    ];
    let echoes = [
        format!("/console/transfers?q={query}"),
        format!("/console/transfers?q=payer%3A{query}"),
        format!("/console/participants?name={query}&currency={query}&show={query}"),
        format!("/console/audit?operator={query}&object={query}&before={query}"),
        format!("/console/participants/{query}"),
        format!("/console/windows/{query}"),
        format!("/console/transfers/{query}"),
        format!("/console?sort-dfsps={query}&{query}={query}"),
    ];
    PAGES.map(str::to_owned).into_iter().chain(objects).chain(echoes).collect()
}

#[tokio::test]
async fn markup_from_outside_is_shown_as_text_in_every_page() {
    let hub = filled().await;
    let mut escaped = 0;
    for path in all_pages() {
        let page = hub.send("", "GET", &path, "").await.body;
        assert!(page.starts_with("<!doctype html>"), "{path}: {page}");
        for markup in ["<script", "<img src=x", "\u{202e}", "'><", "\"><script"] {
            assert!(!page.contains(markup), "{path} contains {markup}");
        }
        // Within a tag, a quotation mark from outside would end an attribute.
        assert!(!page.contains("onerror=alert(1)>"), "{path}");
        escaped += page.matches("&#60;script&#62;").count() + page.matches("&#60;img src=x").count();
    }
    assert!(escaped > 40, "the pages show the texts: {escaped}");
    for (path, wanted) in [
        ("/console", "onerror=alert(1)&#62;\\u202e=cmd"),
        (&*format!("/console/transfers/{}", id(1)), "&#60;/code&#62;&#60;script&#62;y"),
        (&*format!("/console/transfers/{}", id(1)), "onerror=alert(1)&#62;\\u202e=cmd"),
        ("/console/callbacks", "onerror=alert(1)&#62;\\u202e"),
        ("/console/settlement", "onerror=alert(1)&#62;=cmd"),
        ("/console/windows/1", "onerror=alert(1)&#62;=cmd"),
        ("/console/settlements/1", "onerror=alert(1)&#62;=cmd"),
        ("/console/approvals", "<q><bdi>&#34;&#39;&#62;&#60;img src=x onerror"),
        ("/console/audit", "<bdi>&#34;&#39;&#62;&#60;img src=x onerror"),
        ("/console/participants/blue", "&#60;script&#62;z"),
    ] {
        let page = hub.page(path).await;
        assert!(page.contains(wanted), "{path}: {page}");
    }
}

#[tokio::test]
async fn export_of_every_table_is_csv_without_formulas() {
    let hub = Hub::with_dfsps(&["-green", "-blue"]).await;
    hub.pay(1, "-green", "-blue", "1234.5").await;
    hub.observe(2, 3, 1, 9);
    let own = upesi_types::text::path(&["console", "participants", "-green"]);
    let mut exports = 0;
    for path in PAGES.map(str::to_owned).into_iter().chain([
        own,
        format!("/console/transfers/{}", id(1)),
        "/console/windows/1".to_owned(),
    ]) {
        let page = hub.page(&path).await;
        for part in page.split("class=\"export\" href=\"").skip(1) {
            let url = part.split('"').next().unwrap().replace("&#38;", "&");
            let answer = hub.send("", "GET", &url, "").await;
            assert_eq!(answer.status, 200, "{url}");
            assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
            let name = answer.header("content-disposition").unwrap();
            assert!(name.starts_with("attachment; filename=\"upesi-") && name.contains("-record-"), "{name}");
            let lines: Vec<_> = answer.body.split("\r\n").collect();
            assert!(lines.len() > 2 && lines.last() == Some(&""), "{url}: {}", answer.body);
            for cell in lines.iter().flat_map(|line| line.split(',')) {
                let cell = cell.trim_matches('"');
                let is_number = cell.strip_prefix('-').is_some_and(|rest| rest.parse::<f64>().is_ok());
                assert!(is_number || !cell.starts_with(['=', '+', '-', '@']), "{url}: {cell}");
            }
            exports += 1;
        }
    }
    assert!(exports >= 12, "{exports}");
    let answer = hub.send("", "GET", "/console/transfers?csv=transfers", "").await;
    let line = format!("2031-04-01T10:00:00.000Z,{},'-green,'-blue,1234.50,KES,COMMITTED,,0", id(1));
    assert!(answer.body.contains(&line), "{}", answer.body);
}
