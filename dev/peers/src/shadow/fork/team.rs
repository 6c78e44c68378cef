//! Kumiki's team: ranges of the work for whoever asks next. Only sums are asked of
//! it; it cannot fork a closure of its own to each side.

use std::sync::Mutex;

use anyhow::Result;
use kumiki_shadow::Team;

use super::Fork;
use crate::pair::Pair;
use crate::shadow::sum::sum;

/// Elements of the shortest range: sums of less than twice this are not shared.
const GRAIN: usize = 8 << 10;

/// Main and one helper.
pub(crate) struct KumikiTeam {
    team: Team,
}

impl KumikiTeam {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(KumikiTeam { team: team(pair)? })
    }
}

/// A team of these two cpus, with the wait that it has by default.
pub(crate) fn team(pair: Pair) -> Result<Team> {
    // It takes cpus only from those that the caller may use, and begins where that is.
    pair.bind_main()?;
    pair.bind_both()?;
    Ok(Team::create(2)?)
}

impl Fork for KumikiTeam {
    const BOUND: bool = false;

    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let (main, other) = (Once::new(main), Once::new(other));
        self.team.broadcast(|member| if member == 0 { main.run() } else { other.run() });
        (main.result(), other.result())
    }

    fn sum(&mut self, data: &[f32]) -> f32 {
        let total = self.team.reduce(data.len(), GRAIN, |range| sum(&data[range]), |a, b| a + b);
        total.unwrap_or(0.0)
    }
}

/// A closure that one member of the team runs, and then what it returned.
struct Once<F, R>(Mutex<(Option<F>, Option<R>)>);

impl<F: FnOnce() -> R, R> Once<F, R> {
    fn new(job: F) -> Self {
        Once(Mutex::new((Some(job), None)))
    }

    fn run(&self) {
        let mut this = self.0.lock().expect("jobs do not panic");
        let job = this.0.take().expect("each member runs once");
        this.1 = Some(job());
    }

    fn result(self) -> R {
        let (_, result) = self.0.into_inner().expect("jobs do not panic");
        result.expect("each member runs once")
    }
}
