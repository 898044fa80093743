use std::sync::Arc;

use upesi_types::Timestamp;

use crate::{Access, Batch, Disk, END, Options, Reader, RealDisk, open};

#[test]
fn what_was_appended_is_read_back_after_reopening() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(directory.path(), Access::Write));
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let mut time = 0;
    for round in 0..3 {
        let mut opened = open(Arc::clone(&disk), options.clone()).expect("opens");
        assert_eq!(opened.recovered.last_seq, round * 20);
        let mut batch = Batch::new(opened.writer.next_seq());
        for number in 0..10_u8 {
            batch.reset(opened.writer.next_seq());
            for _ in 0..2 {
                time += 1;
                batch.push(Timestamp::from_ns(time), |buffer| buffer.extend([b'0' + number; 300]));
            }
            opened.writer.append(&mut batch).expect("appends");
            opened.writer.maintain().expect("maintains");
        }
    }
    let mut reader = Reader::new(disk, 1);
    let mut expected = 1;
    while let Some(record) = reader.next_record(END).expect("reads") {
        assert_eq!((record.seq, record.time), (expected, Timestamp::from_ns(expected as i64)));
        assert_eq!(record.bytes, [b'0' + ((expected - 1) % 20 / 2) as u8; 300]);
        expected += 1;
    }
    assert_eq!(expected, 61);
}
