//! What engine and archivist tell each other: the archivist always gets to the end, and memory never forgets a transfer
//! that a look-up has missed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;

use crate::check;
use crate::progress::{ArchiveProgress, Eviction};

#[test]
fn the_archivist_reaches_the_last_record() {
    for fold_every_records in [1, 2] {
        check(3, move || {
            let progress = Arc::new(ArchiveProgress::new(fold_every_records, 0));
            let of_archivist = Arc::clone(&progress);
            let archivist = loom::thread::spawn(move || {
                let mut seq = 0;
                loop {
                    let (goal, is_last) = of_archivist.wait_for_more(seq);
                    assert!(goal > seq || is_last, "woken for nothing");
                    seq = goal;
                    of_archivist.publish(seq);
                    if is_last {
                        return seq;
                    }
                }
            });
            for seq in 1..=3 {
                progress.journal_reached(seq);
            }
            progress.close(3);
            assert_eq!(archivist.join().unwrap(), 3);
            assert_eq!(progress.watermark(), 3);
        });
    }
}

#[test]
fn the_archivist_starts_without_being_closed() {
    check(3, || {
        let progress = Arc::new(ArchiveProgress::new(2, 0));
        let of_archivist = Arc::clone(&progress);
        let archivist = loom::thread::spawn(move || of_archivist.wait_for_more(0));
        progress.journal_reached(1);
        progress.journal_reached(2);
        assert_eq!(archivist.join().unwrap(), (2, false));
    });
}

#[test]
fn a_watermark_is_never_newer_than_its_epoch() {
    check(3, || {
        let progress = Arc::new(ArchiveProgress::new(1, 0));
        let of_archivist = Arc::clone(&progress);
        let archivist = loom::thread::spawn(move || (1..=3).for_each(|seq| of_archivist.publish(seq)));
        let (epoch, watermark) = progress.epoch_and_watermark();
        assert!(watermark <= epoch + 1, "record {watermark} is of a later epoch than {epoch}");
        archivist.join().unwrap();
    });
}

/// A transfer that finished with record 2 is in memory. The archivist puts it into the archive and goes on.
/// Somebody looks for it in the archive, of which nothing is assumed but that what was written before a publication
/// is there after it, and submits. The engine forgets what it may, and must then not decide upon a look-up that
/// found nothing.
#[test]
fn what_memory_forgot_a_look_up_has_found() {
    const RECORD: u64 = 2;
    check(2, || {
        let progress = Arc::new(ArchiveProgress::new(1, 0));
        let is_archived = Arc::new(AtomicBool::new(false));
        let submitted = Arc::new(Mutex::new(None));

        let (of_archivist, archive) = (Arc::clone(&progress), Arc::clone(&is_archived));
        let archivist = loom::thread::spawn(move || {
            for seq in 1..=3 {
                if seq == RECORD {
                    archive.store(true, Ordering::Relaxed);
                }
                of_archivist.publish(seq);
            }
        });
        let (of_caller, archive, to_engine) =
            (Arc::clone(&progress), Arc::clone(&is_archived), Arc::clone(&submitted));
        let caller = loom::thread::spawn(move || {
            let epoch = of_caller.epoch();
            let is_found = archive.load(Ordering::Relaxed);
            *to_engine.lock().unwrap() = Some((epoch, is_found));
        });

        let (mut eviction, mut forgotten_to) = (Eviction::default(), 0);
        for _ in 0..3 {
            // As a turn: what has queued up, then what may be forgotten, then the decisions.
            let submission = submitted.lock().unwrap().take();
            if let Some(due) = eviction.due(&progress) {
                forgotten_to = due.forget_to;
            }
            if let Some((epoch, is_found)) = submission {
                let is_known = forgotten_to < RECORD || is_found || eviction.outdates(epoch);
                assert!(
                    is_known,
                    "the transfer is in nobody's sight: looked up in epoch {epoch}, {eviction:?}"
                );
            }
        }
        archivist.join().unwrap();
        caller.join().unwrap();
    });
}
