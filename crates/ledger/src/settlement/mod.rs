//! Settlement: the models, the windows of committed transfers, and the settlements of closed windows.

pub(crate) mod changes;
pub(crate) mod model;
pub(crate) mod remainder;
pub(crate) mod settlements;
pub(crate) mod window;
