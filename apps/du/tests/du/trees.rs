//! Random trees, against GNU du.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use rustix::fs::Timespec;

use crate::scene::{Gnu, Scene, gnu_du};
use crate::times::set_times;

/// So many cases, or as many as `PROPTEST_CASES` says; those that have failed are kept,
/// and tried first from then on.
pub(crate) fn kept(cases: u32) -> ProptestConfig {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/du/seeds.txt");
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if asked_for { ProptestConfig::default().cases } else { cases },
        max_shrink_iters: 200,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(seeds))),
        ..ProptestConfig::default()
    }
}

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
    /// A directory made so that not everybody may list or enter it.
    Shut {
        folder: Index,
        mode: u32,
    },
    /// Something gets a time of its own.
    Time {
        of: Index,
        read: u32,
        modified: u32,
    },
}

/// Any bytes that are a name.
pub(crate) fn any_name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 1..40),
        1 => "[ -~]{1,6}".prop_map(String::into_bytes),
        // The C library may know fewer characters than we do.
        1 => "[\\PC&&\\p{Age:6.0}]{1,4}".prop_map(String::into_bytes),
        1 => "[a'\\n\u{e9}$# ]{1,5}".prop_map(String::into_bytes),
    ]
    .prop_filter("no name", |name| {
        !name.contains(&0) && !name.contains(&b'/') && name != b"." && name != b".."
    })
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
        1 => any_name(),
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
        1 => (any::<Index>(), prop::sample::select(vec![0, 0o311, 0o644, 0o555]))
            .prop_map(|(folder, mode)| Node::Shut { folder, mode }),
        // All past: the kernel notes each time a file is read that was modified later.
        3 => (any::<Index>(), 0u32..1_700_000_000, 0u32..1_700_000_000)
            .prop_map(|(of, read, modified)| Node::Time { of, read, modified }),
    ]
}

/// A tree as it stands; where somebody was kept out, everybody may in again in the end.
struct Built {
    folders: Vec<PathBuf>,
    shut: Vec<PathBuf>,
}

impl Drop for Built {
    fn drop(&mut self) {
        for folder in self.shut.iter().rev() {
            let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o755));
        }
    }
}

/// Builds what can be built: a name that is taken already stays what it is.
fn build(scene: &Scene, nodes: &[Node]) -> Built {
    let mut folders = vec![scene.path("t")];
    let mut files = Vec::new();
    std::fs::create_dir(&folders[0]).unwrap();
    for node in nodes {
        let (Node::Folder { parent, name }
        | Node::File { parent, name, .. }
        | Node::Sparse { parent, name, .. }
        | Node::HardLink { parent, name, .. }
        | Node::SymbolicLink { parent, name, .. }) = node
        else {
            continue;
        };
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
            Node::File { bytes, .. } => std::fs::write(&path, vec![b'x'; *bytes]).unwrap(),
            Node::Sparse { length, .. } => File::create(&path).unwrap().set_len(*length).unwrap(),
            Node::HardLink { to, .. } if !files.is_empty() => {
                std::fs::hard_link(to.get(&files), &path).unwrap();
            }
            Node::SymbolicLink { to, .. } => {
                std::os::unix::fs::symlink(to.get(&folders), &path).unwrap();
            }
            _ => continue,
        }
        files.push(path);
    }
    let all: Vec<_> = folders.iter().chain(&files).collect();
    let mut built = Built { folders: folders.clone(), shut: Vec::new() };
    for node in nodes {
        match node {
            Node::Time { of, read, modified } => {
                let time = |seconds: u32| Timespec { tv_sec: seconds.into(), tv_nsec: 5 };
                set_times(of.get::<&PathBuf>(&all), time(*read), time(*modified));
            }
            Node::Shut { folder, mode } => built.shut.push({
                // Not the scene's own: somebody without rights could not get there.
                let folder = folder.get(&folders).clone();
                std::fs::set_permissions(&folder, Permissions::from_mode(*mode)).ok();
                folder
            }),
            _ => {}
        }
    }
    built
}

