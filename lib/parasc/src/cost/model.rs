//! The choice on a machine that is simulated: what each way takes is known here, and whether
//! a helper is awake, comes, or is kept from its cpu.

use proptest::prelude::*;

use super::*;
use crate::differences::Differences;
use kumiki_calls::Request;

impl Costs {
    /// Has the next batches shared without a question.
    pub(crate) fn repeat(&mut self, key: CostKey, batches: u32) {
        self.known(key).repeats = batches;
    }

    pub(crate) fn repeats(&mut self, key: CostKey) -> u32 {
        self.known(key).repeats
    }
}

/// Cost of a sleep, ticks; half of it is a wake.
const SLEEP: f32 = 100_000.0;
/// A helper spins for so long before it sleeps.
const SPIN: u64 = 2 * SLEEP as u64;

/// Times that the calls of one key take on this machine.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// A plain call, ticks.
    plain: f32,
    /// A shared one once a helper is there, in parts of a plain one.
    shared: f32,
    /// Time of a call that the pool makes.
    pool: f32,
    /// Plain calls sleep.
    sleeps: bool,
}

const CHEAP: Load = Load { plain: 300.0, shared: 0.6, pool: 30.0, sleeps: false };
const COLD: Load = Load { plain: 500_000.0, shared: 0.6, pool: 0.1, sleeps: true };

/// The machine, and the requesting thread's beliefs.
struct World {
    costs: Costs,
    means: Means,
    now: u64,
    /// Time at which a helper that was called is on its cpu.
    comes: Option<u64>,
    /// Time until when it spins.
    spins: u64,
    /// Ticks between two batches.
    gap: u64,
    /// Ticks that a call takes longer whose memory is in the cache of the other cpu, ticks.
    fetch: f32,
    /// Calls whose memory the helper's cache has.
    far: Vec<bool>,
    /// Others want its cpu: of so many batches it begins one and does not end it for so long.
    busy: Option<(u32, u64)>,
    batches: u32,
    spent: Spent,
    /// Surveys of batches, by call and size.
    surveyed: HashMap<(i64, usize), (CostKey, Prior)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ticks: f64,
    plain: f64,
    wakes: u32,
    probes: u32,
    /// Calls by way: plain, shared, pool.
    calls: [usize; 3],
}

impl Spent {
    /// Time ÷ that of a loop.
    fn ratio(&self) -> f64 {
        self.ticks / self.plain
    }

    fn part(&self, way: Way) -> f64 {
        self.calls[way as usize] as f64 / self.calls.iter().sum::<usize>() as f64
    }
}

impl World {
    fn new() -> Self {
        let means = Means { others: true, most: 2, hot: 0, alone: false, pool: true, sleep: SLEEP };
        World {
            costs: Costs::default(),
            means,
            now: 1,
            comes: None,
            spins: 0,
            gap: 0,
            fetch: 0.0,
            far: Vec::new(),
            busy: None,
            batches: 0,
            spent: Spent::default(),
            surveyed: HashMap::new(),
        }
    }

    /// True if a helper spins by now.
    fn is_hot(&mut self) -> bool {
        if let Some(comes) = self.comes.filter(|comes| *comes <= self.now) {
            (self.comes, self.spins) = (None, self.spins.max(comes + SPIN));
        }
        self.now < self.spins
    }

    /// Runs batches of `count` calls until they have taken so many ticks.
    fn run(&mut self, call: i64, count: usize, load: Load, ticks: f64) -> Spent {
        self.vary(call, |_| (count, load), ticks)
    }

    fn vary(&mut self, call: i64, next: impl Fn(u32) -> (usize, Load), ticks: f64) -> Spent {
        self.spent = Spent::default();
        let mut pass = 0;
        while self.spent.ticks < ticks {
            self.batches += 1;
            self.now += self.gap;
            let (count, load) = next(self.batches);
            let (key, prior) = *self.surveyed.entry((call, count)).or_insert_with(|| {
                let requests = vec![Request::new(call, []); count];
                survey(&requests, Differences::of(&requests), Around::default())
            });
            self.spent.plain += f64::from(load.plain * count as f32);
            if pass > 0 {
                pass -= 1;
                let fetched = self.fetch(0, count, 0);
                self.take(Way::Plain, count, load.plain * count as f32 + fetched);
                continue;
            }
            let mut left = count;
            while left > 0 {
                let choice = self.batch((key, prior), count - left, left, load);
                left -= choice.calls;
                pass = choice.pass;
                self.spent.probes += u32::from(left > 0);
            }
            self.costs.pass(key, pass, count);
        }
        self.spent
    }

    fn take(&mut self, way: Way, calls: usize, ticks: f32) {
        self.now += ticks as u64;
        self.spent.ticks += f64::from(ticks);
        self.spent.calls[way as usize] += calls;
    }

