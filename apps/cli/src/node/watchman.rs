//! `kumiki node watchman`: a node that outlives this machine's kernel.

use std::time::Duration;

use anyhow::{Result, ensure};
use kumiki_node::{Node, Watchman, is_node};

use crate::duration::positive;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct WatchmanArgs {
    /// The node, which runs
    name: String,
    /// Write the vmcore there: a file or a disk in the node, which is overwritten, or tcp:HOST:PORT
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
    /// Send what it says there as well, a line a datagram, by a card that is the node's own
    #[arg(long, value_name = "udp:HOST:PORT")]
    say: Option<String>,
    /// Take this machine's kernel for dead when no cpu of it gave a sign for so long
    #[arg(long, value_parser = positive, default_value = "10s", value_name = "TIME")]
    after: Duration,
    /// Have the node run this line of shell at last, e.g. `kumiki node start web --from warm`, of a
    /// node that is lent to it with that snapshot
    #[arg(long, value_name = "LINE")]
    then: Option<String>,
    /// Watch no more
    #[arg(long, conflicts_with_all = ["to", "after", "say", "then"])]
    off: bool,
}

impl WatchmanArgs {
    pub(crate) fn run(self) -> Result<()> {
        ensure!(!is_node(), "this is a node: kumiki node watchman is for its host");
        let node = Node::find(&self.name)?;
        if self.off {
            return Ok(node.watch_no_more()?);
        }
        let place = self.to.clone();
        node.watch(&Watchman { after: self.after, to: self.to, say: self.say, then: self.then })?;
        output::talk(format_args!(
            "node {} watches this machine; its memory goes {} when it dies",
            self.name,
            place.map_or("nowhere".to_owned(), |place| format!("to {place} there"))
        ));
        Ok(())
    }
}
