//! Every option, against GNU du.

use std::fs::File;

use crate::scene::{OURS, Scene, gnu_du, said};

/// A tree with a bit of everything.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.folder("a/b/c").folder("a/d").folder("e");
    scene.file("a/one", 1).file("a/b/large", 300_000).file("a/b/c/mid", 5000).file("e/f", 70_000);
    scene.hard_link("a/b/large", "a/d/again").hard_link("a/b/large", "e/more");
    scene.hard_link("a/b/large", "a/0");
    scene
        .link("b", "a/link")
        .link("../e/f", "a/file-link")
        .link("a", "top")
        .link("none", "dangling");
    scene.file("a/.hidden", 10).file("-dash", 10).file("a/name.o", 9000);
    scene
}

#[test]
fn one_option_at_a_time() {
    if !gnu_du() {
        return;
    }
    let scene = scene();
    let each = "-a -s -c -ac -h -ah -k -m -l -al -S -aS -sS -x -ax -d0 -d1 -ad1 -ad2 --max-depth=3 -0 \
                -a0 --si -ak -am -B1 -aB512 -BM -aBkB -aBKiB --block-size=4K \
                --block-size=human-readable -P -aP -D -cSl -hk -kh --total --all";
    scene.same::<&str>(&[]);
    for option in each.split_whitespace() {
        scene.same(&[option]);
        scene.same(&["-B1", option, "a", "e", "a/b"]);
        scene.same(&[option, "./-dash"]);
        scene.same(&[option, "--", "-dash"]);
    }
}

#[test]
fn operands() {
    if !gnu_du() {
        return;
    }
    let scene = scene();
    let each = "a; a/; a///; ./a; a/one; a a; a a/b; a/b a; a/b/large a/d/again; a/d e a; top; top/; \
                dangling; missing a; a/link a; a/.. a; .; a/one a/one/; ; a  missing";
    for operands in each.split("; ") {
        let operands: Vec<_> = operands.split(' ').collect();
        for options in ["-a", "-ac", "-al", "-aD"] {
            scene.same(&[&[options], &operands[..]].concat());
        }
    }
    scene.same(&[""]);
    // By whatever way one leads, the next begins at the working directory.
    let whole = scene.path("a/b");
    let whole = whole.to_str().unwrap();
    scene.same(&["-a", "a/d/../b", whole, "e", "a/b/../../e/f"]);
    scene.same(&["-al", whole, "a/b/c/..", "./e", "top/b"]);
    // The root's children have one slash.
    scene.same(&["-xd1", "/dev/"]);
}

#[test]
fn other_file_systems() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    // Where others are mounted on nearly every machine.
    scene.same(&["-ax", "/dev"]);
    scene.same(&["-a", "/dev"]);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().any(|mount| mount.split(' ').nth(4) == Some("/dev/shm"));
    let Some(inside) = mounted.then(|| tempfile::NamedTempFile::new_in("/dev/shm").ok()).flatten()
    else {
        eprintln!("skipped: no file can be made in a file system mounted at /dev/shm");
        return;
    };
    let found = |option| {
        let output = scene.command(OURS).args([option, "/dev"]).output().unwrap();
        let name = inside.path().file_name().unwrap().to_str().unwrap().to_owned();
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.ends_with(&name))
    };
    assert_eq!([found("-a"), found("-ax")], [true, false]);
}

#[test]
fn patterns_from_files() {
    if !gnu_du() {
        return;
    }
    let scene = scene();
    std::fs::write(scene.path("patterns"), "*.o \n\n  \none\nb/c").unwrap();
    std::fs::write(scene.path("more"), "e\n").unwrap();
    // A line ends at a NUL; what ends with blanks, before them.
    for patterns in [&b"one\0nonsense\nb\0\n"[..], b"\0\n", b"a/one \0\n", b"one\x0b\r\n", b"*e\0*"]
    {
        std::fs::write(scene.path("nul"), patterns).unwrap();
        scene.same(&["-a", "-X", "nul", "a", "e/"]);
    }
    scene.same(&["-a", "--exclude=", "a/", "e"]);
    scene.same(&["-X", ".", "-a"]);
    scene.same(&["-a", "-X", "patterns", "--exclude-from=more", "--exclude", "link"]);
    // The second time there is nothing left.
    for options in [&["-X-"][..], &["--exclude-from=-", "-X", "-"], &["-X-", "-Xmore"]] {
        scene.same_by(&[&["-a"], options].concat(), |command| {
            command.stdin(File::open(scene.path("patterns")).unwrap());
        });
    }
}

#[test]
fn environment() {
    if !gnu_du() {
        return;
    }
    let scene = scene();
    for (variable, value) in [
        ("DU_BLOCK_SIZE", "512"),
        ("BLOCK_SIZE", "human-readable"),
        ("BLOCKSIZE", "2K"),
        ("DU_BLOCK_SIZE", "nonsense"),
        ("DU_BLOCK_SIZE", ""),
        ("DU_BLOCK_SIZE", "0K"),
        ("BLOCK_SIZE", "1z"),
        ("BLOCK_SIZE", "3KiBs"),
        ("BLOCKSIZE", "kBs"),
        ("BLOCKSIZE", "16E"),
        ("BLOCKSIZE", "Y"),
        ("POSIXLY_CORRECT", "1"),
    ] {
        scene.same_by(&["-a"], |command| {
            command.env(variable, value);
        });
    }
    // The first operand ends the options.
    for args in [&["-a", "a", "-s"][..], &["a", "--", "e"], &["--", "a", "-a"]] {
        scene.same_by(args, |command| {
            command.env("POSIXLY_CORRECT", "1");
        });
    }
}

#[test]
fn long_options_shortened() {
    if !gnu_du() {
        return;
    }
    let scene = scene();
    for option in [
        "--al",
        "--max=1",
        "--bl=512",
        "--tot",
        "--sum",
        "--se",
        "--si",
        "--hum",
        "--one",
        "--count",
        "--nu",
        "--no",
        "--dereference",
        "--dereference-a",
        "--exclude-f=-",
    ] {
        scene.same(&[option, "a", "top"]);
    }
}

#[test]
fn options_that_exclude_each_other() {
    let scene = scene();
    for (args, expected) in [
        (&["-s", "-a"][..], "cannot both summarize and show all entries"),
        (&["-s", "-d2", "-a"], "cannot both summarize and show all entries"),
        (&["-s", "-d1"], "warning: summarizing conflicts with --max-depth=1"),
        (&["-s", "-d0"], "warning: summarizing is the same as using --max-depth=0"),
    ] {
        let ours = scene.command(OURS).args(args).output().unwrap();
        assert!(said(&ours).contains(expected), "{}", said(&ours));
        if gnu_du() {
            scene.same(args);
        }
    }
}

#[test]
fn help_has_examples() {
    let output = Scene::new().command(OURS).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("kumiki-du -sh /usr"), "{text}");
}
