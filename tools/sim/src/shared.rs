//! The state that all parts of a simulator share.

use std::time::Instant;

use hashbrown::HashMap;
use upesi_http::Method;
use upesi_types::Currency;

use crate::condition::Secret;
use crate::dfsp::Dfsp;
use crate::ids::Orders;
use crate::message::family_of;
use crate::metrics::SimMetrics;
use crate::rounds::Rounds;
use crate::secured::Signing;
use crate::table::{AnswerMemory, Bulks, Table};
use crate::upstream::{MessageWay, Route};
use crate::watch::{Channels, Direction, MessageWatch, SeenMessage};

/// The settings of payees that convert the money that they receive.
#[derive(Clone, Debug)]
pub struct PayeeFxTransfers {
    /// The currency that payees want. They sell money that they receive in another currency.
    pub currency: Currency,
    /// Value of a thousand units of any other currency, in `currency`.
    pub rate_per_mille: u32,
    /// Indexes of the FXPs, which take turns.
    pub fxps: Vec<usize>,
}

pub(crate) struct SimulatorState {
    pub dfsps: Vec<Dfsp>,
    pub by_name: HashMap<String, u32, foldhash::fast::RandomState>,
    pub table: Table,
    pub bulks: Bulks,
    pub remembered: AnswerMemory,
    /// Prepares that a fault setting rejected.
    pub refused: AnswerMemory,
    pub currencies: String,
    pub payee_fx_transfers: Option<PayeeFxTransfers>,
    pub secret: Secret,
    pub seed: u64,
    pub orders: Orders,
    pub channels: Channels,
    pub answer_attempts_max: u32,
    pub rounds: Rounds,
    pub watch: MessageWatch,
    /// `None` if no metrics are configured; then nothing is measured.
    pub metrics: Option<SimMetrics>,
    /// `None` if messages are unsigned.
    pub signing: Option<Signing>,
    pub route: Route,
}

impl SimulatorState {
    pub fn dfsp(&self, index: u32) -> &Dfsp {
        &self.dfsps[index as usize]
    }

    /// The way of a message to its receiver.
    pub fn way(&self, receiver: &str, path: &str) -> MessageWay {
        self.route.way(receiver, path)
    }

    /// Sends a message of `sender` towards `receiver`.
    pub async fn send(
        &self,
        sender: &Dfsp,
        method: Method,
        receiver: &str,
        path: &str,
        mut headers: upesi_http::HeaderMap,
        body: bytes::Bytes,
    ) -> Result<upesi_http::Answer, upesi_http::SendError> {
        let way = self.way(receiver, path);
        if let Some(signing) = &self.signing {
            signing.sign(sender, &method, &way.uri, &mut headers, &body);
        }
        let seen = self.watch.is_on().then(|| SeenMessage {
            at: Instant::now(),
            dfsp: sender.name,
            direction: Direction::Sent,
            method: method.clone(),
            path: way.uri.path().to_owned(),
            headers: headers.clone(),
            body: body.clone(),
            status: None,
        });
        let timed = self
            .metrics
            .as_ref()
            .and_then(|metrics| Some((metrics, method.clone(), family_of(path)?, Instant::now())));
        let answer = self.route.send(sender, method, way, headers, body).await;
        if let Some((metrics, method, family, began)) = timed {
            metrics.called(&method, family, began.elapsed());
        }
        if let Some(mut seen) = seen {
            seen.status = answer.as_ref().ok().map(|answer| answer.status);
            self.watch.show(seen);
        }
        answer
    }
}
