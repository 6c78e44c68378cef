//! The kernel module by its mechanisms: a processing thread inside the kernel beside one in user
//! space, without and with the requesting thread's help; the requesting thread's one entry for a
//! batch, and an io_uring. One call, too, is handed over or makes the entry, where a program's engine
//! would make it plainly. The paper's own experiments inside the kernel are in `kernel.rs`.

use kumiki_measure::case::{Case, Place};
use kumiki_measure::{Error, Result};
use kumiki_parasc::backend::availability;
use kumiki_parasc::{Backend, Config};
use kumiki_wait::{Policy, Threshold};

use super::alone::Alone;
use super::batch::{Batches, Calls, Plain};
use super::calls::{Parents, Preads, Stats};
use super::running::cpus;
use crate::partner;

const ABOUT: &str = "so many calls of one kind, all together: plain calls in a row; by a \
                     processing thread in user space or inside the kernel, without and with the \
                     requesting thread's help; by the requesting thread with one entry into the \
                     kernel; by io_uring";

const SIZES: [usize; 4] = [1, 10, 50, 300];

/// Maker of the calls of a batch.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    by: Mechanism,
}

/// Mechanism of a way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    /// A processing thread of this backend.
    Thread(Backend),
    /// Such a thread, and the requesting thread makes calls, too: of one call there is nothing to share.
    Both(Backend),
    /// One entry into the kernel.
    OneEntry,
    /// An io_uring, which has no getppid.
    Ring,
}

impl Mechanism {
    fn makes(self, call: &str, count: usize) -> bool {
        match self {
            Mechanism::Thread(_) | Mechanism::OneEntry => true,
            Mechanism::Both(_) => count > 1,
            Mechanism::Ring => call != "getppid",
        }
    }
}

const WAYS: [Way; 6] = [
    Way { name: "user", by: Mechanism::Thread(Backend::User) },
    Way { name: "user_helped", by: Mechanism::Both(Backend::User) },
    Way { name: "kernel", by: Mechanism::Thread(Backend::Kernel) },
    Way { name: "kernel_helped", by: Mechanism::Both(Backend::Kernel) },
    Way { name: "one_entry", by: Mechanism::OneEntry },
    Way { name: "io_uring", by: Mechanism::Ring },
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(all_ways("getppid", |_, count| Ok(Parents::new(count))));
    cases.extend(all_ways("pread", Preads::new));
    cases.extend(all_ways("statx", Stats::new));
    cases
}

fn all_ways<C: Calls + 'static>(
    call: &'static str,
    make: fn(&Place, usize) -> Result<C>,
) -> impl Iterator<Item = Case> {
    let params = move |case: Case, way: &'static str, count: usize| {
        case.with("call", call).with("way", way).with("requests", count as u64)
    };
    SIZES.into_iter().flat_map(move |count| {
        let plain = move |place: &Place| {
            is_there()?;
            Ok(Plain(make(place, count)?))
        };
        let by = move |way: Way| {
            let batches = move |place: &Place| {
                partner(place)?;
                is_there()?;
                let calls = make(place, count)?;
                match way.by {
                    Mechanism::Thread(backend) => {
                        Batches::new(calls, &config(place, backend, false)?)
                    }
                    Mechanism::Both(backend) => Batches::new(calls, &config(place, backend, true)?),
                    Mechanism::OneEntry => Batches::alone(calls, Alone::one_entry()?),
                    Mechanism::Ring => Batches::alone(calls, Alone::ring()?),
                }
            };
            params(Case::new("parasc.inside", ABOUT, batches).two_cpus(), way.name, count)
        };
        let ways = WAYS.into_iter().filter(move |way| way.by.makes(call, count));
        let plain = params(Case::new("parasc.inside", ABOUT, plain), "plain", count);
        std::iter::once(plain).chain(ways.map(by))
    })
}

/// Its thread does not sleep between two batches: it would be woken outside of the kernel, and make the first calls
/// there.
fn config(place: &Place, backend: Backend, help: bool) -> Result<Config> {
    let cpus = cpus(place, &Default::default(), 1)?;
    let policy = Policy { threshold: Threshold::Infinite, ..crate::chosen() };
    Ok(Config { cpus: Some(cpus), backend, help, policy, ..Config::default() })
}

/// Checks that the module is there: without it nothing of this is measured: plain calls and threads
/// in user space are cases of their own.
fn is_there() -> Result<()> {
    let kernel = availability().into_iter().find(|one| one.backend == Backend::Kernel);
    match kernel {
        Some(kernel) if !kernel.available => {
            let remedy = kernel.remedy.unwrap_or_default();
            let needs = format!("{}; {remedy}", kernel.detail);
            Err(Error::unsupported("backend kernel", needs))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few there are: where plain calls are faster, the figure is to show it.
    #[test]
    fn one_call_is_made_by_each_mechanism_that_can() {
        let ways = |call: &str, count| -> Vec<&str> {
            WAYS.iter().filter(|way| way.by.makes(call, count)).map(|way| way.name).collect()
        };
        assert_eq!(ways("getppid", 1), ["user", "kernel", "one_entry"]);
        assert_eq!(ways("statx", 1), ["user", "kernel", "one_entry", "io_uring"]);
        assert_eq!(ways("statx", 10).len(), WAYS.len());
    }
}
