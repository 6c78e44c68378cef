//! Memory, regions, spaces, user spaces and threads.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kumiki_resource::{
    Attach, Error, Handle, Interface, LargeMemory, Memory, Pattern, Place, Region, RegionSpec,
    Result, Space, Thread, ThreadSpec, UserSpace, UserSpaceSpec,
};
use kumiki_sys::affinity;
use kumiki_sys::shm::Huge;

fn interfaces() -> [Interface; 2] {
    let builder = || Interface::builder().standard();
    let one = affinity::current().unwrap().first();
    [builder().per_core().unwrap(), builder().cores(one).per_core().unwrap()]
}

fn ends(interface: &Interface) -> (Place, Place) {
    let places = interface.places();
    (places[0], *places.last().unwrap())
}

fn memory(bytes: usize) -> RegionSpec {
    RegionSpec::Memory { bytes, huge: Huge::Policy }
}

fn read<const N: usize>(interface: &Interface, of: &Handle<UserSpace>, at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    interface.with(of, |user, _| user.read(at, &mut bytes)).unwrap().unwrap();
    bytes
}

fn write(interface: &Interface, to: &Handle<UserSpace>, at: usize, bytes: &[u8]) -> Result<()> {
    interface.with(to, |user, _| user.write(at, bytes)).unwrap()
}

#[test]
fn memory_is_usable_from_its_creation_to_its_end() {
    for interface in interfaces() {
        let (first, last) = ends(&interface);
        for bytes in [1, 4096, 4097, 3 << 20] {
            let user = interface.create(last, Some("heap"), UserSpaceSpec::memory(bytes)).unwrap();
            let whole = bytes.next_multiple_of(4096);
            write(&interface, &user, whole - 4, b"last").unwrap();
            assert_eq!(read(&interface, &user, whole - 4), *b"last");
            let beyond = write(&interface, &user, whole - 3, b"last").unwrap_err();
            assert!(beyond.to_string().contains("end beyond"), "{beyond}");
            let listed = interface.ls(&Pattern::new("*/user-space/*").unwrap()).unwrap();
            assert_eq!(listed[0].about.bytes, whole as u64);
            interface.destroy::<UserSpace>(user).unwrap();
        }
        for bytes in [0, usize::MAX] {
            let wanted = UserSpaceSpec::memory(bytes);
            interface.create::<UserSpace>(first, None, wanted).unwrap_err();
        }
    }
}

#[test]
fn a_region_is_seen_wherever_it_is_attached() {
    for interface in interfaces() {
        let (first, last) = ends(&interface);
        for spec in [memory(10_000), RegionSpec::Frames(3)] {
            let region = interface.create::<Region>(first, None, spec).unwrap();
            let space = interface.create::<Space>(last, None, 8 << 20).unwrap();
            let how = Attach::default();
            let a = interface.attach(last, Some("a"), &region, &space, how).unwrap();
            let taken = interface.attach(last, Some("a"), &region, &space, how).unwrap_err();
            assert!(taken.to_string().contains("exists already"), "{taken}");
            let reader = Attach { offset: Some(1 << 20), write: false };
            let b = interface.attach(first, None, &region, &space, reader).unwrap();
            let state = |pattern| {
                let listed = interface.ls(&Pattern::new(pattern).unwrap()).unwrap();
                listed[0].about.state.clone()
            };
            assert!(state("*/region/*").ends_with("attached 2×"), "{}", state("*/region/*"));
            assert_eq!(state("*/space/*"), "8 MiB of addresses, 2 attached");

            write(&interface, &a, 8190, b"across").unwrap();
            assert_eq!(read(&interface, &b, 8190), *b"across");
            let refused = write(&interface, &b, 0, b"x").unwrap_err();
            assert!(refused.to_string().contains("without writing"), "{refused}");
            // What is attached outlives both.
            interface.destroy(region).unwrap();
            interface.destroy(space).unwrap();
            write(&interface, &a, 0, b"still").unwrap();
            assert_eq!(read(&interface, &b, 0), *b"still");
            interface.destroy(a).unwrap();
            interface.destroy(b).unwrap();
        }
    }
}

