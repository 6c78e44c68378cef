//! What is owned and called: a table whose entries are counted up.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

/// Entries, few enough for the first cache.
pub(crate) const ENTRIES: u64 = 256;

/// A table.
#[derive(Debug)]
pub(crate) struct Table(HashMap<u64, u64, RandomState>);

impl Table {
    pub(crate) fn new() -> Self {
        Table((0..ENTRIES).map(|key| (key, 0)).collect())
    }

    /// The operation of every subject: counts up, returns how far.
    #[inline(always)]
    pub(crate) fn count(&mut self, key: u64) -> u64 {
        let entry = self.0.entry(key).or_default();
        *entry += 1;
        *entry
    }
}

impl Kind for Table {
    const NAME: &'static str = "table";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Table> {
        Ok(Table::new())
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("{} entries", self.0.len()), bytes: 0 }
    }
}
