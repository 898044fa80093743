//! `upesi journal` and `upesi audit` on small journals.

mod audit;
mod bulks;
mod exports;
mod fx_transfers;
mod hostile;
mod journal;
mod print;
mod restore;
mod settlement;
mod trail;
mod trail_export;
