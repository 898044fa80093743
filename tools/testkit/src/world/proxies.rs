//! DFSPs of another scheme, behind a proxy of this one.
//!
//! They have numbers behind those of this scheme, and no accounts, endpoints or operators of their own.

use upesi_journal::sim_disk::Random;
use upesi_ledger::AdminCommand;

use super::World;
use super::operator::fsp;
use crate::message::{Request, number};
use crate::plan::Plan;

/// What tells the stream of proxies from the others of a seed.
const STREAM: u64 = 0x7072_6f78_6965_7321;

/// Who is behind whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The first of those behind the proxy: so many DFSPs are of this scheme.
    pub(crate) first: usize,
    /// How many are behind the proxy.
    pub(crate) count: usize,
    /// The proxy.
    pub(crate) proxy: usize,
}

impl Remote {
    /// In half of the worlds there are some.
    pub(super) fn draw(seed: u64, plan: &Plan, locals: usize) -> Option<Self> {
        let mut random = Random::new(seed ^ STREAM);
        let is_on = plan.faults.proxies && random.one_in(2);
        let (count, proxy) = (1 + random.below(2) as usize, random.below(locals as u64) as usize);
        is_on.then_some(Self { first: locals, count, proxy })
    }

    /// Whose accounts carry what a DFSP sends and receives.
    pub(crate) const fn liable(self, dfsp: usize) -> usize {
        if dfsp < self.first { dfsp } else { self.proxy }
    }
}

impl World {
    /// How many DFSPs are of this scheme.
    pub(super) fn locals(&self) -> usize {
        self.remote.map_or(self.dfsps.len(), |remote| remote.first)
    }

    pub(super) fn liable(&self, dfsp: usize) -> usize {
        self.remote.map_or(dfsp, |remote| remote.liable(dfsp))
    }

    pub(super) fn is_proxy(&self, dfsp: usize) -> bool {
        self.remote.is_some_and(|remote| remote.proxy == dfsp)
    }

    /// Those of another scheme are put behind their proxy once it has all that it needs.
    pub(super) fn onboard_remote(&mut self) {
        let Some(remote) = self.remote else { return };
        for dfsp in remote.first..remote.first + remote.count {
            self.must(AdminCommand::AddProxied { proxy: fsp(remote.proxy), name: fsp(dfsp) });
        }
        self.auditor.outside.remote = Some(remote);
    }

    /// The DFSP that a callback is for: whose host it goes to, or who is meant behind that.
    pub(super) fn recipient(&self, request: &Request) -> Option<usize> {
        let host = number(request.path.split(['.', '/']).next()?)?;
        let meant = request.headers.get("fspiop-destination").and_then(|name| number(name.to_str().ok()?));
        let is_behind = |dfsp: &usize| *dfsp >= self.locals() && self.liable(*dfsp) == host;
        Some(meant.filter(is_behind).unwrap_or(host))
    }
}
