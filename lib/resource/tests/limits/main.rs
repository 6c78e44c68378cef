//! What fails at a limit leaves nothing behind: descriptors and mappings are counted. A
//! process of its own, since limits and counts are the process's.

use std::fs;

use kumiki_resource::{
    Attach, Interface, LargeMemory, Memory, Place, Region, RegionSpec, Result, Space, Thread,
    ThreadSpec, UserSpace, UserSpaceSpec, page,
};
use kumiki_sys::shm::Huge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Mappings that are there because of resources: what is attached, and the addresses of
/// spaces, which are between those of guard pages and of the C library's arenas in size.
fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let bytes = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(end)? - number(start)?)
    };
    let kept = |line: &str| {
        line.contains(" ---p ") && bytes(line).is_some_and(|n| (1 << 19..48 << 20).contains(&n))
    };
    maps.lines().filter(|line| line.contains("kumiki-") || kept(line)).count()
}

/// Runs `f` with a limit so low, and the limit before it again afterwards.
fn limited<R>(what: Resource, at: u64, f: impl FnOnce() -> R) -> R {
    let before = getrlimit(what);
    setrlimit(what, Rlimit { current: Some(at), ..before }).unwrap();
    let result = f();
    setrlimit(what, before).unwrap();
    result
}

fn region(interface: &Interface, bytes: usize) -> Result<kumiki_resource::Handle<Region>> {
    let spec = RegionSpec::Memory { bytes, huge: Huge::Policy };
    interface.create::<Region>(interface.places()[0], None, spec)
}

fn used_bytes(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn at_the_limit_of_descriptors(interface: &Interface, place: Place) {
    let before = descriptors();
    limited(Resource::Nofile, before as u64 + 10, || {
        let mut all = Vec::new();
        let error = loop {
            match region(interface, 4096) {
                Ok(region) => all.push(region),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("raise RLIMIT_NOFILE"), "{error}");
        assert!(all.len() >= 8, "{}", all.len());
        let frames = interface.create::<Region>(place, None, RegionSpec::Frames(1)).unwrap_err();
        assert!(frames.to_string().contains("RLIMIT_NOFILE"), "{frames}");
        let region = all.pop().unwrap();
        let space = interface.create::<Space>(place, None, 1 << 20).unwrap();
        // Attaching needs none.
        let user = interface.attach(place, None, &region, &space, Attach::default()).unwrap();
        let passed = interface.with(&region, |region, _| region.descriptor()).unwrap();
        let passed = passed.unwrap_err().to_string();
        assert!(passed.contains("a further descriptor"), "{passed}");
        interface.destroy(user).unwrap();
        interface.destroy(space).unwrap();
        all.push(region);
        all.into_iter().for_each(|region| interface.destroy(region).unwrap());
    });
    assert_eq!(descriptors(), before);
}

fn out_of_memory(interface: &Interface, place: Place) {
    // What it takes to say what is wrong is there before.
    let _ = interface.create::<LargeMemory>(place, None, 0).unwrap_err();
    let limit = used_bytes("VmSize:") + (24 << 20);
    let errors: Vec<String> = limited(Resource::As, limit, || {
        // More than pools have kept from before.
        let memory = interface.create::<Memory>(place, None, 1 << 19).unwrap_err();
        let large = interface.create::<LargeMemory>(place, None, 40).unwrap_err();
        let space = interface.create::<Space>(place, None, 1 << 30).unwrap_err();
        let user =
            interface.create::<UserSpace>(place, None, UserSpaceSpec::memory(1 << 30)).unwrap_err();
        let spec = ThreadSpec::new(|_| ()).stack_bytes(1 << 30);
        let thread = interface.create::<Thread>(place, None, spec).unwrap_err();
        let mut pages = Vec::new();
        let page = loop {
            match page::Page::new() {
                Ok(page) => pages.push(page),
                Err(error) => break error,
            }
        };
        [memory, large, space, user, thread, page].map(|error| error.to_string()).into()
    });
    for error in errors {
        assert!(error.to_lowercase().contains("memory") || error.contains("RLIMIT"), "{error}");
    }
    // All of it can be had now, from what the failures gave back and from the system.
    let all = interface.create::<Memory>(place, None, 1 << 14).unwrap();
    interface.destroy(all).unwrap();
}

fn full_of_mappings(interface: &Interface, place: Place) {
    // Every second page of a region of frames, so that each is a mapping of its own.
    let frames: Vec<_> = (0..40)
        .map(|_| interface.create::<Region>(place, None, RegionSpec::Frames(1)).unwrap())
        .collect();
    let (keep, give): (Vec<_>, Vec<_>) =
        frames.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    give.into_iter().for_each(|(_, region)| interface.destroy(region).unwrap());
    let holes = interface.create::<Region>(place, None, RegionSpec::Frames(20)).unwrap();
    let space = interface.create::<Space>(place, None, 1 << 20).unwrap();
    let before = mappings();
    let user = interface.attach(place, None, &holes, &space, Attach::default()).unwrap();
    interface
        .with(&user, |user, _| (0..20).try_for_each(|n| user.write(n * 4096, &[n as u8])))
        .unwrap()
        .unwrap();
    assert!(mappings() >= before + 10, "{}", mappings());
    interface.destroy(user).unwrap();
    assert_eq!(mappings(), before);
    for region in keep.into_iter().map(|(_, region)| region).chain([holes]) {
        interface.destroy(region).unwrap();
    }
    interface.destroy(space).unwrap();
}

#[test]
fn nothing_is_left_behind() {
    let before = (descriptors(), mappings());
    for round in 0..3 {
        let builder = || Interface::builder().standard();
        let one = kumiki_sys::affinity::current().unwrap().first();
        for builder in [builder(), builder().cores(one)] {
            let interface = builder.per_core().unwrap();
            let place = interface.places()[0];
            at_the_limit_of_descriptors(&interface, place);
            out_of_memory(&interface, place);
            full_of_mappings(&interface, place);
            // Left to the interface's end.
            let kept = region(&interface, 1 << 20).unwrap();
            let space = interface.create::<Space>(place, Some("kept"), 1 << 24).unwrap();
            for _ in 0..5 {
                interface.attach(place, None, &kept, &space, Attach::default()).unwrap();
            }
            assert!(mappings() >= before.1 + 6, "{}", mappings());
        }
        assert_eq!((descriptors(), mappings()), before, "round {round}");
    }
}
