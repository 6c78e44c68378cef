use std::io;

use kumiki_parasc::op::{Errno, Fsync};

use crate::execute;

#[test]
fn files_go_to_the_disk_and_pipes_do_not() {
    let file = tempfile::tempfile().unwrap();
    let (pipe, _writer) = io::pipe().unwrap();
    assert_eq!(execute(&mut Fsync::new(&file)), Ok(()));
    assert_eq!(execute(&mut Fsync::new(&pipe)), Err(Errno::INVAL));
}
