//! How many threads share a batch, on machines of 2 to 256 cpus that are simulated: what a batch
//! takes by each number is known here, and who is awake, and on which cpus others run.

use proptest::prelude::*;

use super::*;
use crate::differences::Differences;
use kumiki_calls::Request;

/// Cost of a sleep, ticks; half of it is a wake.
const SLEEP: f32 = 100_000.0;
/// A helper spins for so long before it sleeps.
const SPIN: u64 = 2 * SLEEP as u64;
/// Ticks that an offer costs, and each helper's part of it: its line's way there and back.
const OFFER: f32 = 500.0;
const HELPER: f32 = 100.0;

/// Speed of so many threads at one kind of call, in that of one: points, and straight between.
#[derive(Clone, Debug)]
struct Curve(Vec<(f32, f32)>);

impl Curve {
    fn speed(&self, threads: usize) -> f32 {
        let threads = threads as f32;
        let next = self.0.iter().position(|(at, _)| *at >= threads);
        let Some(next) = next else { return self.0.last().map_or(1.0, |(_, speed)| *speed) };
        if next == 0 {
            return self.0[0].1;
        }
        let ((a, low), (b, high)) = (self.0[next - 1], self.0[next]);
        low + (high - low) * (threads - a) / (b - a)
    }

    /// Universal Scalability Law: contention and coherence.
    fn of(contention: f32, coherence: f32) -> Curve {
        let speed = |n: f32| n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0));
        Curve((0..=8).map(|at| (1 << at) as f32).map(|n| (n, speed(n))).collect())
    }
}

