//! Carrying a plan out, and undoing it when a step fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kumiki_node_image::image::{Image, KernelForm};
use kumiki_node_image::ingredients::{Ingredients, Prepared};
use kumiki_node_image::listing::address;

use super::change::{Changes, changed, chosen, resizes};
use super::file::{Machine, NodeWanted};
use super::plan::{Offer, Step, plan};
use super::rollout::Note;
use super::situation::{Free, Situation};
use crate::host::spec::Cpus;
use crate::node::Node;
use crate::service::{Held, Service};
use crate::{Error, ErrorKind, Result};

/// Time that a node that is replaced may take to switch itself off.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A machine file with what is to be done for it.
pub struct Apply {
    steps: Vec<Step>,
    free: Free,
    images: BTreeMap<String, Prepared>,
    services: BTreeMap<String, Service>,
    /// The file's name and text.
    source: (PathBuf, String),
}

impl std::fmt::Debug for Apply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apply")
            .field("steps", &self.steps)
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}

impl Apply {
    /// Reads a file, prepares its images and plans. Touches nothing. Nodes that exist otherwise
    /// are refused or make way for the file's, by `changes`.
    pub fn plan(file: &Path, changes: Changes) -> Result<Self> {
        Self::of(Machine::read(file)?, changes, false)
    }

    /// Plans the return to what stood in the file before it was changed and applied last. Images
    /// that are resident still are taken as they are, whatever has become of their files.
    pub fn undo() -> Result<Self> {
        let (file, before) = Note::before()?;
        Self::of(Machine::parse(&file, before)?, Changes::Replace, true)
    }

    fn of(machine: Machine, changes: Changes, as_resident: bool) -> Result<Self> {
        let situation = Situation::now()?;
        // What takes no time is refused first.
        let resizes = resizes(&machine, &situation)?;
        chosen(&machine, &situation, &changed(&machine, &situation, changes)?, &resizes)?;
        let (mut offers, mut images) = (BTreeMap::new(), BTreeMap::new());
        for image in &machine.images {
            let name = &image.name;
            let resident = situation.images.get(name);
            let sum = resident.filter(|_| as_resident).and_then(|image| image.sha256.clone());
            if let Some(sha256) = sum {
                let needs = resident.and_then(|image| image.needs);
                offers.insert(name.clone(), Offer { sha256, bytes: 0, needs, config: None });
                continue;
            }
            let ingredients = Ingredients::read(&image.kernel, &image.base)?;
            let sha256 = ingredients.sha256().to_owned();
            let offer = match resident {
                // Uncompressing a kernel is what takes long.
                Some(resident) => Offer { sha256, bytes: 0, needs: resident.needs, config: None },
                None => {
                    let prepared = ingredients.prepare()?;
                    let offer = Offer {
                        sha256,
                        bytes: prepared.bytes(),
                        needs: Some(prepared.needs()),
                        config: prepared.config().map(str::to_owned),
                    };
                    images.insert(name.clone(), prepared);
                    offer
                }
            };
            offers.insert(name.clone(), offer);
        }
        let steps = plan(&machine, &offers, &situation, changes)?;
        let service = |node: &NodeWanted| Some((node.spec.name.clone(), node.service.clone()?));
        let services = machine.nodes.iter().filter_map(service).collect();
        let source = machine.into_source();
        Ok(Apply { steps, free: situation.free, images, services, source })
    }

    /// Steps to be done, in this order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Things free when it was planned.
    pub fn free(&self) -> &Free {
        &self.free
    }

    /// Does it all, starts at the same time; `told` hears of each step that is done. If one fails, or
    /// `stop` becomes true, those before it are undone, the last one first. A node
    /// has `limit` to become ready, and as long to become healthy; the next one that makes way for
    /// another is stopped `min_ready` after that. `kumiki node supervise` leaves the nodes alone meanwhile.
    pub fn carry_out(
        self,
        limit: Duration,
        min_ready: Duration,
        stop: &AtomicBool,
        mut told: impl FnMut(&Step),
    ) -> Result<()> {
        let mut note = Note::begin(self.source, &self.steps)?;
        let nodes = self.steps.iter().filter_map(Step::node).map(str::to_owned).collect();
        let _held = Held::all(nodes)?;
        let (images, services) = (self.images, self.services);
        let mut machine = OfNow { images, services, limit, min_ready, has_started: false };
        let outcome = carry_out(&self.steps, &mut machine, stop, |step| {
            note.step();
            told(step);
        });
        note.end(&outcome);
        outcome
    }
}

