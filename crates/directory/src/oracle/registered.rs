//! The oracles that operators registered, and the built-in directory where none of them fits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_fspiop::PartyIdType;
use upesi_types::Currency;

use super::{ExternalOracle, Oracle, OracleSource};
use crate::registry::{OracleKind, OracleRegistry, Oracles};
use crate::{DirectoryMetrics, OracleConfig};

/// Finds oracles in the registry. An external oracle keeps its connections, breaker and cache as long as it is active
/// under the same address.
pub struct RegisteredOracles {
    registry: OracleRegistry,
    built_in: Arc<dyn Oracle>,
    config: OracleConfig,
    metrics: DirectoryMetrics,
    /// Those that were asked already, by number; at most as many as are active.
    external: Mutex<HashMap<u32, Arc<ExternalOracle>>>,
}

impl RegisteredOracles {
    /// Over a registry; `built_in` answers where the registry says so.
    pub fn new(
        registry: OracleRegistry,
        built_in: Arc<dyn Oracle>,
        config: OracleConfig,
        metrics: DirectoryMetrics,
    ) -> Self {
        Self { registry, built_in, config, metrics, external: Mutex::default() }
    }

    fn external(&self, oracles: &Oracles, id: u32, url: &str) -> Arc<ExternalOracle> {
        let mut external = self.lock();
        if let Some(oracle) = external.get(&id).filter(|oracle| oracle.base() == url) {
            return oracle.clone();
        }
        external
            .retain(|id, oracle| oracles.get(*id).is_some_and(|active| *active.spec.url == *oracle.base()));
        let oracle = ExternalOracle::new(id.to_string(), url, self.config.clone(), self.metrics.clone());
        let oracle = Arc::new(oracle);
        external.insert(id, oracle.clone());
        oracle
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<ExternalOracle>>> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OracleSource for RegisteredOracles {
    fn oracle(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<Arc<dyn Oracle>> {
        let oracles = self.registry.oracles();
        Some(match oracles.select(kind, currency)? {
            OracleKind::BuiltIn => self.built_in.clone(),
            OracleKind::External(oracle) => self.external(&oracles, oracle.id, &oracle.spec.url),
        })
    }

    fn clear_caches(&self) {
        let external: Vec<_> = self.lock().values().cloned().collect();
        for oracle in external {
            oracle.clear_cache();
        }
    }
}
