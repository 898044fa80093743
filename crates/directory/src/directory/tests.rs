mod expiry;
mod kept;
mod lookups;
mod participants;
