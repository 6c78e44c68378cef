//! A NATS server, the lines to it, and their faults.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::faults::Fault;
use crate::nats::{Line, NatsServer};
use crate::soak::Soak;

/// The server, a line from the clients and one from the place.
pub(super) struct Lines {
    server: Mutex<Option<NatsServer>>,
    port: u16,
    near: Line,
    far: Line,
}

impl Lines {
    /// None where no server can be had, which is said.
    pub(super) fn start(soak: &Soak) -> Result<Option<Lines>> {
        let path = std::env::var("PATH").unwrap_or_default();
        // Debian has it where users do not look.
        let mut there = Command::new("/usr/bin/env");
        there.arg(format!("PATH={path}:/usr/sbin:/sbin")).args(["nats-server", "--version"]);
        if !there.output().context("env(1)")?.status.success() {
            println!("there is no nats-server: passed over, by sockets only");
            return Ok(None);
        }
        let server = NatsServer::start();
        soak.watch_process(server.pid());
        let port = server.port();
        let (near, far) = (Line::to_port(port), Line::to_port(port));
        Ok(Some(Lines { server: Mutex::new(Some(server)), port, near, far }))
    }

    pub(super) fn of_place(&self) -> String {
        self.far.url()
    }

    pub(super) fn of_clients(&self) -> String {
        self.near.url()
    }

    fn server(&self) -> MutexGuard<'_, Option<NatsServer>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn faults<'a>(&'a self, soak: &'a Soak) -> Vec<Fault<'a>> {
        let line = |is_near: bool| if is_near { &self.near } else { &self.far };
        vec![
            // In the middle of whatever then goes on.
            Fault::new("a line cut", move |rng| {
                line(rng.bool()).cut_after(rng.usize(..4000));
                Ok(())
            }),
            Fault::new("a line down", move |rng| {
                let line = line(rng.bool());
                line.down();
                std::thread::sleep(Duration::from_millis(rng.u64(..800)));
                line.up();
                Ok(())
            }),
            Fault::new("the NATS server stopped by SIGSTOP", |rng| {
                let server = self.server();
                let pid = server.as_ref().context("there is no server")?.pid();
                let pid = Pid::from_raw(pid.cast_signed());
                signal::kill(pid, Signal::SIGSTOP).context("stopping it")?;
                std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
                signal::kill(pid, Signal::SIGCONT).context("having it go on")
            }),
            Fault::new("the NATS server killed and started anew", move |rng| {
                let mut server = self.server();
                if let Some(old) = server.take() {
                    soak.forget_process(old.pid());
                }
                std::thread::sleep(Duration::from_millis(rng.u64(..300)));
                let new = NatsServer::start_at(self.port.into(), &[]);
                soak.watch_process(new.pid());
                *server = Some(new);
                Ok(())
            }),
        ]
    }
}
