use std::fs::File;
use std::io::{Read, Seek, Write};

use kumiki_parasc::op::{CopyFileRange, Errno, Sendfile, Splice};
use rustix::pipe::SpliceFlags;

use super::execute;

fn file(content: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

fn content(mut file: &File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn ranges_are_copied_between_files() {
    let (from, to) = (file("0123456789"), file("----------"));
    let mut copy = CopyFileRange::new(&from, Some(2), &to, Some(1), 3);
    assert_eq!(execute(&mut copy), Ok(3));
    assert_eq!(content(&to), "-234------");
    // It goes on where it stopped.
    assert_eq!(execute(&mut copy), Ok(3));
    assert_eq!(content(&to), "-234567---");
    let (_, from_offset, _, to_offset, _) = copy.into_parts();
    assert_eq!((from_offset, to_offset), (Some(8), Some(7)));

    let (pipe, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut CopyFileRange::new(&pipe, None, &to, None, 1)), Err(Errno::INVAL));
}

#[test]
fn files_are_sent_to_pipes() {
    let from = file("0123456789");
    let (mut reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut send = Sendfile::new(&writer, &from, Some(6), 100);
    assert_eq!(execute(&mut send), Ok(4));
    assert_eq!(execute(&mut send), Ok(0));
    // Without an offset, from its position on.
    assert_eq!(execute(&mut Sendfile::new(&writer, &from, None, 2)), Ok(2));
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "678901");
    assert_eq!(execute(&mut Sendfile::new(&reader, &from, None, 2)), Err(Errno::BADF));
}

#[test]
fn pipes_are_spliced() {
    let (from, to) = (file("0123456789"), file("----------"));
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let none = SpliceFlags::empty();
    assert_eq!(execute(&mut Splice::new(&from, Some(5), &writer, None, 4, none)), Ok(4));
    assert_eq!(execute(&mut Splice::new(&reader, None, &to, Some(1), 9, none)), Ok(4));
    assert_eq!(content(&to), "-5678-----");
    let mut nowhere = Splice::new(&from, None, &to, None, 1, none);
    assert_eq!(execute(&mut nowhere), Err(Errno::INVAL));
    let mut empty = Splice::new(&reader, None, &to, None, 1, SpliceFlags::NONBLOCK);
    assert_eq!(execute(&mut empty), Err(Errno::AGAIN));
}
