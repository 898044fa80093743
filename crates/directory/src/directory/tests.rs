mod batches;
mod expiry;
mod kept;
mod lookups;
mod participants;
mod proxies;
mod services;
