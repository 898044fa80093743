//! Checks the invariants that must hold at every record, independently of the rules.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency};

use crate::base::ids::{AccountId, CallbackKey, LedgerAccountTypeId};
use crate::core::state::{Ledger, Totals};
use crate::money::funds::{FundsDirection, FundsState};
use crate::money::transfer::TransferState;
use crate::settlement::settlements::Settlement;
use crate::settlement::window::{Net, PairSum, Sum, Window, WindowState};

mod bulks;
mod fx_transfers;

/// Checks a state. Each finding is a sentence for users; the list is empty if all invariants hold.
///
/// I1: per currency, all accounts and reservations sum to zero. I5: memory contains each transfer once, in one state.
/// Every committed transfer, and every leg of a committed FX transfer, is in exactly one window or was settled
/// immediately. The nets of a window, and of a settlement, match its pairs and sum to zero. No FX transfer
/// outlives its transfer. Further: reservations per account match the transfers and FX transfers in flight, totals
/// match, and outbox keys point to known targets.
pub fn check(ledger: &Ledger) -> Vec<String> {
    let mut findings = Vec::new();
    check_sums(ledger, &mut findings);
    check_pending(ledger, &mut findings);
    check_totals(ledger, &mut findings);
    fx_transfers::check_fx_transfers(ledger, &mut findings);
    bulks::check_bulks(ledger, &mut findings);
    check_windows(ledger, &mut findings);
    ledger.settlements().iter().for_each(|settlement| check_settlement(ledger, settlement, &mut findings));
    check_carried(ledger, &mut findings);
    for (key, _) in ledger.outbox().iter() {
        check_key(ledger, key, &mut findings);
    }
    findings.extend(ledger.approvals().findings());
    findings
}

/// The sum of all accounts and reservations per currency, in ten-thousandths. It is zero if money is conserved.
pub fn sums(ledger: &Ledger) -> BTreeMap<Currency, i128> {
    let mut sums = BTreeMap::<Currency, i128>::new();
    let mut add = |currency, amount: Amount, sign: i128| {
        *sums.entry(currency).or_default() += sign * i128::from(amount.units());
    };
    for account in ledger.accounts() {
        add(account.currency, account.balance, 1);
    }
    for transfer in ledger.reserved_transfers() {
        add(transfer.currency, transfer.amount, -1);
    }
    for funds in ledger.all_funds() {
        if funds.state == FundsState::Reserved {
            add(funds.currency, funds.amount, -1);
        }
    }
    fx_transfers::take_reserved(ledger, &mut sums);
    sums
}

fn check_sums(ledger: &Ledger, findings: &mut Vec<String>) {
    for (currency, sum) in sums(ledger) {
        if sum != 0 {
            findings.push(format!(
                "{currency}: accounts and reservations sum to {sum} ten-thousandths, not to zero"
            ));
        }
    }
}

fn check_pending(ledger: &Ledger, findings: &mut Vec<String>) {
    let mut pending = BTreeMap::<AccountId, i128>::new();
    for transfer in ledger.reserved_transfers() {
        for account in [transfer.payer_account, transfer.payee_account] {
            match account {
                Some(account) => *pending.entry(account).or_default() += i128::from(transfer.amount.units()),
                None => findings.push(format!("transfer {} is reserved without accounts", transfer.id)),
            }
        }
    }
    fx_transfers::add_pending(ledger, &mut pending);
    for account in ledger.accounts() {
        let expected = pending.get(&account.id).copied().unwrap_or(0);
        if i128::from(account.pending_credits.units()) != expected {
            findings.push(format!(
                "account {} carries reservations that match no transfer or FX transfer",
                account.id.number()
            ));
        }
    }
    for funds in ledger.all_funds() {
        if funds.direction == FundsDirection::In && funds.state != FundsState::Committed {
            findings.push(format!("deposit {} is not committed", funds.id));
        }
    }
}

fn check_totals(ledger: &Ledger, findings: &mut Vec<String>) {
    let totals = ledger.totals();
    // Wide integers, because a snapshot may contain any counts.
    let ended = u128::from(totals.committed) + u128::from(totals.aborted);
    if u128::from(totals.reserved) != ended + ledger.reserved_len() as u128 {
        findings.push(format!(
            "{} transfers were reserved, but {ended} ended and {} are in flight",
            totals.reserved,
            ledger.reserved_len()
        ));
    }
    for transfer in ledger.finished_transfers() {
        if transfer.state == TransferState::Reserved {
            findings.push(format!("transfer {} is listed as finished but is reserved", transfer.id));
        }
    }
}

