//! Web sockets that notify Mojaloop's load scripts of the arrival of their callback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use upesi_http::Workers;

use crate::shared::SimulatorState;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A channel is closed after this time without a push.
const CHANNEL_LIFE_MAX: Duration = Duration::from_secs(300);
const FRAME_BYTES_MAX: usize = 4096;

/// Accepts web sockets. Dropping it stops accepting.
pub(crate) struct SocketServer {
    local_addr: SocketAddr,
    stop: watch::Sender<bool>,
}

impl SocketServer {
    /// Starts to accept web sockets at this address.
    pub fn start(
        address: SocketAddr,
        workers: &Workers,
        shared: &Arc<SimulatorState>,
    ) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let local_addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        workers.get(0).spawn(accept(listener, shared.clone(), stopped));
        Ok(Self { local_addr, stop })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

async fn accept(
    listener: std::net::TcpListener,
    shared: Arc<SimulatorState>,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the web-socket port cannot be polled"),
    };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, shared.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a web socket could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<SimulatorState>) {
    let mut name = String::new();
    let mut registered = None;
    // The script sends its request when the handshake is answered, so the channel must be open before that.
    #[expect(clippy::result_large_err, reason = "the signature is the library's")]
    let read_path = |request: &Request, response: Response| {
        name = request.uri().path().trim_start_matches('/').to_owned();
        registered = shared.channels.register(name.clone());
        Ok(response)
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX));
    let handshake = tokio_tungstenite::accept_hdr_async_with_config(stream, read_path, Some(config));
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
    let Some((ticket, mut pushed)) = registered else { return };
    let Ok(Ok(mut socket)) = handshake else { return shared.channels.close(&name, ticket) };
    let life = tokio::time::sleep(CHANNEL_LIFE_MAX);
    tokio::pin!(life);
    let mut told = false;
    loop {
        tokio::select! {
            text = &mut pushed, if !told => {
                told = true;
                let Ok(text) = text else { break };
                if socket.send(Message::text(text)).await.is_err() {
                    break;
                }
            }
            // Reading answers pings and detects the end.
            message = socket.next() => if !matches!(message, Some(Ok(_))) { break },
            () = &mut life => break,
        }
    }
    shared.channels.close(&name, ticket);
    let _ = socket.close(None).await;
}
