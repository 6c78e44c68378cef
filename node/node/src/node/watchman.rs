//! A node that is to watch its host: checked and told here, done there.

use std::fs;
use std::time::Duration;

use kumiki_node_agent::watchman::{self, Order};
use kumiki_node_wire::module::abi;
use kumiki_node_wire::wish::Wish;

use crate::node::Node;
use crate::node::session::Session;
use crate::{Error, ErrorKind, Result, Subject, json};

/// File in which the module tells the address of its page.
const ADDRESS: &str = "/sys/class/misc/kumiki-osnode-watch/address";
/// Seconds after which a panic restarts the machine; 0: never.
const RESTART: &str = "/proc/sys/kernel/panic";
/// 1: another kernel waits for a panic, to start in this one's place.
const CRASH_KERNEL: &str = "/sys/kernel/kexec_crash_loaded";

/// Work of a node that watches its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watchman {
    /// Silence of all the host's cpus for so long means that it is dead.
    pub after: Duration,
    /// File or disk in the node, or `tcp:HOST:PORT`, that the host's memory is written to.
    pub to: Option<String>,
    /// `udp:HOST:PORT` that hears what it says, a line each.
    pub say: Option<String>,
    /// A line of shell that the node runs after that.
    pub then: Option<String>,
}

impl Node {
    /// Has the node watch this machine's kernel, from now on, instead of as before.
    pub fn watch(&self, watchman: &Watchman) -> Result<()> {
        if !watchman::can_be() {
            return Err(Error::refused(
                ErrorKind::NotFound,
                Subject::Module("osnode-watch".into()),
                format!(
                    "{} is not there, by which this machine gives signs of life: modprobe \
                     osnode-watch",
                    abi::WATCH_DEVICE
                ),
            ));
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        outlives(&read(RESTART), &read(CRASH_KERNEL))?;
        let least = Duration::from_millis(4 * abi::BEAT_MS);
        if watchman.after < least {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::Word(format!("{:?}", watchman.after)),
                format!("{:?} of silence is nothing yet: {least:?} at least", watchman.after),
            ));
        }
        watchman::tell()?;
        let text = fs::read_to_string(ADDRESS).map_err(|error| Error::file(ADDRESS, error))?;
        let digits = text.trim().trim_start_matches("0x");
        let address = u64::from_str_radix(digits, 16)
            .map_err(|_| Error::Protocol(format!("{ADDRESS} holds {text:?}")))?;
        let Watchman { after, to, say, then } = watchman.clone();
        let order = Order { address, after, to, say, then };
        let body = json(&order)?;
        Session::open_by_host(self.name())?.hand_over(&Wish::Watch(Some(body)))
    }

    /// Has it watch no more.
    pub fn watch_no_more(&self) -> Result<()> {
        Session::open_by_host(self.name())?.hand_over(&Wish::Watch(None))
    }
}

/// Refuses a machine whose nodes would not outlive its kernel.
fn outlives(restart: &str, crash_kernel: &str) -> Result<()> {
    let refused = |file: &str, text: String| {
        Err(Error::refused(ErrorKind::Unsupported, Subject::File(file.into()), text))
    };
    if !matches!(restart.trim(), "" | "0") {
        let text = format!(
            "this machine restarts after a panic, and its nodes with it (kernel.panic is {}): sysctl \
             kernel.panic=0",
            restart.trim()
        );
        return refused(RESTART, text);
    }
    if crash_kernel.trim() == "1" {
        return refused(
            CRASH_KERNEL,
            "a crash kernel is loaded, which starts after a panic and takes this machine's devices \
             and, when it is done, restarts it with its nodes: kdump-config unload"
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_restarts_by_itself_is_refused() {
        let of = |restart, crash| outlives(restart, crash).map_err(|error| error.to_string());
        assert!(of("0\n", "0\n").is_ok() && of("", "").is_ok());
        assert!(of("10\n", "0\n").unwrap_err().contains("kernel.panic is 10"));
        assert!(of("-1\n", "").unwrap_err().contains("sysctl kernel.panic=0"));
        assert!(of("0\n", "1\n").unwrap_err().contains("kdump-config unload"));
    }
}
