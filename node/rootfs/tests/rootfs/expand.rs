//! Small archives that ask for much: memory, time, room. Each is refused by what it asks for.

use std::io::Write;

use kumiki_rootfs::Limits;
use tar::{EntryType, Header};

use crate::corpus::read_tar;

fn header(name: &str, kind: u8, size: u64, linked: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_link_name_literal(linked).unwrap();
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn filled(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length += 1;
    }
    filled([length.to_string().as_bytes(), &rest].concat())
}

fn with_records(key: &str, value: &[u8], entry: Vec<u8>) -> Vec<u8> {
    let records = record(key, value);
    let length = records.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    [header("records", b'x', length as u64, b""), records, entry].concat()
}

/// What is said of it, packed, with bytes that expand after it.
fn refused(parts: &[Vec<u8>], zeros: u64, limits: Limits) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.tar.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    parts.iter().for_each(|part| packed.write_all(part).unwrap());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), zeros), &mut packed).unwrap();
    packed.finish().unwrap();
    read_tar(&path, limits).err().unwrap_or_default()
}

#[test]
fn headers_that_say_to_be_long_are_refused_before_they_are_read() {
    for (kind, says) in [
        (b'L', "a name of 2147483648 bytes"),
        (b'K', "a name of 2147483648 bytes"),
        (b'x', "an extended header of 2147483648 bytes, of 1048576 at most"),
        (b'g', "an extended header of 2147483648 bytes"),
    ] {
        let error = refused(&[header("long", kind, 2 << 30, b"")], 2048, Limits::default());
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_is_unpacked_is_counted_be_it_of_a_file_or_not() {
    let limits = Limits { bytes: 1 << 20, entries: 100, ..Limits::default() };
    let file = |size| header("file", b'0', size, b"");
    let after_end = refused(&[file(0)], 4 << 20, limits);
    assert!(after_end.contains("unpacks to more than the limit"), "{after_end}");
    let content = refused(&[file(4 << 20)], 4 << 20, limits);
    assert!(content.contains("file: with it the image has more than 1048576 bytes"), "{content}");
    // Holes are memory, too.
    let mut holes = header("holes", b'S', 0, b"");
    holes[483..495].copy_from_slice(b"77777777777\0");
    let mut header = *Header::from_byte_slice(&holes).as_bytes();
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let holes = refused(&[header.to_vec()], 1024, limits);
    assert!(holes.contains("holes: with it the image has more than 1048576 bytes"), "{holes}");
}

#[test]
fn names_links_and_attributes_that_stay_in_memory_are_counted() {
    let limits = Limits { names: 1 << 20, ..Limits::default() };
    let value = vec![b'v'; 60_000];
    let attributes: Vec<_> = (0..40)
        .map(|n| {
            with_records("SCHILY.xattr.user.x", &value, header(&format!("f{n}"), b'0', 0, b""))
        })
        .collect();
    let error = refused(&attributes, 1024, limits);
    assert!(error.contains("more than 1048576 bytes of names, links and attributes"), "{error}");
    let links: Vec<_> = (0..400)
        .map(|n| with_records("linkpath", &[b'a'; 4000], header(&format!("l{n}"), b'2', 0, b"x")))
        .collect();
    let error = refused(&links, 1024, limits);
    assert!(error.contains("more than 1048576 bytes of names, links and attributes"), "{error}");
}

#[test]
fn links_that_lead_through_links_for_ever_are_refused_by_their_length() {
    let mut entries = vec![header("d/", b'5', 0, b"")];
    let turns = "./d/../".repeat(540);
    for n in 0..38 {
        let target = format!("{turns}l{}", n + 1);
        let target = target.replace("./d/", "d/");
        entries.push(with_records(
            "linkpath",
            target.as_bytes(),
            header(&format!("l{n}"), b'2', 0, b"x"),
        ));
    }
    entries.push(header("l38", b'2', 0, b"d"));
    entries.extend((0..1000).map(|n| header(&format!("l0/f{n}"), b'0', 0, b"")));
    let error = refused(&entries, 1024, Limits::default());
    assert!(error.contains("lead through more than"), "{error}");
}
