//! The README's table of reliability, written from the evidence.
