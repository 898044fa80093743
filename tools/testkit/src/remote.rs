//! The DFSPs of another scheme, behind a proxy.

use upesi_journal::sim_disk::Random;

use crate::plan::Plan;

/// Separates the random stream of proxies from a seed's other streams.
const STREAM: u64 = 0x7072_6f78_6965_7321;

/// The DFSPs behind the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Number of the first DFSP behind the proxy, which is the number of DFSPs of this scheme.
    pub(crate) first: usize,
    /// Number of DFSPs behind the proxy.
    pub(crate) count: usize,
    pub(crate) proxy: usize,
}

impl Remote {
    /// Draws them for half of the worlds.
    pub(crate) fn draw(seed: u64, plan: &Plan, locals: usize) -> Option<Self> {
        let mut random = Random::new(seed ^ STREAM);
        let is_on = plan.faults.proxies && random.one_in(2);
        let (count, proxy) = (1 + random.below(2) as usize, random.below(locals as u64) as usize);
        is_on.then_some(Self { first: locals, count, proxy })
    }

    /// The participant whose accounts carry a DFSP's transfers.
    pub(crate) const fn liable(self, dfsp: usize) -> usize {
        if dfsp < self.first { dfsp } else { self.proxy }
    }
}