#[test]
fn a_space_of_frames_has_them_all_from_the_beginning() {
    for interface in interfaces() {
        let (first, last) = ends(&interface);
        let frames =
            |place, count| interface.create::<Region>(place, None, RegionSpec::Frames(count));
        let space = interface.space_of_frames(first, Some("all"), 1 << 36).unwrap();
        let (one, three) = (frames(first, 1).unwrap(), frames(first, 3).unwrap());
        let how = Attach::default();
        // By any place, more than once, and each time where its frames are.
        let a = interface.attach(first, None, &one, &space, how).unwrap();
        let b = interface.attach(last, None, &one, &space, how).unwrap();
        let c = interface.attach(first, None, &three, &space, how).unwrap();
        let start = |of: &Handle<UserSpace>| {
            interface.with(of, |user: &mut UserSpace, _| user.as_ptr().addr()).unwrap()
        };
        assert_eq!(start(&a), start(&b));
        assert!(start(&a).abs_diff(start(&c)) % 4096 == 0 && start(&a) != start(&c));
        write(&interface, &a, 4088, b"one").unwrap();
        write(&interface, &c, 8190, b"across").unwrap();
        assert_eq!((read(&interface, &b, 4088), read(&interface, &c, 8190)), (*b"one", *b"across"));
        assert!(write(&interface, &a, 4094, b"behind").unwrap_err().to_string().contains("beyond"));
        // It is one mapping, whatever is attached.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let within = |line: &&str| {
            let (from, rest) = line.split_once('-').unwrap();
            let to = rest.split(' ').next().unwrap();
            let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
            from <= start(&a) && start(&a) < to && to - from == 1 << 36
        };
        assert_eq!(maps.lines().filter(within).count(), 1);
        // What is attached keeps its frames; then they are another region's.
        let its = start(&a);
        interface.destroy(one).unwrap();
        interface.destroy(a).unwrap();
        assert_eq!(read(&interface, &b, 4088), *b"one");
        interface.destroy(b).unwrap();
        let next = frames(first, 1).unwrap();
        let d = interface.attach(first, None, &next, &space, how).unwrap();
        assert_eq!(start(&d), its, "the frame that was used last");
        // What it is not for is refused, by what to do instead.
        let refused = |region: &Handle<Region>, how| {
            interface.attach(first, None, region, &space, how).unwrap_err().to_string()
        };
        let other = interface.create::<Region>(first, None, memory(4096)).unwrap();
        assert!(refused(&other, how).contains("a space of addresses"));
        if first != last {
            assert!(refused(&frames(last, 1).unwrap(), how).contains("of the same core"));
        }
        let reader = Attach { offset: None, write: false };
        assert!(refused(&next, reader).contains("may not be written"));
        let elsewhere = Attach { offset: Some(1 << 30), write: true };
        assert!(refused(&next, elsewhere).contains("stands at offset"));
        let small = interface.space_of_frames(first, None, 4096).unwrap();
        let error = interface.attach(first, None, &three, &small, how).unwrap_err().to_string();
        assert!(error.contains("make a larger one"), "{error}");
        // A destroyed space stays as long as something is attached.
        interface.destroy(space).unwrap();
        assert_eq!(read(&interface, &c, 8190), *b"across");
    }
}

#[test]
fn regions_of_huge_pages_are_attached_where_such_pages_can_be() {
    for interface in interfaces() {
        let (first, last) = ends(&interface);
        let spec = RegionSpec::Memory { bytes: 1, huge: Huge::Size2M };
        let Ok(huge) = interface.create::<Region>(first, None, spec) else {
            return eprintln!("skipped: huge pages of 2 MiB are needed");
        };
        let small = interface.create::<Region>(first, None, memory(1)).unwrap();
        let space = interface.create::<Space>(last, None, 8 << 20).unwrap();
        // The first place is not one for huge pages then.
        let how = Attach::default();
        interface.attach(last, None, &small, &space, how).unwrap();
        match interface.attach(last, None, &huge, &space, how) {
            Ok(user) => {
                write(&interface, &user, (2 << 20) - 4, b"last").unwrap();
                interface.destroy(user).unwrap();
            }
            // There are none; the addresses were not what is wrong.
            Err(error) => assert!(error.to_string().contains("Cannot allocate memory"), "{error}"),
        }
    }
}

#[test]
fn a_place_in_a_space_has_one_user_at_a_time() {
    let [interface, _] = interfaces();
    let (first, last) = ends(&interface);
    let region = interface.create::<Region>(first, None, memory(8192)).unwrap();
    let space = interface.create::<Space>(last, None, 4 * 8192).unwrap();
    let attach =
        |offset| interface.attach(first, None, &region, &space, Attach { offset, write: true });
    let mut all: Vec<_> = (0..4).map(|_| attach(None).unwrap()).collect();
    let full = attach(None).unwrap_err();
    assert!(full.to_string().contains("no room for 8192 bytes"), "{full}");
    interface.destroy(all.remove(1)).unwrap();
    for (offset, why) in [(4096, "overlap"), (12_288, "overlap"), (1, "multiple"), (28_672, "room")]
    {
        let error = attach(Some(offset)).unwrap_err().to_string();
        assert!(error.contains(why), "{offset}: {error}");
    }
    let again = attach(None).unwrap();
    let start = |of| interface.with(of, |user: &mut UserSpace, _| user.as_ptr().addr()).unwrap();
    assert_eq!(start(&again) - start(&all[0]), 8192);
}

