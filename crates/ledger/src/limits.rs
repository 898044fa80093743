//! How the limits of the ledger relate, checked when it is compiled.

use crate::account::SEEDED_TYPES;
use crate::command::{
    ACCOUNTS_MAX, EXPIRIES_PER_TICK_MAX, LEDGER_ACCOUNT_TYPES_MAX, PARTICIPANTS_MAX, SETTLEMENT_MODELS_MAX,
};

/// Most callbacks that one record may owe: their index is stored in a byte.
pub const CALLBACKS_PER_RECORD_MAX: usize = u8::MAX as usize + 1;

/// Callbacks that one transfer owes when it ends: payer, payee, and the payee's PATCH.
const CALLBACKS_PER_TRANSFER_MAX: usize = 3;

/// A tick ends most transfers of all commands, and every other command ends one at most.
const _: () = assert!(EXPIRIES_PER_TICK_MAX * CALLBACKS_PER_TRANSFER_MAX <= CALLBACKS_PER_RECORD_MAX);
/// An account type's number is a byte, and 0 is none.
const _: () = assert!(SEEDED_TYPES.len() <= LEDGER_ACCOUNT_TYPES_MAX);
const _: () = assert!(LEDGER_ACCOUNT_TYPES_MAX <= u8::MAX as usize);
/// The numbers of participants, accounts and settlement models are 32 bits, and 0 is none.
const _: () = assert!(PARTICIPANTS_MAX < u32::MAX as usize);
const _: () = assert!(ACCOUNTS_MAX < u32::MAX as usize);
const _: () = assert!(SETTLEMENT_MODELS_MAX < u32::MAX as usize);
/// Each participant has room for accounts of every seeded type in one currency.
const _: () = assert!(PARTICIPANTS_MAX * SEEDED_TYPES.len() <= ACCOUNTS_MAX);
