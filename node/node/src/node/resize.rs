//! Cpus that a node gets and gives back, running or not. See `docs/design/node-elastic.md`.

use std::time::Duration;

use kumiki_node_devices::record::{self, Record};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::memory::cpu_list;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::window::Window;
use kumiki_node_wire::wish::{CpuOrder, Wish};

use super::{Node, bring_on_line};
use crate::host::cpus;
use crate::host::spec::Cpus;
use crate::node::session::Session;
use crate::{Error, ErrorKind, Result, Subject};

/// Time that a node's kernel may take for all cpus of an order.
const ORDER_LIMIT: Duration = Duration::from_secs(60);

impl Node {
    /// Gives it cpus, or has it give some back, until it has so many, or these, of which the first
    /// is its first one still; at once if it runs. Returns those that it has then.
    pub fn set_cpus(&self, wanted: &Cpus) -> Result<Vec<u32>> {
        let (device, entry, record) = self.owned()?;
        let window = record::window(&device, &entry, Access::Write)?.0;
        let record = settled(&window, &entry, record)?;
        let mut change = Change { node: self, device, window, record, runs: entry.runs() };
        change.is_possible(&entry, wanted.count())?;
        let has = |cpu: &u32| entry.cpus.iter().any(|(own, _)| own == cpu);
        let (going, coming) = match wanted {
            Cpus::Count(count) => (
                entry.cpus.get(*count..).unwrap_or_default().to_vec(),
                change.chosen(count.saturating_sub(entry.cpus.len()))?,
            ),
            Cpus::These(cpus) => (
                entry.cpus.iter().filter(|(own, _)| !cpus.contains(own)).copied().collect(),
                cpus.iter().filter(|cpu| !has(cpu)).copied().collect(),
            ),
        };
        if !going.is_empty() {
            change.shrink(&going)?;
        }
        if !coming.is_empty() {
            change.grow(&coming)?;
        }
        Ok(change.record.cpus)
    }
}

/// The record of a node as the module has it: a change of its cpus may have been killed in the
/// midst.
pub(super) fn settled(
    window: &Window,
    entry: &sysfs::Status,
    mut record: Record,
) -> Result<Record> {
    let own: Vec<u32> = entry.cpus.iter().map(|&(cpu, _)| cpu).collect();
    // One whose making was interrupted has no cpu yet, or is none that was ever resized.
    if record.cpus == own || own.is_empty() || (record.told.is_empty() && entry.state == "created")
    {
        return Ok(record);
    }
    bring_on_line(&record.cpus)?;
    record.cpus = own;
    window.set_record(&record.to_json()?);
    Ok(record)
}

/// Tells why its agent does not answer an order, if that is so.
pub(super) fn not_answering(
    entry: &sysfs::Status,
    window: &Window,
    runs: bool,
) -> Option<(ErrorKind, &'static str)> {
    if entry.cpus.is_empty() {
        let problem = "it sleeps, its cpus with this machine: kumiki node exec wakes it";
        return Some((ErrorKind::NotRunning, problem));
    }
    let answers = entry.word == abi::WORD_READY && !window.is_lent();
    let problem = "it runs, and its agent does not answer this machine (it starts, hangs, has ended, or \
                   another node starts it): see kumiki node ls";
    (runs && !answers).then_some((ErrorKind::Busy, problem))
}

struct Change<'a> {
    node: &'a Node,
    device: Device,
    window: Window,
    record: Record,
    runs: bool,
}

