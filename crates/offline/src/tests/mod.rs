//! `upesi journal` and `upesi audit` on small journals.

mod audit;
mod bulks;
mod conversions;
mod exports;
mod hostile;
mod journal;
mod print;
mod restore;
mod settlement;
mod trail;
mod trail_export;
