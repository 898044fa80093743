//! Connections that ask for a transfer again and again, to see how fast a refusal comes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Probers, each with a connection of its own.
const PROBERS: usize = 4;
/// Probers together ask for about a hundredth of the peak, so that they are no load themselves; one asks no more often.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Probes kept by one prober: hours of them.
const PROBES_MAX: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) status: u16,
    /// From the first byte sent to the last byte received.
    pub(super) duration: Duration,
}

pub(super) struct Prober {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Probe>>>,
}

impl Prober {
    /// Starts to ask in the name of a DFSP. What it asks has no body to speak of: where it is taken it is answered 400
    /// and leaves no trace.
    pub(super) fn start(url: &str, dfsp: &str, peak_per_s: u32) -> io::Result<Self> {
        let pause = Duration::from_secs(100 * PROBERS as u64) / peak_per_s.max(1);
        let pause = pause.max(PAUSE_MIN);
        let address = url.trim_start_matches("http://").to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let request = request(&address, dfsp);
        let threads = (0..PROBERS).map(|number| {
            let (address, request, stop) = (address.clone(), request.clone(), Arc::clone(&stop));
            thread::Builder::new().name(format!("prober-{number}")).spawn(move || {
                let mut probes = Vec::new();
                while !stop.load(Ordering::Relaxed) && probes.len() < PROBES_MAX {
                    // A connection that fails is opened anew.
                    let _ = ask_until(&address, &request, pause, &stop, &mut probes);
                    thread::sleep(PAUSE_MIN);
                }
                probes
            })
        });
        Ok(Self { threads: threads.collect::<io::Result<_>>()?, stop })
    }

    /// Ends them and gives all they saw.
    pub(super) fn finish(self) -> Vec<Probe> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn request(host: &str, dfsp: &str) -> Vec<u8> {
    const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";
    format!(
        "POST /transfers HTTP/1.1\r\nhost: {host}\r\ncontent-type: {MEDIA}\r\naccept: {MEDIA}\r\n\
         date: Tue, 01 Apr 2031 12:00:00 GMT\r\nfspiop-source: {dfsp}\r\ncontent-length: 2\r\n\r\n{{}}"
    )
    .into_bytes()
}

fn ask_until(
    address: &str,
    request: &[u8],
    pause: Duration,
    stop: &AtomicBool,
    probes: &mut Vec<Probe>,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    while !stop.load(Ordering::Relaxed) && probes.len() < PROBES_MAX {
        let asked = Instant::now();
        stream.write_all(request)?;
        let status = read_answer(&mut stream)?;
        probes.push(Probe { status, duration: asked.elapsed() });
        thread::sleep(pause);
    }
    Ok(())
}

/// Reads one answer to its end and gives its status.
pub(super) fn read_answer(stream: &mut impl Read) -> io::Result<u16> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 || received.len() > ANSWER_BYTES_MAX {
            return Err(malformed());
        }
        received.extend_from_slice(&piece[..length]);
        let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = str::from_utf8(&received[..end]).map_err(|_| malformed())?;
        let content_length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if received.len() >= end + 4 + content_length.unwrap_or(0) {
            return head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(malformed);
        }
    }
}
