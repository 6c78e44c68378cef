//! What can go wrong on the way.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scene::{OURS, Scene, gnu_du, lines, said};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

/// Makes `depth` directories one in the other below `name`, each beside a file
/// and an empty directory. Only names of one component are given to the kernel.
fn deep(scene: &Scene, name: &str, depth: usize, component: &str) {
    scene.folder(name);
    let open = |at: &OwnedFd, name: &str| {
        openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    };
    let mut at = openat(CWD, scene.path(name), OFlags::RDONLY, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&at, "beside", Mode::RWXU).unwrap();
        mkdirat(&at, component, Mode::RWXU).unwrap();
        let file = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&at, "file", file, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, &[b'x'; 100]).unwrap();
        at = open(&at, component);
    }
}

/// A command that may have so many descriptors.
fn limited(scene: &Scene, descriptors: u32, program: &str) -> Command {
    let mut command = scene.command("sh");
    command.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""), program]);
    command
}

#[test]
fn deeper_than_a_path_may_be_long() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    let component = "c".repeat(100);
    deep(&scene, "deep", 120, &component);
    scene.same(&["deep"]);
    scene.same(&["-a", "deep"]);
    scene.same(&["-sc", "deep", "."]);
    // GNU du gives up on long paths with -L. Here is neither link nor loop.
    let lines = |options| scene.command(OURS).args([options, "deep"]).output().unwrap();
    let (physical, logical) = (lines("-a"), lines("-aL"));
    assert_eq!(said(&logical), "");
    assert!(physical.stdout == logical.stdout);
}

