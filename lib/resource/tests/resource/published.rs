//! The tree seen through its socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use kumiki_resource::published::{ls_in, ls_of, processes};
use kumiki_resource::{Error, Listed};
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
    assert!(matches!(&refused, Error::Pattern { .. }), "{refused}");
    // It is not asked for more than it reads.
    let long = ls_of(own, &"*".repeat(5000)).unwrap_err();
    assert!(matches!(&long, Error::Pattern { .. }), "{long}");
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

/// Who lists takes sockets away at which nobody listens.
#[test]
fn a_socket_that_is_just_made_is_not_taken_for_one_that_was_left() {
    const NAME: &str = "published::a_socket_that_is_just_made_is_not_taken_for_one_that_was_left";
    const OWN: &str = "KUMIKI_TEST_OWN_FOLDER";
    // A process publishes once, and in a folder that no other test uses.
    if std::env::var_os(OWN).is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", NAME]).env(OWN, "1").env("XDG_RUNTIME_DIR", folder.path());
        return assert!(own.status().unwrap().success());
    }
    let interface = kumiki_resource::Interface::builder().cores([]).per_core().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                processes().unwrap();
            }
        });
        let publish = |_| interface.publish().map(|published| published.path().exists());
        let taken = (0..3000).map(publish).find(|is_there| !matches!(is_there, Ok(true)));
        is_over.store(true, Ordering::Relaxed);
        assert!(taken.is_none(), "{taken:?}");
    });
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
    let interface = builder().per_core().unwrap();
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

/// Does `serve` with each client that has asked, until the listener is shut down.
fn hostile<'s>(
    scope: &'s Scope<'s, '_>,
    listener: &'s UnixListener,
    serve: impl Fn(UnixStream) + Send + 's,
) {
    let asked = |client: &UnixStream| {
        BufReader::new(client).read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
    };
    scope.spawn(move || {
        listener.incoming().map_while(Result::ok).filter(asked).for_each(serve);
    });
}

#[test]
fn nobody_holds_or_fills_who_asks() {
    let interface = builder().per_core().unwrap();
    let flag = interface.create::<Flag>(interface.places()[0], None, ()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let published = interface.publish_in(folder.path()).unwrap();
    let own = std::process::id();
    let is_over = AtomicBool::new(false);
    // Numbers that no process has.
    let [trickles, floods, silent, gone, forges] = [1, 2, 3, 4, 5].map(|n| u32::MAX - n);
    let sockets = [trickles, floods, silent, gone, forges].map(|number| {
        let path = folder.path().join(format!("{number}.sock"));
        (UnixListener::bind(&path).unwrap(), path)
    });
    let [trickle, flood, silence, end, forgery] = sockets.each_ref().map(|(listener, _)| listener);
    // Its queue is full: whoever connects would wait.
    rustix::net::listen(silence, 0).unwrap();
    let _first = UnixStream::connect(&sockets[2].1).unwrap();
    let answers = thread::scope(|scope| {
        hostile(scope, trickle, |mut client| {
            while !is_over.load(Ordering::Relaxed) && client.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        hostile(scope, flood, |mut client| while client.write_all(&[b'['; 1 << 16]).is_ok() {});
        hostile(scope, end, drop);
        hostile(scope, forgery, |mut client| {
            let row = format!(
                r#"{{"name":"core0/memory/a\n1 init","id":"{}","named":true,"owner":"","calls":0,
                    "state":"","bytes":0}}"#,
                flag.id()
            );
            let _ = client.write_all(format!("[{row}]").as_bytes());
        });
        let asked = [trickles, floods, silent, gone, forges, own];
        let answers = ls_in(folder.path(), &asked, "*/flag/*").unwrap();
        is_over.store(true, Ordering::Relaxed);
        for listener in [trickle, flood, end, forgery] {
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        answers
    });
    drop(published);
    let said = |number| {
        let (_, answer) = answers.iter().find(|(asked, _)| *asked == number).unwrap();
        answer.as_ref().map_or_else(ToString::to_string, |listing: &Vec<Listed>| {
            format!("{} resources", listing.len())
        })
    };
    for (number, what) in [
        (trickles, "within 5 s"),
        // As much as that does not come everywhere in that time.
        (floods, if said(floods).contains("within 5 s") { "within 5 s" } else { "more than" }),
        (silent, "within 5 s"),
        (gone, "it is empty"),
        (forges, "is no resource name"),
        (own, "1 resources"),
    ] {
        assert!(said(number).contains(what), "{what}: {}", said(number));
    }
}
