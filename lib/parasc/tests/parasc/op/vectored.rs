use std::fs::File;
use std::io::{self, Seek};

use kumiki_parasc::op::{BufferMut, Errno, Operation, Preadv2, Pwrite, Pwritev2, Readv, Writev};
use rustix::io::ReadWriteFlags;

use super::execute;

const NONE: ReadWriteFlags = ReadWriteFlags::empty();

fn file(content: &str) -> File {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut Pwrite::new(&file, content, 0)), Ok(content.len()));
    file
}

fn content(file: &File) -> String {
    io::read_to_string(file.try_clone().unwrap()).unwrap()
}

#[test]
fn bytes_are_gathered_from_buffers_and_scattered_over_them() {
    let mut file = tempfile::tempfile().unwrap();
    let mut write = Writev::new(&file, vec!["one ", "", "two ", "three"]);
    assert_eq!(execute(&mut write), Ok(13));
    // Again, at the position that has moved.
    assert_eq!(execute(&mut write), Ok(13));
    file.rewind().unwrap();
    assert_eq!(content(&file), "one two threeone two three");

    file.rewind().unwrap();
    let mut read = Readv::new(&file, vec![[0; 4], [1; 4]]);
    assert!(read.filled().all(<[u8]>::is_empty));
    assert_eq!(execute(&mut read), Ok(8));
    assert!(read.filled().eq([b"one ", b"two "]));
    assert_eq!(execute(&mut read), Ok(8));
    assert!(read.filled().eq([b"thre", b"eone"]));
    assert_eq!(read.into_buffers(), [*b"thre", *b"eone"]);
}

#[test]
fn a_short_read_ends_in_any_buffer() {
    let text = "0123456789";
    for length in 0..=text.len() {
        let file = file(&text[..length]);
        let mut read = Preadv2::new(&file, 0, NONE, vec![[b'-'; 3]; 3]);
        assert_eq!(execute(&mut read), Ok(length.min(9)));
        let part = |from: usize| &text.as_bytes()[from.min(length)..(from + 3).min(length)];
        assert!(read.filled().eq([part(0), part(3), part(6)]), "{length} bytes: {read:?}");
        let untouched = format!("{:-<9}", &text[..length.min(9)]);
        assert_eq!(read.into_buffers().concat(), untouched.as_bytes());
    }
}

#[test]
fn each_vector_grows_by_its_part() {
    let file = file("0123456789");
    let room = |head: &str, room| {
        let mut buffer = head.as_bytes().to_vec();
        buffer.reserve_exact(room);
        // What was reserved may be more.
        buffer.shrink_to(head.len() + room);
        buffer
    };
    let mut read = Preadv2::new(&file, 3, NONE, vec![room("a", 2), room("", 0), room("bc", 9)]);
    assert_eq!(execute(&mut read), Ok(7));
    assert!(read.filled().eq([&b"34"[..], b"", b"56789"]));
    // The first has no room any more.
    assert_eq!(execute(&mut read), Ok(4));
    assert!(read.filled().eq([&b""[..], b"", b"3456"]));
    // A failure adds nothing.
    let (_, _, _, buffers) = read.into_parts();
    let mut nowhere = Preadv2::new(&file, u64::MAX - 1, NONE, buffers);
    assert_eq!(execute(&mut nowhere), Err(Errno::INVAL));
    assert!(nowhere.filled().all(<[u8]>::is_empty));
    assert_eq!(nowhere.into_buffers(), [&b"a34"[..], b"", b"bc567893456"]);
}

#[test]
fn buffers_may_be_of_several_kinds() {
    let file = file("0123456789");
    let mut vector = Vec::with_capacity(4);
    let mut array = [0; 4];
    let buffers: Vec<Box<dyn BufferMut + '_>> = vec![Box::new(&mut array), Box::new(&mut vector)];
    assert_eq!(execute(&mut Preadv2::new(&file, 1, NONE, buffers)), Ok(8));
    assert_eq!((array, &vector[..]), (*b"1234", &b"5678"[..]));
}

#[test]
fn an_operation_may_move_after_a_request() {
    fn moved<O: Operation>(mut op: O) -> Box<O> {
        op.request();
        Box::new(op)
    }
    let file = file("0123456789");
    let mut write = moved(Pwritev2::new(&file, vec![[b'a'; 2], [b'b'; 2]], 3, NONE));
    assert_eq!(execute(&mut *write), Ok(4));
    let mut read = moved(Preadv2::new(&file, 2, NONE, vec![[0; 3], [0; 3]]));
    assert_eq!(execute(&mut *read), Ok(6));
    assert!(read.filled().eq([b"2aa", b"bb7"]));
}