#[test]
fn frames_of_a_region_are_used_again() {
    let [interface, _] = interfaces();
    let place = interface.places()[0];
    let pool = |region: &Handle<Region>| {
        interface.with(region, |_: &mut Region, pool| pool.len()).unwrap()
    };
    for round in 0..20 {
        let regions: Vec<_> = (0..10)
            .map(|_| interface.create::<Region>(place, None, RegionSpec::Frames(50)).unwrap())
            .collect();
        assert_eq!(pool(&regions[0]), 512, "round {round}");
        for region in regions {
            let error = interface.with(&region, |region, _| region.descriptor()).unwrap();
            assert!(error.unwrap_err().to_string().contains("make a region of memory"));
            interface.destroy(region).unwrap();
        }
    }
}

#[test]
fn a_range_of_a_file_is_read_and_written() {
    let [interface, _] = interfaces();
    let place = interface.places()[0];
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[b'.'; 10_000]).unwrap();
    let open = |write| OpenOptions::new().read(true).write(write).open(file.path()).unwrap();
    let range = |write, offset, bytes| RegionSpec::File { file: open(write), offset, bytes };
    let space = interface.create::<Space>(place, None, 1 << 20).unwrap();

    let region = interface.create::<Region>(place, None, range(true, 4096, 5904)).unwrap();
    let user = interface.attach(place, None, &region, &space, Attach::default()).unwrap();
    write(&interface, &user, 5900, b"end.").unwrap();
    assert_eq!(&std::fs::read(file.path()).unwrap()[9996..], b"end.");

    let reader = interface.create::<Region>(place, None, range(false, 0, 10_000)).unwrap();
    let refused = interface.attach(place, None, &reader, &space, Attach::default()).unwrap_err();
    assert!(refused.to_string().contains("open for reading alone"), "{refused}");
    let how = Attach { write: false, ..Attach::default() };
    let user = interface.attach(place, None, &reader, &space, how).unwrap();
    assert_eq!(read(&interface, &user, 9996), *b"end.");

    for (offset, bytes) in [(0, 0), (0, 10_001), (1, 10), (8192, 4096), (u64::MAX - 4095, 1)] {
        let wrong =
            interface.create::<Region>(place, None, range(true, offset, bytes)).unwrap_err();
        assert!(wrong.to_string().contains("within the file"), "{wrong}");
    }
    let blind = OpenOptions::new().write(true).open(file.path()).unwrap();
    let blind = RegionSpec::File { file: blind, offset: 0, bytes: 1 };
    let wrong = interface.create::<Region>(place, None, blind).unwrap_err();
    assert!(wrong.to_string().contains("for reading, too"), "{wrong}");
}

/// sysfs gives such a file a size and a way to map it, which then refuses, after the kernel has
/// unmapped what was in the way: as a region, not in a space.
#[test]
fn a_file_that_cannot_be_mapped_is_no_region() {
    let [interface, _] = interfaces();
    let file = std::fs::File::open("/sys/devices/system/cpu/online").unwrap();
    let spec = RegionSpec::File { file, offset: 0, bytes: 1 };
    let refused = interface.create::<Region>(interface.places()[0], None, spec).unwrap_err();
    assert!(refused.to_string().contains("mapping the file"), "{refused}");
}

#[test]
fn more_than_there_is_memory_is_refused() {
    let [interface, _] = interfaces();
    let place = interface.places()[0];
    for spec in [memory(0), memory(1 << 50), RegionSpec::Frames(0), RegionSpec::Frames(1 << 40)] {
        let error = interface.create::<Region>(place, None, spec).unwrap_err().to_string();
        assert!(error.contains("this machine's memory"), "{error}");
    }
    for bytes in [0, usize::MAX, 1 << 60] {
        interface.create::<Space>(place, None, bytes).unwrap_err();
    }
    let file = tempfile::tempfile().unwrap();
    let foreign = interface.create::<Region>(place, None, RegionSpec::Passed(file.into()));
    let foreign = foreign.unwrap_err().to_string();
    assert!(foreign.contains("not Kumiki's shared memory"), "{foreign}");
}

