//! Messages passed on between DFSPs (L4).
