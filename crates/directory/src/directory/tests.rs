mod batches;
mod expiry;
mod lookups;
mod participants;
