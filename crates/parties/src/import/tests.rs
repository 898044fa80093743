use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::builtin::BuiltInOptions;
use crate::party::PartyIdType;
use crate::test_support::{fsp, open_store};

struct World {
    directory: BuiltInDirectory,
    imports: Imports,
}

fn open(path: &Path) -> World {
    let directory = BuiltInDirectory::open(&open_store(path), BuiltInOptions::default()).unwrap();
    let imports = Imports::open(&directory).unwrap();
    World { directory, imports }
}

fn id() -> ImportId {
    ImportId::parse("parties-2031").unwrap()
}

/// All DFSPs are known except the one named `unknown`.
fn read(text: &str, from: u64, conflict: Conflict) -> Chunk {
    Chunk::read(text.as_bytes(), from, &Columns::default(), conflict, |fsp| fsp.as_str() != "unknown")
        .unwrap()
}

impl World {
    async fn take(&self, from: u64, text: &str) -> Result<ChunkOutcome, ImportError> {
        self.imports.take(&id(), read(text, from, Conflict::Refuse)).await
    }

    fn owner(&self, party: &str) -> Option<String> {
        let owners = self.directory.find(PartyIdType::Msisdn, party).unwrap();
        owners.first().map(|owner| owner.fsp.to_string())
    }
}

fn refusals(outcome: &ChunkOutcome) -> Vec<(u64, &str)> {
    outcome.refusals.iter().map(|refusal| (refusal.line, &*refusal.reason)).collect()
}

#[tokio::test]
async fn chunk_imports_valid_lines_and_lists_the_others() {
    let place = tempfile::tempdir().unwrap();
    let world = open(&place.path().join("s"));
    assert_eq!(world.imports.progress(&id()).unwrap(), None);
    let text = "MSISDN,1,,,green\n\nMSISDN,2,,,unknown\nPHONE,3,,,green\r\nMSISDN,1,,,blue\nMSISDN,4,,USD,blue\nMSISDN,1,,,green\n";
    let outcome = world.take(2, text).await.unwrap();
    assert_eq!(outcome.progress, Progress { next_line: 9, taken: 3, refused: 3 });
    assert_eq!(world.imports.progress(&id()).unwrap(), Some(outcome.progress));
    assert_eq!(
        refusals(&outcome),
        [
            (4, "fspId \"unknown\" is not a participant"),
            (5, "partyIdType \"PHONE\" is not an FSPIOP type"),
            (6, "the party is registered by green"),
        ]
    );
    assert_eq!(
        [world.owner("1"), world.owner("2"), world.owner("4")],
        [Some("green".to_owned()), None, Some("blue".to_owned())]
    );
}

#[tokio::test]
async fn repeated_chunk_has_the_same_answer_and_no_effect() {
    let place = tempfile::tempdir().unwrap();
    let world = open(&place.path().join("s"));
    let text = "MSISDN,1,,,green\nMSISDN,1,,,blue\nMSISDN,2,,,blue";
    let first = world.take(2, text).await.unwrap();
    assert_eq!(world.take(2, text).await.unwrap(), first);
    // An entry that was removed in the meantime does not return.
    world.directory.remove(PartyIdType::Msisdn, "2", None, None, None).await.unwrap();
    assert_eq!(world.take(2, text).await.unwrap(), first);
    assert_eq!(world.owner("2"), None);
    // A chunk that overlaps registers only new entries.
    let outcome = world.take(4, "MSISDN,2,,,blue\nMSISDN,3,,,blue").await.unwrap();
    assert_eq!((outcome.taken, outcome.progress), (2, Progress { next_line: 6, taken: 3, refused: 1 }));
    assert_eq!((world.owner("2"), world.owner("3")), (None, Some("blue".to_owned())));
}

#[tokio::test]
async fn chunk_after_a_gap_is_rejected_with_the_next_line() {
    let place = tempfile::tempdir().unwrap();
    let world = open(&place.path().join("s"));
    world.take(2, "MSISDN,1,,,green").await.unwrap();
    assert!(matches!(world.take(4, "MSISDN,2,,,green").await, Err(ImportError::Gap { next_line: 3 })));
    assert_eq!(world.owner("2"), None);
    // Another import has its own count.
    let other = ImportId::parse("other").unwrap();
    world.imports.take(&other, read("MSISDN,2,,,green", 77, Conflict::Refuse)).await.unwrap();
    assert_eq!(world.imports.progress(&other).unwrap().unwrap().next_line, 78);
}

