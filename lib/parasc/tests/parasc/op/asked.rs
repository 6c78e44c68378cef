//! What a caller has to name stands beside the operations: nothing here is rustix's by
//! its own name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kumiki_parasc::op::{
    AddressFamily, AtFlags, CWD, EpollCreate1, EpollCreateFlags, Errno, Madvise, MemoryAdvice,
    Mode, OFlags, Openat, Operation, SocketFlags, SocketType, Socketpair, Statx, StatxFlags,
};

#[test]
fn operations_are_made_of_what_stands_beside_them() {
    let file = Openat::new(CWD, c"/dev/null", OFlags::RDONLY, Mode::empty()).call().unwrap();
    Statx::new(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE).call().unwrap();
    EpollCreate1::new(EpollCreateFlags::CLOEXEC).call().unwrap();
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    Socketpair::new(family, kind, SocketFlags::CLOEXEC, None).call().unwrap();
    // SAFETY: nothing is mapped there.
    let nowhere = unsafe { Madvise::new(0, 4096, MemoryAdvice::Normal) }.call();
    assert_eq!(nowhere, Err(Errno::NOMEM));
}

/// Names in `use rustix::…;` of a source file, before its tests.
fn named(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let uses = source.split("use rustix::").skip(1).filter_map(|rest| rest.split(';').next());
    let words = uses.flat_map(|names| names.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let types = words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    types.map(str::to_owned).collect()
}

#[test]
fn every_type_that_operations_take_from_rustix_stands_beside_them() {
    // No caller meets these: they read what the kernel wrote.
    let own = ["AncillaryDrain", "RecvAncillaryMessage", "SocketAddrStorage"].map(str::to_owned);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../calls/src/op");
    let given = named(&fs::read_to_string(folder.join("asked.rs")).unwrap());
    let mut asked = BTreeSet::new();
    for file in fs::read_dir(&folder).unwrap() {
        asked.extend(named(&fs::read_to_string(file.unwrap().path()).unwrap()));
    }
    assert!(asked.len() > 40, "only these were found: {asked:?}");
    asked.retain(|name| !given.contains(name) && !own.contains(name));
    assert!(asked.is_empty(), "add them to lib/calls/src/op/asked.rs: {asked:?}");
}
