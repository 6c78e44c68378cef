//! What is asked before the program asks, and what is not.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::Duration;

use crate::scene::{Counts, ahead, at_times, build, has, run};
use crate::slow::{Asked, Slow, Tree, What};

/// Time of an answer: long beside what a thread takes to be woken.
const ANSWER: Duration = Duration::from_millis(4);

/// Requests of a sort by the program's own thread, and by others.
pub(crate) fn by(asked: &[Asked], what: What, program: u32) -> (usize, usize) {
    let of: Vec<_> = asked.iter().filter(|asked| asked.what == what).collect();
    let own = of.iter().filter(|asked| asked.by == program).count();
    (own, of.len() - own)
}

/// True if others asked for a quarter at least: how much of it they come to before the program is a matter of who has the
/// cpu, and most of it where it is not wanted elsewhere.
pub(crate) fn is_much(own: usize, others: usize) -> bool {
    others * 3 >= own
}

/// True if nothing was asked more often than once; fails if that is so of more than a few.
///
/// A few the kernel asks again: what it has given up of its memory meanwhile (some have DAMON take pages that rest for a second), and a
/// name that somebody looks for while FUSE has made it known and not yet said for how long.
pub(crate) fn is_once(asked: &[Asked], what: What) -> bool {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for asked in asked.iter().filter(|asked| asked.what == what) {
        *counts.entry(asked.file).or_default() += 1;
    }
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.len() * 16 <= counts.len() + 16, "asked twice: {what:?} of {twice:?}");
    if !twice.is_empty() {
        println!("asked twice: {what:?} of {twice:?}");
    }
    twice.is_empty()
}

/// True if nothing of these was asked more often than once, and others asked for enough of each.
pub(crate) fn are_asked_by_others(asked: &[Asked], whats: &[What], program: u32) -> bool {
    whats.iter().all(|what| {
        let (own, others) = by(asked, *what, program);
        println!("{what:?}: {own} by itself, {others} by others");
        is_once(asked, *what) && is_much(own, others)
    })
}

#[test]
fn what_tar_reads_is_asked_by_others_and_only_once() {
    let tree = || Tree::wide(12, 20, 3000);
    let (Some(plain), true) = (Slow::mount(tree(), ANSWER), has("tar")) else { return };
    let words =
        ["-C".as_ref(), plain.path().as_os_str(), "-cf".as_ref(), "-".as_ref(), ".".as_ref()];
    let (_, expected) = run(Command::new("tar").args(words));
    assert!(expected.status.success(), "{expected:?}");
    at_times(|| {
        let Some(slow) = Slow::mount(tree(), ANSWER) else { return true };
        let words =
            ["-C".as_ref(), slow.path().as_os_str(), "-cf".as_ref(), "-".as_ref(), ".".as_ref()];
        let (program, output) = run(ahead("tar").args(words));
        assert_eq!(output, expected);
        let asked = slow.asked();
        let looked = asked.iter().filter(|asked| asked.what == What::Looked).count();
        assert!(looked >= slow.tree.len() - 1, "{looked} looked up");
        are_asked_by_others(&asked, &[What::Looked, What::Read], program)
    });
}

#[test]
fn where_contents_are_forgotten_at_each_opening_only_attributes_are_asked() {
    if !has("tar") {
        return;
    }
    at_times(|| {
        let tree = Tree::wide(12, 20, 3000);
        let Some(slow) = Slow::mount_forgetful(tree, ANSWER) else { return true };
        let words =
            ["-C".as_ref(), slow.path().as_os_str(), "-cf".as_ref(), "-".as_ref(), ".".as_ref()];
        let (program, output) = run(ahead("tar").args(words));
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        // Of one file, for which it is tried: once, and until two reads in a row say the same. Where tar comes to that at the same moment,
        // either may find what the other has read, or have it taken away.
        let (own, others) = by(&asked, What::Read, program);
        assert!(own.abs_diff(240) <= 4, "tar reads each file: {own}");
        assert!(others <= 5, "{others} read in vain");
        are_asked_by_others(&asked, &[What::Looked], program)
    });
}

/// As over NFS: of no name anything has to be asked, of each folder and of each file's contents it has.
#[test]
fn where_listings_tell_the_attributes_contents_are_asked() {
    if !has("tar") {
        return;
    }
    at_times(|| {
        let Some(slow) = Slow::mount_told(Tree::wide(60, 20, 3000), ANSWER) else { return true };
        let words =
            ["-C".as_ref(), slow.path().as_os_str(), "-cf".as_ref(), "-".as_ref(), ".".as_ref()];
        let (program, output) = run(ahead("tar").args(words));
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        let (own, others) = by(&asked, What::Listed, program);
        is_much(own, others) && are_asked_by_others(&asked, &[What::Read], program)
    });
}

