//! The parts of a follower: the state that it reads from the log, operators' reads of it, and its callbacks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;
use upesi_admin::AdminService;
use upesi_engine::EngineHandle;

use super::couriers::{self, CallbackState, FollowerCallbacks};
use super::edge::{Edge, RoleWorkers};
use super::error::HubError;
use super::follower_state::FollowedState;
use super::metrics::RoleMetrics;
use super::node::Node;

/// A follower.
pub(super) struct FollowerParts {
    pub(super) read: FollowedState,
    workers: RoleWorkers,
}

impl FollowerParts {
    /// Forwards requests from now on, if this node can. Callbacks and operators' reads begin when there is a state.
    pub(super) fn start(edge: &Arc<Edge>, node: &Node) -> Result<Self, HubError> {
        let workers = edge.role_workers();
        let mut read = FollowedState::new(node.clone(), edge.participants.clone(), Arc::clone(&edge.clock));
        edge.follow();
        if edge.forwarder.is_some() {
            read.callbacks = start_callbacks(edge, node, &workers)?;
            edge.metrics.set_role(RoleMetrics::Follows(read.callbacks.clone()));
            let (own, followed) = (Arc::clone(edge), read.clone());
            read = read.on_state(move |engine| own.admin.set(Some(admin_service(&own, engine, &followed))));
            let fspiop = edge.settings.fspiop.listen;
            tracing::info!(%fspiop, "accepting requests and forwarding them to the leader");
        }
        Ok(Self { read, workers })
    }

    /// Ends in the background, because this node becomes leader.
    pub(super) fn leave(self, patience: Duration) {
        let ended = thread::Builder::new().name("upesi-leave".to_owned()).spawn(move || {
            let runtime = Builder::new_current_thread().enable_time().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(self.finish(patience));
            }
            self.stop();
        });
        if ended.is_err() {
            tracing::error!("callbacks were aborted: cannot start a thread for them");
        }
    }

    /// Lets callbacks in flight finish, then stops.
    pub(super) async fn close(self, patience: Duration) {
        self.finish(patience).await;
        if tokio::task::spawn_blocking(move || self.stop()).await.is_err() {
            tracing::error!("the threads of the node did not shut down cleanly");
        }
    }

    async fn finish(&self, patience: Duration) {
        if let Some(callbacks) = &self.read.callbacks {
            let cut_off = callbacks.finish(Instant::now() + patience).await;
            if cut_off > 0 {
                tracing::warn!(callbacks = cut_off, "callbacks aborted at the drain deadline");
            }
        }
    }

    /// Waits for threads.
    fn stop(&self) {
        self.workers.shutdown();
        if let Some(callbacks) = &self.read.callbacks {
            callbacks.stop();
        }
    }
}

/// The callbacks that this node delivers, if it may.
fn start_callbacks(
    edge: &Edge,
    node: &Node,
    workers: &RoleWorkers,
) -> Result<Option<Arc<FollowerCallbacks>>, HubError> {
    let settings = &edge.settings;
    let Some(own) = couriers::own(settings) else { return Ok(None) };
    let state = CallbackState {
        participants: edge.participants.clone(),
        clock: Arc::clone(&edge.clock),
        metrics: Arc::clone(&node.metrics),
        leads: node.leads.subscribe(),
    };
    let outward = (&edge.outbound, edge.tls.outbound(), edge.signatures.signer());
    let peers = couriers::peers(settings, edge.tls.to_nodes());
    let workers = (&workers.edge, workers.admin.get(0));
    FollowerCallbacks::start(settings, own, state, outward, peers, workers).map(Some)
}

/// The admin API of a follower: reads of its state. Without logins, second factors are not opened.
fn admin_service(edge: &Edge, engine: &EngineHandle, read: &FollowedState) -> AdminService {
    let mut context = edge.admin_context(engine.clone());
    if let Some(callbacks) = &read.callbacks {
        context.lanes = Arc::new(callbacks.courier.clone());
    }
    let (is_promoted, is_unfit) = (Arc::clone(&read.is_promoted), Arc::clone(&read.is_unfit));
    context.promote = Some(Arc::new(move || {
        if is_unfit.load(Ordering::Acquire) {
            tracing::error!("this node cannot become leader: its state has failed; restart it");
        }
        is_promoted.store(true, Ordering::Release);
    }));
    let followed = read.clone();
    context.followed = Some(Arc::new(move || followed.now()));
    AdminService::with_pages(context, upesi_console::PAGES)
}
