//! Threads and the scheduler: making threads, switching between processes,
//! waking, handing over, moving, sleeping.

use kumiki_measure::case::{Case, Choice};

mod context_switch;
mod create;
mod handoff;
mod migrate;
mod sleep;
mod wake;
mod yielding;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = create::cases();
    cases.extend(yielding::cases());
    cases.extend(context_switch::cases(choice));
    cases.extend(wake::cases());
    cases.extend(handoff::cases());
    cases.push(migrate::case());
    cases.extend(sleep::cases());
    cases
}

#[cfg(test)]
mod tests;