#[test]
fn deep_below_what_may_not_be_listed() {
    if !gnu_du() {
        return;
    }
    let mut scene = Scene::new();
    deep(&scene, "unlisted", 60, &"c".repeat(100));
    let unlisted = scene.path("unlisted");
    fs::set_permissions(&unlisted, Permissions::from_mode(0o311)).unwrap();
    scene.without_rights = true;
    let component = "c".repeat(100);
    for operand in [&component, ".", "beside"] {
        for options in ["-s", "-a", "-c"] {
            scene.same_by(&[options, operand], |command| {
                command.current_dir(&unlisted);
            });
        }
    }
    fs::set_permissions(&unlisted, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn few_descriptors_are_enough() {
    let scene = Scene::new();
    deep(&scene, "deep", 200, "d");
    for wide in 0..60 {
        scene.folder(format!("wide/{wide}/x/y")).folder(format!("wide/{wide}/z"));
        scene.file(format!("wide/{wide}/x/file"), 10);
    }
    let expected = scene.command(OURS).args(["-a", "."]).output().unwrap();
    assert!(expected.status.success());
    for descriptors in [6, 7, 10, 20, 40, 100] {
        for who in ["--plain", "--parallel"] {
            let output =
                limited(&scene, descriptors, OURS).args([who, "-a", "."]).output().unwrap();
            assert_eq!(said(&output), "", "{descriptors}");
            assert!(output.status.success());
            assert!(output.stdout == expected.stdout, "{descriptors} descriptors, other lines");
        }
    }
}

#[test]
fn many_operands() {
    let scene = Scene::new();
    (0..420).for_each(|n| _ = scene.folder(format!("large/{n}/x")));
    deep(&scene, "deep", 40, "d");
    scene.folder("small/x");
    let line = |name| scene.command(OURS).args(["-s", name]).output().unwrap().stdout;
    let [large, deep, small] = ["large", "deep", "small"].map(|name| (name, line(name)));
    // The last has so many directories that the program goes through what it
    // remembers of them first among the small ones.
    for (descriptors, times) in [(8, 1), (12, 1), (20, 1), (100, 1), (4096, 19)] {
        let operands = [vec![&large; times], vec![&deep], vec![&small; 200], vec![&large]].concat();
        let expected: Vec<_> = operands.iter().flat_map(|(_, line)| line.clone()).collect();
        for who in ["--plain", "--parallel"] {
            // With -l an operand counts each time.
            let mut command = limited(&scene, descriptors, OURS);
            command.args([who, "-sl"]).args(operands.iter().map(|(name, _)| name));
            let output = command.output().unwrap();
            assert_eq!(said(&output), "", "{descriptors}");
            assert!(output.status.success());
            assert!(output.stdout == expected, "{descriptors} descriptors, other lines");
        }
    }
}

#[test]
fn descriptors_taken_by_others() {
    let scene = Scene::new();
    deep(&scene, "deep", 50, "d");
    let expected = scene.command(OURS).args(["-a", "."]).output().unwrap();
    // The program inherits forty that it knows nothing of.
    let opens: String = (10..50).map(|n| format!("exec {n}</dev/null; ")).collect();
    let output = scene
        .command("bash")
        .args(["-c", &format!("{opens} ulimit -n 55 && exec \"$0\" -a ."), OURS])
        .output()
        .unwrap();
    assert_eq!(said(&output), "");
    assert!(output.status.success() && output.stdout == expected.stdout);
}

#[test]
fn unreadable_directories_count_themselves() {
    if !gnu_du() {
        return;
    }
    let mut scene = Scene::new();
    scene.folder("open/shut/inside").folder("open/unlisted/inside").folder("open/unentered/inside");
    scene.file("open/file", 5000).file("open/shut/file", 5000).file("open/unentered/file", 5000);
    for (name, mode) in [("shut", 0o0), ("unlisted", 0o311), ("unentered", 0o644)] {
        let path = scene.path("open").join(name);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    scene.without_rights = true;
    for args in [&["open"][..], &["-a", "open"], &["-s", "open"], &["-sc", "open/shut", "open"]] {
        scene.same(args);
    }
    for name in ["shut", "unlisted", "unentered"] {
        let path = scene.path("open").join(name);
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_missing_operand_does_not_end_it() {
    let scene = Scene::new();
    scene.folder("a").file("b\nc", 10);
    let output = scene.command(OURS).args(["missing", "a", "no\nname"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.ends_with(b"\ta\n"));
    // A control character reaches no terminal.
    assert_eq!(
        said(&output),
        "kumiki-du: cannot access 'missing': No such file or directory\n\
         kumiki-du: cannot access 'no'$'\\n''name': No such file or directory\n"
    );
}

#[test]
fn lengths_beyond_any_number() {
    let memory = tempfile::tempdir_in("/dev/shm");
    let longest = |name: &str| {
        let file = fs::File::create(memory.as_ref().ok()?.path().join(name)).ok()?;
        file.set_len(i64::MAX.cast_unsigned()).ok()
    };
    if !gnu_du() || !["a", "b", "c"].into_iter().all(|name| longest(name).is_some()) {
        eprintln!("skipped: needs GNU du, and files of any length in /dev/shm");
        return;
    }
    let folder = memory.unwrap();
    for option in ["-b", "-ab", "-sh"] {
        Scene::new().same(&[option.as_ref(), folder.path().as_os_str()]);
    }
}

#[test]
fn a_walk_that_becomes_long() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    for wide in 0..300 {
        scene.folder(format!("wide/{wide}/a")).folder(format!("wide/{wide}/b"));
        (0..5).for_each(|n| _ = scene.file(format!("wide/{wide}/b/{n}"), 10));
    }
    let expected = scene.command("du").args(["-a", "."]).output().unwrap();
    for _ in 0..10 {
        // By either way, from one to the other in between.
        let output = scene.command(OURS).args(["-a", "."]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(lines(&output.stdout, b'\n') == lines(&expected.stdout, b'\n'));
    }
}

#[test]
fn files_come_and_go_meanwhile() {
    let scene = Scene::new();
    for number in 0..40 {
        scene.folder(format!("stays/{number}")).file(format!("stays/{number}/f"), 100);
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for number in 0..40 {
                    let folder = scene.path(format!("stays/{number}/goes/deeper"));
                    let _ = fs::create_dir_all(&folder);
                    let _ = fs::write(folder.join("file"), "x");
                }
                for number in 0..40 {
                    let _ = fs::remove_dir_all(scene.path(format!("stays/{number}/goes")));
                }
            }
        });
        for round in 0..30 {
            let who = if round % 2 == 0 { "--plain" } else { "--parallel" };
            let output = scene.command(OURS).args([who, "-a", "stays"]).output().unwrap();
            let text = String::from_utf8(output.stdout.clone()).unwrap();
            assert!((0..40).all(|n| text.contains(&format!("\tstays/{n}/f\n"))), "{text}");
            for line in said(&output).lines() {
                assert!(
                    line.contains("/goes") && line.ends_with(": No such file or directory"),
                    "{line}"
                );
            }
            assert_eq!(output.status.code(), Some(i32::from(!output.stderr.is_empty())));
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nobody_listens_to_the_errors() {
    let scene = Scene::new();
    scene.folder("a");
    let (_, closed) = std::io::pipe().unwrap();
    let output = scene.command(OURS).args(["missing", "a"]).stderr(closed).output().unwrap();
    // As GNU du: SIGPIPE, which is 13, ends it at the first message.
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(13));
}
