//! `upesi journal` and `upesi audit` on small journals.

mod audit;
mod bulks;
mod conversions;
mod exported;
mod journal;
mod print;
mod settlement;
mod trail;
