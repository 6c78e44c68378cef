//! Programs that do what a library with threads must survive: each says the same with it and without, on a slow disk,
//! where the pool runs.

use std::process::Command;
use std::time::Duration;

use crate::scene::{Counts, ahead, build, has, run};
use crate::slow::{Slow, Tree};

const ANSWER: Duration = Duration::from_millis(1);

fn same(deed: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    let tree = || Tree::wide(10, 12, 500);
    let Some(plain) = Slow::mount(tree(), ANSWER) else { return };
    let (_, expected) = run(Command::new(&program).arg(deed).current_dir(plain.path()));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let mut command = ahead(&program);
    let counts = Counts::of(&mut command);
    let (_, output) = run(command.arg(deed).current_dir(slow.path()));
    assert_eq!(output, expected, "{deed}");
    assert!(counts.pools() > 0, "{deed}: nothing was asked ahead");
    assert!(!expected.stdout.is_empty(), "{deed}: {expected:?}");
}

macro_rules! odd {
    ($($name:ident: $deed:literal;)*) => { $(
        #[test]
        fn $name() {
            same($deed);
        }
    )* };
}

odd! {
    a_program_walks: "walk";
    one_whose_first_thread_ends_ends_with_its_last: "first-thread";
    one_forks_and_its_child_walks: "fork";
    one_uses_vfork: "vfork";
    one_closes_all_descriptors_as_it_goes: "close-all";
    the_lowest_free_descriptor_is_what_it_was: "lowest";
    one_is_alone_for_unshare: "unshare";
    one_confines_itself_by_a_filter_that_kills: "filter";
    one_changes_its_root_and_user: "root";
    one_takes_its_signals_itself: "signals";
    errno_is_kept: "errno";
}

#[test]
fn a_limit_of_32_descriptors_is_enough() {
    let tree = || Tree::wide(10, 12, 500);
    let (Some(plain), true) = (Slow::mount(tree(), ANSWER), has("tar")) else { return };
    let line = "ulimit -n 32; exec tar -cf - .";
    let (_, expected) = run(Command::new("sh").args(["-c", line]).current_dir(plain.path()));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let (_, output) = run(ahead("sh").args(["-c", line]).current_dir(slow.path()));
    assert_eq!(output, expected);
    assert!(expected.status.success() && expected.stdout.len() > 60_000);
}
