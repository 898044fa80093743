//! The answer to a request is written before any callback that it caused goes to its sender.
//!
//! The recorder is the sender of the requests and the receiver of the callbacks. When the first byte of a callback
//! has come, it looks whether the answer lies in its other socket, which on one machine is so once the hub has
//! written it.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::common::message::{Message, Sent, Terms};
use crate::common::{AMPLE, World};

struct Recorder {
    callbacks: TcpListener,
    /// Connections on which the hub calls, with what came and was not answered yet.
    called: Vec<(TcpStream, Vec<u8>)>,
    /// Connections on which it asks, on different workers of the hub.
    asking: Vec<TcpStream>,
    next: usize,
}

impl Recorder {
    /// Takes the place of a DFSP.
    fn of(world: &World, name: &str) -> Self {
        let callbacks = TcpListener::bind("127.0.0.1:0").unwrap();
        callbacks.set_nonblocking(true).unwrap();
        let url = format!("http://{}", callbacks.local_addr().unwrap());
        world.set_endpoints(name, &url);
        world.set_all_endpoints(name, &url);
        let connect = |_| {
            let stream = TcpStream::connect(world.fspiop()).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(AMPLE)).unwrap();
            stream
        };
        Self { callbacks, called: Vec::new(), asking: (0..4).map(connect).collect(), next: 0 }
    }

    /// Sends a request, waits for the callback it causes, and tells whether the answer was there by then. Gives the
    /// answer's status and the callback's request line.
    fn exchange(&mut self, sent: &Sent) -> (bool, u16, String) {
        self.next = (self.next + 1) % self.asking.len();
        self.asking[self.next].write_all(&sent.bytes()).unwrap();
        let started = Instant::now();
        let index = loop {
            assert!(started.elapsed() < AMPLE, "no callback for {} {}", sent.method, sent.path);
            if let Ok((stream, _)) = self.callbacks.accept() {
                stream.set_nonblocking(true).unwrap();
                self.called.push((stream, Vec::new()));
            }
            if let Some(index) =
                self.called.iter_mut().position(|(stream, received)| receive(stream, received))
            {
                break index;
            }
        };
        let stream = &mut self.asking[self.next];
        stream.set_nonblocking(true).unwrap();
        let answer_is_there = stream.peek(&mut [0; 64]).is_ok_and(|length| length > 0);
        stream.set_nonblocking(false).unwrap();
        let status = read_answer(stream);
        (answer_is_there, status, self.take_callback(index))
    }

    fn take_callback(&mut self, index: usize) -> String {
        let (stream, received) = &mut self.called[index];
        let started = Instant::now();
        while whole(received).is_none() {
            assert!(started.elapsed() < AMPLE, "half a callback");
            receive(stream, received);
        }
        let length = whole(received).unwrap();
        let message: Vec<_> = received.drain(..length).collect();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&message).lines().next().unwrap().to_owned()
    }
}

