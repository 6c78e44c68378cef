//! The two machines of a duel: this process keeps them, and they end with it.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use kumiki_lab::{Cache, Config, KernelName, Talk, standing};

use crate::output;

/// Two machines that run.
pub(super) struct Machines {
    kept: Vec<(String, JoinHandle<kumiki_lab::Result<()>>)>,
    kernels: [String; 2],
}

impl Machines {
    /// Starts one for each kernel, and waits until both are up.
    pub(super) fn start(kernels: [&KernelName; 2], cpus: u32) -> Result<Self> {
        let agent = std::env::current_exe().context("finding this program, the machines' agent")?;
        let mut machines = Machines { kept: Vec::new(), kernels: Default::default() };
        for (at, kernel) in kernels.into_iter().enumerate() {
            let name = format!("duel-{}-{}", std::process::id(), ["a", "b"][at]);
            let config = Config { cpus, kernel: kernel.clone(), ..Config::new(&agent) };
            let (ready, up) = channel();
            let own = name.clone();
            let keeper = thread::Builder::new().name(name.clone()).spawn(move || {
                let cache = Cache::of_user()?;
                standing::keep(
                    &own,
                    &cache,
                    &config,
                    Talk::to(&|text| output::talk(text)),
                    |about| ready.send(about.kernel.clone()).map_err(std::io::Error::other),
                )
            })?;
            machines.kept.push((name, keeper));
            machines.kernels[at] = machines.up(&up)?;
        }
        Ok(machines)
    }

    /// Waits for the machine that was started last; the version of its kernel.
    fn up(&mut self, up: &Receiver<String>) -> Result<String> {
        if let Ok(version) = up.recv() {
            return Ok(version);
        }
        // It ended before it was up, and knows why.
        let (name, keeper) = self.kept.pop().context("a machine was started")?;
        match keeper.join() {
            Ok(Err(error)) => Err(error.into()),
            _ => Err(anyhow!("the machine {name} ended as it started")),
        }
    }

    /// Versions of the kernels.
    pub(super) fn kernels(&self) -> &[String; 2] {
        &self.kernels
    }

    /// Words that run a command in one of them.
    pub(super) fn words(&self, at: usize) -> Result<Vec<String>> {
        let own = std::env::current_exe().context("asking for the name of this program's file")?;
        let own = own.to_str().context("this program's folder has a name that is no UTF-8")?;
        let name = &self.kept[at].0;
        Ok([own, "lab", "exec", name, "--"].map(str::to_owned).to_vec())
    }

    /// Ends them.
    pub(super) fn end(mut self) -> Result<()> {
        let ended: Vec<Result<()>> = self.kept.drain(..).map(end).collect();
        ended.into_iter().collect()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for kept in self.kept.drain(..) {
            // Whoever left early has said why.
            let _ = end(kept);
        }
    }
}

fn end((name, keeper): (String, JoinHandle<kumiki_lab::Result<()>>)) -> Result<()> {
    standing::down(&name)?;
    match keeper.join() {
        Ok(ended) => Ok(ended?),
        Err(_) => Err(anyhow!("the keeper of the machine {name} panicked")),
    }
}
