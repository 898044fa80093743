//! Waits for a hub to start.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use upesi_http::{
    Bytes, ClientTls, Full, Pool, PoolConfig, Request, SendError, StatusCode, Target, TlsFault,
};
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_process::terminal::note;

/// Interval between requests to a hub that does not answer yet.
const POLL: Duration = Duration::from_millis(100);
/// Time limit for one response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for a response to `GET /health` below a base URL, at most for the given time. With a time of zero, it sends no
/// request. Any response ends the wait, except one of a hub that is not ready (502, 503, 504), which is accepted only
/// when the time is over. A TLS error, such as a missing certificate, ends the wait immediately.
///
/// # Errors
/// 64 for a URL that cannot be called, 69 if no response arrived in time, or if TLS fails.
pub async fn await_hub(url: &str, tls: Option<&ClientTls>, wait: Duration) -> Outcome {
    await_port(url, tls, wait, |_| None).await
}

/// Like [`await_hub`] for the admin port: an error names the flags for TLS.
///
/// # Errors
/// As [`await_hub`].
pub async fn await_admin(url: &str, tls: Option<&ClientTls>, wait: Duration) -> Outcome {
    await_port(url, tls, wait, |fault| Some(remedy(fault))).await
}

/// The remedy for a TLS error at the admin port.
pub fn remedy(fault: TlsFault) -> &'static str {
    match fault {
        TlsFault::NoAnchors => {
            "https:// needs the authorities that issued the admin port's certificate: --anchors FILE, \
             UPESI_ADMIN_ANCHORS, or a saved context"
        }
        TlsFault::ServerUntrusted => {
            "the admin port's certificate was not issued by the authorities in --anchors"
        }
        TlsFault::ServerOfOtherHost => "the admin port's certificate does not name the host of --admin",
        TlsFault::CertificateRequired => {
            "the admin port requires a client certificate: --certificate FILE and --key FILE, \
             UPESI_ADMIN_CERTIFICATE and UPESI_ADMIN_KEY, or a saved context"
        }
        TlsFault::CertificateRefused => {
            "the port rejects the client certificate of --certificate, or --admin names the FSPIOP port instead of \
             the admin port"
        }
        TlsFault::NotTls => "the port does not speak TLS: write http:// in --admin",
    }
}

async fn await_port(
    url: &str,
    tls: Option<&ClientTls>,
    wait: Duration,
    remedy: impl Fn(TlsFault) -> Option<&'static str>,
) -> Outcome {
    if wait.is_zero() {
        return Ok(());
    }
    let target = Target::parse(url).map_err(|error| Failure::new(Exit::Usage, error))?;
    let path = format!("{}/health", target.path.path().trim_end_matches('/'));
    let pool = Pool::new(
        target.origin,
        PoolConfig { connections_max: 1, tls: tls.cloned(), ..PoolConfig::default() },
    );
    let end = Instant::now() + wait;
    let mut is_told = false;
    loop {
        let deadline = end.min(Instant::now() + ANSWER_TIMEOUT);
        let silence = match ask(&pool, &path, deadline).await {
            Ok(status) if !is_not_ready(status) => return Ok(()),
            Ok(_) => None,
            Err(error) => {
                if let Some(fault) = error.tls_fault() {
                    let remedy = remedy(fault).map(|remedy| format!("\n{remedy}")).unwrap_or_default();
                    return Err(Failure::new(
                        Exit::Unavailable,
                        format!("TLS with {url} failed: {error}{remedy}"),
                    ));
                }
                Some(error)
            }
        };
        if Instant::now() + POLL >= end {
            return silence.map_or(Ok(()), |error| Err(nothing_answers(url, wait, &error)));
        }
        if !std::mem::replace(&mut is_told, true) {
            note(format_args!("waiting up to {} s for the hub at {url}", wait.as_secs()));
        }
        sleep(POLL).await;
    }
}

async fn ask(pool: &Pool, path: &str, deadline: Instant) -> Result<StatusCode, SendError> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = path.parse().unwrap_or_default();
    Ok(pool.send(request, deadline).await?.status)
}

fn is_not_ready(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

fn nothing_answers(url: &str, wait: Duration, error: &SendError) -> Failure {
    let text = format!(
        "no hub answered at {url} within {} s: {error}\nis it running at this address? --wait SECONDS waits longer, \
         --wait 0 not at all",
        wait.as_secs()
    );
    Failure::new(Exit::Unavailable, text)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Answers requests one after the other, each on its own connection.
    fn answering(
        listener: TcpListener,
        statuses: &'static [&'static str],
    ) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut seen = String::new();
            for status in statuses {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = vec![0; 4096];
                let count = stream.read(&mut head).unwrap();
                seen = String::from_utf8_lossy(&head[..count]).lines().next().unwrap_or_default().to_owned();
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
            seen
        })
    }

    #[tokio::test]
    async fn await_hub_waits_until_the_hub_is_ready() {
        // The address is known, but no server listens there yet.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{address}/hub/");
        let waiting = tokio::spawn(async move { await_hub(&url, None, LONG).await });
        // One attempt has failed before the listener exists.
        tokio::task::yield_now().await;
        sleep(POLL).await;
        assert!(!waiting.is_finished());
        let listener = TcpListener::bind(address).unwrap();
        let hub = answering(listener, &["503 Service Unavailable", "200 OK"]);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(hub.join().unwrap(), "GET /hub/health HTTP/1.1");
    }

    #[tokio::test]
    async fn await_hub_ends_at_any_other_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hub = answering(listener, &["404 Not Found"]);
        assert_eq!(await_hub(&url, None, LONG).await, Ok(()));
        assert_eq!(hub.join().unwrap(), "GET /health HTTP/1.1");
    }

    #[tokio::test]
    async fn await_hub_without_answer_fails_with_a_remedy() {
        let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let failure = await_hub(&url, None, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Unavailable);
        let expected = format!("no hub answered at {url} within 1 s: cannot connect");
        assert!(failure.message.starts_with(&expected), "{failure}");
        assert!(failure.message.contains("--wait SECONDS waits longer"), "{failure}");
        // Without a waiting time no request is sent, so nothing can fail.
        assert_eq!(await_hub(&url, None, Duration::ZERO).await, Ok(()));
        assert_eq!(await_hub("nowhere", None, LONG).await.unwrap_err().exit, Exit::Usage);
    }
}
