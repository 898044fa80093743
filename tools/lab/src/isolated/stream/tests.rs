//! Streams: made up, written, read, recorded.

use std::path::Path;

use bytes::Bytes;
use upesi_fspiop::body::parse_prepare;
use upesi_ledger::Command;
use upesi_types::Timestamp;

use super::record::{lasting, undated};
use super::*;

fn small(seed: u64) -> GenerateOptions {
    GenerateOptions { transfers: 300, dfsps: 5, fulfils: true, seed, ..GenerateOptions::default() }
}

#[test]
fn the_same_seed_makes_the_same_stream_and_another_seed_another() {
    let stream = Stream::generate(&small(7)).unwrap();
    assert_eq!(stream, Stream::generate(&small(7)).unwrap());
    assert_ne!(stream, Stream::generate(&small(8)).unwrap());
    assert_eq!((stream.header.prepares, stream.header.fulfils), (300, 300));
    let ids: std::collections::BTreeSet<_> =
        stream.of_kind(MessageKind::Prepare).map(|message| message.id).collect();
    assert_eq!(ids.len(), 300, "every transfer has an id of its own");
    assert!(stream.of_kind(MessageKind::Prepare).all(|message| message.body.len() == 860));
}

#[test]
fn every_message_is_one_that_a_hub_takes() {
    let stream = Stream::generate(&small(1)).unwrap();
    let prepares = stream.decode(MessageKind::Prepare, 300).unwrap();
    let mut payers = [0; 5];
    for ready in &prepares {
        let Command::Prepare(prepare) = &ready.command else { panic!("not a prepare") };
        assert_eq!(prepare.source, prepare.payer);
        assert_ne!(prepare.payer, prepare.payee);
        assert!(prepare.condition.is_some() && prepare.expires_at > Timestamp::from_ms(4_000_000_000_000));
        let payer = stream.header.dfsps.iter().position(|name| name == prepare.payer.as_str());
        payers[payer.unwrap()] += 1;
    }
    assert_eq!(payers, [60; 5]);
    assert_eq!(stream.decode(MessageKind::Fulfil, 300).unwrap().len(), 300);
    let error = stream.decode(MessageKind::Fulfil, 301).unwrap_err();
    assert_eq!(error.to_string(), "the stream holds 300 fulfils, and 301 are needed");
}

#[test]
fn options_out_of_range_are_refused() {
    let good = small(1);
    for options in [
        GenerateOptions { transfers: 0, ..good },
        GenerateOptions { transfers: MESSAGES_MAX, ..good },
        GenerateOptions { dfsps: 1, ..good },
        GenerateOptions { dfsps: DFSPS_MAX + 1, ..good },
        GenerateOptions { body_bytes: BODY_BYTES_MIN - 1, ..good },
        GenerateOptions { body_bytes: 40_000, ..good },
    ] {
        assert!(matches!(Stream::generate(&options), Err(StreamError::Options(_))), "{options:?}");
    }
    for body_bytes in [BODY_BYTES_MIN, 32_768] {
        let stream = Stream::generate(&GenerateOptions { body_bytes, dfsps: DFSPS_MAX, ..good }).unwrap();
        assert!(stream.of_kind(MessageKind::Prepare).all(|message| message.body.len() == body_bytes));
        stream.decode(MessageKind::Prepare, 300).unwrap();
    }
}

#[test]
fn streams_of_several_hubs_become_one() {
    let mut both = Stream::default();
    both.append(Stream::generate(&GenerateOptions { dfsps: 2, ..small(1) }).unwrap());
    both.append(Stream::generate(&GenerateOptions { dfsps: 4, fulfils: false, ..small(2) }).unwrap());
    assert_eq!((both.header.prepares, both.header.fulfils), (600, 300));
    assert_eq!(both.header.dfsps, ["dfsp-1", "dfsp-2", "dfsp-3", "dfsp-4"]);
    assert_eq!((both.header.origin.as_str(), both.header.currencies.len()), ("generated with seed 1", 1));
    assert_eq!(both.decode(MessageKind::Prepare, 600).unwrap().len(), 600);
}

fn written(stream: &Stream, path: &Path) -> Vec<u8> {
    stream.write(path).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_file_gives_back_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream");
    // More than one block.
    let options = GenerateOptions { body_bytes: 5_000, ..small(3) };
    for stream in [Stream::generate(&options).unwrap(), Stream::default()] {
        written(&stream, &path);
        assert_eq!(Stream::read(&path).unwrap(), stream);
    }
    let missing = Stream::read(&directory.path().join("none")).unwrap_err();
    assert!(missing.missing().is_some());
}

#[test]
fn no_damage_goes_unseen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream");
    let stream = Stream::generate(&GenerateOptions { transfers: 3, fulfils: false, ..small(4) }).unwrap();
    let sound = written(&stream, &path);
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Stream::read(&path)
    };
    for at in (0..sound.len()).step_by(7) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {at} is changed");
        assert!(matches!(read(&sound[..at]), Err(StreamError::Damaged { .. })), "cut at {at}");
    }
    assert!(matches!(read(&[&sound[..], b"x"].concat()), Err(StreamError::Damaged { .. })), "too long");
    let mut newer = sound.clone();
    newer[8] = 2;
    assert!(matches!(read(&newer), Err(StreamError::Version { found: 2, .. })));
    assert_eq!(read(&sound).unwrap(), stream);
}

#[test]
fn recorded_bodies_are_changed_in_one_place_only() {
    let at = Timestamp::parse_iso("2099-01-01T00:00:00.500Z").unwrap();
    let stream = Stream::generate(&small(1)).unwrap();
    let body = &stream.messages[0].body;
    let changed = lasting(body, at).unwrap();
    assert_eq!(parse_prepare(&changed).unwrap().expiration, at);
    assert_eq!(changed.len(), body.len());
    assert_eq!(changed.iter().zip(&body[..]).filter(|(new, old)| new != old).count(), 1);
    assert_eq!(lasting(b"{}", at), None);
    assert_eq!(lasting(b"{\"expiration\":7}", at), None);
    assert_eq!(lasting(&[0xff], at), None);

    let fulfil = stream.messages[300].body.clone();
    assert_eq!(undated(&fulfil), Some(fulfil.clone()));
    let dated = String::from_utf8(fulfil.to_vec()).unwrap();
    let dated = dated.replace("{", "{\"completedTimestamp\":\"2026-01-01T00:00:00.000Z\",");
    assert_eq!(undated(dated.as_bytes()), Some(fulfil));
    assert_eq!(undated(b"[]"), None::<Bytes>);
}