#[tokio::test]
async fn import_with_replacement_overwrites_registrations() {
    let place = tempfile::tempdir().unwrap();
    let world = open(&place.path().join("s"));
    world.take(2, "MSISDN,1,,,green").await.unwrap();
    let outcome = world.imports.take(&id(), read("MSISDN,1,,,blue", 3, Conflict::Replace)).await.unwrap();
    assert_eq!((outcome.taken, outcome.refused), (1, 0));
    assert_eq!(world.owner("1"), Some("blue".to_owned()));
}

#[tokio::test]
async fn chunks_and_lists_of_rejections_are_limited() {
    let read = |text: &[u8]| {
        Chunk::read(text, 1, &Columns::default(), Conflict::Refuse, |_| true).map(|chunk| chunk.lines.len())
    };
    assert!(matches!(read(b""), Err(ImportError::Size { lines: 0 })));
    assert_eq!(read(b"\n").unwrap(), 1, "a blank line is a line");
    assert_eq!(read(b"x\n\n").unwrap(), 2);
    let most = "x\n".repeat(CHUNK_LINES_MAX);
    assert_eq!(read(most.as_bytes()).unwrap(), CHUNK_LINES_MAX);
    let more = read((most.clone() + "x").as_bytes());
    assert!(matches!(more, Err(ImportError::Size { lines }) if lines == CHUNK_LINES_MAX + 1));
    let place = tempfile::tempdir().unwrap();
    let outcome = open(&place.path().join("s")).take(1, &most).await.unwrap();
    assert_eq!((outcome.refused, outcome.refusals.len()), (CHUNK_LINES_MAX, REFUSALS_LISTED_MAX));
    let chunk = Chunk::read(b"\xff,1,,,a", 1, &Columns::default(), Conflict::Refuse, |_| true).unwrap();
    assert_eq!(chunk.lines[0], Some(Err("the line is not UTF-8".to_owned())));
}

#[test]
fn import_names_have_restricted_characters() {
    for (text, fits) in
        [("a", true), ("A-b_9", true), ("", false), ("a/b", false), ("é", false), ("a b", false)]
    {
        assert_eq!(ImportId::parse(text).is_some(), fits, "{text}");
    }
    assert!(ImportId::parse(&"a".repeat(IMPORT_ID_CHARS_MAX)).is_some());
    assert!(ImportId::parse(&"a".repeat(IMPORT_ID_CHARS_MAX + 1)).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Chunks of any size, lost answers, and restarts of the hub: at the end every line was processed once.
    #[test]
    fn interrupted_import_has_the_same_result(
        chunks in prop::collection::vec((1..40_usize, any::<bool>(), 0..4_u8), 1..20)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        let lines: Vec<_> = (0..200).map(|party| format!("MSISDN,{},,,bank{}", party / 2, party % 3)).collect();
        let mut world = open(&path);
        for (size, answer_is_lost, restart) in chunks.into_iter().cycle().take(400) {
            let done = world.imports.progress(&id()).unwrap().map_or(0, |progress| progress.next_line as usize - 2);
            if done == lines.len() {
                break;
            }
            let text = lines[done..(done + size).min(lines.len())].join("\n");
            let from = done as u64 + 2;
            let outcome = runtime.block_on(world.take(from, &text)).unwrap();
            if restart == 0 {
                drop(world);
                world = open(&path);
            }
            if answer_is_lost {
                prop_assert_eq!(runtime.block_on(world.take(from, &text)).unwrap(), outcome);
            }
        }
        let progress = world.imports.progress(&id()).unwrap().unwrap();
        // The second line of a party always names another bank.
        prop_assert_eq!(progress, Progress { next_line: 202, taken: 100, refused: 100 });
        for party in 0..100 {
            let first = fsp(&format!("bank{}", party * 2 % 3)).to_string();
            prop_assert_eq!(world.owner(&party.to_string()), Some(first));
        }
    }
}
