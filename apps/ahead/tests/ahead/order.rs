//! Programs that go through a tree in another order than its folders have.

use std::time::Duration;

use crate::asked::{by, is_once};
use crate::scene::{ahead, has, run};
use crate::slow::{Slow, Tree, What};

/// Time of an answer: long beside what a thread takes to be woken.
const ANSWER: Duration = Duration::from_millis(2);

/// One folder of as many files, whose names have nothing to do with their order there.
fn drawn(files: u32) -> Tree {
    let mut tree = Tree::new();
    let folder = tree.folder(1, "folder".to_owned());
    for at in 0..files {
        tree.file(folder, format!("file{:05}", at * 7919 % files), 500);
    }
    tree
}

/// Has Python walk a tree; gives the requests of a sort by itself and by others, those of the best of some runs.
fn walked(tree: impl Fn() -> Tree, text: &str, what: What) -> Option<(usize, usize)> {
    if !has("python3") {
        return None;
    }
    let mut best = None;
    for _ in 0..3 {
        let slow = Slow::mount(tree(), ANSWER)?;
        let mut command = ahead("python3");
        let (program, output) =
            run(command.args(["-I", "-S", "-c", text]).current_dir(slow.path()));
        assert!(output.status.success(), "{output:?}");
        let asked = slow.asked();
        if !is_once(&asked, What::Read) {
            continue;
        }
        let found = by(&asked, what, program);
        println!("{what:?}: {} by itself, {} by others", found.0, found.1);
        best = best.max(Some((found.1, found.0)));
    }
    assert!(best.is_some(), "in each run something was asked twice");
    best.map(|(others, own)| (own, others))
}

#[test]
fn files_of_a_large_folder_are_read_ahead_in_the_order_of_their_names() {
    let text = "import os\n\
        for name in sorted(os.listdir('folder')):\n\
        \x20   open('folder/' + name, 'rb').read()\n";
    let Some((own, others)) = walked(|| drawn(1009), text, What::Read) else { return };
    // As the folder has them it would be half.
    assert!(others >= own * 2, "{own} by itself, {others} by others");
}

#[test]
fn a_tree_that_is_walked_breadth_first_is_asked_ahead() {
    let tree = || {
        let mut tree = Tree::new();
        for top in 0..6 {
            let top = tree.folder(1, format!("top{top}"));
            for middle in 0..6 {
                let middle = tree.folder(top, format!("middle{middle}"));
                for bottom in 0..4 {
                    let bottom = tree.folder(middle, format!("bottom{bottom}"));
                    (0..4).for_each(|file| _ = tree.file(bottom, format!("file{file}"), 500));
                }
            }
        }
        tree
    };
    let text = "import collections, os\n\
        rest = collections.deque(['.'])\n\
        while rest:\n\
        \x20   above = rest.popleft()\n\
        \x20   for name in os.listdir(above):\n\
        \x20       path = above + '/' + name\n\
        \x20       if 'file' in name:\n\
        \x20           open(path, 'rb').read()\n\
        \x20       else:\n\
        \x20           os.lstat(path)\n\
        \x20           rest.append(path)\n";
    for what in [What::Listed, What::Read] {
        let Some((own, others)) = walked(tree, text, what) else { return };
        assert!(others >= own, "{what:?}: {own} by itself, {others} by others");
    }
}
