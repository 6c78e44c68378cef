//! `kumiki node top`: what the nodes and their host do.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use kumiki_node::{Node, NodeInfo, NodeState, Usage};
use kumiki_report::format;

use crate::{output, screen};

/// Time that nodes have to answer, all together. One that has not is asked on, and shown without
/// figures meanwhile.
const LIMIT: Duration = Duration::from_secs(2);

/// Name of the host's row, which no node can have.
pub(super) const HOST: &str = "0 (host)";

pub(crate) fn run(every: Duration, count: Option<u64>) -> Result<()> {
    let mut looks = Looks::default();
    screen::run(every, count, || looks.page())
}

#[derive(Default)]
struct Looks {
    /// Answers that are waited for, by node.
    asked: HashMap<String, Receiver<Option<Usage>>>,
    before: HashMap<String, Usage>,
}

impl Looks {
    fn page(&mut self) -> Result<String> {
        let nodes = Node::list()?;
        self.ask(&nodes);
        let mut now = self.answers();
        now.insert(HOST.to_owned(), Usage::here()?);
        let ready = nodes.iter().filter(|node| node.state == NodeState::Ready).count();
        let mut text = format!(
            "{}  {} nodes, {ready} ready\n\n",
            jiff::Zoned::now().strftime("%H:%M:%S"),
            nodes.len()
        );
        let mut table = output::Rows::new(&["node", "state", "cpus", "busy", "used", "memory"], 3);
        table.add(self.row(HOST, "up", &online(), &now));
        for node in &nodes {
            let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
            table.add(self.row(&node.name, &super::standing(node), &cpus.join(","), &now));
        }
        text += &table.to_string();
        text.push('\n');
        self.before = now;
        Ok(text)
    }

    fn row(
        &self,
        name: &str,
        state: &str,
        cpus: &str,
        now: &HashMap<String, Usage>,
    ) -> [String; 6] {
        let usage = now.get(name);
        let busy =
            usage.zip(self.before.get(name)).and_then(|(now, before)| now.busy_since(before));
        let bytes =
            |of: fn(&Usage) -> u64| usage.map_or("-".to_owned(), |one| format::bytes(of(one)));
        [
            name.to_owned(),
            state.to_owned(),
            cpus.to_owned(),
            busy.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            bytes(|usage| usage.used_bytes),
            bytes(|usage| usage.bytes),
        ]
    }

    /// Asks those that can answer and were not asked yet, each in a thread: one may hang.
    fn ask(&mut self, nodes: &[NodeInfo]) {
        self.asked.retain(|name, _| nodes.iter().any(|node| node.name == *name));
        for node in nodes.iter().filter(|node| node.state == NodeState::Ready) {
            let name = node.name.clone();
            self.asked.entry(name.clone()).or_insert_with(|| {
                let (sender, receiver) = channel();
                thread::spawn(move || sender.send(Usage::of(&name).ok()));
                receiver
            });
        }
    }

    fn answers(&mut self) -> HashMap<String, Usage> {
        let begin = Instant::now();
        let mut now = HashMap::new();
        self.asked.retain(|name, receiver| {
            match receiver.recv_timeout(LIMIT.saturating_sub(begin.elapsed())) {
                Ok(usage) => {
                    now.extend(usage.map(|usage| (name.clone(), usage)));
                    false
                }
                Err(_) => true,
            }
        });
        now
    }
}

/// The host's own cpus, as the kernel writes them.
pub(super) fn online() -> String {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online");
    text.map_or("-".to_owned(), |text| text.trim().to_owned())
}