/// Options that may stand together, each or not.
fn options() -> impl Strategy<Value = Vec<String>> {
    let one = |options: &[&'static str]| prop::sample::select(options.to_vec());
    let lines = one(&["", "", "-a", "-a", "-s", "-d1", "-d 0x2", "-a -d1", "-a -d3"]);
    let sizes = one(&[
        "",
        "-h",
        "-B1",
        "-k",
        "-m",
        "--si",
        "-b",
        "--apparent-size",
        "-B0x10",
        "-B010",
        "-Bhuman",
        "-B'1",
        "-BKB",
        "-BMiB",
        "-BkD",
        "--block-size=M",
    ]);
    let links = one(&["", "", "-l", "-L", "-D", "-lL", "-H"]);
    let counted = one(&["", "", "--inodes"]);
    let threshold =
        one(&["", "", "-t 1", "-t 4K", "-t -8K", "--threshold=0x3000", "-t -1", "-t 2"]);
    let time = one(&["", "", "--time", "--time=use", "--time=atime", "--time=ctime"]);
    let style = one(&[
        "",
        "--time-style=full-iso",
        "--time-style=i",
        "--time-style=+%s.%N",
        "--time-style=+%a%_5d%Z",
    ]);
    let wrong = prop_oneof![
        15 => Just(""),
        1 => one(&["-d x", "--t", "-z", "--nonsense=1", "-B 1z", "-t -0", "--time=zz", "-s -a", "-X none"]),
    ];
    let rest = prop::sample::subsequence(
        vec!["-c", "-S", "-x", "--exclude=a*", "--exclude=*b", "--exclude=t/?", "--exclude=[!a-z]"],
        0..=3,
    );
    let values = (lines, sizes, links, counted, threshold, time, style, wrong);
    (values, rest).prop_map(|((a, b, c, d, e, f, g, h), rest)| {
        let all = [a, b, c, d, e, f, g, h].into_iter().chain(rest);
        all.flat_map(str::split_whitespace).map(str::to_owned).collect()
    })
}

/// How operands are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Arguments,
    File,
    Stdin,
}

proptest! {
    #![proptest_config(kept(48))]

    #[test]
    fn the_same_lines(
        nodes in prop::collection::vec(node(), 0..80),
        choices in prop::collection::vec(options(), 1..4),
        operands in prop::collection::vec((any::<Index>(), 0u8..8), 0..4),
        given in prop::sample::select(vec![Given::Arguments, Given::Arguments, Given::File, Given::Stdin]),
        without_rights: bool,
        utf8: bool,
        posix in prop::bool::weighted(0.1),
    ) {
        let Some(gnu) = Gnu::here() else { return Ok(()) };
        let quoted = |node: &Node| matches!(node, Node::Folder { name, .. } | Node::File { name, .. }
            | Node::Sparse { name, .. } | Node::HardLink { name, .. } | Node::SymbolicLink { name, .. }
            if name.contains(&b'\''));
        // Here not everything can be read, and names stand in messages.
        let without_rights = without_rights && (gnu.quotes_apostrophes() || !nodes.iter().any(quoted));
        let mut scene = Scene::new();
        scene.without_rights = without_rights;
        scene.locale = if utf8 { "C.UTF-8" } else { "C" };
        let built = build(&scene, &nodes);
        let above = scene.path("").as_os_str().len();
        let mut names: Vec<_> = operands.iter().map(|(index, odd)| {
            let path = index.get(&built.folders).as_os_str().as_bytes()[above..].to_vec();
            OsString::from_vec(match odd {
                0 => [&path[..], b"//"].concat(),
                1 => [b".//", &path[..]].concat(),
                2 => [&path[..], b" is missing"].concat(),
                _ => path,
            })
        }).collect();
        for options in choices {
            if options.iter().any(|o| o == "-b" || o == "--apparent-size")
                && !gnu.knows_lengths_of_files_only()
            {
                continue;
            }
            // GNU du takes the slash from an empty directory then.
            let logical = options.iter().any(|o| o == "-L" || o == "-lL");
            if logical && names.iter().any(|name| name.as_bytes().ends_with(b"/")) {
                continue;
            }
            let mut args: Vec<OsString> = vec!["-0".into()];
            args.extend(options.iter().map(OsString::from));
            if given == Given::Arguments {
                if names.is_empty() {
                    names.push("t".into());
                }
                args.push("--".into());
                args.extend(names.iter().cloned());
            } else {
                let list: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
                std::fs::write(scene.path("list"), list).unwrap();
                args.push(if given == Given::File { "--files0-from=list" } else { "--files0-from=-" }.into());
            }
            scene.same_by(&args, |command| {
                if given == Given::Stdin {
                    command.stdin(File::open(scene.path("list")).unwrap());
                }
                if posix {
                    command.env("POSIXLY_CORRECT", "1");
                }
                command.env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3");
            });
        }
    }

    #[test]
    fn the_same_names_left_out(
        patterns in prop::collection::vec(pattern(), 1..3),
        utf8: bool,
        posix: bool,
        from_file: bool,
        operand in prop::sample::select(vec![".", "a", "./a", ".//a", "a/", "ab//ba"]),
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
        if from_file {
            std::fs::write(scene.path("patterns"), patterns.join("\n")).unwrap();
            args = vec!["-Xpatterns".to_owned()];
        }
        args.extend(["-a", operand].map(str::to_owned));
        scene.same_by(&args, |command| {
            if posix {
                command.env("POSIXLY_CORRECT", "1");
            }
        });
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
