//! Attributes that no file system should give, and may: answers to them are answers.

use std::fs::File;
use std::sync::Arc;

use clap::Parser;
use kumiki_parasc::op::{Attributes, Errno};
use kumiki_parasc::tries::{OpenReadError, Step};
use proptest::prelude::*;

use crate::answer::{Answer, Body};
use crate::args::Args;
use crate::held::Held;
use crate::request::{Parsed, parse};
use crate::response::Clock;
use crate::site::Site;
use crate::work::Opened;

/// Numbers at the ends of every width, near them, and any.
fn number() -> impl Strategy<Value = u64> {
    let near =
        (0..64_u32, -2..3_i64).prop_map(|(bit, more)| (1_u64 << bit).wrapping_add_signed(more));
    prop_oneof![Just(0), Just(u64::MAX), near, any::<u64>(), 0..300_000_u64]
}

/// The end of what a date can tell, beside them.
fn second() -> impl Strategy<Value = i64> {
    let end = (-2..3_i64).prop_map(|more| 253_402_300_800 + more);
    prop_oneof![number().prop_map(|number| number as i64), end, -2..3_i64]
}

prop_compose! {
    fn attributes()(
        (size, inode, blocks) in (number(), number(), number()),
        times in prop::array::uniform3((second(), prop_oneof![Just(0), 0..1_000_000_000_u32, any::<u32>()])),
        kind in prop::sample::select(vec![libc::S_IFREG, libc::S_IFREG, libc::S_IFDIR, libc::S_IFIFO, libc::S_IFLNK, 0]),
        (permissions, links, mask) in (any::<u16>(), any::<u32>(), any::<u32>()),
        device in any::<(u32, u32)>(),
    ) -> Attributes {
        let mut raw = attributes_of(&File::open("/dev/null").unwrap());
        let stamps = [&mut raw.stx_atime, &mut raw.stx_mtime, &mut raw.stx_ctime];
        for (stamp, (second, nanosecond)) in stamps.into_iter().zip(times) {
            (stamp.tv_sec, stamp.tv_nsec) = (second, nanosecond);
        }
        (raw.stx_size, raw.stx_ino, raw.stx_blocks) = (size, inode, blocks);
        raw.stx_mode = kind as u16 & libc::S_IFMT as u16 | permissions & 0o7777;
        (raw.stx_nlink, raw.stx_mask) = (links, mask);
        (raw.stx_dev_major, raw.stx_dev_minor) = device;
        Attributes::from_raw(raw)
    }
}

/// Attributes to begin with: the structure has fields that only the C library names.
fn attributes_of(file: &File) -> libc::statx {
    let mut statx = kumiki_parasc::op::Statx::new(
        file,
        c"",
        rustix::fs::AtFlags::EMPTY_PATH,
        rustix::fs::StatxFlags::BASIC_STATS,
    );
    kumiki_parasc::tries::attempt(&mut statx).unwrap().unwrap();
    *statx.attributes().unwrap().as_raw()
}

/// Fields that ask for parts, or under conditions, of numbers and dates of any size.
fn fields() -> impl Strategy<Value = String> {
    let range = prop_oneof![
        (number(), number()).prop_map(|(first, last)| format!("Range: bytes={first}-{last}\r\n")),
        number().prop_map(|first| format!("Range: bytes={first}-\r\n")),
        number().prop_map(|last| format!("Range: bytes=-{last}\r\n")),
        "[0-9,\\- ]{0,30}".prop_map(|any| format!("Range: bytes={any}\r\n")),
        Just(String::new()),
    ];
    let date = second().prop_map(crate::date::http_date);
    let name = prop::sample::select(vec![
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Range",
        "If-Match",
        "If-None-Match",
        "X",
    ]);
    (range, name, date).prop_map(|(range, name, date)| format!("{range}{name}: {date}\r\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_a_file_system_says_there_is_an_answer(
        attributes in attributes(), fields in fields(), data in 0..200_usize,
        method in prop::sample::select(vec!["GET", "HEAD"]), folder: bool,
    ) {
        let args = Args::parse_from(["kumiki-httpd", "/"]);
        let site = Site::open(&args).unwrap();
        let slash = if folder { "/" } else { "" };
        let input = format!("{method} /a{slash} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let Parsed::Head(head) = parse(input.as_bytes()) else { panic!("{input}") };
        let mut answer = Answer::default();
        answer.begin();
        for at in 0.. {
            let Some(candidate) = site.candidate(&head, at) else { break };
            let asked = answer.request(&head, candidate.path.clone(), &site.root().folder, 1000);
            drop(asked);
            let file = Arc::new(Held::folder(File::open("/dev/null").unwrap().into()));
            let opened = Opened { file, attributes, data: vec![7; data], described: None };
            match answer.opened(&head, &candidate, Ok(opened), true, true, &mut Clock::new()) {
                Body::Ready => {
                    check(&mut answer, attributes.size(), data);
                    break;
                }
                Body::Folder(_) | Body::Short(_) | Body::Look(_) => break,
                Body::Next => (),
            }
        }
    }

    #[test]
    fn any_error_of_a_file_system_has_an_answer(error in 1..4096_i32) {
        let site = Site::open(&Args::parse_from(["kumiki-httpd", "/"])).unwrap();
        let Parsed::Head(head) = parse(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n") else { panic!() };
        let candidate = site.candidate(&head, 0).unwrap();
        for step in [Step::Open, Step::Attributes, Step::Read] {
            let failed = Err(OpenReadError { step, errno: Errno::from_raw_os_error(error) });
            let mut answer = Answer::default();
            let body = answer.opened(&head, &candidate, failed, true, true, &mut Clock::new());
            let is_answer = matches!(body, Body::Next | Body::Short(_) | Body::Look(_));
            prop_assert!(is_answer);
        }
    }
}

/// A head that reads back, with lengths that agree, and a body of what the head says.
fn check(answer: &mut Answer, size: u64, read: usize) {
    let (bytes, data) = answer.unsent();
    let (bytes, in_memory) = (bytes.to_vec(), data.len() as u64);
    let mut fields = [httparse::EMPTY_HEADER; 20];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(&bytes).unwrap();
    assert!(parsed.is_complete(), "{}", String::from_utf8_lossy(&bytes));
    let field = |name: &str| {
        let field = response.headers.iter().find(|field| field.name == name);
        field.map(|field| std::str::from_utf8(field.value).unwrap())
    };
    let length: u64 = field("Content-Length").map_or(0, |length| length.parse().unwrap());
    assert!(in_memory <= length && answer.left() <= length);
    match response.code.unwrap() {
        // Of a file that ends before it should, or tells no length, what was read.
        200 => assert!(length == size || length == read as u64 && (size == 0 || length < size)),
        206 => {
            let range = field("Content-Range").unwrap().strip_prefix("bytes ").unwrap();
            let (part, whole) = range.split_once('/').unwrap();
            let (first, last) = part.split_once('-').unwrap();
            let [first, last, whole] = [first, last, whole].map(|it| it.parse::<u64>().unwrap());
            assert!(first <= last && last < whole && whole == size, "{range}");
            assert_eq!(u128::from(last) - u128::from(first) + 1, u128::from(length));
        }
        304 | 416 => assert_eq!(length, 0),
        301 => assert!(field("Location").is_some()),
        other => panic!("{other}"),
    }
}