/// Doer of steps.
trait Hands {
    /// Does some at the same time; each leaves nothing behind if it fails.
    fn make(&mut self, steps: &[Step]) -> Vec<Result<()>>;
    /// Undoes one that was done.
    fn undo(&mut self, step: &Step) -> Result<()>;
}

/// Starts that follow one another are independent, and all else depends on what comes before.
fn at_once(step: &Step, next: &Step) -> bool {
    matches!((step, next), (Step::Start { .. }, Step::Start { .. }))
}

fn carry_out(
    steps: &[Step],
    hands: &mut impl Hands,
    stop: &AtomicBool,
    mut told: impl FnMut(&Step),
) -> Result<()> {
    let mut done: Vec<&Step> = Vec::new();
    for group in steps.chunk_by(at_once) {
        let outcomes = if stop.load(Ordering::Relaxed) {
            vec![Err(Error::inner(ErrorKind::Interrupted, "interrupted"))]
        } else {
            hands.make(group)
        };
        let mut failures = Vec::new();
        for (step, outcome) in group.iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    told(step);
                    done.push(step);
                }
                Err(error) => failures.push((step, error)),
            }
        }
        let mut failures = failures.into_iter();
        let Some((step, error)) = failures.next() else { continue };
        let mut left: Vec<_> =
            failures.map(|(step, error)| format!("; failed as well: {step}: {error}")).collect();
        for step in done.iter().rev() {
            if let Err(error) = hands.undo(step) {
                left.push(format!("; not undone: {step}: {error}"));
            }
        }
        let error = error.about(|| step.subject());
        let (step, left) = (step.to_string(), left.concat());
        return Err(Error::RolledBack { step, source: Box::new(error), undone: done.len(), left });
    }
    Ok(())
}

/// The machine that this runs on.
struct OfNow {
    images: BTreeMap<String, Prepared>,
    services: BTreeMap<String, Service>,
    limit: Duration,
    min_ready: Duration,
    /// True if somebody else may not know yet that a node is healthy.
    has_started: bool,
}

impl OfNow {
    fn make_one(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Add { image, .. } => {
                let prepared = self.images.remove(image).expect("it was prepared for this step");
                prepared.keep(image).map(drop)
            }
            Step::Create(spec) => Node::create(spec).map(drop),
            Step::Remove { node, .. } => {
                if std::mem::take(&mut self.has_started) {
                    thread::sleep(self.min_ready);
                }
                remove(node)
            }
            Step::Resize { node, cpus, .. } => resize(node, cpus),
            Step::Memory { node, bytes, .. } => set_memory(node, *bytes),
            Step::Start { node, from } => {
                start((node, from.as_deref()), self.services.get(node), self.limit)
            }
        }
    }
}

fn resize(name: &str, cpus: &[u32]) -> Result<()> {
    Node::find(name)?.set_cpus(&Cpus::These(cpus.to_vec())).map(drop)
}

fn set_memory(name: &str, bytes: u64) -> Result<()> {
    Node::find(name)?.set_memory(bytes).map(drop)
}

/// Stops a node in order if it runs, and deletes it.
fn remove(name: &str) -> Result<()> {
    let node = Node::find(name)?;
    if node.is_running()? {
        node.stop(STOP_LIMIT)?;
    }
    node.delete()
}

fn start(
    (name, from): (&str, Option<&str>),
    service: Option<&Service>,
    limit: Duration,
) -> Result<()> {
    let node = Node::find(name)?;
    let outcome = match node.start_kept(from, limit) {
        // It was not begun, but where a cpu may run or not.
        Err(Error::Refused(refusal)) if refusal.kind() != ErrorKind::Lost => {
            return Err(refusal.into());
        }
        Err(error) => Err(error),
        Ok(_) => service.map_or(Ok(()), |service| {
            let record = node.recorded()?;
            let times = || Image::health_times(&record.image);
            service.begins(name, times, address(name, &record.devices), limit)
        }),
    };
    if outcome.is_err() && node.is_running().unwrap_or(true) {
        // Its own error says what matters.
        let _ = node.stop(Duration::ZERO);
    }
    outcome
}

