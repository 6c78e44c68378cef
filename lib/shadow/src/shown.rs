//! What `{:?}` shows of shadows, their jobs and teams: where they run, and whether they are at it.

use std::fmt::{Debug, Formatter, Result};

use crate::scope::{Job, Scope};
use crate::shadow::Shadow;
use crate::team::Team;

impl Debug for Shadow {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut shown = f.debug_struct("Shadow");
        shown.field("info", &self.info()).field("is_busy", &self.is_busy()).finish_non_exhaustive()
    }
}

impl Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<R> Debug for Job<'_, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Job").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

impl Debug for Team {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let infos: Vec<_> = self.info().collect();
        f.debug_struct("Team").field("size", &self.size()).field("helpers", &infos).finish()
    }
}
