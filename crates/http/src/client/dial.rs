//! Connects to the first of several addresses that answers (Happy Eyeballs, RFC 8305).
//!
//! 1. The addresses alternate by family, beginning with the family of the first address.
//! 2. An attempt begins [`ATTEMPT_DELAY`] after the previous one, or as soon as one fails.
//! 3. The first connection is used; the other attempts are dropped.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Time between the starts of two attempts (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of addresses that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects to one of the addresses. The caller limits the time.
pub(super) async fn dial(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    dial_by(addresses, |address| TcpStream::connect(SocketAddr::new(address, port))).await
}

async fn dial_by<T, C: Future<Output = io::Result<T>>>(
    addresses: &[IpAddr],
    connect: impl Fn(IpAddr) -> C,
) -> io::Result<T> {
    let mut waiting = in_turn(addresses).into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        attempts.extend(waiting.next().map(&connect));
        tokio::select! {
            biased;
            ended = attempts.next() => match ended {
                Some(Ok(connection)) => return Ok(connection),
                Some(Err(error)) => failure = error,
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

/// The addresses in the order of the attempts: the families alternate (RFC 8305 §4).
fn in_turn(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let is_of_first =
        |address: &IpAddr| addresses.first().is_some_and(|first| first.is_ipv4() == address.is_ipv4());
    let (mut first, mut second): (Vec<_>, Vec<_>) = addresses.iter().rev().copied().partition(is_of_first);
    let mut order = Vec::with_capacity(addresses.len().min(ADDRESSES_MAX));
    while order.len() < ADDRESSES_MAX
        && let Some(next) = first.pop().or_else(|| second.pop())
    {
        order.push(next);
        std::mem::swap(&mut first, &mut second);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    /// The behaviour of an address: it answers or fails after this many milliseconds, or does not respond.
    #[derive(Clone, Copy)]
    enum Does {
        Answers(u64),
        Fails(u64),
        Nothing,
    }

    fn address(last: usize) -> IpAddr {
        IpAddr::from([192, 0, 2, u8::try_from(last).unwrap()])
    }

    /// The connected address, the starts of the attempts, and their end, in milliseconds.
    async fn dialled(all: &[Does]) -> (Option<usize>, Vec<u128>, u128) {
        let (start, begun) = (Instant::now(), RefCell::new(Vec::new()));
        let addresses: Vec<_> = (0..all.len()).map(address).collect();
        let connect = async |of: IpAddr| {
            begun.borrow_mut().push(start.elapsed().as_millis());
            let index = addresses.iter().position(|address| *address == of).unwrap();
            match all[index] {
                Does::Answers(after) => sleep(Duration::from_millis(after)).await,
                Does::Fails(after) => {
                    sleep(Duration::from_millis(after)).await;
                    return Err(io::Error::other(index.to_string()));
                }
                Does::Nothing => std::future::pending().await,
            }
            Ok(index)
        };
        let found = dial_by(&addresses, connect).await;
        (found.ok(), begun.into_inner(), start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn next_address_is_tried_after_a_delay_or_a_failure() {
        use Does::{Answers, Fails, Nothing};
        for (all, found, begun, ended) in [
            (&[Answers(100), Answers(0)][..], Some(0), &[0][..], 100),
            (&[Nothing, Answers(10)], Some(1), &[0, 250], 260),
            (&[Fails(5), Answers(10)], Some(1), &[0, 5], 15),
            (&[Nothing, Nothing, Answers(1)], Some(2), &[0, 250, 500], 501),
            // A slow address is not abandoned for the next one.
            (&[Answers(300), Nothing], Some(0), &[0, 250], 300),
            (&[Nothing, Fails(10), Answers(10)], Some(2), &[0, 250, 260], 270),
            (&[Fails(5), Fails(7)], None, &[0, 5], 12),
            (&[Fails(600), Fails(7)], None, &[0, 250], 600),
            (&[], None, &[], 0),
        ] {
            assert_eq!(dialled(all).await, (found, begun.to_vec(), ended));
        }
        let (found, begun, _) = dialled(&[Fails(0); ADDRESSES_MAX + 1]).await;
        assert_eq!((found, begun.len()), (None, ADDRESSES_MAX));
    }

    #[test]
    fn families_take_turns() {
        let [a, b, c] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|text| text.parse().unwrap());
        let [x, y] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        for (addresses, expected) in [
            (&[a, b, c, x, y][..], &[a, x, b, y, c][..]),
            (&[x, y, a, b, c], &[x, a, y, b, c]),
            (&[x, y], &[x, y]),
            (&[a, b], &[a, b]),
            (&[], &[]),
        ] {
            assert_eq!(in_turn(addresses), expected);
        }
    }
}
