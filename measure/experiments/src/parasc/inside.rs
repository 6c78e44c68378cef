//! Engines with the kernel module: threads inside the kernel and in user space, one entry for a
//! batch, and io_uring. An engine makes few calls plainly where that has proved faster: what the
//! mechanism itself takes, as in the paper's experiments, is measured in `kernel.rs`.

use kumiki_measure::case::{Case, Place};
use kumiki_measure::{Error, Result};
use kumiki_parasc::backend::availability;
use kumiki_parasc::{Backend, Config, CpuSet};

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
    /// None: an io_uring, without an engine.
    backend: Option<Backend>,
    /// True if there is a processing thread.
    thread: bool,
    /// The requesting thread makes calls, too.
    help: bool,
}

const WAYS: [Way; 6] = [
    way("user", Backend::User, true, false),
    way("user_helped", Backend::User, true, true),
    way("kernel", Backend::Kernel, true, false),
    way("kernel_helped", Backend::Kernel, true, true),
    way("one_entry", Backend::Kernel, false, true),
    RING,
];

const RING: Way = Way { name: "io_uring", backend: None, thread: false, help: true };

const fn way(name: &'static str, backend: Backend, thread: bool, help: bool) -> Way {
    Way { name, backend: Some(backend), thread, help }
}

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
                match way.backend {
                    Some(backend) => Batches::new(calls, &config(place, way, backend)?),
                    None => Batches::by_ring(calls),
                }
            };
            params(Case::new("parasc.inside", ABOUT, batches).two_cpus(), way.name, count)
        };
        // A ring has no getppid, and of one call nothing is to be had but plain.
        let ways = WAYS
            .into_iter()
            .filter(move |way| way.backend.is_some() || call != "getppid" && count > 1);
        let plain = params(Case::new("parasc.inside", ABOUT, plain), "plain", count);
        std::iter::once(plain).chain(ways.map(by))
    })
}

fn config(place: &Place, way: Way, backend: Backend) -> Result<Config> {
    let cpus = match way.thread {
        true => cpus(place, &Default::default(), 1)?,
        false => CpuSet::new(),
    };
    let threads = if way.thread { Config::default().threads } else { 0 };
    let (help, policy) = (way.help, crate::chosen());
    Ok(Config { cpus: Some(cpus), threads, backend, help, policy, ..Config::default() })
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