#[test]
fn positions_are_the_files_own_or_given() {
    let mut file = file("0123456789");
    file.seek(io::SeekFrom::Start(4)).unwrap();
    assert_eq!(execute(&mut Pwritev2::new(&file, vec!["ab", "c"], 1, NONE)), Ok(3));
    assert_eq!(execute(&mut Pwritev2::new(&file, vec!["x"], u64::MAX, NONE)), Ok(1));
    assert_eq!(execute(&mut Pwritev2::new(&file, vec!["end"], 0, ReadWriteFlags::APPEND)), Ok(3));
    assert_eq!(file.stream_position().unwrap(), 5);
    let mut here = Preadv2::new(&file, u64::MAX, NONE, vec![[0; 2]]);
    assert_eq!(execute(&mut here), Ok(2));
    assert!(here.filled().eq([b"56"]));
    // More than fits half an offset.
    let far = 5 << 32;
    assert_eq!(execute(&mut Pwritev2::new(&file, vec!["far"], far, NONE)), Ok(3));
    assert_eq!(file.metadata().unwrap().len(), far + 3);
    let mut read = Preadv2::new(&file, far + 1, NONE, vec![[0; 8]]);
    assert_eq!(execute(&mut read), Ok(2));
    assert!(read.filled().eq([b"ar"]));

    file.set_len(13).unwrap();
    file.rewind().unwrap();
    assert_eq!(content(&file), "0abcx56789end");
}

#[test]
fn errors_pass_through() {
    let file = file("0123456789");
    let unknown = ReadWriteFlags::from_bits_retain(1 << 30);
    let mut read = Preadv2::new(&file, 0, unknown, vec![[0; 8]]);
    assert_eq!(execute(&mut read), Err(Errno::OPNOTSUPP));
    assert!(read.filled().eq([b""]));
    let mut write = Pwritev2::new(&file, vec!["x"], 0, unknown);
    assert_eq!(execute(&mut write), Err(Errno::OPNOTSUPP));
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut Readv::new(&writer, vec![[0; 8]])), Err(Errno::BADF));
    assert_eq!(execute(&mut Writev::new(&reader, vec!["x"])), Err(Errno::BADF));
    assert_eq!(execute(&mut Preadv2::new(&reader, 0, NONE, vec![[0; 8]])), Err(Errno::SPIPE));
    assert_eq!(execute(&mut Readv::new(&file, Vec::<Vec<u8>>::new())), Ok(0));
}

#[test]
fn too_many_buffers_are_refused_and_not_cut() {
    let zero = File::options().read(true).write(true).open("/dev/zero").unwrap();
    let read = |count| execute(&mut Readv::new(&zero, vec![[0; 1]; count]));
    assert_eq!((read(1024), read(1025)), (Ok(1024), Err(Errno::INVAL)));
    let mut preadv = Preadv2::new(&zero, 0, NONE, vec![[0; 1]; 1025]);
    assert_eq!(execute(&mut preadv), Err(Errno::INVAL));
    assert_eq!(execute(&mut Writev::new(&zero, vec!["x"; 1025])), Err(Errno::INVAL));
    assert_eq!(execute(&mut Pwritev2::new(&zero, vec!["x"; 1025], 0, NONE)), Err(Errno::INVAL));
}

#[test]
fn what_was_given_comes_back() {
    let file = file("");
    let mut write = Pwritev2::new(file, vec![vec![7; 3], vec![8; 2]], 9, NONE);
    assert_eq!(execute(&mut write), Ok(5));
    let (file, data, offset, flags) = write.into_parts();
    assert_eq!((data, offset, flags), (vec![vec![7; 3], vec![8; 2]], 9, NONE));
    let mut write = Writev::new(file, vec!["x"]);
    assert_eq!(execute(&mut write), Ok(1));
    let (file, data) = write.into_parts();
    assert_eq!(data, ["x"]);
    let (file, buffers) = Readv::new(file, vec![[1; 2]]).into_parts();
    assert_eq!((file.metadata().unwrap().len(), buffers), (14, vec![[1; 2]]));
}
