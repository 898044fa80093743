//! The treasury's day with two people: whoever runs the commands, and whoever approves.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::{code, text, upesi};
use crate::common::World;

/// The people, by the files of their tokens.
struct Desk {
    admin: String,
    directory: tempfile::TempDir,
}

impl Desk {
    /// Makes a treasurer and an approver. The hub asks who calls from then on.
    fn open(world: &mut World) -> Self {
        world.restart_with(&[("admin.authentication", "required")]);
        let desk = Self { admin: world.admin_url(), directory: tempfile::tempdir().unwrap() };
        let data = world.data().to_str().unwrap();
        let made =
            upesi(&["admin", "bootstrap", "--data", data, "--out"]).arg(desk.file("first")).output().unwrap();
        assert_eq!(code(&made), 0, "{}", text(&made.stderr));
        for (name, role, by) in [
            ("iam", "iam-admin", "first"),
            ("treasurer", "treasury", "iam"),
            ("approver", "treasury-approver", "iam"),
        ] {
            let out = desk.file(name);
            let made =
                desk.by(by, &["admin", "create", name, "--role", role, "--out", out.to_str().unwrap()]);
            assert_eq!(code(&made), 0, "{}", text(&made.stderr));
        }
        desk
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command of one of them.
    fn by(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = upesi(arguments);
        command.args(["--admin", &self.admin, "--token-file"]).arg(self.file(name)).output().unwrap()
    }

    /// Gives a command as often as it ends with 75, and has what it names approved in between. Returns how many
    /// approvals each time took, and what the command printed last.
    fn by_two(&self, arguments: &[&str]) -> (Vec<usize>, String) {
        let mut rounds = Vec::new();
        loop {
            let output = self.by("treasurer", arguments);
            let told = text(&output.stderr);
            match code(&output) {
                0 => return (rounds, text(&output.stdout)),
                75 => {}
                other => panic!("{other}: {told}"),
            }
            let (_, ids) = told.split_once("(upesi admin approve ").unwrap_or_else(|| panic!("{told}"));
            let ids: Vec<&str> = ids.split_once(')').unwrap().0.split(' ').collect();
            assert!(told.trim_end().ends_with("which continues") && rounds.len() < 20, "{told}");
            // Again, it waits for the same.
            let again = self.by("treasurer", arguments);
            assert_eq!((code(&again), text(&again.stderr)), (75, told.clone()));
            let comment = ["admin", "approve", "--comment", "seen at the bank"];
            let approved = self.by("approver", &[&comment, &ids[..]].concat());
            assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
            rounds.push(ids.len());
        }
    }
}

/// The bank's file with balances filled in.
fn fill(file: &Path, balances: &[(&str, &str)]) {
    let mut text = std::fs::read_to_string(file).unwrap();
    for (name, balance) in balances {
        text = text.replace(&format!(" {name},,,"), &format!(" {name},,{balance},"));
    }
    std::fs::write(file, text).unwrap();
}

fn covers_and_caps(world: &World) -> Vec<(String, String)> {
    let of = |name: &str| {
        let accounts = world.operate("GET", &format!("/participants/{name}/accounts"), "");
        let mut accounts = accounts.as_array().unwrap().iter();
        let cover =
            accounts.find(|one| one["ledgerAccountType"] == "SETTLEMENT").unwrap()["value"].to_string();
        let limits = world.operate("GET", &format!("/participants/{name}/limits"), "");
        (cover, limits[0]["limit"]["value"].to_string())
    };
    ["greenbank", "bluewallet", "redmoney"].map(of).to_vec()
}

fn expected(all: &[(&str, &str); 3]) -> Vec<(String, String)> {
    all.iter().map(|(cover, cap)| ((*cover).to_owned(), (*cap).to_owned())).collect()
}

#[test]
fn a_treasury_of_two_closes_settles_and_reconciles() {
    let mut world = World::new(&[]);
    world.trade();
    let desk = Desk::open(&mut world);
    let (rounds, shown) = desk.by_two(&["settlement", "run", "day-1"]);
    // The settlement, and its four stages.
    assert_eq!(rounds, [1; 5]);
    assert!(shown.contains("settlement 1") && shown.contains("  SETTLED since"), "{shown}");

    world.trade();
    let cap = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":100,"alarmPercentage":80}}"#;
    world.restart_with(&[("admin.authentication", "off")]);
    world.operate("PUT", "/participants/bluewallet/limits", cap);
    world.restart_with(&[("admin.authentication", "required")]);
    let desk = Desk { admin: world.admin_url(), ..desk };
    let (rounds, _) = desk.by_two(&["settlement", "close", "2", "--reason", "end of day"]);
    assert!(rounds.is_empty());
    let create = ["settlement", "create", "DEFERREDNETKES", "--window", "2", "--reason", "end of day"];
    let proposed = desk.by("treasurer", &create);
    let told = "upesi: 1 change waits for a second person: have it approved (upesi admin approve 6), which makes it\n";
    assert_eq!((code(&proposed), &*text(&proposed.stderr)), (75, told));
    let approved = desk.by("approver", &["admin", "approve", "6"]);
    assert_eq!(code(&approved), 0, "{}", text(&approved.stderr));
    let file = desk.file("bank.csv");
    let path = file.to_str().unwrap();
    let written = desk.by("treasurer", &["settlement", "report", "2", "--kind", "bank", "--out", path]);
    assert_eq!(code(&written), 0, "{}", text(&written.stderr));
    fill(&file, &[("greenbank", "2967.75"), ("bluewallet", "3020.5"), ("redmoney", "3011.75")]);
    let (rounds, shown) = desk.by_two(&[
        "settlement",
        "reconcile",
        "2",
        path,
        "--apply",
        "--move-cover",
        "--lower-caps",
        "--raise-caps",
    ]);
    // RECORDED, RESERVED; greenbank COMMITTED, its withdrawal in two steps; both receivers COMMITTED by one, their
    // deposits; bluewallet's cap; SETTLED.
    assert_eq!(rounds, [1, 1, 1, 1, 1, 1, 2, 1, 1]);
    assert!(shown.starts_with("settlement 2  SETTLED") && !shown.contains("by the hub"), "{shown}");
    world.restart_with(&[("admin.authentication", "off")]);
    let after = expected(&[("-2967.75", "2967.75"), ("-3020.5", "3020.5"), ("-3011.75", "3011.75")]);
    assert_eq!(covers_and_caps(&world), after);
    caps_go_down_first_and_up_last(&world.journal());
    world.stop_and_audit();
}

fn caps_go_down_first_and_up_last(journal: &str) {
    let at = |what: &str| journal.find(what).unwrap_or_else(|| panic!("{what}: {journal}"));
    let at_last = |what: &str| journal.rfind(what).unwrap_or_else(|| panic!("{what}: {journal}"));
    let recorded = at("bank file of settlement 2");
    let order = [
        at("limit greenbank KES 2967.75"),
        recorded,
        at_last("limit bluewallet KES 3020.5"),
        at_last("SETTLED \"bank file of settlement 2"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert!(at("limit redmoney KES 3011.75") < recorded);
}
