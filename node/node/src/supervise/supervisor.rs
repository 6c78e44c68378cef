//! `kumiki node supervise`: keeps the services of a file up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::process::Process;
use kumiki_node_devices::service_state::{ServiceState, forget, keep};
use kumiki_node_image::image::Image;
use kumiki_node_image::listing;
use kumiki_node_image::listing::NodeState;
use kumiki_node_image::listing::address;

use super::backoff::Backoff;
use super::metrics;
use crate::machine::Machine;
use crate::node::Node;
use crate::service::{Doubt, Service, is_held};
use crate::{Error, ErrorKind, Result, Subject};

/// Interval between two looks at a node.
const EVERY: Duration = Duration::from_secs(1);
const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
/// The pause after three starts that did not last.
const COLD: Duration = Duration::from_secs(4);

type States = Arc<Mutex<BTreeMap<String, ServiceState>>>;

/// Keeps up the nodes of a file that are to be started again, until `stop`. They are there
/// already: `apply` makes them. `told` hears what happens to which.
pub fn supervise(
    file: &Path,
    stop: &Arc<AtomicBool>,
    told: impl Fn(&str, &str) + Send + Sync,
) -> Result<()> {
    let machine = Machine::read(file)?;
    let services: Vec<_> = machine
        .nodes
        .iter()
        .filter_map(|node| Some((node.spec.name.clone(), node.from.clone(), node.service.clone()?)))
        .collect();
    if services.is_empty() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(file.to_owned()),
            format!("{}: no node has `restart = true`: there is nothing to watch", file.display()),
        ));
    }
    for (name, ..) in &services {
        Node::find(name)?;
    }
    let states = States::default();
    let shown = Arc::clone(&states);
    metrics::serve(move || {
        let states = shown.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(name, state)| (name.clone(), state.clone())).collect()
    })?;
    thread::scope(|scope| {
        for (name, from, service) in services {
            let (states, stop, told) = (Arc::clone(&states), Arc::clone(stop), &told);
            scope.spawn(move || {
                let mut kept = KeptNode::new(name, from, service, states);
                while !stop.load(Ordering::Relaxed) {
                    kept.look(&stop, told);
                    rest(EVERY, &stop);
                }
                forget(&kept.name);
            });
        }
    });
    Ok(())
}

/// The snapshot to start from after a pause: one that brings the same end back again and again
/// is left alone until the node was steady.
fn warm(from: Option<&str>, pause: Duration) -> Option<&str> {
    from.filter(|_| pause < COLD)
}

/// Sleeps, unless it is the end.
fn rest(time: Duration, stop: &AtomicBool) {
    let begin = Instant::now();
    while begin.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK.min(time));
    }
}

/// One service.
struct KeptNode {
    name: String,
    /// The snapshot that it is started from, if there is one.
    from: Option<String>,
    service: Service,
    states: States,
    state: ServiceState,
    backoff: Backoff,
    /// Time since which its node runs, as far as this has seen.
    begun: Option<Instant>,
    asked: Option<Instant>,
    failures: u32,
}

impl KeptNode {
    fn new(name: String, from: Option<String>, service: Service, states: States) -> Self {
        let state = ServiceState { process: Process::this(), ..ServiceState::default() };
        let (backoff, begun, asked, failures) = (Backoff::default(), None, None, 0);
        KeptNode { name, from, service, states, state, backoff, begun, asked, failures }
    }

    fn say(&mut self, state: &str, why: Option<String>) {
        self.state.state = state.to_owned();
        self.state.why = why;
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(self.name.clone(), self.state.clone());
        drop(states);
        // Without the note it is kept all the same.
        let _ = keep(&self.name, &self.state);
    }

    fn look(&mut self, stop: &AtomicBool, told: &(impl Fn(&str, &str) + Sync)) {
        if self.is_replaced() {
            return;
        }
        let node = listing::nodes()
            .ok()
            .and_then(|all| all.into_iter().find(|node| node.name == self.name));
        let Some(node) = node else {
            // Somebody replaces it just now, or has deleted it.
            self.begun = None;
            return self.say("waiting", Some("there is no node of this name".into()));
        };
        match node.state {
            NodeState::Ready => self.up(node.image.as_deref(), stop, told),
            NodeState::Hung => {
                self.again("it hangs: its agent has shown no sign of life for 20 s", stop, told);
            }
            // Whoever asks for it wakes it.
            NodeState::Idle => self.say("up", None),
            // By hand, or by another command: it is waited for.
            NodeState::Starting | NodeState::Lent => self.say("starting", None),
            NodeState::Ended => {
                let why =
                    node.message.map_or(node.word.to_owned(), |text| format!("panic: {text}"));
                self.again(&format!("it has ended: {why}"), stop, told);
            }
            NodeState::Stopped | NodeState::Created => self.again("it does not run", stop, told),
        }
    }

