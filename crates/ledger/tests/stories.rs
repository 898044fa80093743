//! The rules of the ledger as stories in `tests/stories/*.txt`. After each step all invariants are checked.

mod story;
mod support;

use std::fs;
use std::path::Path;

/// A test per file, so that one can be run alone.
macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { tell(stringify!($name)) })*
        const FILES: &[&str] = &[$(stringify!($name)),*];
    };
}

stories! {
    abort, activity, admin_accounts, admin_participants, admin_settlement, approvals, bindings, blocks, bulks,
    bulks_refused, callbacks, capacity,
    conversions, conversions_payee, duplicates, expiry, fees, fulfil, funds, get, gross, positions,
    prepare, proxies, settlements, signature_keys, validity, windows,
}

fn tell(name: &str) {
    let path = directory().join(name).with_extension("txt");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match story::run_file(&format!("tests/stories/{name}.txt"), &text) {
        Ok(count) => assert!(count > 0, "{name} tells no story"),
        Err(failures) => panic!("\n{failures}"),
    }
}

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

#[test]
fn every_file_is_told() {
    let files = fs::read_dir(directory()).expect("the directory of stories").map(|entry| {
        let name = entry.expect("an entry").file_name();
        name.to_string_lossy().into_owned()
    });
    let mut told: Vec<_> = files.filter_map(|file| file.strip_suffix(".txt").map(str::to_owned)).collect();
    told.sort();
    assert_eq!(told, FILES, "list every file in stories!");
}

/// The stories would prove nothing if a wrong expectation went through.
#[test]
fn a_wrong_expectation_fails() {
    let scheme = "create hub account HUB_RECONCILIATION KES\ncreate hub account HUB_MULTILATERAL_SETTLEMENT KES\n\
                  create model DEFERREDNET default\nparticipant greenbank KES cap 10 funds 10\n\
                  participant bluewallet KES\nstory It\n";
    let prepare = "prepare t1 greenbank → bluewallet 5 KES\n";
    for (wrong, told) in [
        ("", "+ → bluewallet POST t1 forwarded"),
        ("→ bluewallet POST t2 forwarded\n", "- → bluewallet POST t2 forwarded"),
        (
            "→ bluewallet POST t1 forwarded\n→ greenbank POST t1 forwarded\n",
            "- → greenbank POST t1 forwarded",
        ),
        ("→ bluewallet POST t1 forwarded\nposition greenbank 6", "- 6\n    + 5"),
        ("→ bluewallet POST t1 forwarded\nposition greenbank 5 KES now", "not understood: \"now\""),
        ("→ bluewallet POST t1 forwarded\ndance", "no such step"),
    ] {
        let failure = story::run_file("it", &format!("{scheme}{prepare}{wrong}")).expect_err(wrong);
        assert!(failure.contains(told), "{failure}");
    }
}
