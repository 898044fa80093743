//! Valid and invalid content of scheme files.

use std::path::Path;

use upesi_pki::{Authority, KeyKind, Order, SigningKey, Usage};
use upesi_process::exit::Exit;
use upesi_types::Amount;

use super::applying::{apply, finished_hub};
use crate::scheme::read;
use crate::scheme::reading::parse;

fn mistakes(text: &str) -> Vec<String> {
    parse("s.toml", text).map(|_| ()).expect_err(text)
}

#[test]
fn file_in_another_language_is_reported_as_such() {
    for text in
        ["---\nname: test\n", "# a scheme\n\nname: test\ncurrencies:\n  - KES\n", "- KES\n", "\"dfsp\":\n"]
    {
        assert_eq!(mistakes(text), ["s.toml: it looks like YAML; a scheme file is TOML"], "{text}");
    }
    assert_eq!(mistakes("\n{\"name\": 1}\n"), ["s.toml: it looks like JSON; a scheme file is TOML"]);
    for text in ["name = test\n", "[dfsp\nname: x\n", "http://green:\n"] {
        assert!(!mistakes(text)[0].contains("looks like"), "{text}");
    }
}

const HEAD: &str = "name = \"test\"\ncurrencies = [\"KES\"]\n";

#[test]
fn example_has_eight_dfsps_at_the_simulators() {
    let scheme = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheme.toml")).unwrap();
    assert_eq!(scheme.dfsps.len(), 8);
    let first = &scheme.dfsps[0];
    assert_eq!(
        first.endpoints["FSPIOP_CALLBACK_URL_TRANSFER_PUT"],
        "http://127.0.0.1:5000/dfsp-1/transfers/{{transferId}}"
    );
    let terms = first.accounts.values().next().unwrap();
    assert_eq!(terms.net_debit_cap, Amount::parse_decimal("1000000").unwrap());
    let last = &scheme.dfsps[7];
    assert_eq!(last.endpoints["NET_DEBIT_CAP_ADJUSTMENT_EMAIL"], "treasury@dfsp-8.example");
    assert_eq!(last.accounts.values().next().unwrap().net_debit_cap.to_string(), "500000.5");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn mistakes_are_reported_with_their_lines() {
    for (text, expected) in [
        ("name = \"test\"\n", vec!["s.toml:1: \"currencies\" is missing"]),
        (
            &format!(
                "{HEAD}[[dfsp]]\nname = \"aa\"\naccounts.KES = {{ net_debit_cap = 1 }}\nbindings = [\"san-dns:a.example\",\n\
                 \"san-dns:A.example\", \"key:1\",\n\"san-dns:*.example\"]\n[[dfsp]]\nname = \"bb\"\naccounts.KES = \
                 {{ net_debit_cap = 1 }}\nbindings = [\"san-dns:a.example\"]\n"
            ),
            vec![
                "s.toml:7: binding \"san-dns:A.example\" is listed twice",
                "s.toml:7: \"key:1\" is not a binding: write KIND:VALUE, where KIND is one of spki-sha256, cert-sha256, san-uri, \
                 san-dns, subject, oauth-client, gateway",
                "s.toml:8: \"san-dns:*.example\" is not a binding: the value after san-dns: must be a host name without wildcards, \
                 and may end with ;issuer-key=SHA-256",
                "s.toml:10: \"aa\" has the binding san-dns:a.example, too",
            ],
        ),
        (
            "name = 1\ncurrencies = [\"KES\"]\ncurrency = 1\nhub = \"Hub\"\nport = 1\n",
            vec![
                "s.toml:1: name: invalid type: integer `1`, expected a string",
                "s.toml:3: \"currency\" is not a key here; did you mean \"currencies\"?",
                "s.toml:5: \"port\" is not a key here; the keys are name, hub, currencies, model, hub_endpoints, defaults, dfsp, fee_rule",
            ],
        ),
        (
            "name = \ncurrencies = [\"KES\"]\nhub = [\n",
            vec![
                "s.toml:1: string values must be quoted, expected literal string",
                "s.toml:3: unclosed array, expected `]`",
            ],
        ),
        (
            "name = \"t\"\ncurrencies = [\"KES\", \"kes\",\n\"KES\"]\n",
            vec![
                "s.toml:2: \"kes\" is not a currency code; write it as KES",
                "s.toml:3: KES is listed twice",
                "s.toml:1: \"t\" is not a name: give 2 to 30 printable ASCII characters",
            ],
        ),
        (
            &format!("{HEAD}[[model]]\nname = \"NET KES\"\ncurrency = \"USD\"\ndelay = \"IMMEDIATE\"\n"),
            vec![
                "s.toml:3: \"NET KES\" is not a valid name of a model: give 2 to 30 letters and digits",
                "s.toml:3: model NET KES: \"USD\" is not among the scheme's currencies",
                "s.toml:3: model NET KES: NET MULTILATERAL IMMEDIATE is not a kind of settlement; the kinds are GROSS BILATERAL IMMEDIATE, GROSS BILATERAL DEFERRED, NET BILATERAL DEFERRED and NET MULTILATERAL DEFERRED",
            ],
        ),
        (
            &format!("{HEAD}[[dfsp]]\nname = \"green\"\nbase_url = \"ftp://x\"\n"),
            vec![
                "s.toml:5: \"ftp://x\" does not begin with http:// or https://, the schemes that can be called",
                "s.toml:4: \"green\" has no account: write [dfsp.accounts.CODE] or [defaults.accounts.CODE]",
            ],
        ),
        (
            &format!(
                "{HEAD}[defaults.accounts.KES]\nnet_debit_cap = 1\n[[dfsp]]\nname = \"green\"\nbase_url = \"http://127.1\"\n\
                 [dfsp.endpoints]\nFSPIOP_CALLBACK_URL_TRANSFER_PUT = \"http://{{{{transferId}}}}.example/\"\n\
                 FSPIOP_CALLBACK_URL_TRANSFER_POST = \"http://green:0/\"\n"
            ),
            vec![
                "s.toml:7: an IPv4 address in a URL must be four decimal numbers, such as 192.0.2.1",
                "s.toml:9: \"http://{{transferId}}.example/\" must not have placeholders in its host or port",
                "s.toml:10: \"http://green:0/\" must have a port from 1 to 65535 without leading zeros, or none",
            ],
        ),
        (
            &format!(
                "{HEAD}[defaults.accounts.KES]\nnet_debit_cap = 1\n[[dfsp]]\nname = \"hub\"\n[[dfsp]]\nname = \"green\"\n\
                 [[dfsp]]\nname = \"GREEN\"\n[[dfsp]]\nname = \"green\"\n"
            ),
            vec![
                "s.toml:6: \"hub\" differs from \"Hub\" only in case",
                "s.toml:10: \"GREEN\" differs from \"green\" only in case",
                "s.toml:12: \"green\" is listed twice",
            ],
        ),
        (
            &format!("{HEAD}[[dfsp]]\nname = \"green\"\n[dfsp.accounts.KES]\nnet_debit_cap = 1.5\n"),
            vec![
                "s.toml:6: net_debit_cap: invalid type: floating point `1.5`, expected an amount: a whole number, or a string such as \"12.50\"",
            ],
        ),
        (
            &format!(
                "{HEAD}[defaults.accounts.KES]\nnet_debit_cap = 1\n[[dfsp]]\nname = \"green\"\nproxied = [\"far\"]\n\
                 [[dfsp]]\nname = \"bridge\"\nis_proxy = true\nproxied = [\"far\", \"x\", \"green\", \"ok\", \"ok\"]\n\
                 [[dfsp]]\nname = \"ok\"\n"
            ),
            vec![
                "s.toml:7: only a proxy has DFSPs behind it: add is_proxy = true",
                "s.toml:9: \"far\" is behind \"green\", too",
                "s.toml:9: \"green\" is behind \"bridge\" and a DFSP of this scheme",
                "s.toml:11: \"x\" is not a name: give 2 to 30 printable ASCII characters",
                "s.toml:11: \"ok\" is listed twice",
                "s.toml:13: \"ok\" is behind \"bridge\" and a DFSP of this scheme",
            ],
        ),
        (
            &format!(
                "{HEAD}[[dfsp]]\nname = \"green\"\naccounts.KES = {{ net_debit_cap = -1, funds = \"1.23456\" }}\n"
            ),
            vec![
                "s.toml:5: net_debit_cap -1 must not be negative",
                "s.toml:5: funds \"1.23456\" exceeds allowed scale of 4",
            ],
        ),
        (
            &format!(
                "{HEAD}[[dfsp]]\nname = \"green\"\naccounts.KES = {{ net_debit_cap = 1, alarm_percentage = 101 }}\n\
                 [[dfsp]]\nname = \"blue\"\naccounts.KES = {{ net_debit_cap = 1, alarm_percentage = \"0.001\" }}\n"
            ),
            vec![
                "s.toml:5: alarm_percentage must be 0 to 100 with at most two decimal places",
                "s.toml:8: alarm_percentage must be 0 to 100 with at most two decimal places",
            ],
        ),
        (
            &format!("{HEAD}[[dfsp]]\nname = \"green\"\naccounts.USD = {{ net_debit_cap = 1 }}\n"),
            vec!["s.toml:5: \"USD\" is not among the scheme's currencies"],
        ),
        (
            &format!(
                "{HEAD}[[dfsp]]\nname = \"green\"\naccounts.KES = {{ net_debit_cap = 1 }}\n[dfsp.endpoints]\n\
                 FSPIOP_CALLBACK_URL_TRANSFERS_POST = \"http://x/transfers\"\n\
                 FSPIOP_CALLBACK_URL_TRANSFER_PUT = \"x/{{{{transferId}}}}\"\n"
            ),
            vec![
                "s.toml:7: \"FSPIOP_CALLBACK_URL_TRANSFERS_POST\" is not an endpoint type; did you mean \
                 FSPIOP_CALLBACK_URL_TRANSFER_POST?",
                "s.toml:8: \"x/{{transferId}}\" must be a URL that begins with http:// or https:// and has no fragment",
            ],
        ),
        (
            // Everything in one file: a value of the wrong type does not hide other mistakes.
            &format!(
                "{HEAD}[[model]]\nname = \"NET\"\ndelay = 1\nsettlement_account_type = \"POSITION\"\nlocal = true\n\
                 [[model]]\nname = \"net\"\n[defaults]\nbase_url = \"http://x/{{nmae}}\"\n[defaults.accounts.KES]\n\
                 cap = 1\n[[dfsp]]\nname = \"green\"\nis_active = 1\nis_proxi = true\n[[dfsp]]\nnamed = \"blue\"\n"
            ),
            vec![
                "s.toml:3: model NET: settlement_account_type must be SETTLEMENT or INTERCHANGE_FEE_SETTLEMENT, not \"POSITION\"",
                "s.toml:5: delay: invalid type: integer `1`, expected a string",
                "s.toml:7: \"local\" is not a key here; the keys are name, currency, granularity, interchange, delay, \
                 ledger_account_type, settlement_account_type, require_liquidity_check, auto_position_reset",
                "s.toml:8: model \"net\" is listed twice; names must differ in more than case",
                "s.toml:8: model net: model NET already governs POSITION accounts without a currency",
                "s.toml:11: \"http://x/{nmae}\" has an unknown {nmae}: the only placeholder of base_url is {name}, the DFSP's name",
                "s.toml:12: \"net_debit_cap\" is missing",
                "s.toml:13: \"cap\" is not a key here; the keys are net_debit_cap, alarm_percentage, funds",
                "s.toml:16: is_active: invalid type: integer `1`, expected a boolean",
                "s.toml:17: \"is_proxi\" is not a key here; did you mean \"is_proxy\"?",
                "s.toml:18: \"name\" is missing",
                "s.toml:19: \"named\" is not a key here; did you mean \"name\"?",
            ],
        ),
        (
            &format!(
                "{HEAD}[defaults]\nbase_url = \"http://x/{{{{transferId}}}}\"\n[defaults.accounts.KES]\nnet_debit_cap = 1\n\
                 [[dfsp]]\nname = \"green\"\n[dfsp.endpoints]\n\
                 FSPIOP_CALLBACK_URL_TRANSFER_PUT = \"http://x/{{id}}\"\n\
                 FSPIOP_CALLBACK_URL_TRANSFER_ERROR = \"http://x/{{{{party}}}}\"\n\
                 FSPIOP_CALLBACK_URL_QUOTES = \"http://x/{{{{transferId}}}}\"\n"
            ),
            vec![
                "s.toml:4: \"http://x/{{transferId}}\" has an unknown {transferId}: the only placeholder of base_url is {name}, the \
                 DFSP's name",
                "s.toml:10: \"http://x/{id}\" has an unknown {id}: the file replaces {name} with the DFSP's name, and the hub fills in \
                 names between two braces, such as {{transferId}}",
                "s.toml:11: \"http://x/{{party}}\" may have the placeholders transferId, id, ID; not party",
                "s.toml:12: \"http://x/{{transferId}}\" must have neither query nor placeholders: paths are appended to it",
            ],
        ),
    ] {
        let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
        let line = |mistake: &String| mistake.split(':').nth(1).and_then(|line| line.parse::<u32>().ok());
        let found = mistakes(text);
        assert!(found.is_sorted_by_key(line), "{found:?}");
        let sorted = |mut mistakes: Vec<String>| {
            mistakes.sort();
            mistakes
        };
        assert_eq!(sorted(found), sorted(expected), "{text}");
    }
}

// Rules for interchange fees in scheme files.

const DFSP: &str = "\
name = \"test\"
currencies = [\"KES\"]

[[dfsp]]
name = \"greenbank\"
accounts.KES = { net_debit_cap = 6000 }
";

const RULE: &str = "
[[fee_rule]]
name = \"WALLET\"
currency = \"KES\"
payers = [\"greenbank\"]
rate_percent = \"0.6\"
paid_by = \"PAYER\"
from = \"2031-05-01T00:00:00.000Z\"
";

/// The rule in the hub's form.
fn listed(change: (&str, &str)) -> String {
    let rule = r#"[{"feeRuleId":1,"name":"WALLET","currency":"KES","payers":["greenbank"],"payees":[],"amountMin":0,
        "amountMax":null,"ratePercent":0.6,"decimals":2,"fixed":0,"paidBy":"PAYER","from":"2031-05-01T00:00:00.000Z",
        "until":null}]"#;
    assert!(rule.contains(change.0), "{}", change.0);
    rule.replace(change.0, change.1)
}

#[test]
fn mistakes_of_fee_rules_are_reported_with_their_lines() {
    let mistakes = |rule: &str| parse("s.toml", &format!("{DFSP}{rule}")).map(|_| ()).expect_err(rule);
    for (from, to, expected) in [
        ("name = \"WALLET\"", "", "s.toml:8: \"name\" is missing"),
        (
            "WALLET",
            "NO-DASH",
            "s.toml:8: \"NO-DASH\" is not a valid name of a fee rule: give 2 to 30 letters and digits",
        ),
        ("\"KES\"", "\"TZS\"", "s.toml:10: \"TZS\" is not among the scheme's currencies"),
        ("\"PAYER\"", "\"HUB\"", "s.toml:13: paid_by must be \"PAYER\" or \"PAYEE\""),
        ("\"0.6\"", "\"100.0001\"", "s.toml:8: rate_percent must be 0 to 100"),
        ("\"0.6\"", "\"-1\"\nfixed = 1", "s.toml:12: rate_percent -1 must not be negative"),
        ("\"0.6\"", "0", "s.toml:8: the rule charges nothing: give rate_percent, fixed, or both"),
        ("\"0.6\"", "1\ndecimals = 5", "s.toml:8: decimals must be 0 to 4"),
        ("\"0.6\"", "1\namount_min = 2\namount_max = 1", "s.toml:8: amount_max must not be below amount_min"),
        (
            "2031-05-01T00:00:00.000Z",
            "May",
            "s.toml:14: from \"May\": give a time in UTC, such as \"2031-04-01T12:00:00.000Z\"",
        ),
        (
            "paid_by",
            "until = \"2031-04-01T12:00:00.000Z\"\npaid_by",
            "s.toml:8: until must be later than from",
        ),
        ("payers", "payer", "s.toml:11: \"payer\" is not a key here; did you mean \"payers\"?"),
    ] {
        assert!(RULE.contains(from), "{from}");
        assert_eq!(mistakes(&RULE.replace(from, to)), [expected]);
    }
    assert_eq!(mistakes(&format!("{RULE}{RULE}")), ["s.toml:16: fee rule \"WALLET\" is listed twice"]);
}

#[test]
fn missing_fee_rule_is_added_and_an_end_is_set() {
    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, "[]");
    let applied = apply(&hub, &format!("{DFSP}{RULE}"), |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert!(
        applied.output.contains("+ fee rule WALLET KES 0.6 % and 0, paid by PAYER\n"),
        "{}",
        applied.output
    );
    let sent = r#"POST /feeRules {"amountMin":"0","currency":"KES","decimals":2,"fixed":"0","from":"2031-05-01T00:00:00.000Z","name":"WALLET","paidBy":"PAYER","payees":[],"payers":["greenbank"],"ratePercent":"0.6"}"#;
    assert_eq!(hub.changes(), [sent]);

    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, &listed(("null}]", "null}]")));
    assert_eq!(apply(&hub, &format!("{DFSP}{RULE}"), |_| {}).outcome, Ok(()));
    assert_eq!(hub.changes(), Vec::<String>::new());
    let ends = format!("{DFSP}{RULE}until = \"2031-06-01T00:00:00.000Z\"\n");
    let applied = apply(&hub, &ends, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    let line = "~ fee rule WALLET until none → 2031-06-01T00:00:00.000Z\n";
    assert!(applied.output.contains(line), "{}", applied.output);
    assert_eq!(hub.changes(), [r#"PUT /feeRules/WALLET {"until":"2031-06-01T00:00:00.000Z"}"#]);
    // If the file has no end, the hub's end stays.
    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, &listed(("null}]", "\"2031-06-01T00:00:00.000Z\"}]")));
    let applied = apply(&hub, &format!("{DFSP}{RULE}"), |_| {});
    let note = "? fee rule WALLET ends at 2031-06-01T00:00:00.000Z at the hub, but has no end in the file\n";
    assert!(applied.output.contains(note), "{}", applied.output);
    assert_eq!(hub.changes(), Vec::<String>::new());
}

#[test]
fn unchangeable_fee_rule_is_a_conflict() {
    let refused = |rules: Option<String>, file: &str, expected: &str| {
        let hub = finished_hub("6000", "0", "");
        if let Some(rules) = rules {
            hub.answer("GET /feeRules", 200, &rules);
        }
        let failure = apply(&hub, file, |_| {}).outcome.unwrap_err();
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert_eq!(hub.changes(), Vec::<String>::new());
    };
    let file = format!("{DFSP}{RULE}");
    refused(None, &file, "s.toml:8: this hub does not support fee rules such as WALLET");
    for (change, expected) in [
        (("0.6", "0.7"), "rate_percent is 0.7, not 0.6"),
        (("[\"greenbank\"]", "[]"), "payers is all DFSPs, not greenbank"),
        (("\"decimals\":2", "\"decimals\":0"), "decimals is 0, not 2"),
        (("\"fixed\":0", "\"fixed\":1.5"), "fixed is 1.5, not 0"),
        (("\"amountMax\":null", "\"amountMax\":9"), "amount_max is 9, not none"),
        (("PAYER", "PAYEE"), "paid_by is PAYEE, not PAYER"),
        (("2031-05-01", "2031-05-02"), "from is 2031-05-02T00:00:00.000Z, not 2031-05-01T00:00:00.000Z"),
    ] {
        refused(Some(listed(change)), &file, expected);
    }
    let unknown = file.replace("payers = [\"greenbank\"]", "payees = [\"nobank\"]");
    let text = "s.toml:8: fee rule WALLET: \"nobank\" is not a DFSP, neither here nor at the hub";
    refused(Some("[]".to_owned()), &unknown, text);
}

/// A fee that a rule cannot charge is reported before the rule is created: the payer buys the currency and has no
/// account in it.
#[test]
fn payers_without_fee_are_reported() {
    let scheme = |dfsps: &str, payers: &str| {
        let file = DFSP.replace("[\"KES\"]", "[\"KES\", \"TZS\"]");
        let rule = RULE.replace("\"KES\"", "\"TZS\"").replace("[\"greenbank\"]", payers);
        format!("{file}{dfsps}\n[[model]]\nname = \"TZSNET\"\ncurrency = \"TZS\"\n{rule}")
    };
    let account = "{ net_debit_cap = 6000 }";
    let forex = format!("\n[[dfsp]]\nname = \"forex\"\naccounts.KES = {account}\naccounts.TZS = {account}\n");
    let other = format!("\n[[dfsp]]\nname = \"other\"\naccounts.TZS = {account}\n");
    let note = "? fee rule WALLET charges nothing for payments in TZS by FX transfers of greenbank, without accounts in \
                TZS\n";
    for (dfsps, payers, is_noted) in [
        (&forex, "[]", true),
        (&forex, "[\"greenbank\"]", true),
        (&forex, "[\"forex\"]", false),
        // No DFSP has both currencies.
        (&other, "[]", false),
    ] {
        let hub = finished_hub("6000", "0", "");
        hub.answer("GET /feeRules", 200, "[]");
        let output = apply(&hub, &scheme(dfsps, payers), |options| options.plan_only = true).output;
        assert_eq!(output.contains(note), is_noted, "{dfsps} {payers}: {output}");
        assert_eq!(output.contains("charges nothing"), is_noted, "{output}");
    }
}

/// Certificates and keys of DFSPs are named by their files, relative to the scheme file.
#[test]
fn certificates_and_signing_keys_may_be_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut authority =
        Authority::init(directory.path(), "Scheme", upesi_tls::present_s(), 100, KeyKind::P256).unwrap();
    let issued = authority.issue(&Order::new("aa", Usage::Client, upesi_tls::present_s())).unwrap();
    SigningKey::make(&directory.path().join("jws"), "aa", KeyKind::Rsa2048).unwrap();
    let file = directory.path().join("scheme.toml");
    let dfsp = "[[dfsp]]\nname = \"aa\"\naccounts.KES = { net_debit_cap = 1 }\n";
    let read = |text: &str| {
        std::fs::write(&file, format!("{HEAD}{dfsp}{text}")).unwrap();
        read(&file)
    };
    let scheme = read(
        "bindings = [\"san-dns:a.example\"]\ncertificate_files = [\"aa.pem\"]\nsignature_key_file = \"jws/aa.pem\"\n",
    );
    let scheme = scheme.unwrap();
    let bindings = scheme.dfsps[0].bindings.as_ref().unwrap().iter().map(ToString::to_string);
    let of_key = format!("spki-sha256:{}", issued.entry.spki_sha256);
    assert_eq!(bindings.collect::<Vec<_>>(), ["san-dns:a.example".to_owned(), of_key]);
    let key = scheme.dfsps[0].signature_key.as_ref().unwrap();
    let text = std::fs::read_to_string(directory.path().join("jws/aa.pem")).unwrap();
    assert_eq!(key.text, text);
    let pasted = read(&format!("signature_key = \"\"\"\n{text}\"\"\"\n")).unwrap();
    assert_eq!(pasted.dfsps[0].signature_key.as_ref().unwrap().sha256, key.sha256);
    for (text, problem) in [
        ("certificate_files = [\"aa.key\"]", "certificate_files: \"aa.key\" contains a private key"),
        ("certificate_files = [\"crl.pem\"]", "certificate_files: \"crl.pem\" has no certificate in PEM"),
        (
            "certificate_files = [\"../aa.pem\"]",
            "certificate_files: \"../aa.pem\" must be the name of a file",
        ),
        ("certificate_files = [\"aa.pem\", \"aa.pem\"]", "binding \"aa.pem\" is listed twice"),
        ("signature_key_file = \"jws/aa.key\"", "signature_key_file: \"jws/aa.key\" is a private key"),
        ("signature_key_file = \"no.pem\"", "signature_key_file: \"no.pem\" cannot be read"),
        (
            "signature_key = \"x\"\nsignature_key_file = \"jws/aa.pem\"",
            "give signature_key or signature_key_file, not both",
        ),
    ] {
        let refused = read(text).unwrap_err();
        let shown = &refused.message;
        let line = 5 + text.lines().count();
        assert!(
            refused.exit == Exit::Data && shown.contains(&format!("scheme.toml:{line}: {problem}")),
            "{shown}"
        );
    }
    let unread = parse("s.toml", &format!("{HEAD}{dfsp}signature_key_file = \"jws/aa.pem\"\n")).unwrap_err();
    assert_eq!(
        unread,
        ["s.toml:6: signature_key_file: \"jws/aa.pem\" is a file, and no files are read here"]
    );
}
