//! Work that is due at a fixed rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Makes calls at a fixed rate, regardless of the outcome of earlier calls, until it is stopped.
#[derive(Debug)]
pub struct Pacer {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Starts the calls. Each receives its number, from 0, and its due time.
    pub fn start(rate_per_s: u64, mut due: impl FnMut(u64, Instant) + Send + 'static) -> Self {
        let pause = Duration::from_secs(1) / u32::try_from(rate_per_s.max(1)).unwrap_or(u32::MAX);
        let is_ending = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_ending);
        // A separate thread, because a runtime's timers have a resolution of milliseconds.
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            for number in 0_u32.. {
                let intended = begun + pause * number;
                std::thread::sleep(intended.saturating_duration_since(Instant::now()));
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                due(u64::from(number), intended);
            }
        });
        Self { is_ending, thread: Some(thread) }
    }

    /// Stops the calls.
    pub fn stop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed. Its missing calls show in the counts.
            let _ = thread.join();
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn pacer_numbers_calls_at_the_rate_until_it_stops() {
        let (sender, receiver) = mpsc::channel();
        let mut pacer = Pacer::start(1_000, move |number, intended| {
            let _ = sender.send((number, intended));
        });
        let calls: Vec<_> = receiver.iter().take(20).collect();
        pacer.stop();
        assert!(calls.iter().zip(0..).all(|((number, _), expected)| *number == expected), "{calls:?}");
        assert_eq!(calls[19].1 - calls[0].1, Duration::from_millis(19));
        // The sender is dropped with the thread.
        assert!(receiver.iter().count() < 1_000_000);
    }
}
