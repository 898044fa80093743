//! `upesi journal` and `upesi audit` on small journals.

mod audit;
mod journal;
mod print;
mod settlement;