impl Hands for OfNow {
    fn make(&mut self, steps: &[Step]) -> Vec<Result<()>> {
        self.has_started |= steps.iter().any(|step| matches!(step, Step::Start { .. }));
        let (limit, services) = (self.limit, &self.services);
        let start_of = |step: &'_ Step| match step {
            Step::Start { node, from } => Some((node.clone(), from.clone())),
            _ => None,
        };
        let nodes: Option<Vec<(String, Option<String>)>> = steps.iter().map(start_of).collect();
        match nodes {
            Some(nodes) if nodes.len() > 1 => thread::scope(|scope| {
                let begin = |(node, from): (String, Option<String>)| {
                    start((&node, from.as_deref()), services.get(&node), limit)
                };
                let starts: Vec<_> =
                    nodes.into_iter().map(|node| scope.spawn(move || begin(node))).collect();
                starts.into_iter().map(|start| start.join().expect("it does not panic")).collect()
            }),
            _ => steps.iter().map(|step| self.make_one(step)).collect(),
        }
    }

    fn undo(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Add { image, .. } => Image::remove(image),
            Step::Create(spec) => Node::find(&spec.name)?.delete(),
            Step::Remove { before, runs, .. } => {
                let node = Node::create(before)?;
                if *runs { node.start(KernelForm::Vmlinux, self.limit).map(drop) } else { Ok(()) }
            }
            Step::Resize { node, before, .. } => resize(node, before),
            Step::Memory { node, before, .. } => set_memory(node, *before),
            Step::Start { node, .. } => Node::find(node)?.stop(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Notes what was done, and fails at one step, and at undoing another.
    struct Notes {
        made: Vec<String>,
        fails_at: usize,
        keeps: Option<usize>,
        calls: usize,
    }

    impl Hands for Notes {
        fn make(&mut self, steps: &[Step]) -> Vec<Result<()>> {
            let one = |step: &Step| {
                self.calls += 1;
                if self.calls == self.fails_at + 1 {
                    return Err(Error::inner(ErrorKind::Busy, "no more"));
                }
                self.made.push(step.to_string());
                Ok(())
            };
            steps.iter().map(one).collect()
        }

        fn undo(&mut self, step: &Step) -> Result<()> {
            // Only ever the last one that stands.
            assert_eq!(self.made.pop().as_deref(), Some(step.to_string().as_str()));
            match self.keeps {
                Some(at) if at == self.made.len() => Err(Error::inner(ErrorKind::Busy, "held")),
                _ => Ok(()),
            }
        }
    }

    /// Steps that depend on what comes before, and starts.
    fn steps(starts: &[bool]) -> Vec<Step> {
        let step = |(n, start): (usize, &bool)| match start {
            true => Step::Start { node: format!("n{n}"), from: None },
            false => Step::Add { image: format!("n{n}"), bytes: 0, config: None },
        };
        starts.iter().enumerate().map(step).collect()
    }

    proptest! {
        #[test]
        fn a_failed_step_undoes_those_before_it_and_beside_it(
            starts in prop::collection::vec(any::<bool>(), 0..8),
            fails_at in 0..10usize,
            keeps in prop::option::of(0..8usize),
        ) {
            let (steps, count) = (steps(&starts), starts.len());
            let mut notes = Notes { made: vec![], fails_at, keeps, calls: 0 };
            let mut told = 0;
            let outcome = carry_out(&steps, &mut notes, &AtomicBool::new(false), |_| told += 1);
            // Starts that follow the one that fails are made with it.
            let beside = starts.iter().skip(fails_at).take_while(|start| **start).count();
            let done = if fails_at < count { fails_at + beside.saturating_sub(1) } else { count };
            prop_assert_eq!(told, done);
            match outcome {
                Ok(()) => prop_assert!(fails_at >= count && notes.made.len() == count),
                Err(error) => {
                    prop_assert!(notes.made.is_empty());
                    let text = error.to_string();
                    prop_assert!(text.contains(&format!("{}: no more", steps[fails_at])), "{}", text);
                    let held = keeps.is_some_and(|at| at < done);
                    prop_assert_eq!(text.contains("not undone"), held, "{}", text);
                }
            }
        }
    }

    #[test]
    fn an_interrupt_undoes_what_was_done() {
        let steps = steps(&[false, true]);
        let mut notes = Notes { made: vec![], fails_at: 9, keeps: None, calls: 0 };
        let stop = AtomicBool::new(false);
        let told = |_: &Step| stop.store(true, Ordering::Relaxed);
        let error = carry_out(&steps, &mut notes, &stop, told).unwrap_err().to_string();
        assert!(error.contains("start node n1: interrupted") && notes.made.is_empty(), "{error}");
    }
}