fn check_key(ledger: &Ledger, key: CallbackKey, findings: &mut Vec<String>) {
    if key.target.index() >= ledger.participants().len() || key.seq > ledger.last_seq() {
        findings.push(format!("a callback of record {} is owed to an unknown participant", key.seq));
    }
}

fn check_windows(ledger: &Ledger, findings: &mut Vec<String>) {
    let open = ledger.windows.open_pairs();
    let closed = ledger.windows().iter().flat_map(|window| &window.contents);
    let counts =
        closed.map(|content| content.sum.transfers).chain(open.iter().map(|pair| pair.sum.transfers));
    let in_windows: u128 = counts.map(u128::from).sum();
    let Totals { committed, settled_at_once, fees, .. } = ledger.totals();
    let legs = ledger.fx_transfer_totals().committed_legs;
    if in_windows + u128::from(settled_at_once) != [committed, legs, fees].into_iter().map(u128::from).sum() {
        findings.push(format!(
            "{committed} transfers and {legs} legs of FX transfers were committed with {fees} fees, and \
             {settled_at_once} of them settled immediately, but {in_windows} are in settlement windows"
        ));
    }
    for window in ledger.windows() {
        match &window.pairs {
            Some(pairs) if window.state != WindowState::Open => {
                check_contents(ledger, window, pairs, findings)
            }
            _ => {}
        }
    }
}

/// Checks that sums and nets of the contents match the window's pairs.
fn check_contents(ledger: &Ledger, window: &Window, pairs: &[PairSum], findings: &mut Vec<String>) {
    for content in &window.contents {
        let mut nets = BTreeMap::<AccountId, i128>::new();
        let mut sum = Sum::default();
        for pair in pairs {
            let account = ledger.account_ref(pair.payer);
            if (account.currency, account.kind) != (content.currency, content.kind) {
                continue;
            }
            *nets.entry(pair.payer).or_default() += pair.sum.units;
            *nets.entry(pair.payee).or_default() -= pair.sum.units;
            sum.units += pair.sum.units;
            sum.transfers += pair.sum.transfers;
        }
        let nets = nets.into_iter().map(|(account, units)| Net { account, units });
        if sum != content.sum || !nets.eq(content.nets.iter().copied()) {
            findings.push(format!(
                "content {} of window {} does not match the sums between its accounts",
                content.id, window.id
            ));
        }
    }
}

/// Checks that the remainders carried to the next settlements sum to zero per currency and account type.
fn check_carried(ledger: &Ledger, findings: &mut Vec<String>) {
    let mut sums = BTreeMap::<(Currency, LedgerAccountTypeId), i128>::new();
    for (id, amount) in &ledger.carried {
        let account = ledger.account_ref(*id);
        *sums.entry((account.currency, account.kind)).or_default() += i128::from(amount.units());
    }
    for ((currency, kind), sum) in sums {
        if sum != 0 {
            let kind = ledger.account_type_name(kind);
            findings.push(format!(
                "the remainders that {kind} accounts carry over sum to {sum} ten-thousandths of {currency}, not to zero"
            ));
        }
    }
}

/// Checks that nets plus remainders carried over equal the nets of the contents plus remainders carried in, while the
/// contents have nets. Also checks that nets sum to zero per currency.
fn check_settlement(ledger: &Ledger, settlement: &Settlement, findings: &mut Vec<String>) {
    let mut sums = BTreeMap::<Currency, i128>::new();
    for account in &settlement.accounts {
        let currency = ledger.account_ref(account.account).currency;
        *sums.entry(currency).or_default() += i128::from(account.net.units());
    }
    for (currency, sum) in sums {
        if sum != 0 {
            findings.push(format!(
                "the nets of settlement {} sum to {sum} ten-thousandths of {currency}, not to zero",
                settlement.id
            ));
        }
    }
    let contents: Vec<_> =
        settlement.contents.iter().filter_map(|place| ledger.windows.content(*place)).collect();
    if contents.iter().any(|content| content.nets.is_empty()) {
        return;
    }
    let mut nets = BTreeMap::<AccountId, i128>::new();
    for net in contents.iter().flat_map(|content| &content.nets) {
        *nets.entry(net.account).or_default() += net.units;
    }
    let mut theirs = BTreeMap::<AccountId, i128>::new();
    for account in &settlement.accounts {
        let [net, carried_in, carried_over] =
            [account.net, account.carried_in, account.carried_over].map(|amount| i128::from(amount.units()));
        theirs.insert(account.account, net + carried_over - carried_in);
    }
    // An account may be present only because of its remainder.
    theirs.retain(|account, units| *units != 0 || nets.contains_key(account));
    if theirs != nets {
        findings
            .push(format!("the nets of settlement {} differ from the nets of its windows", settlement.id));
    }
}
