//! Records in the body of an entry: for each its length, its time and its bytes.

use upesi_cluster::Times;
use upesi_journal::{Batch, Record};

const HEADER_BYTES: usize = 12;

/// The body of an entry with the records of a batch, and their times.
///
/// # Panics
/// If the batch is empty.
pub(crate) fn encode(batch: &Batch, body: &mut Vec<u8>) -> Times {
    body.clear();
    let mut times: Option<Times> = None;
    for Record { time_ns, bytes, .. } in batch.records() {
        // A batch is far below 4 GiB.
        body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        body.extend_from_slice(&time_ns.to_le_bytes());
        body.extend_from_slice(bytes);
        times.get_or_insert(Times::at(time_ns)).last_ns = time_ns;
    }
    times.expect("a batch that is appended has records")
}

/// The records of a body; `None` if it does not contain exactly `count`, in increasing times.
pub(crate) fn decode(body: &[u8], first_seq: u64, count: u32) -> Option<Vec<Record<'_>>> {
    let mut records = Vec::with_capacity(body.len().min(count as usize * HEADER_BYTES) / HEADER_BYTES);
    let (mut rest, mut time_before) = (body, None);
    for seq in (first_seq..).take(count as usize) {
        let (header, behind) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let mut time = [0; 8];
        time.copy_from_slice(&header[4..]);
        let time_ns = i64::from_le_bytes(time);
        let (bytes, after) = behind.split_at_checked(length)?;
        if time_before.is_some_and(|before| time_ns <= before) {
            return None;
        }
        records.push(Record { seq, time_ns, bytes });
        (rest, time_before) = (after, Some(time_ns));
    }
    rest.is_empty().then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let mut batch = Batch::new(7);
        for (time_ns, text) in [(5, "one"), (6, ""), (9, "three")] {
            batch.push(time_ns, |buffer| buffer.extend_from_slice(text.as_bytes()));
        }
        batch
    }

    #[test]
    fn records_round_trip() {
        let (batch, mut body) = (batch(), vec![1]);
        let times = encode(&batch, &mut body);
        assert_eq!(times, Times { first_ns: 5, last_ns: 9 });
        let read = decode(&body, 7, 3).expect("records");
        let told = |record: &Record<'_>| (record.seq, record.time_ns, record.bytes.to_vec());
        assert_eq!(
            read.iter().map(told).collect::<Vec<_>>(),
            batch.records().map(|r| told(&r)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn other_bytes_are_rejected() {
        let mut body = Vec::new();
        encode(&batch(), &mut body);
        for count in [0, 2, 4, u32::MAX] {
            assert!(decode(&body, 7, count).is_none(), "{count}");
        }
        for end in 0..body.len() {
            assert!(decode(&body[..end], 7, 3).is_none(), "{end}");
        }
        // The second one is not later than the first.
        body[12 + 3 + 4] = 5;
        assert!(decode(&body, 7, 3).is_none());
    }
}
