use std::collections::BTreeMap;

use proptest::prelude::*;
use upesi_tables::TablesError;

use super::*;
use crate::test_support::{entry, fsp, open_store};

fn directory_in(path: &std::path::Path, ownership_check: bool) -> BuiltInDirectory {
    BuiltInDirectory::open(&open_store(path), BuiltInOptions { ownership_check, ..BuiltInOptions::default() })
        .unwrap()
}

/// The owners of an identifier as `sub id/currency=DFSP`, in the directory's order.
fn shown(directory: &BuiltInDirectory, id: &str) -> String {
    let owners = directory.find(PartyIdType::Msisdn, id).unwrap();
    let owners = owners.iter().map(|owner| {
        let sub_id = owner.sub_id.as_deref().unwrap_or("-");
        let currency = owner.currency.map_or("-".to_owned(), |currency| currency.to_string());
        format!("{sub_id}/{currency}={}", owner.fsp)
    });
    owners.collect::<Vec<_>>().join(" ")
}

fn code(outcome: Result<impl Sized, RegisterError>) -> u16 {
    outcome.map_or_else(|error| error.code().number(), |_| 0)
}

/// `register|put|change|remove  sub id  currency  owner  by  → code, the resulting entries`. `*` as currency means all,
/// `-` none. With `operator` as by, rights are not checked.
const STORY: &str = "
    change   -      -    green  green     3003
    register -      -    green  green     0     -/-=green
    register -      -    green  green     0     -/-=green
    register -      -    blue   blue      3003  -/-=green
    register -      USD  blue   blue      3003  -/-=green
    put      -      USD  blue   operator  0     -/-=green -/USD=blue
    register shop-7 -    blue   blue      0     -/-=green -/USD=blue shop-7/-=blue
    register shop-7 KES  red    red       3003  -/-=green -/USD=blue shop-7/-=blue
    put      shop-7 KES  red    operator  0     -/-=green -/USD=blue shop-7/-=blue shop-7/KES=red
    change   -      -    blue   green     0     -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=red
    change   -      KES  red    blue      3003  -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=red
    change   shop-7 KES  blue   blue      3003  -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=red
    change   shop-7 KES  blue   operator  0     -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=blue
    change   shop-8 -    blue   blue      3003  -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=blue
    remove   shop-8 *    -      blue      0     -/-=blue -/USD=blue shop-7/-=blue shop-7/KES=blue
    remove   shop-7 KES  -      blue      0     -/-=blue -/USD=blue shop-7/-=blue
    change   shop-7 ZMW  green  blue      0     -/-=blue -/USD=blue shop-7/ZMW=green
    remove   shop-7 *    -      blue      3040  -/-=blue -/USD=blue shop-7/ZMW=green
    remove   shop-7 USD  -      blue      0     -/-=blue -/USD=blue shop-7/ZMW=green
    put      -      USD  green  operator  0     -/-=blue -/USD=green shop-7/ZMW=green
    put      -      ZMW  green  operator  0     -/-=blue -/USD=green -/ZMW=green shop-7/ZMW=green
    remove   -      *    -      blue      0     -/USD=green -/ZMW=green shop-7/ZMW=green
    remove   -      *    -      green     0     shop-7/ZMW=green
    remove   shop-7 *    -      operator  0
    remove   shop-7 *    -      operator  0
    register shop-9 KES  blue   blue      0     shop-9/KES=blue
    register shop-9 USD  green  green     0     shop-9/KES=blue shop-9/USD=green
    register shop-9 -    green  green     3003  shop-9/KES=blue shop-9/USD=green
    register shop-9 ZMW  blue   blue      0     shop-9/KES=blue shop-9/USD=green shop-9/ZMW=blue
";

#[tokio::test]
async fn registrations_follow_the_ownership_rules() {
    let place = tempfile::tempdir().unwrap();
    let directory = directory_in(&place.path().join("s"), true);
    for line in STORY.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let mut next = || words.next().unwrap();
        let (what, sub_id, currency, owner, by) = (next(), next(), next(), next(), next());
        let expected: u16 = next().parse().unwrap();
        let then = words.collect::<Vec<_>>().join(" ");
        let by = (by != "operator").then(|| fsp(by));
        let entry = entry("26097", sub_id, if currency == "*" { "-" } else { currency }, owner);
        let found = match what {
            "register" => code(directory.register(&entry).await),
            "put" => code(directory.put(&entry).await),
            "change" => code(directory.change(&entry, by.as_ref()).await),
            _ => {
                let (sub_id, currency) = (entry.sub_id.as_deref(), entry.currency);
                code(directory.remove(entry.kind, "26097", sub_id, currency, by.as_ref()).await)
            }
        };
        assert_eq!((found, shown(&directory, "26097")), (expected, then), "{line}");
    }
}

/// `register|put|change  currency  owner → DFSPs, the oldest registration first`; owners may change their entries.
const AGES: &str = "
    register USD  blue   blue
    register KES  green  blue green
    register EUR  red    blue green red
    register KES  green  blue green red
    change   KES  green  blue green red
    put      USD  blue   blue green red
    put      USD  green  green red green
    put      EUR  blue   green green blue
