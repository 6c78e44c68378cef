//! The tree seen through its socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use kumiki_resource::Error;
use kumiki_resource::published::{ls_of, processes};
use kumiki_sys::affinity;

use crate::{Flag, builder};

#[test]
fn others_list_what_a_process_has() {
    let own = std::process::id();
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let flag = interface.create::<Flag>(place, Some("here"), ()).unwrap();
    let published = interface.publish().unwrap();
    assert!(processes().unwrap().contains(&own));
    let listed = ls_of(own, "*/flag/*").unwrap();
    assert_eq!((listed.len(), listed[0].id), (1, flag.id()));
    assert!(listed[0].name.ends_with("/flag/here"));

    let refused = ls_of(own, "[").unwrap_err();
    assert!(matches!(&refused, Error::Refused { .. }), "{refused}");
    let second = interface.publish().unwrap_err();
    assert!(second.to_string().contains("a second interface"), "{second}");
    // One that says nothing, and one that says more than anybody needs.
    drop(UnixStream::connect(published.path()).unwrap());
    let mut talker = UnixStream::connect(published.path()).unwrap();
    let _ = talker.write_all(&[b'*'; 8000]);
    let _ = talker.read_to_string(&mut String::new());
    let servers = ls_of(own, "core*/server/*").unwrap();
    assert!(servers.len() >= interface.places().len(), "{servers:?}");
    assert!(servers.iter().any(|server| server.about.state == "serving"));
    // Others' tests may have flags, too, but publish nothing.
    assert_eq!(ls_of(own, "*/flag/*").unwrap(), listed);

    let path = published.path().to_owned();
    drop(published);
    assert!(!path.exists());
    assert!(matches!(ls_of(own, "**"), Err(Error::Socket { .. })));
}

fn ask(path: &Path) -> String {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"**\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn a_place_that_does_not_answer_is_reported() {
    let cpu = affinity::current().unwrap().first().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let interface = builder().cores([]).adopted([cpu]).per_core().unwrap();
    let published = interface.publish_in(folder.path()).unwrap();
    let reply = ask(published.path());
    assert!(reply.contains(&format!("the manager of core{cpu}")), "{reply}");
    // One that manages may end it while somebody asks: it serves meanwhile.
    let manager = interface.manage(interface.places()[0]).unwrap();
    interface.create::<Flag>(interface.places()[0], Some("here"), ()).unwrap();
    let path = published.path().to_owned();
    let client = thread::spawn(move || {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(b"**\n").unwrap();
        client
    });
    let mut client = client.join().unwrap();
    // Most likely it has been taken then; if not, this is a test of less.
    thread::sleep(Duration::from_millis(100));
    drop(published);
    let mut reply = String::new();
    if client.read_to_string(&mut reply).is_ok() && !reply.is_empty() {
        assert!(reply.contains("/flag/here"), "{reply}");
    }
    drop(manager);
}

#[test]
fn a_child_of_fork_leaves_it_to_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let interface = builder().shared().unwrap();
    let mut published = Some(interface.publish_in(folder.path()).unwrap());
    // SAFETY: the child drops one value and ends, without a return from here.
    match unsafe { libc::fork() } {
        0 => {
            drop(published.take());
            // SAFETY: ends the child and nothing else.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of ours, and an integer of ours to write to.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    let published = published.unwrap();
    assert!(ask(published.path()).starts_with('['));
}
