//! The oracles that operators registered, and the built-in directory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_fspiop::PartyIdType;
use upesi_parties::registry::{OracleKind, OracleRegistry};
use upesi_types::Currency;

use super::external::ExternalOracle;
use super::{Oracle, OracleSource};
use crate::{DirectoryMetrics, OracleConfig};

/// Finds oracles in the registry. An external oracle keeps its connections, breaker and cache while it is active with
/// the same address, and its metrics until it is deleted.
pub struct RegisteredOracles {
    registry: OracleRegistry,
    built_in: Arc<dyn Oracle>,
    config: OracleConfig,
    metrics: DirectoryMetrics,
    /// External oracles that were used, by number; at most as many as are active.
    external: Arc<Mutex<OraclesByNumber>>,
}

/// External oracles by number.
type OraclesByNumber = HashMap<u32, Arc<ExternalOracle>>;

impl RegisteredOracles {
    /// Uses this registry; `built_in` answers if the registry selects it.
    pub fn new(
        registry: OracleRegistry,
        built_in: Arc<dyn Oracle>,
        config: OracleConfig,
        metrics: DirectoryMetrics,
    ) -> Self {
        let external = Arc::<Mutex<OraclesByNumber>>::default();
        let asked = Arc::downgrade(&external);
        registry.watch(move |oracles| {
            let Some(asked) = asked.upgrade() else { return };
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.retain(|id, oracle| {
                let is_active = oracles.get(*id).is_some();
                if !is_active {
                    oracle.end_series();
                }
                is_active
            });
        });
        Self { registry, built_in, config, metrics, external }
    }

    fn external(&self, id: u32, url: &str) -> Arc<ExternalOracle> {
        let mut external = self.lock();
        if let Some(oracle) = external.get(&id).filter(|oracle| oracle.base() == url) {
            return oracle.clone();
        }
        let oracle = ExternalOracle::new(id.to_string(), url, self.config.clone(), self.metrics.clone());
        let oracle = Arc::new(oracle);
        // An oracle that was just deleted is used once more but not stored.
        if self.registry.oracles().get(id).is_some() {
            external.insert(id, oracle.clone());
        }
        oracle
    }

    fn lock(&self) -> MutexGuard<'_, OraclesByNumber> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OracleSource for RegisteredOracles {
    fn oracle(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<Arc<dyn Oracle>> {
        let oracles = self.registry.oracles();
        Some(match oracles.select(kind, currency)? {
            OracleKind::BuiltIn => self.built_in.clone(),
            OracleKind::External(oracle) => self.external(oracle.id, &oracle.spec.url),
        })
    }

    fn clear_caches(&self) {
        let external: Vec<_> = self.lock().values().cloned().collect();
        for oracle in external {
            oracle.clear_cache();
        }
    }
}
