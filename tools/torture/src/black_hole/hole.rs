//! The black hole: connections pass through it, until they do not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 8_192;

/// A listener that passes connections on. While it swallows, it takes new ones, and nothing comes back on any.
#[derive(Debug)]
pub struct Hole {
    address: SocketAddr,
    is_black: watch::Sender<bool>,
}

impl Hole {
    /// Listens on a free port in front of `behind`. Belongs to the present runtime.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn dig(behind: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (is_black, state) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        tokio::spawn(async move {
            while let Ok((outside, _)) = listener.accept().await {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let state = state.clone();
                tokio::spawn(async move {
                    carry(outside, behind, state).await;
                    drop(place);
                });
            }
        });
        Ok(Self { address, is_black })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing comes back, on open connections either.
    pub fn swallow(&self) {
        self.is_black.send_replace(true);
    }

    /// New connections pass through again; those that were swallowed end.
    pub fn heal(&self) {
        self.is_black.send_replace(false);
    }
}

async fn carry(mut outside: TcpStream, behind: SocketAddr, mut is_black: watch::Receiver<bool>) {
    if !*is_black.borrow_and_update() {
        let Ok(mut inside) = TcpStream::connect(behind).await else { return };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut outside, &mut inside) => return,
            changed = is_black.changed() => if changed.is_err() { return },
        }
    }
    // Neither read nor closed.
    let _ = is_black.wait_for(|is_black| !is_black).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Something that answers each byte with the next one.
    async fn successor() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        stream.write_u8(byte + 1).await.unwrap();
                    }
                });
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_u8(byte).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn nothing_comes_back_until_it_heals() {
        let hole = Hole::dig(successor().await).await.unwrap();
        let connect = || TcpStream::connect(hole.address());
        let mut before = connect().await.unwrap();
        assert_eq!(ask(&mut before, 7).await.unwrap(), 8);

        hole.swallow();
        let mut meanwhile = connect().await.unwrap();
        // Both are open, and silent: the bytes are written, and the answers are still to come when it heals.
        before.write_u8(7).await.unwrap();
        meanwhile.write_u8(7).await.unwrap();
        tokio::select! {
            biased;
            answer = before.read_u8() => panic!("{answer:?}"),
            answer = meanwhile.read_u8() => panic!("{answer:?}"),
            () = turns(1_000) => {}
        }

        hole.heal();
        assert!(before.read_u8().await.is_err() && meanwhile.read_u8().await.is_err());
        assert_eq!(ask(&mut connect().await.unwrap(), 1).await.unwrap(), 2);
    }

    /// Enough for everything that could happen to happen.
    async fn turns(count: usize) {
        for _ in 0..count {
            tokio::task::yield_now().await;
        }
    }
}
