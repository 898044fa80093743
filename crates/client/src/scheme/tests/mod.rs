//! Scheme files, plans, and their application to a scripted hub.

mod applying;
mod reading;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use upesi_http::{
    Bytes, Connection, Full, HeaderValue, Incoming, Limits, Method, Request, Response, Server, Service,
    StatusCode, Workers, body, header,
};

// A hub that sends the answers of a test, and remembers the requests.

/// Answers to `METHOD /path`. If there are several, the last one stays.
type Script = BTreeMap<String, Vec<(u16, String)>>;

#[derive(Default)]
struct State {
    script: Script,
    requests: Vec<String>,
}

#[derive(Default)]
struct Scripted(Mutex<State>);

impl Service for Scripted {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let key = format!("{} {}", request.method(), request.uri());
        let is_read = request.method() == Method::GET;
        let body = body::read(request.into_body(), 1 << 20, Instant::now() + Duration::from_secs(10)).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        let mut state = self.0.lock().unwrap();
        let State { script, requests } = &mut *state;
        if !is_read {
            requests.push(format!("{key} {body}"));
        }
        let (status, text) = match script.get_mut(&key) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None if is_read => (404, format!("no answer is written for {key}")),
            None => (201, String::new()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

struct ScriptedHub {
    service: Arc<Scripted>,
    workers: Workers,
    address: SocketAddr,
}

impl ScriptedHub {
    pub fn start(script: &[(&str, &str)]) -> Self {
        let service = Arc::new(Scripted::default());
        let workers = Workers::start(1, "scripted").unwrap();
        let bound = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = bound.local_addr();
        Server::serve(bound, Limits::default(), &workers, Arc::clone(&service));
        let hub = Self { service, workers, address };
        for (key, answer) in script {
            hub.answer(key, 200, answer);
        }
        hub
    }

    /// Adds an answer after the existing ones.
    pub fn answer(&self, key: &str, status: u16, text: &str) {
        let mut state = self.service.0.lock().unwrap();
        state.script.entry(key.to_owned()).or_default().push((status, text.to_owned()));
    }

    /// Replaces the existing answers.
    pub fn replace(&self, key: &str, text: &str) {
        self.service.0.lock().unwrap().script.insert(key.to_owned(), vec![(200, text.to_owned())]);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requested changes, in order.
    pub fn changes(&self) -> Vec<String> {
        self.service.0.lock().unwrap().requests.clone()
    }
}

impl Drop for ScriptedHub {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}