    /// Ticks that fetching takes the slower one of both threads, if the helper makes the first
    /// `helped` of `calls` from the one at `at` on.
    fn fetch(&mut self, at: usize, calls: usize, helped: usize) -> f32 {
        if self.fetch == 0.0 {
            return 0.0;
        }
        self.far.resize(self.far.len().max(at + calls), false);
        let mut fetched = [0_u32; 2];
        for (i, far) in self.far[at..at + calls].iter_mut().enumerate() {
            let helps = i < helped;
            fetched[usize::from(helps)] += u32::from(*far != helps);
            *far = helps;
        }
        self.fetch * fetched[0].max(fetched[1]) as f32
    }

    fn batch(
        &mut self,
        (key, prior): (CostKey, Prior),
        at: usize,
        left: usize,
        load: Load,
    ) -> Choice {
        let means = Means { hot: usize::from(self.is_hot()), ..self.means };
        let now = self.now;
        let choice = self.costs.choose((key, prior), left, means, || now);
        assert!((1..=left).contains(&choice.calls), "{choice:?}");
        let calls = choice.calls;
        let plain = load.plain * calls as f32;
        let (mut helped, mut waited) = (0, 0);
        let mut ticks = match choice.way {
            Way::Plain => plain,
            Way::Pool => load.pool * plain + SLEEP,
            Way::Shared if self.is_hot() => {
                helped = calls / 2;
                match self.busy {
                    Some((every, late)) if self.batches % every == 0 => waited = late,
                    _ => (),
                }
                plain * load.shared + waited as f32
            }
            // Who was called comes before it is over.
            Way::Shared if choice.wake && plain > SLEEP => {
                let alone = SLEEP / plain;
                helped = (calls as f32 * (1.0 - alone) / 2.0) as usize;
                SLEEP + (plain - SLEEP) * load.shared
            }
            // Offered to nobody.
            Way::Shared => plain + 100.0,
        };
        ticks += self.fetch(at, calls, helped);
        if choice.wake {
            self.spent.wakes += 1;
            ticks += SLEEP / 2.0;
            self.comes.get_or_insert(self.now + SLEEP as u64);
        }
        self.take(choice.way, calls, ticks);
        if helped > 0 {
            self.spins = self.now + SPIN;
        }
        let now = self.now;
        if choice.way == Way::Shared {
            let (threads, woke) = (choice.threads, choice.wake);
            let end = Sample { calls, threads, helped, waited, woke, ..Sample::default() };
            self.costs.shared(key, end, means, || now);
        }
        if choice.measure {
            let slept = choice.watch.then_some(load.sleeps && choice.way == Way::Plain);
            let (woke, kept, threads) = (choice.wake, calls / 4, choice.threads);
            let ticks = ticks as u64;
            let sample = Sample { calls, threads, ticks, waited, helped, kept, woke, slept };
            self.costs.record(key, choice.way, sample, means);
        }
        choice
    }
}

const READ: i64 = libc::SYS_read;

#[test]
fn the_better_way_is_found_and_kept() {
    for count in [5, 10, 50, 300] {
        let mut world = World::new();
        world.run(READ, count, CHEAP, 2e6);
        let spent = world.run(READ, count, CHEAP, 1e8);
        assert!(spent.part(Way::Shared) > 0.97, "{count}: {spent:?}");
        let mut world = World::new();
        let worse = Load { shared: 1.5, ..CHEAP };
        world.run(READ, count, worse, 5e6);
        let spent = world.run(READ, count, worse, 1e8);
        assert!(spent.part(Way::Plain) > 0.97 && spent.ratio() < 1.03, "{count}: {spent:?}");
    }
}

#[test]
fn what_changes_is_found() {
    let mut world = World::new();
    for shared in [0.6, 1.6, 0.6, 1.6] {
        let load = Load { shared, ..CHEAP };
        world.run(READ, 100, load, 3e7);
        let spent = world.run(READ, 100, load, 3e7);
        let way = if shared < 1.0 { Way::Shared } else { Way::Plain };
        assert!(spent.part(way) > 0.95, "{shared}: {spent:?}");
    }
}

#[test]
fn memory_that_changes_caches_speaks_for_neither_way() {
    for count in [5, 10, 50, 300] {
        for (shared, way) in [(0.6, Way::Shared), (1.3, Way::Plain)] {
            let mut world = World::new();
            world.fetch = 2.0 * CHEAP.plain;
            let load = Load { shared, ..CHEAP };
            world.run(READ, count, load, 2e8);
            let spent = world.run(READ, count, load, 1e9);
            assert!(spent.part(way) > 0.95, "{count}, {shared}: {spent:?}");
            assert!(spent.ratio() < 1.05, "{count}, {shared}: {spent:?}");
        }
    }
}

