//! Quotes, transaction requests and authorizations (L4): relayed with their rules.