#[test]
fn where_listings_tell_the_attributes_folders_are_listed_ahead() {
    if !has("du") {
        return;
    }
    at_times(|| {
        let Some(slow) = Slow::mount_told(Tree::wide(100, 20, 3000), ANSWER) else { return true };
        let (program, output) = run(ahead("du").arg("-s").arg(slow.path()));
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        let looked: Vec<_> = asked.iter().filter(|asked| asked.what != What::Listed).collect();
        assert!(looked.is_empty(), "{looked:?}");
        // Of the folders that are tried while nothing is asked ahead yet a part is read, which FUSE does not keep.
        assert!(asked.len() <= 101 + 20, "{} listings", asked.len());
        let (own, others) = by(&asked, What::Listed, program);
        is_much(own, others)
    });
}

#[test]
fn where_a_filter_refuses_openat2_the_same_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("odd.c", folder.path());
    at_times(|| {
        let Some(slow) = Slow::mount(Tree::wide(12, 20, 3000), ANSWER) else { return true };
        let (process, output) =
            run(ahead(&program).arg("refuse-openat2").arg(slow.path()).current_dir("/"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("openat2: Operation not permitted\n"), "{output:?}");
        assert!(text.contains("then: 240 files, 12 folders, 61440 bytes, 0 wrong"), "{output:?}");
        are_asked_by_others(&slow.asked(), &[What::Looked, What::Read], process)
    });
}

#[test]
fn find_by_size_has_attributes_asked_and_nothing_read() {
    if !has("find") {
        return;
    }
    at_times(|| {
        let Some(slow) = Slow::mount(Tree::wide(12, 20, 3000), ANSWER) else { return true };
        let (program, output) =
            run(ahead("find").arg(slow.path()).args(["-type", "f", "-size", "+1k"]));
        assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 241);
        let asked = slow.asked();
        assert_eq!(by(&asked, What::Read, program), (0, 0));
        are_asked_by_others(&asked, &[What::Looked], program)
    });
}

#[test]
fn find_by_name_has_no_file_asked_that_it_does_not_ask_itself() {
    let tree = || Tree::wide(12, 20, 3000);
    let (Some(plain), true) = (Slow::mount(tree(), ANSWER), has("find")) else { return };
    let words = ["-name", "file7", "-printf", "%f\n"];
    let (_, expected) = run(Command::new("find").arg(plain.path()).args(words));
    let Some(slow) = Slow::mount(tree(), ANSWER) else { return };
    let (_, output) = run(ahead("find").arg(slow.path()).args(words));
    assert_eq!(output, expected);
    let files = |slow: &Slow| {
        let looked = slow.asked().into_iter().filter(|asked| asked.what != What::Listed);
        looked.filter(|asked| !slow.tree.is_folder(asked.file)).count()
    };
    assert_eq!(files(&slow), files(&plain));
}

#[test]
fn a_program_that_opens_one_file_of_each_folder_has_few_asked_in_vain() {
    let Some(slow) = Slow::mount(Tree::wide(40, 50, 3000), Duration::from_millis(1)) else {
        return;
    };
    if !has("python3") {
        return;
    }
    let text = "import os, sys\n\
        for above in os.listdir(sys.argv[1]):\n\
        \x20   above = os.path.join(sys.argv[1], above)\n\
        \x20   name = os.listdir(above)[0]\n\
        \x20   print(len(open(os.path.join(above, name), 'rb').read()))\n";
    let (_, output) = run(ahead("python3").args(["-c", text]).arg(slow.path()));
    assert_eq!(output.stdout, "3000\n".repeat(40).as_bytes(), "{output:?}");
    let read = slow.asked().iter().filter(|asked| asked.what == What::Read).count();
    // Of 2,000 files 40 are needed; ahead go at most the first window and two for each that was used.
    assert!(read <= 40 + 64 + 2 * 40, "{read}");
}

#[test]
fn a_program_that_lists_one_folder_asks_nothing_more() {
    let Some(slow) = Slow::mount(Tree::wide(20, 20, 100), ANSWER) else { return };
    let (_, output) = run(ahead("ls").arg("-U").arg(slow.path()));
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 21);
    let asked = slow.asked();
    assert!(asked.iter().all(|asked| asked.what == What::Listed), "{asked:?}");
}

