//! A client that says exactly what it is told to, over one connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough never to be reached by a test that passes.
const AMPLE: Duration = Duration::from_secs(30);

pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        Self { address, stream, received: Vec::new() }
    }

    /// One request, whose connection is kept unless the answer closes it.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Answer {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: hub\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            request += &format!("content-length: {}\r\n", body.len());
        }
        request += &format!("\r\n{}", body.unwrap_or_default());
        self.stream.write_all(request.as_bytes()).unwrap();
        let answer = self.read(method);
        if answer.header("connection") == Some("close") {
            *self = Self::connect(self.address);
        }
        answer
    }

    fn read(&mut self, method: &str) -> Answer {
        let end = self.read_until(|bytes| bytes.windows(4).position(|at| at == b"\r\n\r\n")) + 4;
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let length = if method == "HEAD" || status == 304 { 0 } else { length };
        self.read_until(|bytes| (bytes.len() >= length).then_some(0));
        answer.body = String::from_utf8(self.received.drain(..length).collect()).unwrap();
        answer
    }

    fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> usize {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(at) = found(&self.received) {
                return at;
            }
            let length = self.stream.read(&mut buffer).unwrap();
            assert!(length > 0, "the connection ended after {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&buffer[..length]);
        }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The code of an error object; 0 where there is none.
    pub fn code(&self) -> u16 {
        let value: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let code = value.pointer("/errorInformation/errorCode").and_then(serde_json::Value::as_str);
        code.map_or(0, |code| code.parse().unwrap())
    }

    /// The methods that the path has, without `HEAD`, which goes with every `GET` of the hub's own.
    pub fn allowed(&self) -> Vec<String> {
        let allow =
            self.header("allow").unwrap_or_default().split(',').map(|method| method.trim().to_owned());
        allow.filter(|method| !method.is_empty() && method != "HEAD").collect()
    }
}
