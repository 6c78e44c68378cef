//! The tree seen through its socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use kumiki_resource::Error;
use kumiki_resource::published::{ls_of, processes};

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
