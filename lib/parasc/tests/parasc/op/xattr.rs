use kumiki_parasc::op::{
    Errno, Fgetxattr, Flistxattr, Fremovexattr, Fsetxattr, Getxattr, Lgetxattr, Listxattr,
    Llistxattr, Lremovexattr, Lsetxattr, Removexattr, Setxattr,
};
use rustix::fs::XattrFlags;
use tempfile::NamedTempFile;

use super::{completed, execute, name};

#[test]
fn attributes_are_set_told_listed_and_removed() {
    let file = NamedTempFile::new().unwrap();
    let path = kumiki_parasc::op::path::terminated(file.path()).unwrap();
    let (one, other) = (c"user.one", c"user.other");
    let create = XattrFlags::CREATE;
    match execute(&mut Setxattr::new(&path, one, "first", create)) {
        Err(Errno::OPNOTSUPP) => {
            return eprintln!("passed over: the temporary files have no attributes here");
        }
        result => assert_eq!(result, Ok(())),
    }
    assert_eq!(execute(&mut Setxattr::new(&path, one, "x", create)), Err(Errno::EXIST));
    assert_eq!(execute(&mut Fsetxattr::new(&file, other, [9; 3], create)), Ok(()));
    assert_eq!(execute(&mut Fsetxattr::new(&file, other, "x", create)), Err(Errno::EXIST));

    let mut get = Getxattr::new(&path, one, Vec::with_capacity(64));
    assert_eq!(execute(&mut get), Ok(5));
    assert_eq!(get.filled(), b"first");
    let mut get = Fgetxattr::new(&file, other, [0; 64]);
    assert_eq!(execute(&mut get), Ok(3));
    assert_eq!(get.filled(), [9; 3]);
    // No room: how much is needed. Too little: an error.
    let mut size = Getxattr::new(&path, one, [0; 0]);
    assert_eq!((execute(&mut size), size.filled()), (Ok(5), &b""[..]));
    assert_eq!(execute(&mut Getxattr::new(&path, one, [0; 2])), Err(Errno::RANGE));

    let mut list = Listxattr::new(&path, [0; 256]);
    let count = execute(&mut list).unwrap();
    let names: Vec<&[u8]> = list.filled().split_inclusive(|byte| *byte == 0).collect();
    assert!(names.contains(&one.to_bytes_with_nul()) && names.contains(&other.to_bytes_with_nul()));
    let mut again = Flistxattr::new(&file, Vec::with_capacity(256));
    assert_eq!((execute(&mut again), again.filled()), (Ok(count), list.filled()));

    assert_eq!(execute(&mut Removexattr::new(&path, one)), Ok(()));
    assert_eq!(execute(&mut Fremovexattr::new(&file, other)), Ok(()));
}

#[test]
fn a_link_has_other_attributes_than_what_it_leads_to() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
    let (file, link) = (name(&folder, "file"), name(&folder, "link"));
    let (one, none) = (c"user.one", XattrFlags::empty());
    match completed(Lsetxattr::new(file.clone(), one, "first", none)).output {
        Err(Errno::OPNOTSUPP) => {
            return eprintln!("passed over: the temporary files have no attributes here");
        }
        result => assert_eq!(result, Ok(())),
    }
    let get = completed(Lgetxattr::new(file.clone(), one, Vec::with_capacity(64)));
    assert_eq!((get.output, get.operation.filled()), (Ok(5), &b"first"[..]));
    let list = completed(Llistxattr::new(file.clone(), Vec::with_capacity(256)));
    let mut plain = Listxattr::new(&file, [0; 256]);
    assert_eq!(list.output, execute(&mut plain));
    assert_eq!(list.operation.filled(), plain.filled());

    let mut followed = Getxattr::new(&link, one, [0; 64]);
    assert_eq!((execute(&mut followed), followed.filled()), (Ok(5), &b"first"[..]));
    assert_eq!(execute(&mut Lgetxattr::new(&link, one, [0; 64])), Err(Errno::NODATA));
    let mut list = Llistxattr::new(&link, [0; 256]);
    execute(&mut list).unwrap();
    assert!(list.filled().split(|byte| *byte == 0).all(|name| name != one.to_bytes()));
    assert_eq!(execute(&mut Lsetxattr::new(&link, one, "x", none)), Err(Errno::PERM));
    assert_eq!(execute(&mut Lremovexattr::new(&link, one)), Err(Errno::PERM));

    assert_eq!(completed(Lremovexattr::new(file.clone(), one)).output, Ok(()));
    assert_eq!(execute(&mut Lremovexattr::new(&file, one)), Err(Errno::NODATA));
}

#[test]
fn attributes_that_are_not_there_are_errors() {
    let folder = tempfile::TempDir::new().unwrap();
    let (missing, attribute) = (name(&folder, "no"), c"user.one");
    assert_eq!(execute(&mut Getxattr::new(&missing, attribute, [0; 9])), Err(Errno::NOENT));
    assert_eq!(execute(&mut Listxattr::new(&missing, [0; 9])), Err(Errno::NOENT));
    assert_eq!(execute(&mut Llistxattr::new(&missing, [0; 9])), Err(Errno::NOENT));
    assert_eq!(execute(&mut Removexattr::new(&missing, attribute)), Err(Errno::NOENT));
    let file = tempfile::tempfile().unwrap();
    let none = [Errno::NODATA, Errno::OPNOTSUPP];
    let gone = execute(&mut Fremovexattr::new(&file, attribute)).unwrap_err();
    assert!(none.contains(&gone), "{gone}");
    let unknown = execute(&mut Fgetxattr::new(&file, attribute, [0; 9])).unwrap_err();
    assert!(none.contains(&unknown), "{unknown}");
    let only_path = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let only_path = only_path.unwrap();
    assert_eq!(execute(&mut Flistxattr::new(&only_path, [0; 9])), Err(Errno::BADF));
}