/// Speeds of plain kernels at 48 cpus, as published (will-it-scale, one task = 1).
fn published() -> [(&'static str, Curve); 9] {
    let curve = |points: &[(f32, f32)]| {
        let first = [(1.0, 1.0)];
        Curve(first.iter().chain(points).copied().collect())
    };
    [
        ("getppid", curve(&[(48.0, 35.0), (256.0, 180.0)])),
        ("mmap", curve(&[(48.0, 26.0), (256.0, 120.0)])),
        ("page faults", curve(&[(48.0, 15.0), (256.0, 40.0)])),
        ("connects", curve(&[(48.0, 12.0), (256.0, 20.0)])),
        ("opening own files", curve(&[(8.0, 4.2)])),
        ("stat of one file", curve(&[(48.0, 2.8)])),
        ("open of one file", curve(&[(48.0, 2.3)])),
        ("rename", curve(&[(24.0, 0.93), (48.0, 0.8)])),
        ("unlink in one directory", curve(&[(48.0, 0.40)])),
    ]
}

/// Machine and load.
#[derive(Clone, Debug)]
struct Scene {
    curve: Curve,
    /// Calls of a batch, and ticks of a plain one.
    calls: usize,
    plain: f32,
    cpus: usize,
    /// Helpers, from the nearest on, before the first whose cpu a busy process wants, and how much
    /// later that one ends one batch of so many.
    busy: Option<(usize, u32, u64)>,
}

impl Scene {
    /// Ticks that a batch, or a part of it, takes by so many awake threads.
    fn ticks(&self, threads: usize, calls: usize) -> f32 {
        let plain = self.plain * calls as f32;
        match threads {
            1 => plain,
            _ => {
                let speed = self.curve.speed(threads.min(calls));
                OFFER + HELPER * (threads - 1) as f32 + plain / speed
            }
        }
    }

    /// Mean of a batch by so many, with what busy cpus cost.
    fn mean(&self, threads: usize) -> f32 {
        let late = match self.busy {
            Some((idle, every, late)) if threads > idle + 1 => late as f32 / every as f32,
            _ => 0.0,
        };
        self.ticks(threads, self.calls) + late
    }

    /// The best number of threads, and what a batch takes by it.
    fn best(&self) -> (usize, f32) {
        let levels = (0..=8).map(|at| (1 << at).min(self.cpus).min(self.calls));
        let timed = levels.map(|threads| (threads, self.mean(threads)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are levels")
    }
}

struct World {
    scene: Scene,
    costs: Costs,
    now: u64,
    /// Times until when each helper spins, from when one that was called is there, and until when it
    /// wakes another one.
    spins: Vec<u64>,
    comes: Vec<Option<u64>>,
    away: Vec<u64>,
    batches: u32,
    /// Batches that need not ask.
    pass: u32,
    key: (CostKey, Prior),
}

impl World {
    fn new(scene: Scene) -> Self {
        let requests = vec![Request::new(libc::SYS_read, []); scene.calls];
        let helpers = scene.cpus - 1;
        World {
            costs: Costs::default(),
            now: 1,
            spins: vec![0; helpers],
            comes: vec![None; helpers],
            away: vec![0; helpers],
            batches: 0,
            pass: 0,
            key: survey(&requests, Differences::of(&requests), Around::default()),
            scene,
        }
    }

    fn means(&mut self) -> Means {
        let now = self.now;
        for (spins, comes) in self.spins.iter_mut().zip(&mut self.comes) {
            if let Some(at) = comes.filter(|at| *at <= now) {
                (*spins, *comes) = ((*spins).max(at + SPIN), None);
            }
        }
        Means {
            others: true,
            most: self.scene.cpus,
            hot: self.spins.iter().take_while(|until| **until > now).count(),
            alone: false,
            pool: false,
            sleep: SLEEP,
        }
    }

    /// Runs so many batches, and returns the mean ticks of one.
    fn run(&mut self, batches: u32) -> f64 {
        let begin = self.now;
        for _ in 0..batches {
            self.batches += 1;
            if self.pass > 0 {
                self.pass -= 1;
                self.now += self.scene.ticks(1, self.scene.calls) as u64;
                continue;
            }
            let mut left = self.scene.calls;
            while left > 0 {
                let choice = self.part(left);
                (left, self.pass) = (left - choice.calls, choice.pass);
            }
            self.costs.pass(self.key.0, self.pass, self.scene.calls);
        }
        (self.now - begin) as f64 / f64::from(batches)
    }

    /// Number of batches after which the next hundred, with all probes, take a tenth longer than by the best
    /// number, at most.
    fn finds(&mut self) -> usize {
        const NEXT: usize = 100;
        let most = 1.1 * NEXT as f64 * f64::from(self.scene.best().1);
        let batches = 2 * NEXT + patience(&self.scene);
        let ticks: Vec<f64> = (0..batches).map(|_| self.run(1)).collect();
        let found = ticks.windows(NEXT).position(|next| next.iter().sum::<f64>() < most);
        found.unwrap_or(usize::MAX)
    }

    fn part(&mut self, left: usize) -> Choice {
        let (means, now) = (self.means(), self.now);
        let choice = self.costs.choose(self.key, left, means, || now);
        let Choice { calls, threads, .. } = choice;
        assert!(
            (1..=left).contains(&calls) && (1..=self.scene.cpus).contains(&threads),
            "{choice:?}"
        );
        let (wanted, wake) = (threads - 1, (SLEEP / 2.0) as u64);
        // The last one is woken by the requesting thread, the others by those that are awake, after
        // their part.
        let asleep = |at: &usize| self.spins[*at] <= now && self.comes[*at].is_none();
        let mut sleepers: Vec<usize> =
            if choice.wake { (0..wanted).filter(asleep).collect() } else { Vec::new() };
        if let Some(last) = sleepers.pop() {
            self.now += wake;
            self.comes[last] = Some(self.now + wake);
        }
        // Whoever is on the way, or wakes another one, comes before it is over, if it is long.
        let now = self.now;
        let from = |at: usize| match self.comes[at] {
            Some(comes) => Some((comes, at)),
            None => (self.spins[at] > now).then_some((self.away[at].max(now), at)),
        };
        let mut arrivals: Vec<(u64, usize)> = (0..wanted).filter_map(from).collect();
        arrivals.sort_unstable();
        let (mut awake, mut left, mut ticks, mut helped) = (0, 1.0_f32, 0.0_f32, 0.0_f32);
        loop {
            let all = self.scene.ticks(awake + 1, calls);
            let next = arrivals.get(awake).map_or(f32::INFINITY, |(at, _)| (at - now) as f32);
            let part = ((next - ticks) / all).clamp(0.0, left);
            helped += part * awake as f32 / (awake + 1) as f32;
            ticks += part * all;
            left -= part;
            if left <= 0.0 {
                break;
            }
            awake += 1;
        }
        let serving: Vec<usize> = arrivals[..awake].iter().map(|(_, at)| *at).collect();
        let mut waited = 0;
        let is_late = |idle, every| awake > idle && self.batches % every == 0;
        match self.scene.busy {
            Some((idle, every, late)) if is_late(idle, every) => {
                (ticks, waited) = (ticks + late as f32, late);
            }
            _ => {}
        }
        self.now += ticks as u64;
        for at in &serving {
            (self.spins[*at], self.comes[*at]) = (self.now + SPIN, None);
        }
        for (waker, sleeper) in serving.into_iter().zip(sleepers) {
            let woken = self.now + wake;
            (self.away[waker], self.spins[waker]) = (woken, woken + SPIN);
            self.comes[sleeper] = Some(woken + wake);
        }
        let (helped, now) = ((calls as f32 * helped) as usize, self.now);
        if choice.way == Way::Shared {
            let woke = choice.wake;
            let end = Sample { calls, threads, helped, waited, woke, ..Sample::default() };
            self.costs.shared(self.key.0, end, means, || now);
        }
        if choice.measure {
            let (ticks, kept, woke) = (ticks as u64, calls / 4, choice.wake);
            let slept = choice.watch.then_some(false);
            let sample = Sample { calls, threads, ticks, waited, helped, kept, woke, slept };
            self.costs.record(self.key.0, choice.way, sample, means);
        }
        choice
    }
}

fn scene(curve: &Curve, calls: usize, plain: f32, cpus: usize) -> Scene {
    Scene { curve: curve.clone(), calls, plain, cpus, busy: None }
}

/// Number of batches of a run.
const BATCHES: u32 = 100_000;
/// Number of batches by which the best number is to be found, …
const FOUND: usize = 50;
/// … or so many times what a sleep costs, if that is longer: a wake has to pay for itself.
const SLEPT: f32 = 32.0;

#[test]
fn the_best_number_is_found_for_each_published_curve() {
    for cpus in [2, 16, 64, 256] {
        for (name, curve) in published() {
            let scene = scene(&curve, 300, 1500.0, cpus);
            let (threads, best) = scene.best();
            let mut world = World::new(scene);
            let mean = world.run(BATCHES);
            let slower = mean / f64::from(best);
            assert!(slower < 1.05, "{name} at {cpus} cpus, best {threads}: {slower:.3}");
        }
    }
}

/// Number of batches by which it is to be found: those of so few short calls say little each.
fn patience(scene: &Scene) -> usize {
    FOUND.max((SLEPT * SLEEP / (scene.plain * scene.calls as f32)) as usize)
}

#[test]
fn the_best_number_is_found_soon() {
    for cpus in [2, 16, 64, 256] {
        for (name, curve) in published() {
            let scene = scene(&curve, 300, 1500.0, cpus);
            let (threads, _) = scene.best();
            let found = World::new(scene.clone()).finds();
            assert!(found <= patience(&scene), "{name} at {cpus} cpus, best {threads}: {found}");
        }
    }
}

#[test]
fn a_cpu_that_others_use_is_left_to_them() {
    for cpus in [2, 16, 64, 256] {
        for (name, curve) in published() {
            let mut scene = scene(&curve, 300, 1500.0, cpus);
            // From the sixth helper on: 4 ms at 2.5 GHz, each twentieth batch.
            scene.busy = Some((5, 20, 10_000_000));
            let (threads, best) = scene.best();
            let mut world = World::new(scene);
            let slower = world.run(BATCHES) / f64::from(best);
            assert!(slower < 1.05, "{name} at {cpus} cpus, best {threads}: {slower:.3}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn the_best_number_is_found_for_any_curve(
        contention in 0.0_f32..1.5,
        coherence in prop_oneof![Just(0.0_f32), 0.0_f32..0.05],
        calls in 2_usize..400,
        plain in 300_f32..20_000.0,
        size in 0_usize..4,
    ) {
        let scene = scene(&Curve::of(contention, coherence), calls, plain, [2, 16, 64, 256][size]);
        let (threads, best) = scene.best();
        let found = World::new(scene.clone()).finds();
        prop_assert!(found <= patience(&scene), "best {threads}: {found} {scene:?}");
        let slower = World::new(scene.clone()).run(BATCHES) / f64::from(best);
        prop_assert!(slower < 1.05, "best {threads}: {slower:.3} {scene:?}");
    }
}

/// Drawn scenes beside others: from some helper on they want the cpus, seldom or often, for long or not.
fn drawn(rng: &mut fastrand::Rng) -> Scene {
    let coherence = if rng.bool() { 0.0 } else { rng.f32() * 0.05 };
    let curve = Curve::of(rng.f32() * 1.5, coherence);
    let (calls, plain) = (rng.usize(2..400), 300.0 + rng.f32() * 19_700.0);
    let cpus = [2, 16, 64, 256][rng.usize(0..4)];
    let busy = Some((rng.usize(0..20), rng.u32(5..50), rng.u64(100_000..10_000_000)));
    Scene { busy, ..scene(&curve, calls, plain, cpus) }
}

/// Waits come once in many batches, and nothing but that tells how often: a step that is nearly worth it is left for longer
/// than it should be, or not soon. `SCENES` says how many are drawn: 2,000 take a minute in a release build.
#[test]
fn the_best_number_is_found_beside_others_but_for_few_scenes() {
    let few = if cfg!(debug_assertions) { 40 } else { 200 };
    let count: usize = std::env::var("SCENES").map_or(few, |count| count.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut over, mut worst) = (Vec::new(), 0.0_f64);
    for _ in 0..count {
        let scene = drawn(&mut rng);
        let (threads, best) = scene.best();
        let slower = World::new(scene.clone()).run(BATCHES) / f64::from(best);
        worst = worst.max(slower);
        if slower >= 1.05 {
            over.push(format!("best {threads}: {slower:.3} {scene:?}"));
        }
    }
    println!("{} of {count} take more than 1.05, {worst:.3} at most", over.len());
    assert!(over.len() * 40 <= count && worst < 1.25, "{worst:.3} {over:#?}");
}
