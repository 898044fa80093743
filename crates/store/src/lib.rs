//! Durable key-value tables for what is not money (L2): the party directory, the registry of oracles, kept quotes.