#[test]
fn a_wake_for_each_batch_is_made_where_it_pays() {
    for (count, shared, way) in
        [(100, 1.3, Way::Plain), (300, 1.3, Way::Plain), (300, 0.6, Way::Shared)]
    {
        let mut world = World::new();
        world.gap = 10 * SPIN;
        let load = Load { plain: 1500.0, shared, ..CHEAP };
        world.run(READ, count, load, 1e8);
        let spent = world.run(READ, count, load, 1e9);
        assert!(spent.part(way) > 0.95 && spent.ratio() < 1.05, "{count}, {shared}: {spent:?}");
    }
}

#[test]
fn a_settled_key_is_rarely_probed() {
    let mut world = World::new();
    world.run(READ, 100, CHEAP, 2e7);
    let spent = world.run(READ, 100, CHEAP, 1e8);
    assert!((1..60).contains(&spent.probes), "{spent:?}");
}

#[test]
fn batches_that_differ_a_hundredfold_are_no_reason_to_change() {
    for shared in [0.6, 1.5] {
        let load = |batch: u32| {
            let plain = if batch % 3 == 0 { 30_000.0 } else { 300.0 };
            (64, Load { plain, shared, ..CHEAP })
        };
        let mut world = World::new();
        world.vary(READ, load, 1e8);
        let spent = world.vary(READ, load, 1e9);
        let way = if shared < 1.0 { Way::Shared } else { Way::Plain };
        assert!(spent.part(way) > 0.95, "{shared}: {spent:?}");
    }
}

#[test]
fn cold_reads_are_found_from_the_start_and_after_a_warm_phase() {
    for count in [8, 32, 33, 200] {
        let batch = f64::from(COLD.plain) * count as f64;
        let mut world = World::new();
        let spent = world.run(READ, count, COLD, 6.0 * batch);
        assert!(spent.ratio() < 0.5, "{count}: {spent:?}");
        let mut world = World::new();
        let warm = Load { plain: 20_000.0, pool: 1.2, ..CHEAP };
        world.run(READ, count, warm, 1e8);
        world.run(READ, count, COLD, 3.0 * batch);
        let spent = world.run(READ, count, COLD, 10.0 * batch);
        assert!(spent.part(Way::Pool) > 0.9, "{count}: {spent:?}");
        // And warm again: the pool is left.
        world.run(READ, count, warm, 1e8);
        let spent = world.run(READ, count, warm, 1e8);
        assert!(spent.part(Way::Shared) > 0.9, "{count}: {spent:?}");
    }
}

#[test]
fn calls_that_sleep_by_their_kind_are_for_the_pool_at_once_unless_they_do_not() {
    let mut world = World::new();
    let spent = world.run(libc::SYS_fsync, 50, COLD, 1e7);
    assert!(spent.part(Way::Pool) > 0.95, "{spent:?}");
    let mut world = World::new();
    world.run(libc::SYS_fsync, 50, CHEAP, 1e7);
    let spent = world.run(libc::SYS_fsync, 50, CHEAP, 1e8);
    assert!(spent.part(Way::Shared) > 0.9, "{spent:?}");
}

#[test]
fn a_busy_machine_is_left_alone() {
    for (count, every) in [(10, 40), (100, 10), (300, 3)] {
        let mut world = World::new();
        // A helper that has a call in its hands when others get its cpu, for 4 ms of 2.5 GHz.
        world.busy = Some((every, 10_000_000));
        world.run(READ, count, CHEAP, 1e9);
        let spent = world.run(READ, count, CHEAP, 1e10);
        assert!(spent.ratio() < 1.05, "{count}: {spent:?}");
        // And used again once it is idle.
        world.busy = None;
        world.run(READ, count, CHEAP, 1.5e10);
        let spent = world.run(READ, count, CHEAP, 1e9);
        assert!(spent.ratio() < 0.7, "{count}: {spent:?}");
    }
}

#[test]
fn waits_that_most_probes_miss_count() {
    // Five of six batches gain a tenth; the sixth waits for a whole one.
    for late in [30_000, 39_637, 45_000, 60_000] {
        let mut world = World::new();
        world.busy = Some((6, late));
        let load = Load { plain: 1501.169, shared: 0.902_455_7, ..CHEAP };
        world.run(READ, 30, load, 3e9);
        let spent = world.run(READ, 30, load, 1e10);
        assert!(spent.ratio() < 1.05, "{late}: {spent:?}");
    }
}