impl Change<'_> {
    fn is_possible(&self, entry: &sysfs::Status, count: usize) -> Result<()> {
        let (name, record) = (&self.node.name, &self.record);
        let refused = |kind, problem: String| {
            let text = format!("node {name}: {count} cpus: {problem}");
            Err(Error::refused(kind, Subject::node(name), text))
        };
        if let Some((kind, problem)) = not_answering(entry, &self.window, self.runs) {
            return refused(kind, problem.to_owned());
        }
        // One that was told of no others may have those again that it began with.
        let (min, max) = match record.elastic {
            Some(elastic) => (elastic.min, elastic.max),
            None if self.runs => (1, record.told.len().max(entry.cpus.len())),
            None => (1, abi::CPUS),
        };
        if (min..=max).contains(&count) {
            return Ok(());
        }
        let why = match record.elastic {
            Some(_) => "by its min_cpus and max_cpus (--min-cpus, --max-cpus)",
            None if self.runs => {
                "as its kernel was told of no others when it started: kumiki node create \
                 --max-cpus makes one that is"
            }
            None => "at most",
        };
        refused(ErrorKind::Invalid, format!("{min} to {max} are possible, {why}"))
    }

    fn note(&mut self, cpus: Vec<u32>) -> Result<()> {
        self.record.cpus = cpus;
        self.window.set_record(&self.record.to_json()?);
        Ok(())
    }

    fn order(&self, order: &CpuOrder) -> Result<()> {
        Session::open_by_host(&self.node.name)?.order(&Wish::Cpus(order.clone()), ORDER_LIMIT)
    }

    /// Has its kernel let go of these, and takes back those of which it has.
    fn shrink(&mut self, going: &[(u32, u32)]) -> Result<()> {
        let off = going.iter().map(|&(_, id)| id).collect();
        let said = if self.runs { self.order(&CpuOrder { on: vec![], off }) } else { Ok(()) };
        let mut kept = Vec::new();
        // The last first, so that what is left keeps its order.
        for &(cpu, _) in going.iter().rev() {
            if self.device.cpu_back(cpu)? {
                self.record.cpus.retain(|own| *own != cpu);
            } else {
                kept.push(cpu);
            }
        }
        self.note(self.record.cpus.clone())?;
        if kept.is_empty() {
            return Ok(());
        }
        let why = said.err().map_or(String::new(), |error| format!(" ({error})"));
        Err(Error::refused(
            ErrorKind::Busy,
            Subject::node(&self.node.name),
            format!(
                "node {}: its kernel does not let go of {} {}{why}: it keeps them, and has {} cpus; \
                 try again later",
                self.node.name,
                if kept.len() == 1 { "cpu" } else { "cpus" },
                cpu_list::text(&kept),
                self.record.cpus.len()
            ),
        ))
    }

    /// Takes cpus from this machine's kernel and has the node's use them.
    fn grow(&mut self, chosen: &[u32]) -> Result<()> {
        // First: whoever finds the change half made finds here which cpus may be off line.
        self.note([&self.record.cpus, chosen].concat())?;
        let used = self.give(chosen).and_then(|on| match self.runs {
            true => self.order(&CpuOrder { on, off: vec![] }),
            false => Ok(()),
        });
        let Err(error) = used else { return Ok(()) };
        // What it does not use goes back; what it uses in spite of its word is its own.
        let mut failure = None;
        for &cpu in chosen.iter().rev() {
            match self.device.cpu_back(cpu) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(Error::Os { .. }) => {
                    if let Err(error) = bring_on_line(&[cpu]) {
                        failure.get_or_insert(error);
                    }
                }
                Err(error) => drop(failure.get_or_insert(error)),
            }
            self.record.cpus.retain(|own| *own != cpu);
        }
        self.note(self.record.cpus.clone())?;
        Err(match failure {
            None => error,
            Some(left) => {
                let text = format!("{error}; and this was not undone: {left}");
                error.reworded(text)
            }
        })
    }

    fn chosen(&self, more: usize) -> Result<Vec<u32>> {
        if more == 0 {
            return Ok(Vec::new());
        }
        let mut free = cpus::free()?;
        if self.runs {
            free.retain(|cpu| self.record.told.iter().any(|(told, _)| told == cpu));
        }
        // In the order in which its kernel was told: the nearest first.
        let place = |cpu: &u32| self.record.told.iter().position(|(told, _)| told == cpu);
        free.sort_by_key(place);
        if more <= free.len() {
            free.truncate(more);
            return Ok(free);
        }
        let held = cpus::held()?;
        Err(Error::refused(
            ErrorKind::NoCpu,
            Subject::Cpus { asked: more, most: free.len() },
            format!(
                "node {}: {more} cpus more: this machine has {} free that its kernel was told of \
                 when it started{}{}",
                self.node.name,
                free.len(),
                if free.is_empty() {
                    String::new()
                } else {
                    format!(": {}", cpu_list::text(&free))
                },
                cpus::and_holders(&held)
            ),
        ))
    }

    fn give(&self, cpus: &[u32]) -> Result<Vec<u32>> {
        let give = |&cpu: &u32| {
            cpus::set_online(cpu, false)?;
            self.device.cpu(cpu)
        };
        cpus.iter().map(give).collect()
    }
}
