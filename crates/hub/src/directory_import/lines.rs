//! Lines of a file, without trust in their length.

use std::io::{self, BufRead};

/// Reads the next line without its line break, appending it to `line`. Of a line longer than `bytes_max` so much is
/// kept and one byte more, which says that it is too long. Gives how many bytes of the file it took; 0 at the end.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<u64> {
    let (mut taken, mut room) = (0, bytes_max + 1);
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part.len().min(room);
        line.extend_from_slice(&part[..kept]);
        room -= kept;
        let used = part.len() + usize::from(end.is_some());
        taken += used as u64;
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_breaks_and_at_the_end_and_are_cut_where_they_are_too_long() {
        for capacity in [1, 3, 100] {
            let mut reader = io::BufReader::with_capacity(capacity, &b"a\n\nabcdefgh\r\nlast"[..]);
            let mut read = || {
                let mut line = Vec::new();
                let taken = read_line(&mut reader, &mut line, 4).unwrap();
                (String::from_utf8(line).unwrap(), taken)
            };
            let expected = [("a", 2), ("", 1), ("abcde", 10), ("last", 4), ("", 0)];
            for (line, taken) in expected {
                assert_eq!(read(), (line.to_owned(), taken), "capacity {capacity}");
            }
        }
    }
}