#[test]
fn folders_listed_ahead_and_left_since_are_listed_again_when_the_program_comes() {
    if !has("python3") {
        return;
    }
    // In its pause, all that is open is closed. What it does then, nobody has asked before. It has each folder open long enough for
    // others to take it up.
    let text = "import os, sys, time\n\
        os.chdir(sys.argv[1])\n\
        for at, above in enumerate(sorted(os.listdir('.'))):\n\
        \x20   os.lstat(above)\n\
        \x20   with os.scandir(above) as entries:\n\
        \x20       names = [entry.name for entry in entries]\n\
        \x20       time.sleep(0.02)\n\
        \x20   for name in names:\n\
        \x20       os.lstat(above + '/' + name) if at < 5 else open(above + '/' + name).read()\n\
        \x20   time.sleep(1 if at == 4 else 0.01)\n";
    at_times(|| {
        let Some(slow) = Slow::mount(Tree::wide(12, 60, 100), ANSWER) else { return true };
        let (program, output) =
            run(ahead("python3").args(["-I", "-S", "-c", text]).arg(slow.path()));
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        // Folder and its files stand one behind the other.
        let by_others = |folder: u64| {
            let files = folder * 61 + 3..folder * 61 + 63;
            let read = asked.iter().filter(|one| one.what == What::Read && one.by != program);
            read.filter(|one| files.contains(&one.file)).count()
        };
        let counts: Vec<usize> = (0..12).map(by_others).collect();
        println!("files read by others in each folder: {counts:?}");
        // Of the seven that come after the pause, 3 to 9 by their names, most on a quiet machine; one that looks at none of
        // them again has none, however often it runs.
        counts[3..10].iter().any(|count| *count > 0)
    });
}

#[test]
fn a_deep_tree_is_listed_ahead() {
    if !has("du") {
        return;
    }
    at_times(|| {
        let mut tree = Tree::new();
        for branch in 0..8 {
            let mut above = tree.folder(1, format!("branch{branch}"));
            for depth in 0..4 {
                (0..3).for_each(|file| _ = tree.file(above, format!("file{file}"), 10));
                above = tree.folder(above, format!("depth{depth}"));
            }
        }
        let Some(slow) = Slow::mount(tree, ANSWER) else { return true };
        let (program, output) = run(ahead("du").arg("-s").arg(slow.path()));
        assert!(output.status.success(), "{output:?}");
        let (own, others) = by(&slow.asked(), What::Listed, program);
        is_much(own, others)
    });
}

#[test]
fn names_that_nobody_has_looked_up_start_nothing_where_no_call_sleeps() {
    let Some(slow) = Slow::mount_kept(Tree::wide(100, 40, 100)) else { return };
    if !has("find") {
        return;
    }
    let list = |command: &mut Command| {
        let (_, output) = run(command.arg(slow.path()).args(["-name", "nothing"]));
        assert!(output.status.success(), "{output:?}");
    };
    list(&mut Command::new("find"));
    let listed = slow.asked().len();
    // A sleep for another reason is rare.
    let is_quiet = (0..10).any(|_| {
        let mut command = ahead("find");
        let counts = Counts::of(&mut command);
        list(&mut command);
        assert!(counts.get(2) > 9, "folders were seen");
        counts.pools() == 0
    });
    assert!(is_quiet, "threads are started in a tree whose listings are in memory");
    assert_eq!(slow.asked().len(), listed);
}

#[test]
fn one_small_folder_is_worth_no_threads_and_a_large_one_is() {
    for (files, pools) in [(20, 0), (400, 1)] {
        let Some(slow) = Slow::mount(Tree::wide(1, files, 100), ANSWER) else { return };
        let mut command = ahead("ls");
        let counts = Counts::of(&mut command);
        let (_, output) = run(command.arg("-l").arg(slow.path().join("folder0")));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(counts.pools(), pools, "of {files} files");
    }
}

/// Files of which contents were read.
fn read_files(asked: &[Asked]) -> usize {
    let read = asked.iter().filter(|asked| asked.what == What::Read);
    read.map(|asked| asked.file).collect::<HashSet<_>>().len()
}

/// A package of an interpreter: a folder of sources, and one in it of as many compiled ones.
fn package() -> Tree {
    let mut tree = Tree::new();
    let whole = tree.folder(1, "whole".to_owned());
    let compiled = tree.folder(whole, "compiled".to_owned());
    for at in 0..200 {
        tree.file(whole, format!("part{at}"), 100);
        tree.file(compiled, format!("part{at}.c"), 2000);
    }
    tree
}

