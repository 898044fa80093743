//! A client that writes the bytes of its requests itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::AMPLE;

/// A connection to a hub.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// One answer, header names in lower case.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The code of an error object.
    pub fn error_code(&self) -> Option<&str> {
        self.body.strip_prefix(r#"{"errorInformation":{"errorCode":""#)?.get(..4)
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        stream.set_write_timeout(Some(AMPLE)).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// For a hub that may be gone.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn exchange(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        self.answer().expect("the connection was closed without an answer")
    }

    /// The next answer; `None` when the hub closed the connection before one.
    pub fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.receive() == 0 {
                assert!(self.received.is_empty(), "closed within a head");
                return None;
            }
        };
        let rest = self.received.split_off(end + 4);
        let head = String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
        let head = head.trim_end().to_ascii_lowercase();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
        while self.received.len() < length {
            assert!(self.receive() > 0, "closed within a body");
        }
        let rest = self.received.split_off(length);
        answer.body = String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
        Some(answer)
    }

    /// Zero when the connection has ended, by a reset too.
    fn receive(&mut self) -> usize {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(length) => {
                self.received.extend_from_slice(&piece[..length]);
                length
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

/// A request of these headers, in this order, and this body; `content-length` is added unless it or
/// `transfer-encoding` is among the headers.
pub fn request(line: &str, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let is_framed = headers.iter().any(|(name, _)| matches!(&**name, "content-length" | "transfer-encoding"));
    if !is_framed {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}
