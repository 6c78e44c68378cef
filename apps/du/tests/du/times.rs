//! Times: which ones, of which files, and how they are printed.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::scene::{OURS, Scene, gnu_du, said};
use crate::trees::kept;

/// Sets when something was read and modified last, links themselves.
pub(crate) fn set_times(path: &Path, read: Timespec, modified: Timespec) {
    let times = Timestamps { last_access: read, last_modification: modified };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn at(seconds: i64) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: 123_456_789 }
}

#[test]
fn the_latest_time_below() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.folder("a/b/c").folder("a/d").file("a/f", 1).file("a/b/g", 1).file("a/b/c/h", 1);
    scene.hard_link("a/b/c/h", "a/d/again").link("b/g", "a/link").folder("empty");
    let later = [
        ("a/b/c/h", 9_000),
        ("a/b/g", 5_000),
        ("a/f", 7_000),
        ("a/link", 6_000),
        ("a/b/c", 4_000),
        ("a/d", 8_000),
        ("a/b", 3_000),
        ("a", 2_000),
        ("empty", 1_000),
        (".", 500),
    ];
    for (name, seconds) in later {
        set_times(&scene.path(name), at(1_000_000_000 - seconds), at(1_700_000_000 + seconds));
    }
    for options in [
        "--time",
        "--time=atime",
        "--time=access",
        "--time=use",
        "--time=ctime",
        "--time=status",
        "--time -a",
        "--time -S",
        "--time -aS",
        "--time -s",
        "--time -c",
        "--time -d1",
        "--time -al",
        "--time -L",
        "--time -x --inodes",
        "--time -b",
        "--time -0",
        "--time=u -a",
        "--time -t 5K",
        "--time=atime --time",
        "--time-style=iso",
        "--time --exclude=h",
        "--time --exclude=c -a",
    ] {
        let options: Vec<_> = options.split(' ').collect();
        if options.contains(&"-b") {
            continue;
        }
        for style in ["full-iso", "+%s.%N"] {
            let style = format!("--time-style={style}");
            let options = [&options[..], &[&style]].concat();
            scene.same(&options);
            scene.same(&[&options[..], &["a/d", "a", "a/f"]].concat());
            scene.same(&[&options[..], &["a/b/c/h", "empty"]].concat());
        }
    }
    // Of nothing at all the total is of 1970.
    scene.same(&["-c", "--time", "missing"]);
}

#[test]
fn styles_and_zones() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.file("f", 1);
    for seconds in [0, 1, 951_782_400, 1_709_164_800, 1_720_000_000, 2_147_483_648, 4_102_444_799] {
        set_times(&scene.path("f"), at(seconds), at(seconds));
        for zone in [
            "",
            "UTC0",
            ":UTC0",
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "EST5EDT",
            "<+0330>-3:30",
            "XXX3",
            "NST3:30:17",
            "Europe/Berlin",
            ":America/New_York",
            "nonsense",
            "<-00>0",
            "UTC+24",
            "no/such",
            "x",
            "AB1",
        ] {
            scene.same_by(
                &["--time", "--time-style=+%F %T.%N %z %:z %::z %:::z", "f"],
                |command| {
                    command.env("TZ", zone);
                },
            );
            if zone != "no/such" && zone != "x" && zone != "AB1" {
                scene.same_by(&["--time", "--time-style=+%Z", "f"], |command| {
                    command.env("TZ", zone);
                });
            }
        }
    }
    for style in [
        "full-iso",
        "iso",
        "locale",
        "posix-iso",
        "posix-posix-long-iso",
        "posix-locale",
        "+%Y\n+%m",
        "+",
        "",
        "nonsense",
        "posix-",
        "full",
    ] {
        for args in [&["--time", "f"][..], &["--time", "--time-style=iso", "f"], &["f"]] {
            scene.same_by(args, |command| {
                command.env("TIME_STYLE", style).env("TZ", "UTC0");
            });
        }
    }
    // Not of the option, for which it is a style like any other.
    scene.same(&["--time", "--time-style=posix-iso", "f"]);
    scene.same(&["--time", "--time-style=locale", "f"]);
}

/// Years that only some file systems hold: this one does, as far as the kernel lets it.
#[test]
fn years_beyond_any_calendar() {
    let Some(scene) = Scene::within("/dev/shm").ok().filter(|_| gnu_du()) else {
        eprintln!("skipped: needs GNU du and /dev/shm");
        return;
    };
    scene.folder("a").file("a/f", 1);
    for seconds in
        [253_402_300_800, 67_767_976_233_532_799, 67_768_036_191_676_799, i64::MAX, i64::MAX - 1]
    {
        set_times(&scene.path("a/f"), at(0), at(seconds));
        set_times(&scene.path("a"), at(0), at(5));
        for style in ["full-iso", "long-iso", "+%Y %C %y %G %g %V %j %a", "+%s", "+%+F %10F %_12Y"]
        {
            let style = format!("--time-style={style}");
            for zone in ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3"] {
                scene.same_by(&["-a", "--time", &style, "a"], |command| {
                    command.env("TZ", zone);
                });
            }
        }
    }
}

#[test]
fn a_reader_of_times_needs_no_calendar() {
    let scene = Scene::new();
    scene.file("f", 1);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    File::options()
        .write(true)
        .open(scene.path("f"))
        .unwrap()
        .set_times(FileTimes::new().set_modified(time))
        .unwrap();
    let mut command = scene.command(OURS);
    let output = command.args(["-B4096", "--time", "f"]).env("TZ", "UTC0").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "1\t1970-01-02 00:00\tf\n",
        "{}",
        said(&output)
    );
}

/// What a format may be made of.
fn format() -> impl Strategy<Value = String> {
    let letters =
        "aAbBcCdDeFgGhHIjklmMnNpPqrRsStTuUVwWxXyYzZ%:;QLfiJKov".chars().collect::<Vec<_>>();
    let field = ("[-_0+^#]{0,2}", prop_oneof![3 => Just(String::new()), 1 => "[0-9]{1,2}"])
        .prop_flat_map(move |(flags, width)| {
            let letter = prop::sample::select(letters.clone());
            letter.prop_map(move |letter| format!("%{flags}{width}{letter}"))
        });
    let other = prop::sample::select(vec![
        "%:z", "%::z", "%:::z", "%::::z", "%_10:z", "%", " ", "x", "%Ey", "%EY", "%EC", "%Ex",
        "%Od", "%OH", "%5Om", "%Ed", "%Oa", "%E", "%10%", "%-", "\u{e9}", "%^Ec", "%#c", "%010c",
        "%_12::z", "%-:::z",
    ]);
    let piece = prop_oneof![4 => field, 1 => other.prop_map(str::to_owned)];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(kept(96))]

    #[test]
    fn any_format(format in format(), seconds in 0i64..8_000_000_000, nanoseconds in 0i64..1_000_000_000,
        coarse in 0u32..9, zone in prop::sample::select(vec![
            "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "NST3:30:17NDT,M3.2.0,M11.1.0", "<-03>3", "XXX-14"]))
    {
        if !gnu_du() {
            return Ok(());
        }
        let scene = Scene::new();
        scene.file("f", 1);
        let step = 10i64.pow(coarse);
        let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds / step * step };
        set_times(&scene.path("f"), time, time);
        scene.same_by(&["--time".into(), format!("--time-style=+{format}"), "f".into()], |command| {
            command.env("TZ", zone);
        });
    }
}
