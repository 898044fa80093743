//! A DFSP that checks whether an answer is written before its callback.
//!
//! The recorder is the sender of the requests and the receiver of the callbacks. When the first byte of a callback
//! arrives, it checks whether its other socket has the answer. On one machine this is the case once the hub has written
//! the answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::message::{Message, Sent};
use super::{AMPLE, World};

pub struct Recorder {
    callbacks: TcpListener,
    /// Connections of the hub's callbacks, with received bytes that are not answered yet.
    called: Vec<(TcpStream, Vec<u8>)>,
    /// Connections for requests, on different workers of the hub.
    asking: Vec<TcpStream>,
    next: usize,
}

impl Recorder {
    /// Takes the place of a DFSP.
    pub fn of(world: &World, name: &str) -> Self {
        let recorder = Self::asking(world.fspiop());
        world.set_endpoints(name, &recorder.url());
        world.set_all_endpoints(name, &recorder.url());
        recorder
    }

    /// Connects to a hub.
    pub fn asking(hub: SocketAddr) -> Self {
        let callbacks = TcpListener::bind("127.0.0.1:0").unwrap();
        callbacks.set_nonblocking(true).unwrap();
        let connect = |_| {
            let stream = TcpStream::connect(hub).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(AMPLE)).unwrap();
            stream
        };
        Self { callbacks, called: Vec::new(), asking: (0..4).map(connect).collect(), next: 0 }
    }

    /// URL for callbacks.
    pub fn url(&self) -> String {
        format!("http://{}", self.callbacks.local_addr().unwrap())
    }

    /// Sends a request and waits for its callback. Returns whether the answer had arrived by then, the answer's status,
    /// and the callback's request line.
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

    /// Sends each message. Expects this status, this callback, and the answer before the callback.
    pub fn expect_answers_first(&mut self, messages: Vec<(Message, u16, String)>) {
        let count = messages.len();
        let overtaken = self.overtaken(messages);
        assert_eq!(overtaken, 0, "callbacks came before the answers to {count} requests");
    }

    /// Sends each message, and expects this status and this callback. Returns the number of callbacks that came before
    /// the answer.
    pub fn overtaken(&mut self, messages: Vec<(Message, u16, String)>) -> usize {
        let mut overtaken = 0;
        for (message, status, callback) in messages {
            let sent = message.into_sent();
            let (answer_was_there, answered, called) = self.exchange(&sent);
            assert_eq!(
                (answered, called),
                (status, format!("{callback} HTTP/1.1")),
                "{} {}",
                sent.method,
                sent.path
            );
            overtaken += usize::from(!answer_was_there);
        }
        overtaken
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

/// Whether new bytes have arrived.
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

/// The length of a complete message.
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
