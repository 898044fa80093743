//! The file of a recorded stream.
//!
//! All numbers are little-endian. The file begins with `UPSTREAM`, the format's version (u32) and the length (u32) of
//! the header, a JSON object, which follows; then the CRC32C (u32) of everything before it. Blocks of whole messages
//! follow, each with its length (u32) and its CRC32C (u32) in front; a block of no length ends the file. A message is
//! its kind (1 a prepare, 2 a fulfil), the instant it was taken in nanoseconds since 1970 (i64), the 17 bytes of its
//! transfer's id, the lengths of headers and body (u32 each), headers, body.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use bytes::Bytes;
use crc32c::crc32c;
use upesi_types::{Timestamp, TransferId};

use super::{MESSAGES_MAX, Message, MessageKind, Stream, StreamError, StreamHeader};

/// Version of the file format; it grows when a reader of the one before would misread it.
pub const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"UPSTREAM";
/// A block is closed once it is this long, in bytes.
const BLOCK_BYTES: usize = 256 * 1024;
/// Longest block that is believed, in bytes: one message with the longest body that a hub takes, and then some.
const BLOCK_BYTES_MAX: usize = 80 * 1024 * 1024;
const HEADER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a message before its headers.
const MESSAGE_HEAD_BYTES: usize = 1 + 8 + 17 + 4 + 4;

impl Stream {
    /// Writes the file. Errors: what the system said.
    pub fn write(&self, path: &Path) -> Result<(), StreamError> {
        let failed = |source| StreamError::Io { path: path.to_owned(), source };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        self.write_to(&mut out).and_then(|()| out.flush()).map_err(failed)
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        // Cannot fail: the header is plain values.
        let header = serde_json::to_vec(&self.header).unwrap_or_default();
        let mut start = MAGIC.to_vec();
        start.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        start.extend_from_slice(&length(&header)?.to_le_bytes());
        start.extend_from_slice(&header);
        start.extend_from_slice(&crc32c(&start).to_le_bytes());
        out.write_all(&start)?;
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        for message in &self.messages {
            push_message(&mut block, message)?;
            if block.len() >= BLOCK_BYTES {
                write_block(out, &mut block)?;
            }
        }
        if !block.is_empty() {
            write_block(out, &mut block)?;
        }
        write_block(out, &mut block)
    }

    /// Reads a file, and checks all of it. Fails when it cannot be read, is damaged, or was written by a newer
    /// version.
    pub fn read(path: &Path) -> Result<Self, StreamError> {
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|source| StreamError::Io { path: path.to_owned(), source })?;
        parse(&Bytes::from(bytes)).map_err(|fault| match fault {
            Fault::Version(found) => StreamError::Version { path: path.to_owned(), found },
            Fault::Damage(reason) => StreamError::Damaged { path: path.to_owned(), reason },
        })
    }
}

enum Fault {
    Version(u32),
    Damage(String),
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Damage(reason.to_owned())
    }
}

fn length(bytes: &[u8]) -> std::io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| std::io::Error::other("too long for a recorded stream"))
}

fn push_message(block: &mut Vec<u8>, message: &Message) -> std::io::Result<()> {
    block.push(match message.kind {
        MessageKind::Prepare => 1,
        MessageKind::Fulfil => 2,
    });
    block.extend_from_slice(&message.time.as_ns().to_le_bytes());
    block.extend_from_slice(&message.id.to_bytes());
    block.extend_from_slice(&length(&message.headers)?.to_le_bytes());
    block.extend_from_slice(&length(&message.body)?.to_le_bytes());
    block.extend_from_slice(&message.headers);
    block.extend_from_slice(&message.body);
    Ok(())
}

fn write_block(out: &mut impl Write, block: &mut Vec<u8>) -> std::io::Result<()> {
    out.write_all(&length(block)?.to_le_bytes())?;
    out.write_all(&crc32c(block).to_le_bytes())?;
    out.write_all(block)?;
    block.clear();
    Ok(())
}

/// What has not been read of a file.
struct Rest {
    bytes: Bytes,
    at: usize,
}

impl Rest {
    fn take(&mut self, count: usize) -> Result<Bytes, Fault> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("it ends in the middle")?;
        let taken = self.bytes.slice(self.at..end);
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(&self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn size(&mut self, max: usize) -> Result<usize, Fault> {
        let size = self.u32()? as usize;
        if size > max { Err(Fault::Damage(format!("a part of {size} bytes"))) } else { Ok(size) }
    }
}

fn parse(bytes: &Bytes) -> Result<Stream, Fault> {
    let mut rest = Rest { bytes: bytes.clone(), at: 0 };
    if rest.take(MAGIC.len())? != MAGIC[..] {
        return Err("it does not begin with UPSTREAM".into());
    }
    let version = rest.u32()?;
    if version > FORMAT_VERSION {
        return Err(Fault::Version(version));
    }
    let header_bytes = rest.size(HEADER_BYTES_MAX)?;
    let header = rest.take(header_bytes)?;
    let sum = crc32c(&bytes[..rest.at]);
    if rest.u32()? != sum {
        return Err("its header's checksum is wrong".into());
    }
    let header: StreamHeader =
        serde_json::from_slice(&header).map_err(|error| Fault::Damage(error.to_string()))?;
    let mut stream = Stream { header, messages: Vec::new() };
    let expected = usize::try_from(stream.header.prepares.saturating_add(stream.header.fulfils));
    let expected =
        expected.ok().filter(|count| *count <= MESSAGES_MAX).ok_or("it claims too many messages")?;
    loop {
        let block_bytes = rest.size(BLOCK_BYTES_MAX)?;
        let sum = rest.u32()?;
        let block = rest.take(block_bytes)?;
        if crc32c(&block) != sum {
            return Err("the checksum of a block is wrong".into());
        }
        if block.is_empty() {
            break;
        }
        let mut messages = Rest { bytes: block, at: 0 };
        while messages.at < messages.bytes.len() {
            if stream.messages.len() == expected {
                return Err("it holds more messages than its header says".into());
            }
            stream.messages.push(parse_message(&mut messages)?);
        }
    }
    if stream.messages.len() != expected || rest.at != bytes.len() {
        return Err("it does not hold what its header says".into());
    }
    Ok(stream)
}

fn parse_message(rest: &mut Rest) -> Result<Message, Fault> {
    let [kind] = rest.array()?;
    let kind = match kind {
        1 => MessageKind::Prepare,
        2 => MessageKind::Fulfil,
        _ => return Err("a message of unknown kind".into()),
    };
    let time = Timestamp::from_ns(i64::from_le_bytes(rest.array()?));
    let id = TransferId::from_bytes(&rest.array()?).ok_or("a malformed transfer id")?;
    let (headers_bytes, body_bytes) = (rest.size(BLOCK_BYTES_MAX)?, rest.size(BLOCK_BYTES_MAX)?);
    let (headers, body) = (rest.take(headers_bytes)?, rest.take(body_bytes)?);
    Ok(Message { kind, time, id, headers, body })
}

const _: () = assert!(BLOCK_BYTES + MESSAGE_HEAD_BYTES < BLOCK_BYTES_MAX);
