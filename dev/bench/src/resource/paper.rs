//! The paper's two experiments: memory of a region attached as a user space, and processes of
//! a resident program, made and deleted by each core; of 3,000 and of 300 times the middle
//! third.

use anyhow::Result;
use kumiki_experiments::resource::cores::{By, Cores, What, program};

use crate::child::turns;
use crate::pair::Pair;

use super::request::Request;

/// Times that the middle third has each.
const MEMORY: u64 = 1000;
const PROCESS: u64 = 100;
/// Times that memory is measured in a turn.
const SAMPLES: usize = 3;

/// Serves in this way.
pub(crate) fn serve(by: By, pair: Pair) -> Result<()> {
    through(pair, move |cpus, what| Ok(Cores::new(cpus, by, what)?))
}

/// Serves by what `make` makes for these cpus.
fn through(pair: Pair, make: impl Fn(&[usize], &What) -> Result<Cores>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let process = What::Process(program(folder.path())?);
    turns(|request| {
        let (cores, what, times, samples) = match request {
            Request::MemoryPaper { cores } => (cores, &What::Memory, MEMORY, SAMPLES),
            Request::ProcessPaper { cores } => (cores, &process, PROCESS, 1),
            _ => return Ok(None),
        };
        let cpus = &[pair.main, pair.helper][..cores as usize];
        let mut all = make(cpus, what)?;
        let sample = |_| {
            let each = all.middle(times)?;
            // What all together take for one.
            Ok(each.iter().map(|ns| ns.recip()).sum::<f64>().recip())
        };
        (0..samples).map(sample).collect::<Result<_>>().map(Some)
    })
}

/// What an engineer would write today: a sharded map from names to objects, which all threads
/// have together, and the operating system's own calls.
#[cfg(feature = "peers")]
pub(crate) mod map {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;

    use dashmap::DashMap;
    use kumiki_experiments::resource::cores::{Work, Workers};
    use kumiki_measure::Error;
    use kumiki_sys::shm::{Anon, Huge, Populate};

    use super::*;
    use crate::resource::pages::BYTES;

    /// Map of one kind.
    type Map<T> = Arc<DashMap<String, T>>;

    pub(crate) fn serve(pair: Pair) -> Result<()> {
        through(pair, |cpus, what| {
            Ok(match what {
                What::Process(path) => {
                    let (processes, path) = (Map::<Child>::default(), path.clone());
                    Cores::of(cpus, Workers::Threads, move |cpu| {
                        Ok(process(&processes, cpu, &path))
                    })?
                }
                _ => {
                    let memory = Map::<Anon>::default();
                    Cores::of(cpus, Workers::Threads, move |cpu| Ok(region(&memory, cpu)))?
                }
            })
        })
    }

    fn region(map: &Map<Anon>, cpu: usize) -> Work {
        let (map, name) = (Arc::clone(map), format!("own-{cpu}"));
        Box::new(move |times| {
            for _ in 0..times {
                let memory = Anon::new(BYTES, Huge::Policy, Populate::OnTouch)?;
                map.insert(name.clone(), memory);
                if let Some(memory) = map.get(&name) {
                    memory.write(0, &[1]);
                }
                drop(map.remove(&name));
            }
            Ok(())
        })
    }

    fn process(map: &Map<Child>, cpu: usize, path: &Path) -> Work {
        let (map, name, path) = (Arc::clone(map), format!("own-{cpu}"), path.to_owned());
        let failed = |error| Error::os("start a program", error);
        Box::new(move |times| {
            for _ in 0..times {
                let mut command = Command::new(&path);
                command.env_clear().stdin(Stdio::null());
                map.insert(name.clone(), command.spawn().map_err(failed)?);
                if let Some((_, mut child)) = map.remove(&name) {
                    child.wait().map_err(failed)?;
                }
            }
            Ok(())
        })
    }
}