#[test]
fn waits_longer_than_a_batch_count() {
    // What two threads save is far less than the calls that the other one makes.
    for (count, plain, shared, busy) in [
        (240, 10_009.107, 0.881_494_8, (10, 4_233_972)),
        (263, 12_945.004, 0.795_843_8, (6, 7_446_453)),
        (267, 16_541.021, 0.849_033_9, (12, 8_628_472)),
        (50, 5_403.010_7, 0.954_497_9, (21, 5_206_988)),
    ] {
        let mut world = World::new();
        world.busy = Some(busy);
        let load = Load { plain, shared, ..CHEAP };
        world.run(READ, count, load, 3e9);
        let spent = world.run(READ, count, load, 1e10);
        assert!(spent.ratio() < 1.05, "{count}: {spent:?}");
    }
}

#[test]
fn after_a_busy_time_sharing_is_found_again() {
    let mut world = World::new();
    world.busy = Some((25, 5_489_594));
    let load = |shared| Load { plain: 298.578_58, shared, ..CHEAP };
    world.run(READ, 199, load(3.444_721_5), 1.3e10);
    world.busy = None;
    world.run(READ, 199, load(0.45), 1.5e10);
    let spent = world.run(READ, 199, load(0.45), 1e10);
    assert!(spent.ratio() < 0.6, "{spent:?}");
}

#[test]
fn one_accident_in_long_costs_no_more_than_itself() {
    let mut world = World::new();
    world.run(READ, 100, CHEAP, 1e7);
    world.busy = Some((10_000, 10_000_000));
    let spent = world.run(READ, 100, CHEAP, 1e9);
    let accidents = 1e7 * spent.calls.iter().sum::<usize>() as f64 / 1e6;
    assert!((spent.ticks - accidents) / spent.plain < 0.65, "{spent:?}");
}

#[test]
fn who_never_comes_is_called_less_and_less() {
    let mut world = World::new();
    let load = CHEAP;
    let mut spent = Spent::default();
    for _ in 0..100 {
        // Its cpu is never free.
        world.comes = Some(u64::MAX);
        spent = world.run(READ, 100, load, 1e8);
    }
    assert!(spent.ratio() < 1.05, "{spent:?}");
}

#[test]
fn a_wake_waits_until_it_would_have_paid() {
    let mut world = World::new();
    // 32 plain calls come first, of which it is not known that others could help.
    let before = f64::from(SLEEP) / 2.0 / 0.4;
    let spent = world.run(READ, 10, CHEAP, 0.8 * before);
    assert_eq!(spent.wakes, 0, "{spent:?}");
    let spent = world.run(READ, 10, CHEAP, before);
    assert_eq!(spent.wakes, 1, "{spent:?}");
    // The first thread of a process besides its own makes all its descriptors dearer.
    let mut world = World::new();
    world.means.alone = true;
    let spent = world.run(READ, 10, CHEAP, 7.0 * before);
    assert_eq!(spent.wakes, 0, "{spent:?}");
    let spent = world.run(READ, 10, CHEAP, 3.0 * before);
    assert_eq!(spent.wakes, 1, "{spent:?}");
}

#[test]
fn the_address_space_is_never_shared() {
    let spent = World::new().run(libc::SYS_munmap, 10, CHEAP, 1e8);
    assert_eq!(spent.part(Way::Plain), 1.0);
}

#[test]
fn short_batches_are_rarely_asked() {
    let mut world = World::new();
    world.run(READ, 10, CHEAP, 1e8);
    let requests = [Request::new(READ, []); 10];
    let key = survey(&requests, Differences::of(&requests), Around::default());
    // While it is no probe's turn.
    let mut measured = 0;
    for _ in 0..1000 {
        measured += u32::from(world.batch(key, 0, 10, CHEAP).measure);
    }
    assert!(measured < 100, "{measured}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Checks that, whatever calls take, and however that changes, over time they take no more than
    /// a loop and a twentieth, and not much more than the better of the two ways.
    #[test]
    fn never_much_slower_than_a_loop(
        count in 2_usize..400,
        plain in 100_f32..20_000.0,
        phases in prop::collection::vec((0.45_f32..4.0, prop::option::of((1_u32..50, 1_000_u64..10_000_000))), 1..4),
    ) {
        let mut world = World::new();
        for (shared, busy) in phases {
            // As in `a_busy_machine_is_left_alone`: a key waits for 32 × 32 times its loss at
            // most (rule 5) before it is looked at again.
            let learns = if world.busy.is_some() { 1.5e10 } else { 3e9 };
            world.busy = busy;
            let load = Load { plain, shared, ..CHEAP };
            world.run(READ, count, load, learns);
            let spent = world.run(READ, count, load, 1e10);
            prop_assert!(spent.ratio() < 1.05, "{spent:?}");
            if busy.is_none() {
                let best = f64::from(shared).min(1.0);
                prop_assert!(spent.ratio() < best * 1.05 + 0.15, "{spent:?}");
            }
        }
    }
}
