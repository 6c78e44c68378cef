//! Names of what is counted: from the command line, from a file, and in messages.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use proptest::prelude::*;

use crate::scene::{Gnu, OURS, Scene, for_anybody, gnu_du, said};
use crate::trees::{any_name, kept};

#[test]
fn names_from_a_file() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.folder("a/b").file("a/f", 5000).file("a/b/g", 9000).file("-", 1).hard_link("a/f", "h");
    for list in [
        "",
        "a",
        "a\0",
        "a\0h\0",
        "h\0a\0",
        "a\0a\0",
        "\0",
        "\0\0a\0",
        "a\0\0h",
        "missing\0a",
        "-\0a\0",
        "a\n\0h\n",
        "a/b\0a/f\0a\0",
        "a//\0",
    ] {
        std::fs::write(scene.path("list"), list).unwrap();
        for options in [&["-a"][..], &["-ac"], &["-sl"], &["-c", "--inodes"], &["-s", "-0"]] {
            scene.same(&[options, &["--files0-from=list"]].concat());
            scene.same_by(&[options, &["--files0-from", "-"]].concat(), |command| {
                command.stdin(File::open(scene.path("list")).unwrap());
            });
        }
    }
    for wrong in [
        &["--files0-from=missing"][..],
        &["--files0-from=."],
        &["--files0-from=.", "-c"],
        &["--files0-from=list", "a"],
        &["--files0-from=-", "a", "b c"],
        &["--files0-from=odd: name"],
        &["--files0-from="],
        &["--files0-from"],
        // Patterns have read all there is.
        &["-X-", "--files0-from=-"],
    ] {
        scene.same_by(wrong, |command| {
            command.stdin(File::open(scene.path("list")).unwrap());
        });
    }
    std::fs::write(scene.path("a: list"), "\0missing\0").unwrap();
    scene.same(&["--files0-from=a: list"]);
}

#[test]
fn names_are_counted_as_they_come() {
    use std::io::{BufRead, BufReader, Write};
    let scene = Scene::new();
    scene.folder("a").folder("b");
    let mut command = scene.command(OURS);
    command.arg("--files0-from=-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    for name in ["a", "b"] {
        write!(to, "{name}\0").unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        assert!(line.ends_with(&format!("\t{name}\n")), "{line}");
    }
    drop(to);
    assert!(child.wait().unwrap().success());
}

#[test]
fn messages_begin_with_the_name_it_was_called_by() {
    let scene = Scene::new();
    for name in ["du", "/usr/bin/du", "kumiki-du", "my du"] {
        let run = |args: &[&str]| {
            let mut command = scene.command(OURS);
            let output = command.arg0(name).args(args).output().unwrap();
            (output.status.code(), said(&output))
        };
        let missing = format!("{name}: cannot access 'missing': No such file or directory\n");
        assert_eq!(run(&["missing"]), (Some(1), missing));
        let hint = format!("Try '{name} --help' for more information.\n");
        let wrong = format!("{name}: unrecognized option '--nonsense'\n{hint}");
        assert_eq!(run(&["--nonsense"]), (Some(1), wrong));
    }
}

#[test]
fn a_working_directory_that_may_not_be_entered() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.folder("no").folder("far/x").file("far/f", 5000);
    let far = scene.path("far");
    let run = |program: &OsStr, operand: &OsStr| {
        let user = if rustix::process::geteuid().is_root() {
            "setpriv --reuid 65534 --regid 65534 --clear-groups"
        } else {
            ""
        };
        let mut command = scene.command("sh");
        command.args(["-c", &format!("cd no && chmod 0 . && exec {user} \"$0\" -a \"$1\"")]);
        let output = command.arg(program).arg(operand).output().unwrap();
        let told = said(&output).split_once(": ").map(|(_, text)| text.to_owned());
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), told)
    };
    let ours = for_anybody();
    for operand in [far.as_os_str(), "..".as_ref(), ".".as_ref(), "x".as_ref()] {
        assert_eq!(run(&ours, operand), run("du".as_ref(), operand), "{operand:?}");
        std::fs::set_permissions(scene.path("no"), Permissions::from_mode(0o755)).unwrap();
    }
}

proptest! {
    #![proptest_config(kept(32))]

    #[test]
    fn names_in_messages(name in any_name(), utf8: bool) {
        let Some(gnu) = Gnu::here() else { return Ok(()) };
        let odd = |byte: &u8| !(b' '..=b'~').contains(byte);
        if name.contains(&b'\'') && name.iter().any(odd) && !gnu.quotes_apostrophes() {
            return Ok(());
        }
        let mut scene = Scene::new();
        scene.locale = if utf8 { "C.UTF-8" } else { "C" };
        let name = OsString::from_vec(name);
        let joined = |before: &str| {
            let mut argument = OsString::from(before);
            argument.push(&name);
            argument
        };
        scene.same(&["--".into(), name.clone()]);
        for before in ["-X", "-d", "--files0-from=", "--time=", "-t", "-B", "--"] {
            // GNU du's version is not ours, nor is its help.
            let shortened = |option: &str| option.as_bytes().starts_with(name.as_bytes());
            if before == "--" && ["version", "help"].into_iter().any(shortened) {
                continue;
            }
            let unknown_unit = before == "-t" && name.as_bytes().iter().any(|b| b"RQ".contains(b));
            if !unknown_unit || gnu.has_signed_depths() {
                scene.same(&[joined(before), "x y".into()]);
            }
        }
        scene.same(&["--time".into(), joined("--time-style="), ".".into(), "--total=".into()]);
    }
}