/// An interpreter lists a folder, looks at its names, and opens names of another one that stands there.
fn interpreter(slow: &Slow) -> Command {
    let text = "import os, sys\n\
        os.chdir(sys.argv[1])\n\
        for name in os.listdir('whole'):\n\
        \x20   os.stat('whole/' + name)\n\
        \x20   if name != 'compiled':\n\
        \x20       print(len(open('whole/compiled/%s.c' % name, 'rb').read()))\n";
    let mut command = ahead("python3");
    // Without what stands in site-packages: it opens files of a folder that it lists.
    command.args(["-I", "-S", "-c", text]).arg(slow.path());
    command
}

#[test]
fn a_folder_of_which_names_are_opened_without_a_listing_is_read_ahead() {
    if !has("python3") {
        return;
    }
    at_times(|| {
        let Some(slow) = Slow::mount(package(), ANSWER) else { return true };
        let (program, output) = run(&mut interpreter(&slow));
        assert_eq!(output.stdout, "2000\n".repeat(200).as_bytes(), "{output:?}");
        let asked = slow.asked();
        assert_eq!(read_files(&asked), 200, "what stands beside it is not opened");
        are_asked_by_others(&asked, &[What::Read], program)
    });
}

/// As an interpreter goes from one package to another: that it has opened all compiled modules of the first one by their
/// names says nothing of the sources, here or there.
#[test]
fn what_is_opened_by_name_alone_has_no_listed_files_read() {
    if !has("python3") {
        return;
    }
    let mut tree = package();
    let compiled = 3;
    (0..40).for_each(|at| _ = tree.file(compiled, format!("more{at}.c"), 2000));
    let other = tree.folder(1, "other".to_owned());
    (0..100).for_each(|at| _ = tree.file(other, format!("source{at}"), 100));
    let Some(slow) = Slow::mount(tree, ANSWER) else { return };
    // After the second listing a pause, in which all is asked that is within reach.
    let text = "import os, sys, time\n\
        os.chdir(sys.argv[1])\n\
        for name in os.listdir('whole'):\n\
        \x20   os.stat('whole/' + name)\n\
        \x20   if name != 'compiled':\n\
        \x20       open('whole/compiled/%s.c' % name, 'rb').read()\n\
        for at in range(40):\n\
        \x20   open('whole/compiled/more%d.c' % at, 'rb').read()\n\
        names = os.listdir('other')\n\
        time.sleep(0.3)\n\
        print(sum(os.stat('other/' + name).st_size for name in names))\n";
    let (_, output) = run(ahead("python3").args(["-I", "-S", "-c", text]).arg(slow.path()));
    assert_eq!(output.stdout, b"10000\n", "{output:?}");
    assert_eq!(read_files(&slow.asked()), 240, "what stands beside it is not opened");
}

#[test]
fn what_is_mounted_on_a_folder_is_not_asked_before_the_program_goes_there() {
    if !has("python3") {
        return;
    }
    // While it rests, all is asked that is within reach.
    let text = "import os, sys, time\n\
        for name in os.listdir(sys.argv[1]):\n\
        \x20   if name != 'folder19':\n\
        \x20       name = os.path.join(sys.argv[1], name)\n\
        \x20       os.lstat(name)\n\
        \x20       time.sleep(0.02)\n\
        \x20       print(sum(os.lstat(os.path.join(name, one)).st_size for one in os.listdir(name)))\n";
    at_times(|| {
        let Some(slow) = Slow::mount(Tree::wide(20, 20, 100), ANSWER) else { return true };
        let on = slow.path().join("folder19");
        let Some(mounted) = Slow::mount_on(Tree::wide(5, 5, 100), &on) else { return true };
        let before = mounted.asked_of_root().len();
        let (program, output) = run(ahead("python3").args(["-c", text]).arg(slow.path()));
        assert_eq!(output.stdout, "2000\n".repeat(19).as_bytes(), "{output:?}");
        assert_eq!(mounted.asked().len(), 0);
        assert_eq!(mounted.asked_of_root()[before..], [0_u32; 0]);
        // Folders, too: those of the first one, which was not yet worth a start.
        let asked = slow.asked().into_iter().filter(|one| slow.tree.is_folder(one.file));
        let (own, others) = by(&asked.collect::<Vec<_>>(), What::Looked, program);
        is_much(own, others)
    });
}