";

#[tokio::test]
async fn oldest_registration_comes_first_and_a_new_owner_counts_as_new() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let directory = directory_in(&path, true);
    for line in AGES.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [what, currency, owner, then @ ..] = &words[..] else { panic!("{line}") };
        let entry = entry("26097", "-", currency, owner);
        match *what {
            "register" => directory.register(&entry).await.unwrap(),
            "put" => directory.put(&entry).await.unwrap(),
            _ => directory.change(&entry, Some(&entry.fsp)).await.unwrap(),
        }
        let owners = directory.find_oldest_first(PartyIdType::Msisdn, "26097").unwrap();
        let names: Vec<_> = owners.iter().map(|owner| owner.fsp.to_string()).collect();
        assert_eq!(names, then, "{line}");
    }
    drop(directory);
    let directory = directory_in(&path, true);
    assert_eq!(directory.find_oldest_first(PartyIdType::Msisdn, "26097").unwrap()[2].fsp, fsp("blue"));
}

#[tokio::test]
async fn any_dfsp_changes_and_removes_entries_without_ownership_check() {
    let place = tempfile::tempdir().unwrap();
    let directory = directory_in(&place.path().join("s"), false);
    directory.register(&entry("1", "-", "-", "green")).await.unwrap();
    directory.change(&entry("1", "-", "-", "blue"), Some(&fsp("red"))).await.unwrap();
    assert_eq!(shown(&directory, "1"), "-/-=blue");
    let removed = directory.remove(PartyIdType::Msisdn, "1", None, None, Some(&fsp("red"))).await;
    assert_eq!(removed.unwrap(), 1);
}

#[tokio::test]
async fn identifiers_are_compared_exactly_and_per_type() {
    let place = tempfile::tempdir().unwrap();
    let directory = directory_in(&place.path().join("s"), true);
    for (index, id) in
        ["26097", "+26097", "026097", "2609", "260977", "A@b.cd", "a@b.cd", "é"].iter().enumerate()
    {
        for kind in [PartyIdType::Msisdn, PartyIdType::Alias] {
            assert_eq!(directory.find(kind, id).unwrap(), []);
            let owner = format!("{kind}{index}").replace('_', "");
            let entry = DirectoryEntry { kind, ..entry(id, "-", "-", &owner) };
            directory.register(&entry).await.unwrap();
            assert_eq!(directory.find(kind, id).unwrap(), [entry.owner()]);
        }
    }
    assert_eq!(directory.parties_estimate(), 16);
}

#[tokio::test]
async fn batch_has_a_result_per_entry_and_is_durable_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let directory = directory_in(&path, true);
    directory.register(&entry("2", "-", "-", "blue")).await.unwrap();
    let batch = vec![
        entry("1", "-", "-", "green"),
        entry("2", "-", "-", "green"),
        entry("3", "-", "-", "green"),
        entry("3", "-", "-", "green"),
        entry("3", "-", "-", "red"),
    ];
    let before = directory.store().stats().batches;
    let answers = directory.register_batch(batch).await.unwrap();
    assert_eq!(directory.store().stats().batches, before + 1, "one sync");
    assert_eq!(answers.into_iter().map(code).collect::<Vec<_>>(), [0, 3003, 0, 0, 3003]);
    drop(directory);
    let directory = directory_in(&path, true);
    assert_eq!(["1", "2", "3"].map(|id| shown(&directory, id)), ["-/-=green", "-/-=blue", "-/-=green"]);
}

#[tokio::test]
async fn entries_above_the_limit_of_an_identifier_are_rejected() {
    let place = tempfile::tempdir().unwrap();
    let directory = directory_in(&place.path().join("s"), true);
    let entries = (0..=OWNERS_MAX).map(|till| entry("1", &format!("till-{till:04}"), "-", "green"));
    let answers = directory.register_batch(entries.collect()).await.unwrap();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.is_err()).collect();
    assert!(matches!(refused[..], [Err(RegisterError::TooManyOwners)]));
    assert_eq!(directory.find(PartyIdType::Msisdn, "1").unwrap().len(), OWNERS_MAX);
    // Registering an existing entry again adds no entry.
    directory.register(&entry("1", "till-0000", "-", "green")).await.unwrap();
}

#[tokio::test]
async fn value_of_another_version_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let store = open_store(&place.path().join("s"));
    let directory = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
    let table = store.table(TABLE).unwrap();
    let key = stored::key(PartyIdType::Msisdn, "1");
    store.update(move |transaction| transaction.put(&table, &key, &[0xff])).await.unwrap();
    assert!(matches!(directory.find(PartyIdType::Msisdn, "1"), Err(TablesError::Content { .. })));
    let registered = directory.register(&entry("1", "-", "-", "green")).await;
    assert_eq!(registered.unwrap_err().code().number(), 2001);
}

