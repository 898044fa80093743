//! That the target reaches what it is for, and finds what is planted.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::seeds;

fn breaks(edge: &mut Edge, story: &Story) -> bool {
    catch_unwind(AssertUnwindSafe(|| edge.withstand(story))).is_err()
}

#[test]
fn the_seeds_get_every_kind_of_answer() {
    let mut edge = Edge::open(BODY_BYTES_MAX);
    let mut answers = String::new();
    for seed in seeds::connections() {
        let story = Story::read(&seed).expect("a story");
        edge.withstand(&story);
        answers.push_str(&String::from_utf8_lossy(&edge.live(&story).0));
    }
    for begin in [
        "HTTP/1.1 100 Continue\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 202 Accepted\r\n",
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n",
        "HTTP/1.1 404 Not Found\r\n",
        "HTTP/1.1 431 ",
        "HTTP/1.1 503 ",
        r#"{"errorInformation":{"errorCode":"2003""#,
        r#"{"errorInformation":{"errorCode":"2005""#,
        r#"{"errorInformation":{"errorCode":"3104""#,
    ] {
        assert!(answers.contains(begin), "none of the seeds is answered {begin}");
    }
}

#[test]
fn a_story_is_read_as_it_is_written() {
    let story = Story::read(&[OVER_CAP | STRETCHED | 2, 7, FINISH, b'a', STRETCH, b'b']).expect("a story");
    assert!(story.is_over_cap && !story.falls_silent);
    assert_eq!((&*story.steps, story.wire.len()), (&[7, FINISH][..], STRETCH_TIMES + 2));
    let story = Story::read(&[FALLS_SILENT | AGAIN | 1, 3, STRETCH]).expect("a story");
    assert!(!story.is_over_cap && story.falls_silent);
    assert_eq!((story.steps.len(), &*story.wire), (STEPS_MAX, &[STRETCH][..]));
    assert!(Story::read(&[2, 0]).is_none() && Story::read(&[]).is_none());
}

#[test]
fn a_body_over_the_limit_that_is_handed_on_is_found() {
    let request = seeds::quote_of(BODY_BYTES_MAX + 1);
    let story = Story::read(&[&[0_u8][..], &request].concat()).expect("a story");
    assert!(!breaks(&mut Edge::open(BODY_BYTES_MAX), &story), "it is refused");
    assert!(breaks(&mut Edge::open(BODY_BYTES_MAX + 1), &story), "it is handed on, and nobody notices");
}

#[test]
fn a_connection_that_outlives_its_peer_is_found() {
    let (peer, _stream) = tokio::io::duplex(PIPE_BYTES);
    let ending = catch_unwind(AssertUnwindSafe(|| Exchange::begin(pending(), peer).end()));
    assert!(ending.is_err(), "it is taken for ended");
}
