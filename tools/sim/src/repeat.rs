//! Payers that send a prepare twice: the same bytes again after the first was accepted, as a client does that did
//! not see so.

use std::sync::Arc;
use std::time::Duration;

use upesi_http::{Bytes, HeaderMap, Method};
use upesi_types::TransferId;

use crate::dfsp::count;
use crate::message::Family;
use crate::payee::fault_key;
use crate::settings::{Fault, PER_MILLE_MAX, hits};
use crate::simulator::Shared;
use crate::upstream::Resource;

/// After this time transfers have ended as a rule, and the hub is asked about what is over.
const LATER: Duration = Duration::from_millis(500);

/// A prepare that is to be sent again. No book is told of it: it is the same transfer.
pub(crate) struct Repeat {
    shared: Arc<Shared>,
    payer: usize,
    payee: String,
    family: Family,
    headers: HeaderMap,
    body: Bytes,
    pause: Duration,
}

impl Repeat {
    /// Draws whether a prepare is sent twice: half of those at once, while the transfer is in flight, the others later.
    pub fn draw(
        shared: &Arc<Shared>,
        (payer, payee): (usize, &str),
        resource: Resource<'_>,
        id: &TransferId,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Option<Self> {
        let (per_mille, key) = (shared.dfsps[payer].settings().repeat_prepare_per_mille, fault_key(id));
        let hit = |fault, per_mille| hits(fault, per_mille, shared.seed, key);
        let family = resource.family()?;
        hit(Fault::RepeatPrepare, per_mille).then(|| Self {
            shared: Arc::clone(shared),
            payer,
            payee: payee.to_owned(),
            family,
            headers: headers.clone(),
            body: body.clone(),
            pause: if hit(Fault::RepeatLater, PER_MILLE_MAX / 2) { LATER } else { Duration::ZERO },
        })
    }

    /// Sends it, and lets nobody wait for it: what the payer measures is the first.
    pub fn start(self) {
        tokio::spawn(self.run());
    }

    async fn run(self) {
        let Self { shared, payer, payee, family, headers, body, pause } = self;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let dfsp = &shared.dfsps[payer];
        match shared.send(dfsp, Method::POST, &payee, Resource::Other(family.name()), headers, body).await {
            Ok(answer) if answer.status.is_success() => count(&dfsp.counters.prepares_sent_twice),
            // A hub that is overloaded or gone has had the first, which is all that counts.
            Ok(answer) => tracing::debug!(status = %answer.status, "a repeated prepare was refused"),
            Err(error) => tracing::debug!(%error, "a repeated prepare was not answered"),
        }
    }
}
