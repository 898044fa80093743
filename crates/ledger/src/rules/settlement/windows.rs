//! Closes settlement windows.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use crate::base::ids::{ContentId, WindowId};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::settlement::window::{NewContent, WindowState};

impl Ledger {
    /// Closes the open window and opens the next one, in one record. The window's contents were added at each commit.
    pub(crate) fn decide_close_window(
        &self,
        id: WindowId,
        reason: &str,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        let window = self.window(id).ok_or(AdminRefusal::WindowUnknown { window: id })?;
        if window.state != WindowState::Open {
            return Err(AdminRefusal::WindowNotOpen { window: id });
        }
        if self.windows.is_open_empty() {
            return Err(AdminRefusal::WindowEmpty { window: id });
        }
        if self.windows().len() >= self.config.limits.windows {
            return Err(AdminRefusal::WindowsFull);
        }
        if self.windows.are_unsettled_full() {
            return Err(AdminRefusal::WindowsUnsettled);
        }
        let used = self.windows.open_pairs().into_iter().map(|pair| {
            let account = self.account_ref(pair.payer);
            (account.currency, account.kind)
        });
        let used: BTreeSet<_> = used.collect();
        let first = self.windows.contents_len() + 1;
        let content = |(number, (currency, kind))| NewContent { id: ContentId(number), currency, kind };
        let contents = (first..).zip(used).map(content).collect();
        let next = WindowId(id.0 + 1);
        out.events.push(Event::WindowClosed { id, next, reason: Box::from(reason), contents });
        Ok(AdminOutcome::WindowOpened(next))
    }
}
