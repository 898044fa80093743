//! Gets and scans against a map, across flushes, merges and restarts.

use std::collections::BTreeMap;
use std::path::Path;

use super::support::small_options;
use proptest::prelude::*;
use upesi_tables::store::{Store, StoreOptions, Table};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    Delete(u8),
    /// Prefix, key after which the scan starts, limit.
    Scan(u8, Option<u8>, usize),
    Reopen,
}

/// Few keys, so that they are overwritten. Some are prefixes of others.
fn key(number: u8) -> Vec<u8> {
    let parts: [&[u8]; 3] = [b"a", b"ab", b"b"];
    [parts[usize::from(number) % 3], &[number / 3]].concat()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), any::<u16>()).prop_map(|(key, value)| Step::Put(key, value)),
        4 => any::<u8>().prop_map(Step::Delete),
        3 => (0..4_u8, proptest::option::of(any::<u8>()), 0..60_usize)
            .prop_map(|(prefix, after, limit)| Step::Scan(prefix, after, limit)),
        1 => Just(Step::Reopen),
    ]
}

fn open(path: &Path, in_memory: bool) -> (Store, Table) {
    // A flush every dozen updates.
    let options = StoreOptions { pending_bytes: 2 << 10, ..small_options() };
    let store = Store::open(path, &options).unwrap();
    let table = store.table("things").unwrap();
    if in_memory {
        store.keep_in_memory(&table, 1 << 20);
    }
    (store, table)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_sorted_map(
        steps in proptest::collection::vec(step(), 1..160),
        in_memory in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let mut opened = open(&path, in_memory);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in steps {
            let table = opened.1.clone();
            match step {
                Step::Put(number, value) => {
                    let value = vec![number; usize::from(value % 100)];
                    model.insert(key(number), value.clone());
                    opened.0.update_blocking(move |transaction| transaction.put(&table, &key(number), &value)).unwrap();
                }
                Step::Delete(number) => {
                    model.remove(&key(number));
                    opened.0.update_blocking(move |transaction| transaction.delete(&table, &key(number))).unwrap();
                }
                Step::Scan(prefix, after, limit) => {
                    let prefix: &[u8] = [&b""[..], b"a", b"ab", b"c"][usize::from(prefix)];
                    let after = after.map(key);
                    let found = table.scan(prefix, after.as_deref(), limit).unwrap();
                    let found: Vec<_> = found.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(key, _)| key.starts_with(prefix) && after.as_ref().is_none_or(|after| *key > after))
                        .take(limit)
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect();
                    prop_assert_eq!(found, expected);
                }
                Step::Reopen => {
                    drop(table);
                    drop(opened);
                    opened = open(&path, in_memory);
                }
            }
        }
        for number in 0..=u8::MAX {
            let found = opened.1.get(&key(number)).unwrap().map(|value| value.to_vec());
            prop_assert_eq!(found.as_ref(), model.get(&key(number)));
        }
    }
}