#[test]
fn large_frames_are_aligned_and_used_again() {
    let [interface, _] = interfaces();
    let place = interface.places()[0];
    let mut seen = None;
    for _ in 0..3 {
        let large = interface.create::<LargeMemory>(place, None, 2).unwrap();
        let (at, free) = interface
            .with(&large, |memory, pool| {
                assert!(memory.frame(2).is_none() && memory.len() == 2);
                let frame = memory.frame(1).unwrap();
                frame.fill(1);
                (frame.as_ptr().addr(), pool.free_bytes())
            })
            .unwrap();
        assert_eq!((at % 4096, free), (0, 0));
        let mut both: Vec<usize> = vec![at];
        let first = |memory: &mut LargeMemory, _: &mut _| memory.frame(0).unwrap().as_ptr().addr();
        both.push(interface.with(&large, first).unwrap());
        both.sort_unstable();
        assert_eq!(*seen.get_or_insert(both.clone()), both);
        interface.destroy(large).unwrap();
    }
    for count in [0, usize::MAX] {
        let none = interface.create::<LargeMemory>(place, None, count).unwrap_err();
        assert!(none.to_string().contains("ask for 1 to"), "{none}");
    }
    // Frames of both sizes beside each other.
    interface.create::<Memory>(place, None, 3).unwrap();
}

#[test]
fn a_thread_runs_on_its_core_and_is_asked_to_stop() {
    let [interface, _] = interfaces();
    let patience = Duration::from_secs(60);
    for place in interface.places() {
        let ran = Arc::new(AtomicU32::new(u32::MAX));
        let theirs = Arc::clone(&ran);
        let spec = ThreadSpec::new(move |stop| {
            let cpus = affinity::current().unwrap();
            assert_eq!(cpus.len(), 1);
            theirs.store(cpus.first().unwrap() as u32, Ordering::Relaxed);
            while !stop.is_asked() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let thread = interface.create::<Thread>(place, Some("worker"), spec).unwrap();
        let end = interface.with(&thread, |thread, ()| thread.end()).unwrap();
        assert!(!end.wait_timeout(Duration::from_millis(5)).unwrap());
        let listed = interface.ls(&Pattern::new("*/thread/worker").unwrap()).unwrap();
        assert_eq!((&*listed[0].about.state, listed[0].about.bytes), ("running", 2 << 20));
        interface.destroy(thread).unwrap();
        assert!(end.wait_timeout(patience).unwrap());
        assert_eq!(ran.load(Ordering::Relaxed), u32::from(place.0));
    }
    let place = interface.places()[0];
    let panics = ThreadSpec::new(|_| panic!("on purpose"));
    let thread = interface.create::<Thread>(place, None, panics).unwrap();
    let end = interface.with(&thread, |thread, ()| thread.end()).unwrap();
    let panicked = end.wait_timeout(patience).unwrap_err();
    assert!(panicked.to_string().contains("panicked: on purpose"), "{panicked}");
    let huge = ThreadSpec::new(|_| ()).stack_bytes(1 << 50);
    let none = interface.create::<Thread>(place, None, huge).unwrap_err();
    assert!(none.to_string().contains("RLIMIT_NPROC"), "{none}");
}

#[test]
fn a_place_s_share_of_memory_is_a_limit_of_its_own() {
    let builder = Interface::builder().kind::<Memory>().kind::<LargeMemory>().kind::<Space>();
    let interface = builder.per_core().unwrap();
    let (first, last) = ends(&interface);
    let full = |outcome: Result<_>| match outcome.map(|_: Handle<Memory>| ()).unwrap_err() {
        Error::Share { bytes, used, limit, .. } => (bytes, used, limit),
        other => panic!("{other}"),
    };
    interface.limit::<Memory>(first, 4 * 4096).unwrap();
    let three = interface.create::<Memory>(first, None, 3).unwrap();
    assert_eq!(full(interface.create(first, Some("a"), 2)), (8192, 3 * 4096, 4 * 4096));
    let one = interface.create::<Memory>(first, Some("a"), 1).unwrap();
    assert_eq!(full(interface.create(first, None, 1)), (4096, 4 * 4096, 4 * 4096));
    if first != last {
        interface.create::<Memory>(last, None, 100).unwrap();
    }
    // What there is stays under a smaller limit, and makes room when it goes.
    interface.limit::<Memory>(first, 4096).unwrap();
    interface.destroy(three).unwrap();
    assert_eq!(full(interface.create(first, None, 1)), (4096, 4096, 4096));
    interface.destroy(one).unwrap();
    interface.create::<Memory>(first, None, 1).unwrap();
    interface.create::<LargeMemory>(first, None, 1).unwrap();
    interface.limit::<LargeMemory>(first, 2 << 20).unwrap();
    assert!(matches!(interface.create::<LargeMemory>(first, None, 1), Err(Error::Share { .. })));
    let error = interface.limit::<Space>(first, 1).unwrap_err();
    assert!(matches!(error, Error::Kind { .. }), "{error}");
}
