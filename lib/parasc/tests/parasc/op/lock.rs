use std::fs::File;

use kumiki_parasc::op::{Errno, Flock, LockKind, OfdGetlk, OfdSetlk, RangeLock};
use rustix::fs::FlockOperation;
use tempfile::NamedTempFile;

use super::execute;

#[test]
fn a_whole_file_is_locked_for_one() {
    let file = NamedTempFile::new().unwrap();
    let other = file.reopen().unwrap();
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    assert_eq!(execute(&mut Flock::new(&file, exclusive)), Ok(()));
    assert_eq!(execute(&mut Flock::new(&other, exclusive)), Err(Errno::WOULDBLOCK));
    assert_eq!(execute(&mut Flock::new(&file, FlockOperation::Unlock)), Ok(()));
    assert_eq!(execute(&mut Flock::new(&other, exclusive)), Ok(()));
}

#[test]
fn ranges_are_locked_for_open_files() {
    let file = NamedTempFile::new().unwrap();
    let (one, other) = (file.reopen().unwrap(), file.reopen().unwrap());
    let lock = |kind, start, length| RangeLock { kind, start, length };
    let set = |file: &File, lock| execute(&mut OfdSetlk::new(file, lock));
    use LockKind::{Exclusive, Shared, Unlocked};

    assert_eq!(set(&one, lock(Exclusive, 10, 10)), Ok(()));
    assert_eq!(set(&other, lock(Shared, 15, 1)), Err(Errno::AGAIN));
    assert_eq!(set(&other, lock(Exclusive, 20, 0)), Ok(()));
    let mut get = OfdGetlk::new(&other, lock(Shared, 0, 0));
    assert_eq!(execute(&mut get), Ok(Some(lock(Exclusive, 10, 10))));
    // The question is the same when it is asked again.
    assert_eq!(set(&one, lock(Unlocked, 0, 0)), Ok(()));
    assert_eq!(execute(&mut get), Ok(None));
    assert_eq!(execute(&mut OfdSetlk::waiting(&other, lock(Shared, 0, 0))), Ok(()));
    let mut get = OfdGetlk::new(&one, lock(Exclusive, 5, 1));
    assert_eq!(execute(&mut get), Ok(Some(lock(Shared, 0, 0))));

    assert_eq!(set(&one, lock(Shared, u64::MAX, 1)), Err(Errno::INVAL));
    let reader = File::open(file.path()).unwrap();
    assert_eq!(set(&reader, lock(Exclusive, 0, 1)), Err(Errno::BADF));
    let beyond = lock(Shared, u64::MAX, 1);
    assert_eq!(execute(&mut OfdGetlk::new(&one, beyond)), Err(Errno::INVAL));
}
