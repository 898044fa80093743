//! Reads all divisions in one order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

use upesi_types::TransferId;

use crate::TablesError;
use crate::archive::division::Division;

/// Visits every transfer once, in the order of the keys. If a crash left the same transfer in two divisions, the
/// younger division is used.
pub(crate) fn visit(
    divisions: &[Arc<Division>],
    visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
) -> Result<(), TablesError> {
    let mut sources: Vec<_> = divisions.iter().map(|division| division.iter()).collect();
    let mut values = vec![None; sources.len()];
    let mut heads = BinaryHeap::with_capacity(sources.len());
    for (index, source) in sources.iter_mut().enumerate() {
        if let Some((id, value)) = source.next().transpose()? {
            values[index] = Some(value);
            heads.push(Reverse((id.to_bytes(), Reverse(index))));
        }
    }
    let mut last = None;
    while let Some(Reverse((key, Reverse(index)))) = heads.pop() {
        let value = values[index].take();
        if let (Some(value), Some(id), true) = (value, TransferId::from_key(&key), last != Some(key)) {
            last = Some(key);
            if visit(id, &value).is_break() {
                return Ok(());
            }
        }
        if let Some((id, value)) = sources[index].next().transpose()? {
            values[index] = Some(value);
            heads.push(Reverse((id.to_bytes(), Reverse(index))));
        }
    }
    Ok(())
}
