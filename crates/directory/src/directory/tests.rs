mod batch;
mod expiry;
mod kept;
mod lookups;
mod participants;
mod proxies;
mod services;
mod several_owners;
