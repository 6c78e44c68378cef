//! Which server is asked, and for how long.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::fork::PerProcess;
use kumiki_sys::topology::Topology;
use rustix::process::Pid;

use crate::outcome::{Answer, Refused, gone, pid_of};
use crate::request::{Write, os_error};
use crate::server::{No, Server};

/// Servers that die before they have begun, in a row.
const TRIES: usize = 3;

/// This process's. A child of fork(2) has none: what its parent's makes are children of
/// that.
static SHARED: PerProcess<Shared> = PerProcess::new();

/// Servers that a process's threads share, one for each NUMA node at most: a thread asks that of
/// the node it runs on. So none is moved from node to node, with its memory on the one and its work on the
/// other, and threads of two nodes do not wait for each other.
#[derive(Debug)]
struct Shared(Vec<(CpuSet, Mutex<SpawnServer>)>);

impl Default for Shared {
    fn default() -> Self {
        Shared::of(Topology::cpus_of_nodes())
    }
}

impl Shared {
    /// Servers of the nodes with these cpus; one if there are none.
    fn of(nodes: Vec<CpuSet>) -> Self {
        let nodes = if nodes.is_empty() { vec![CpuSet::new()] } else { nodes };
        Shared(nodes.into_iter().map(|cpus| (cpus, Mutex::default())).collect())
    }

    /// Number of the node of a cpu: the first one's, if no node is known to have it.
    fn node(&self, cpu: usize) -> usize {
        self.0.iter().position(|(cpus, _)| cpus.contains(cpu)).unwrap_or(0)
    }

    fn lock(&self, node: usize) -> MutexGuard<'_, SpawnServer> {
        self.0[node].1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A spawn server for who has it: a thread that spawns much needs no lock then, and waits for
/// no other thread's children. What [`Command::spawn`](crate::Command::spawn) uses where it needs
/// one is a server that the process's threads share, those of one NUMA node.
///
/// ```
/// use kumiki_spawn::{Command, SpawnServer};
///
/// let mut server = SpawnServer::new();
/// for _ in 0..3 {
///     assert!(Command::new("true").spawn_by(&mut server)?.wait()?.success());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SpawnServer(Option<Server>);

/// Starts the server that the process's threads on this NUMA node share, if it has none yet: for programs that
/// want it before they are large. Else it is started by the first
/// [`Command`](crate::Command) that needs one: [`by_server`](crate::Command::by_server). Who gives up rights or is confined later has another one then:
/// children of the first would have more than their parent.
///
/// # Errors
/// No process, memory or descriptor is to be had.
pub fn start_server() -> io::Result<()> {
    with_shared(|server| server.start().map_err(no_server)).map_err(|refused| refused.error)
}

/// Refusal for want of a server, with the reason.
fn no_server(error: io::Error) -> Refused {
    Refused { error, step: None, lacks_server: true }
}

/// Has the server of this thread's NUMA node do something; where there is none and none can be started, that of
/// another node that runs.
pub(crate) fn with_shared<T>(
    f: impl Fn(&mut SpawnServer) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let shared = SHARED.get().map_err(os_error).map_err(no_server)?;
    let node = match shared.0.len() {
        1 => 0,
        _ => shared.node(rustix::thread::sched_getcpu()),
    };
    let refused = match f(&mut shared.lock(node)) {
        Err(refused) if refused.lacks_server => refused,
        answer => return answer,
    };
    for other in (0..shared.0.len()).filter(|other| *other != node) {
        let mut server = shared.lock(other);
        if server.runs() {
            return f(&mut server);
        }
    }
    Err(refused)
}

impl SpawnServer {
    /// Makes a server that is started when it is first asked.
    pub const fn new() -> SpawnServer {
        SpawnServer(None)
    }

    /// Starts it now, if it does not run.
    ///
    /// # Errors
    /// No process, memory or descriptor is to be had.
    pub fn start(&mut self) -> io::Result<()> {
        if !self.runs() {
            self.replace(false)?;
        }
        Ok(())
    }

    /// True if it runs, and may be asked by the caller.
    fn runs(&self) -> bool {
        self.0.as_ref().is_some_and(Server::may_be_asked)
    }

    /// True if it runs, and its children of before are as those of now would be.
    pub(crate) fn still_fits(&mut self) -> bool {
        self.0.as_mut().is_some_and(Server::is_for_caller)
    }

    fn replace(&mut self, at_once: bool) -> io::Result<&mut Server> {
        // The former one ends first.
        self.0 = None;
        Ok(self.0.insert(Server::start(at_once)?))
    }

    /// Begins a child, whose end of making [`Server::socket`] tells. `None`: the server is not
    /// to be asked like this; [`SpawnServer::spawn`] finds out why.
    pub(crate) fn begin(&mut self, write: &Write<'_, '_>) -> Option<()> {
        self.start().ok()?;
        let server = self.0.as_mut()?;
        let mut draft = server.draft(false);
        write(&mut draft).ok()?;
        server.tell(&draft.finish().ok()?, true).ok()
    }

    /// The server of a request that was begun.
    pub(crate) fn in_flight(&mut self) -> Option<&mut Server> {
        self.0.as_mut()
    }

    /// The child that was begun; `None`: nothing was made.
    pub(crate) fn end(&mut self) -> Option<Result<Pid, Refused>> {
        self.0.as_mut()?.answer().ok().map(pid_of)
    }

    /// Has the server make a child, as `write` says. The child is the calling process's, to be
    /// waited for.
    ///
    /// # Errors
    /// As posix_spawn(3): what a call in the child was refused with.
    pub(crate) fn spawn(&mut self, write: &Write<'_, '_>) -> Result<Pid, Refused> {
        for _ in 0..TRIES {
            let server = match self.0.as_mut().filter(|server| server.may_be_asked()) {
                Some(_) => self.0.as_mut().expect("it was just there"),
                None => self.replace(true).map_err(no_server)?,
            };
            let takes = server.takes();
            let mut answer = ask(server, takes, write)?;
            if let (Err(No::Send), Some(server)) = (&answer, self.0.as_mut()) {
                answer = ask(server, false, write)?;
            }
            if let Err(No::Another) = answer {
                // The same request, as the memory is a new one.
                answer = ask(self.replace(true).map_err(no_server)?, false, write)?;
            }
            match answer.map(pid_of) {
                Ok(child) => return child,
                // Of the request, which names what is not open.
                Err(No::Sent(error)) if error.raw_os_error() == Some(libc::EBADF) => {
                    return Err(error.into());
                }
                Err(No::Sent(error)) => return Err(no_server(error)),
                // Nothing has begun: the next server may try.
                Err(No::Died | No::Another | No::Send) => self.0 = None,
            }
        }
        Err(no_server(gone()))
    }
}

fn ask(server: &mut Server, takes: bool, write: &Write<'_, '_>) -> io::Result<Result<Answer, No>> {
    let mut draft = server.draft(takes);
    write(&mut draft)?;
    Ok(server.ask(&draft.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_s_server_is_that_of_its_node() {
        let nodes = |lists: &[&str]| {
            Shared::of(lists.iter().map(|list| list.parse().expect("a list of cpus")).collect())
        };
        let two = nodes(&["0-3,8-11", "4-7"]);
        assert_eq!([0, 3, 4, 7, 8, 11].map(|cpu| two.node(cpu)), [0, 0, 1, 1, 0, 0]);
        // One that has come on line since.
        assert_eq!(two.node(12), 0);
        assert_eq!((nodes(&[]).0.len(), nodes(&[]).node(5)), (1, 0));
    }
}
