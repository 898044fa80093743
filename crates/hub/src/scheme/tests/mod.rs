//! Scheme files, plans, and their application to a scripted hub.

mod applying;
mod fees;
mod reading;
mod scripted;