#[derive(Clone, Debug)]
enum Step {
    Register(DirectoryEntry),
    Put(DirectoryEntry),
    Change(DirectoryEntry, Option<FspId>),
    /// The entry's sub id, and its currency or all currencies.
    Remove(DirectoryEntry, bool, Option<FspId>),
    Reopen,
}

fn any_entry() -> impl Strategy<Value = DirectoryEntry> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words);
    (pick(&["1", "11", "2"]), pick(&["-", "a", "b"]), pick(&["-", "USD", "KES"]), pick(&["green", "blue"]))
        .prop_map(|(id, sub_id, currency, owner)| entry(id, sub_id, currency, owner))
}

fn any_requester() -> impl Strategy<Value = Option<FspId>> {
    prop::option::of(prop::sample::select(vec![fsp("green"), fsp("blue")]))
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_entry().prop_map(Step::Register),
        2 => any_entry().prop_map(Step::Put),
        3 => (any_entry(), any_requester()).prop_map(|(entry, by)| Step::Change(entry, by)),
        3 => (any_entry(), any::<bool>(), any_requester()).prop_map(|(entry, all, by)| Step::Remove(entry, all, by)),
        1 => Just(Step::Reopen),
    ]
}

type Slot = (Option<Box<str>>, Option<Currency>);

/// Every entry on its own, found by a linear search.
#[derive(Default)]
struct Model(BTreeMap<(Box<str>, Slot), FspId>);

impl Model {
    fn slot(entry: &DirectoryEntry) -> (Box<str>, Slot) {
        (entry.id.clone(), (entry.sub_id.clone(), entry.currency))
    }

    fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Register(entry) => {
                // Without a currency it claims all.
                let claimed_by_another = self.0.iter().any(|((id, (sub_id, currency)), owner)| {
                    let shared =
                        *currency == entry.currency || currency.is_none() || entry.currency.is_none();
                    *id == entry.id && *sub_id == entry.sub_id && shared && *owner != entry.fsp
                });
                if !claimed_by_another {
                    self.0.insert(Self::slot(entry), entry.fsp);
                }
                !claimed_by_another
            }
            Step::Put(entry) => {
                self.0.insert(Self::slot(entry), entry.fsp);
                true
            }
            Step::Change(entry, by) => {
                let of_sub_id = |slot: &&(Box<str>, Slot)| slot.0 == entry.id && slot.1.0 == entry.sub_id;
                let siblings: Vec<_> = self.0.keys().filter(of_sub_id).cloned().collect();
                let itself = Self::slot(entry);
                let slot = match &siblings[..] {
                    _ if siblings.contains(&itself) => itself.clone(),
                    [only] => only.clone(),
                    _ => return false,
                };
                if by.is_some_and(|by| self.0[&slot] != by) {
                    return false;
                }
                self.0.remove(&slot);
                self.0.insert(itself, entry.fsp);
                true
            }
            Step::Remove(entry, all, by) => {
                let currency = if *all { None } else { entry.currency };
                let before = self.0.len();
                let meant = |slot: &(Box<str>, Slot)| {
                    slot.0 == entry.id
                        && slot.1.0 == entry.sub_id
                        && (currency.is_none() || slot.1.1 == currency)
                };
                let is_meant = self.0.keys().any(meant);
                self.0.retain(|slot, owner| !(meant(slot) && by.is_none_or(|by| *owner == by)));
                !is_meant || self.0.len() < before
            }
            Step::Reopen => true,
        }
    }

    fn owners(&self, id: &str) -> Vec<Owner> {
        let found = self.0.iter().filter(|((of, _), _)| &**of == id);
        found
            .map(|((_, (sub_id, currency)), fsp)| Owner {
                fsp: *fsp,
                currency: *currency,
                sub_id: sub_id.clone(),
            })
            .collect()
    }
}

async fn apply(directory: &BuiltInDirectory, step: &Step) -> Result<(), RegisterError> {
    match step {
        Step::Register(entry) => directory.register(entry).await,
        Step::Put(entry) => directory.put(entry).await,
        Step::Change(entry, by) => directory.change(entry, by.as_ref()).await,
        Step::Remove(entry, all, by) => {
            let currency = if *all { None } else { entry.currency };
            let removed =
                directory.remove(entry.kind, &entry.id, entry.sub_id.as_deref(), currency, by.as_ref());
            removed.await.map(drop)
        }
        Step::Reopen => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn directory_behaves_like_a_map_of_entries(steps in prop::collection::vec(any_step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let mut directory = directory_in(&path, true);
        let mut model = Model::default();
        for step in steps {
            let outcome = runtime.block_on(apply(&directory, &step));
            if matches!(step, Step::Reopen) {
                drop(directory);
                directory = directory_in(&path, true);
            }
            prop_assert_eq!(outcome.is_ok(), model.apply(&step), "{:?}: {:?}", step, outcome);
            for id in ["1", "11", "2"] {
                prop_assert_eq!(directory.find(PartyIdType::Msisdn, id).unwrap(), model.owners(id), "{:?}", step);
            }
        }
    }
}
