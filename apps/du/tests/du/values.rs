//! Values of options, right and wrong, and what is said of the wrong ones.

use proptest::prelude::*;

use crate::scene::{Gnu, OURS, Scene, gnu_du, said};
use crate::trees::kept;

#[test]
fn wrong_values_are_refused() {
    let scene = Scene::new();
    for (args, expected) in [
        (&["--nonsense"][..], "unrecognized option '--nonsense'"),
        (&["-d"], "option requires an argument -- 'd'"),
        (&["--max"], "option '--max-depth' requires an argument"),
        (&["-B", "nonsense"], "invalid -B argument 'nonsense'"),
        (&["-B0"], "invalid -B argument '0'"),
        (&["-B", "1z"], "invalid suffix in -B argument '1z'"),
        (&["--block-size=1Y"], "--block-size argument '1Y' too large"),
        (
            &["--excl=a"],
            "option '--excl=a' is ambiguous; possibilities: '--exclude' '--exclude-from'",
        ),
        (&["--t"], "ambiguous; possibilities: '--total' '--threshold' '--time' '--time-style'"),
        (&["--all=1"], "option '--all' doesn't allow an argument"),
        (&["-X", "missing"], "missing: No such file or directory"),
        (&["-d", "x", "-q", "--x", "-X", "none"], "invalid maximum depth 'x'"),
        (&["-t", "-0"], "invalid --threshold argument '-0'"),
        (&["--time=n"], "invalid argument 'n' for '--time'"),
        (&["--time", "--time-style=short"], "invalid argument 'short' for 'time style'"),
    ] {
        let output = scene.command(OURS).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert!(output.stdout.is_empty());
        if gnu_du() {
            scene.same(args);
        }
    }
}

#[test]
fn depths() {
    let Some(gnu) = Gnu::here() else { return };
    let scene = Scene::new();
    scene.folder("a/b/c/d").file("a/f", 5000);
    for depth in [
        "0",
        "1",
        "0x1",
        "01",
        " 2",
        "+1",
        "99999",
        "",
        "x",
        "1k",
        "1 ",
        "0x",
        "9223372036854775807",
    ] {
        scene.same(&["-a", "-d", depth]);
        scene.same(&[format!("--max-depth={depth}"), "a".into()]);
    }
    if gnu.has_signed_depths() {
        scene.same(&["-d", "9223372036854775808"]);
    }
    if gnu.takes_negative_depths() {
        scene.same(&["-a", "-d", "-1"]);
        scene.same(&["-d-0x10", "a", "."]);
        scene.same(&["-s", "-d", "-1"]);
    }
    let output = scene.command(OURS).args(["-a", "-d", "-1", "a"]).output().unwrap();
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

#[test]
fn help_and_version_come_in_their_turn() {
    let scene = Scene::new();
    for (args, code) in [
        (&["-z", "--help"][..], 0),
        (&["--ver", "-z"], 0),
        (&["-Bx", "--help"], 1),
        (&["--h", "--help"], 0),
    ] {
        let output = scene.command(OURS).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(output.stdout.is_empty(), code != 0, "{args:?}");
        if gnu_du() {
            let theirs = scene.command("du").args(args).output().unwrap();
            assert_eq!(theirs.status, output.status);
            assert_eq!(said(&theirs).replace("du:", "kumiki-du:"), said(&output));
        }
    }
}

/// What a value may be made of.
fn value() -> impl Strategy<Value = String> {
    let pieces = [
        "0",
        "1",
        "7",
        "8",
        "9",
        "16",
        "x",
        "X",
        "a",
        "f",
        "K",
        "k",
        "M",
        "m",
        "g",
        "t",
        "P",
        "E",
        "Y",
        "Z",
        "R",
        "Q",
        "iB",
        "i",
        "B",
        "D",
        "b",
        "e",
        "-",
        "+",
        " ",
        "\t",
        "'",
        "human-readable",
        "human",
        "h",
        "si",
        "s",
        "18446744073709551615",
        "9223372036854775808",
        "99999999999",
        "0x",
        "0b1",
        "c",
        "w",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..5)
        .prop_map(|pieces| pieces.concat())
}

/// Whether both read the same number in `value`.
fn comparable(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let binary = value.contains("0b0") || value.contains("0b1");
    !binary || Gnu::reads_binary()
}

proptest! {
    #![proptest_config(kept(48))]

    #[test]
    fn any_value(value in value(), inodes: bool) {
        let Some(gnu) = Gnu::here() else { return Ok(()) };
        if !comparable(&value) {
            return Ok(());
        }
        let scene = Scene::new();
        scene.folder("a").file("a/f", 70_000).file("g", 3000).file("h", 1);
        let other = if inodes { "--inodes" } else { "-a" };
        scene.same(&["-a".into(), format!("--block-size={value}"), other.into()]);
        scene.same(&["-a", "-B", &value]);
        let new_unit = value.contains(['R', 'Q']) && !gnu.has_signed_depths();
        if !new_unit {
            scene.same(&["-a".into(), format!("--threshold={value}"), other.into()]);
        }
        let signed = value.contains('-') || value.contains("99999") || value.contains("9223372");
        let huge = value.len() > 17;
        if gnu.has_signed_depths() && !signed || gnu.takes_negative_depths() || !signed && !huge {
            scene.same(&["-a", "-d", &value]);
        }
        for variable in ["DU_BLOCK_SIZE", "BLOCK_SIZE", "BLOCKSIZE"] {
            scene.same_by(&["-a", other], |command| {
                command.env(variable, &value);
            });
        }
        scene.same_by(&["-a", "-h"], |command| {
            command.env("BLOCK_SIZE", &value);
        });
    }

    #[test]
    fn any_words(word in "[-a-z]{0,4}", style in "\\PC{0,4}") {
        if !gnu_du() {
            return Ok(());
        }
        let scene = Scene::new();
        scene.file("f", 1);
        scene.same(&[format!("--time={word}"), "--time-style=+".into()]);
        scene.same(&["--time".into(), format!("--time-style={style}")]);
        // Each tells of itself there.
        let own = ["help", "version"].iter().any(|own| own.starts_with(&word));
        if !own {
            scene.same(&[format!("--{word}"), "f".into()]);
        }
        scene.same_by(&["--time", "-s"], |command| {
            command.env("TIME_STYLE", format!("posix-{word}"));
        });
    }
}
