//! What a scheme file may say.

use std::path::Path;

use crate::scheme::file::parse;
use crate::scheme::read;
use upesi_types::Amount;

fn mistakes(text: &str) -> Vec<String> {
    parse("s.toml", text).map(|_| ()).expect_err(text)
}

const HEAD: &str = "name = \"test\"\ncurrencies = [\"KES\"]\n";

#[test]
fn the_example_has_eight_dfsps_at_the_simulators() {
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
fn every_mistake_is_named_with_its_line() {
    for (text, expected) in [
        ("name = \"test\"\n", vec!["s.toml:1: missing field `currencies`"]),
        (
            "name = \"test\"\ncurrencies = [\"KES\"]\ncurrency = 1\n",
            vec![
                "s.toml:3: unknown field `currency`, expected one of `name`, `hub`, `currencies`, `model`, `hub_endpoints`, `defaults`, `dfsp`",
            ],
        ),
        (
            "name = \"t\"\ncurrencies = [\"KES\", \"kes\",\n\"KES\"]\n",
            vec![
                "s.toml:2: \"kes\" is not a currency code",
                "s.toml:3: KES stands twice",
                "s.toml:1: \"t\" is not a name: give 2 to 30 printable characters without spaces",
            ],
        ),
        (
            &format!("{HEAD}[[model]]\nname = \"NET KES\"\ncurrency = \"USD\"\ndelay = \"IMMEDIATE\"\n"),
            vec![
                "s.toml:3: \"NET KES\" is not a name of a model: give 2 to 30 letters and digits",
                "s.toml:3: model NET KES: \"USD\" is not among the scheme's currencies",
                "s.toml:3: model NET KES: NET MULTILATERAL IMMEDIATE is not a kind of settlement; there are GROSS BILATERAL \
                 IMMEDIATE, GROSS BILATERAL DEFERRED, NET BILATERAL DEFERRED and NET MULTILATERAL DEFERRED",
            ],
        ),
        (
            &format!("{HEAD}[[dfsp]]\nname = \"green\"\nbase_url = \"https://x\"\n"),
            vec![
                "s.toml:5: \"https://x\" does not begin with http://, the one scheme that can be called",
                "s.toml:4: \"green\" has no account: write [dfsp.accounts.CODE] or [defaults.accounts.CODE]",
            ],
        ),
        (
            &format!(
                "{HEAD}[defaults.accounts.KES]\nnet_debit_cap = 1\n[[dfsp]]\nname = \"Hub\"\n[[dfsp]]\nname = \"green\"\n\
                 [[dfsp]]\nname = \"GREEN\"\n"
            ),
            vec![
                "s.toml:6: \"Hub\" stands twice; names differ by more than case",
                "s.toml:10: \"GREEN\" stands twice; names differ by more than case",
            ],
        ),
        (
            &format!("{HEAD}[[dfsp]]\nname = \"green\"\n[dfsp.accounts.KES]\nnet_debit_cap = 1.5\n"),
            vec![
                "s.toml:6: invalid type: floating point `1.5`, expected an amount: a whole number, or a string such as \"12.50\"",
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
                "s.toml:8: \"x/x\" is not a URL; write it as http://host:port/path",
            ],
        ),
    ] {
        let mut found = mistakes(text);
        let mut expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{text}");
    }
}
