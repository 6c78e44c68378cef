//! Random trees, against GNU du.

mod common;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use common::{Scene, counts_lengths_of_directories, gnu_du};
use proptest::prelude::*;
use proptest::sample::Index;

/// A thing in a tree; indices choose among what there is already.
#[derive(Clone, Debug)]
enum Node {
    Folder {
        parent: Index,
        name: Vec<u8>,
    },
    File {
        parent: Index,
        name: Vec<u8>,
        bytes: usize,
    },
    /// A file with a hole before its end.
    Sparse {
        parent: Index,
        name: Vec<u8>,
        length: u64,
    },
    HardLink {
        parent: Index,
        name: Vec<u8>,
        to: Index,
    },
    SymbolicLink {
        parent: Index,
        name: Vec<u8>,
        to: Index,
    },
}

/// Anything that is a name, with a taste for the odd ones.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let odd = [
        &b"new\nline"[..],
        b"-s",
        b"--",
        b" ",
        b"\xff\xfe",
        b"*",
        b"[",
        b"...",
        b"\\",
        b"'",
        b"\"",
        b"\x1b[1m",
        "\u{e9}".as_bytes(),
        b"a\tb",
    ];
    prop_oneof![
        3 => "[a-c]{1,3}".prop_map(String::into_bytes),
        1 => prop::sample::select(odd.map(<[u8]>::to_vec).to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..40)
            .prop_filter("no name", |n| !n.contains(&0) && !n.contains(&b'/') && n != b"." && n != b".."),
        1 => Just(vec![b'n'; 255]),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let place = || (any::<Index>(), name());
    prop_oneof![
        4 => place().prop_map(|(parent, name)| Node::Folder { parent, name }),
        4 => (place(), 0usize..40_000)
            .prop_map(|((parent, name), bytes)| Node::File { parent, name, bytes }),
        1 => (place(), 0u64..1 << 40)
            .prop_map(|((parent, name), length)| Node::Sparse { parent, name, length }),
        2 => (place(), any::<Index>())
            .prop_map(|((parent, name), to)| Node::HardLink { parent, name, to }),
        1 => (place(), any::<Index>())
            .prop_map(|((parent, name), to)| Node::SymbolicLink { parent, name, to }),
    ]
}

/// Builds what can be built: a name that is taken already stays what it is.
fn build(scene: &Scene, nodes: &[Node]) -> Vec<PathBuf> {
    let mut folders = vec![scene.path("t")];
    let mut files = Vec::new();
    std::fs::create_dir(&folders[0]).unwrap();
    for node in nodes {
        let (Node::Folder { parent, name }
        | Node::File { parent, name, .. }
        | Node::Sparse { parent, name, .. }
        | Node::HardLink { parent, name, .. }
        | Node::SymbolicLink { parent, name, .. }) = node;
        let path = parent.get(&folders).join(OsString::from_vec(name.clone()));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match node {
            Node::Folder { .. } if path.as_os_str().len() < 3000 => {
                std::fs::create_dir(&path).unwrap();
                folders.push(path);
                continue;
            }
            Node::Folder { .. } => continue,
            Node::File { bytes, .. } => std::fs::write(&path, vec![b'x'; *bytes]).unwrap(),
            Node::Sparse { length, .. } => File::create(&path).unwrap().set_len(*length).unwrap(),
            Node::HardLink { to, .. } if !files.is_empty() => {
                std::fs::hard_link(to.get(&files), &path).unwrap();
            }
            Node::HardLink { .. } => continue,
            Node::SymbolicLink { to, .. } => {
                std::os::unix::fs::symlink(to.get(&folders), &path).unwrap();
            }
        }
        files.push(path);
    }
    folders
}

/// Options that may stand together, each or not.
fn options() -> impl Strategy<Value = Vec<String>> {
    let lines = prop::sample::select(vec!["", "-a", "-s", "-d1", "-d2", "-a -d1"]);
    let sizes =
        prop::sample::select(vec!["", "-h", "-B1", "-k", "-m", "--si", "-b", "--apparent-size"]);
    let links = prop::sample::select(vec!["", "", "-l", "-L", "-D", "-lL"]);
    let rest = prop::sample::subsequence(
        vec!["-c", "-S", "-x", "--exclude=a*", "--exclude=*b", "--exclude=t/?", "--exclude=[!a-z]"],
        0..=3,
    );
    (lines, sizes, links, rest).prop_map(|(lines, sizes, links, rest)| {
        let all = [lines, sizes, links].into_iter().flat_map(str::split_whitespace).chain(rest);
        all.map(str::to_owned).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_lines(
        nodes in prop::collection::vec(node(), 0..80),
        choices in prop::collection::vec(options(), 1..4),
        operands in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        if !gnu_du() {
            return Ok(());
        }
        let scene = Scene::new();
        let folders = build(&scene, &nodes);
        let above = scene.path("").as_os_str().len();
        let operands = operands.iter().map(|index| index.get(&folders).as_os_str().as_bytes());
        let operands: Vec<_> = operands.map(|path| OsString::from_vec(path[above..].to_vec())).collect();
        for options in choices {
            if options.iter().any(|o| o == "-b" || o == "--apparent-size")
                && !counts_lengths_of_directories()
            {
                continue;
            }
            let mut args: Vec<OsString> = vec!["-0".into()];
            args.extend(options.iter().map(OsString::from));
            args.push("--".into());
            match operands.is_empty() {
                true => args.push("t".into()),
                false => args.extend(operands.iter().cloned()),
            }
            scene.same(&args);
        }
    }

    #[test]
    fn the_same_names_left_out(
        patterns in prop::collection::vec(pattern(), 1..3),
        utf8: bool,
    ) {
        if !gnu_du() {
            return Ok(());
        }
        let mut scene = Scene::new();
        scene.locale = if utf8 { "C.UTF-8" } else { "C" };
        scene.folder("ab/ba/-").folder("a]/[b").folder("\u{e9}/\u{e9}a").folder("a/b/a/!");
        scene.file("ab/a*b", 1).file("ab/\\", 1).file("ab/ba/A", 1).file("a/b/a/b", 1).file("a/ ", 1);
        scene.file(OsString::from_vec(b"a/\xff".to_vec()), 1).file("a/7", 1).file("a/a?", 1);
        let mut args: Vec<_> = patterns.iter().map(|p| format!("--exclude={p}")).collect();
        args.push("-a".into());
        args.push(".".into());
        scene.same(&args);
        args.pop();
        args.push("a".into());
        scene.same(&args);
    }
}

/// What could be a pattern, often one that matches something.
fn pattern() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "b",
        "A",
        "/",
        "*",
        "?",
        "[",
        "]",
        "!",
        "^",
        "-",
        "\\",
        "\u{e9}",
        "[ab]",
        "[!a]",
        "[a-b]",
        "[[:alpha:]]",
        "[[:digit:]]",
        "[^[:punct:]b]",
        "[]a]",
        "[a-]",
        "*/",
        "\\*",
        "[[=a=]]",
        "[[.-.]]",
        ".",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..6)
        .prop_map(|pieces| pieces.concat())
}
