use kumiki_parasc::op::{
    Errno, Fgetxattr, Flistxattr, Fremovexattr, Fsetxattr, Getxattr, Listxattr, Removexattr,
    Setxattr,
};
use rustix::fs::XattrFlags;
use tempfile::NamedTempFile;

use crate::execute;

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
fn attributes_that_are_not_there_are_errors() {
    let folder = tempfile::TempDir::new().unwrap();
    let (missing, attribute) = (crate::name(&folder, "no"), c"user.one");
    assert_eq!(execute(&mut Getxattr::new(&missing, attribute, [0; 9])), Err(Errno::NOENT));
    assert_eq!(execute(&mut Listxattr::new(&missing, [0; 9])), Err(Errno::NOENT));
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
