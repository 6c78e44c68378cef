use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use tar::Header;

use super::*;

/// Each file below a folder: name, kind and mode, time of a file or folder, content or target, of which
/// a sum is enough.
fn all(folder: &Path) -> Vec<(PathBuf, u32, i64, u64)> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let (mut time, mut content) = (about.mtime(), Vec::new());
        if about.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if about.is_symlink() {
            time = 0;
            content = fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec();
        } else {
            content = fs::read(&path).unwrap();
        }
        let sum = content.iter().fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(*byte));
        found.push((path.strip_prefix(folder).unwrap().to_owned(), about.mode(), time, sum));
    }
    found.sort();
    found
}

fn date(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A folder with what names, links, modes and times there may be.
fn made(folder: &Path) {
    let put = |name: &[u8], content: &[u8], mode: u32| {
        let path = folder.join(std::ffi::OsStr::from_bytes(name));
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        date(&path, 1_000_000_000 + u64::from(mode));
    };
    let long = "d".repeat(150);
    fs::create_dir_all(folder.join(&long).join(&long)).unwrap();
    put(b"empty", b"", 0o644);
    put(b"odd \n name \xff", b"odd", 0o600);
    put(format!("{long}/{long}/{}", "f".repeat(200)).as_bytes(), &[b'x'; 100_000], 0o755);
    put(b"read only", b"r", 0o444);
    symlink("../../etc/passwd", folder.join("link")).unwrap();
    symlink("t".repeat(300), folder.join("long link")).unwrap();
    let closed = folder.join("read only folder");
    fs::create_dir(&closed).unwrap();
    put(b"read only folder/in it", b"i", 0o640);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    for path in [closed, folder.join(&long).join(&long), folder.join(&long), folder.to_owned()] {
        date(&path, 1_200_000_000);
    }
}

#[test]
fn a_folder_arrives_as_it_was_on_both_sides() {
    let work = tempfile::tempdir().unwrap();
    let (from, host, node) =
        (work.path().join("from"), work.path().join("host"), work.path().join("node"));
    fs::create_dir(&from).unwrap();
    made(&from);
    let to_host = || {
        let (packed, received) =
            piped(|writer| pack(&from, writer), |reader| receive(reader, &host)).unwrap();
        packed.and(received.and_then(Received::complete))
    };
    let to_node = || {
        let (packed, unpacked) =
            piped(|writer| pack(&from, writer), |reader| unpack(reader, &node)).unwrap();
        packed.and(unpacked).unwrap();
    };
    to_host().unwrap();
    to_node();
    assert_eq!(all(&host), all(&from));
    assert_eq!(all(&node), all(&from));
    // No more than one of a name: what is there stays.
    assert!(to_host().is_err());
    assert_eq!(all(&host), all(&from));
    // In a node it goes into what is there.
    fs::write(node.join("another"), "").unwrap();
    to_node();
    assert_eq!(all(&node).len(), all(&from).len() + 1);
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 3, "nothing is left beside them");
}

fn entry(kind: EntryType, name: &str, target: &str, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o6777);
    header.set_size(size);
    header.set_mtime(1);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn what_a_node_makes_up_stays_in_its_folder_and_leaves_nothing() {
    use EntryType as Kind;

    let work = tempfile::tempdir().unwrap();
    let place = work.path().join("place");
    fs::write(work.path().join("outside"), "outside").unwrap();
    let file = |name: &str| entry(Kind::Regular, name, "", 1, b"x");
    let link = |name: &str, target: &str| entry(Kind::Symlink, name, target, 0, b"");
    let mut cut = file("whole");
    cut.extend(&entry(Kind::Regular, "cut", "", 1 << 40, b"x")[..700]);
    for (what, archive) in [
        ("above", file("../outside")),
        ("above, later", file("a/../../outside")),
        ("of the root", file("/outside")),
        ("through a link", [link("l", ".."), file("l/outside")].concat()),
        ("over a link", [link("l", "../outside"), file("l")].concat()),
        ("a link to a file outside", entry(Kind::Link, "l", "../outside", 0, b"")),
        ("a device", entry(Kind::Block, "d", "", 0, b"")),
        ("a pipe", entry(Kind::Fifo, "p", "", 0, b"")),
        ("no name", file("")),
        ("the folder itself", file(".")),
        ("twice", [file("a"), file("a")].concat()),
        ("below a file", [file("a"), file("a/b")].concat()),
        ("without its folder", file("a/b")),
        ("a long name without an end", entry(Kind::GNULongName, "x", "", 1 << 40, &[b'n'; 5000])),
        ("no archive", vec![b'x'; 10_000]),
        ("cut", cut),
    ] {
        assert!(receive(&archive[..], &place).is_err(), "{what}");
        let mut names: Vec<_> =
            fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["outside"], "{what}");
        assert_eq!(fs::read(work.path().join("outside")).unwrap(), b"outside", "{what}");
    }
    // One that is given up, as the node has ended badly.
    drop(receive(&file("a")[..], &place).unwrap());
    assert!(!place.exists() && fs::read_dir(work.path()).unwrap().count() == 1);
    // For whom a file is, and not as whom it runs.
    receive(&file("a")[..], &place).unwrap().complete().unwrap();
    assert_eq!(fs::metadata(place.join("a")).unwrap().mode() & 0o7777, 0o777);
}