    /// True if `apply` replaces its node just now, and starts it itself.
    fn is_replaced(&mut self) -> bool {
        let is_held = is_held(&self.name);
        if is_held {
            (self.begun, self.asked, self.failures) = (None, None, 0);
            self.say("starting", Some("kumiki node apply replaces its node".into()));
        }
        is_held
    }

    /// Notes that the node answers; whether its service does is asked now and again.
    fn up(&mut self, image: Option<&str>, stop: &AtomicBool, told: &(impl Fn(&str, &str) + Sync)) {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let Some(health) = self.service.health.clone() else {
            if self.state.state != "up" {
                self.backoff.up(now);
                self.say("up", None);
            }
            return;
        };
        let times = health.times(|| image.map(Image::health_times).unwrap_or_default());
        // As docker's first one that counts comes an interval after that.
        let grace = times.start_period + times.interval;
        let starts = self.state.state != "up" && begun.elapsed() < grace;
        let often = if starts { EVERY } else { times.interval };
        if self.asked.is_some_and(|asked| asked.elapsed() < often) {
            return;
        }
        let devices = Node::find(&self.name).and_then(|node| node.assigned()).unwrap_or_default();
        let answer = health.ask(&self.name, address(&self.name, &devices), times.timeout);
        self.asked = Some(Instant::now());
        match answer {
            Ok(()) => {
                self.failures = 0;
                if self.state.state != "up" {
                    self.backoff.up(Instant::now());
                    self.say("up", None);
                }
            }
            // It was well or not before, and still is.
            Err(Doubt::NotAsked(_)) => (),
            // It is still on its way.
            Err(Doubt::Unwell(why)) if starts => {
                self.say("starting", Some(why));
            }
            Err(Doubt::Unwell(why)) => {
                self.failures += 1;
                self.state.unhealthy += 1;
                self.say("unhealthy", Some(why.clone()));
                if self.failures >= times.retries {
                    self.again(&format!("it is not healthy: {why}"), stop, told);
                }
            }
        }
    }

    /// Ends it if it runs, waits, and starts it again.
    fn again(&mut self, why: &str, stop: &AtomicBool, told: &(impl Fn(&str, &str) + Sync)) {
        let first = self.state.state.is_empty();
        let pause = if first { Duration::ZERO } else { self.backoff.down(Instant::now()) };
        (self.begun, self.asked, self.failures) = (None, None, 0);
        let restart = || -> Result<()> {
            let node = Node::find(&self.name)?;
            if node.is_running()? { node.stop(STOP_LIMIT) } else { Ok(()) }
        };
        let ended = restart();
        self.state.pause_s = pause.as_secs();
        if !first {
            told(&self.name, &format!("{why}; it is started again in {pause:?}"));
        }
        self.say("waiting", Some(why.to_owned()));
        rest(pause, stop);
        self.state.pause_s = 0;
        if stop.load(Ordering::Relaxed) || self.is_replaced() {
            return;
        }
        self.say("starting", Some(why.to_owned()));
        let from = warm(self.from.as_deref(), pause);
        if let Some(cold) = self.from.as_deref().filter(|_| from.is_none()) {
            told(&self.name, &format!("it does not last from snapshot {cold}: now from its image"));
        }
        let started = ended.and_then(|()| Node::find(&self.name)).and_then(|node| {
            // One that is not there yet is nothing to tell.
            let why_not = from.and_then(|from| node.why_not(from));
            if let Some(error) = why_not.filter(|error| error.kind() != ErrorKind::NotFound) {
                told(&self.name, &format!("it starts from its image: {error}"));
            }
            node.start_kept(from, START_LIMIT).map(drop)
        });
        self.state.restarts += u64::from(!first);
        match started {
            Ok(()) => {
                self.begun = Some(Instant::now());
                self.say("starting", None);
            }
            Err(error) => {
                told(&self.name, &error.to_string());
                self.say("waiting", Some(error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_ends_again_and_again_makes_way_for_the_image() {
        let (mut backoff, begin) = (Backoff::default(), Instant::now());
        let mut next = |at| warm(Some("warm"), backoff.down(at)).is_some();
        assert_eq!(
            [next(begin), next(begin), next(begin), next(begin)],
            [true, true, false, false]
        );
        backoff.up(begin);
        let mut next = |at| warm(Some("warm"), backoff.down(at)).is_some();
        assert!(next(begin + Duration::from_secs(60)));
        assert_eq!(warm(None, Duration::ZERO), None);
    }
}