/// Whether something new has come.
fn receive(stream: &mut TcpStream, received: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    match stream.read(&mut piece) {
        Ok(length) => {
            received.extend_from_slice(&piece[..length]);
            length > 0
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// The length of the message, once it is whole.
fn whole(received: &[u8]) -> Option<usize> {
    let head = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = head + length.map_or(0, |length| length.parse::<usize>().unwrap());
    (received.len() >= length).then_some(length)
}

fn read_answer(stream: &mut TcpStream) -> u16 {
    let mut received = Vec::new();
    while whole(&received).is_none() {
        assert!(receive(stream, &mut received), "the connection was closed");
    }
    String::from_utf8_lossy(&received)[9..12].parse().unwrap()
}

/// Sends each of them and expects this status, this callback, and the answer first.
fn answer_first(recorder: &mut Recorder, messages: Vec<(Message, u16, String)>) {
    let count = messages.len();
    let mut overtaken = 0;
    for (message, status, callback) in messages {
        let sent = message.into_sent();
        let (answer_was_there, answered, called) = recorder.exchange(&sent);
        assert_eq!(
            (answered, called),
            (status, format!("{callback} HTTP/1.1")),
            "{} {}",
            sent.method,
            sent.path
        );
        overtaken += usize::from(!answer_was_there);
    }
    assert_eq!(overtaken, 0, "callbacks came before the answers to {count} requests");
}

/// A transfer of greenbank's to bluewallet, fulfilled.
fn committed(world: &World) -> Terms {
    let terms = Terms::new(&world.new_id(), world.now());
    world.deliver(Message::prepare(&terms));
    world.dfsp("bluewallet").next(&terms.id);
    world.deliver(Message::fulfil(&terms.id, "COMMITTED"));
    world.dfsp("greenbank").next(&terms.id);
    terms
}

#[test]
fn questions_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let id = committed(&world).id;
    let unknown = world.new_id();
    let mut recorder = Recorder::of(&world, "greenbank");
    let question = |number| match number % 2 {
        0 => (Message::get(&id, "greenbank"), 202, format!("PUT /transfers/{id}")),
        _ => (Message::get(&unknown, "greenbank"), 202, format!("PUT /transfers/{unknown}/error")),
    };
    answer_first(&mut recorder, (0..500).map(question).collect());
}

#[test]
fn refused_and_duplicate_prepares_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let known = committed(&world);
    let mut recorder = Recorder::of(&world, "greenbank");
    let prepare = |number: u32| {
        let id = if number.is_multiple_of(3) { known.id.clone() } else { world.new_id() };
        let error = format!("PUT /transfers/{id}/error");
        match number % 3 {
            0 => (Message::prepare(&known), 202, format!("PUT /transfers/{id}")),
            // Beyond the cover, each by another amount.
            1 => {
                let amount = (10_000 + number).to_string();
                (Message::prepare(&Terms { amount, ..Terms::new(&id, world.now()) }), 202, error)
            }
            _ => {
                let terms = Terms { payee: "nobody".into(), ..Terms::new(&id, world.now()) };
                (Message::prepare(&terms), 202, error)
            }
        }
    };
    answer_first(&mut recorder, (0..500).map(prepare).collect());
}

#[test]
fn a_payee_that_reserves_is_answered_before_the_callback() {
    let world = World::new(&[]);
    let ids: Vec<_> = (0..100).map(|_| world.new_id()).collect();
    for id in &ids {
        world.deliver(Message::prepare(&Terms {
            amount: "1".into(),
            ..Terms::new(id, world.now().plus_ms(60_000))
        }));
        world.dfsp("bluewallet").next(id);
    }
    let mut recorder = Recorder::of(&world, "bluewallet");
    let fulfil = |id: &String| (Message::fulfil(id, "RESERVED"), 200, format!("PATCH /transfers/{id}"));
    answer_first(&mut recorder, ids.iter().map(fulfil).collect());
}

#[test]
fn registrations_with_the_hub_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let mut recorder = Recorder::of(&world, "greenbank");
    let register = |number: u32| {
        let path = format!("/participants/MSISDN/25470{number:07}");
        let body = r#"{"fspId":"greenbank","currency":"KES"}"#;
        (Message::of("POST", &path, "greenbank", None, body), 202, format!("PUT {path}"))
    };
    answer_first(&mut recorder, (0..200).map(register).collect());
}

/// Who hangs up before the answer is called all the same.
#[test]
fn a_callback_does_not_wait_for_an_asker_that_has_hung_up() {
    let world = World::new(&[]);
    let id = committed(&world).id;
    let greenbank = world.dfsp("greenbank");
    for _ in 0..200 {
        let mut stream = TcpStream::connect(world.fspiop()).unwrap();
        stream.write_all(&Message::get(&id, "greenbank").into_sent().bytes()).unwrap();
        // With an answer that is not read the system resets the connection.
        drop(stream);
    }
    // All that the hub has heard of are delivered.
    world.deliver(Message::get(&id, "greenbank"));
    greenbank.next(&id);
    world.until(&(0, 0), || world.undelivered());
    let lanes = world.operate("GET", "/lanes", "");
    let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "greenbank").unwrap();
    assert_eq!((&lane["queued"], &lane["retrying"]), (&0.into(), &0.into()), "{lane}");
}
