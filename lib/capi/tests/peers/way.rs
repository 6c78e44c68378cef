//! By whom children are made, and as whom a test runs.

use std::fmt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Nobody's user and group.
const OTHER: &str = "65534";
/// Seconds after which a test hangs.
const PATIENCE: &str = "300";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) by_server: bool,
    pub(crate) other: bool,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.by_server { "server" } else { "caller" };
        write!(f, "{by}, {}", if self.other { "another user" } else { "this user" })
    }
}

impl Way {
    /// All that this user can run.
    pub(crate) fn all() -> Vec<Way> {
        let root = rustix::process::geteuid().is_root();
        if !root {
            println!("skipped: only root runs tests as another user");
        }
        let users: &[bool] = if root { &[false, true] } else { &[false] };
        let ways = users
            .iter()
            .flat_map(|other| [false, true].map(|by_server| Way { by_server, other: *other }));
        ways.collect()
    }

    /// Whether a word of the list of expected differences speaks of it.
    pub(crate) fn is(self, word: &str) -> bool {
        let root = rustix::process::geteuid().is_root() && !self.other;
        match word {
            "any" => true,
            "caller" => !self.by_server,
            "server" => self.by_server,
            "root" => root,
            "other" => !root,
            word => panic!("{word}: neither any, caller, server, root nor other"),
        }
    }

    /// A program with these arguments, in a folder.
    pub(crate) fn run(self, program: &Path, args: &[&str], folder: &Path) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", PATIENCE]);
        if self.other {
            command.args(["setpriv", "--reuid", OTHER, "--regid", OTHER, "--clear-groups"]);
        }
        command.arg(program).args(args).current_dir(folder).stdin(Stdio::null());
        if self.by_server {
            command.env("KUMIKI_PEERS_BY_SERVER", "1");
        }
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}
