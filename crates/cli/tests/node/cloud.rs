//! Cloud flavours as nodes: fewer drivers, which a node does not need.

use std::path::Path;

use crate::pool::Kind;
use crate::{Host, built};

#[test]
fn cloud_flavours_start_as_nodes() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    for flavour in ["6.1-cloud", "6.12-cloud"] {
        let built = built(flavour).unwrap();
        let release = &built.kernel.version;
        host.ok("mkdir cloud");
        host.put(&built, "/root/cloud/vmlinuz", "/root/cloud/osnode-guest.ko");
        let config = format!("/root/cloud/config-{release}");
        host.machine.guest().put(&built.kernel.config, Path::new(&config)).unwrap();
        host.ok("kumiki image add cloud --kernel /root/cloud/vmlinuz \
             --guest-module cloud/osnode-guest.ko");
        assert!(host.ok("kumiki image ls --json").contains(&config));
        host.ok("kumiki node create n1 --cpus 2 --memory 256M --image cloud");
        for form in ["", "--bzimage"] {
            host.ok(&format!("kumiki node start n1 {form} --timeout 120"));
            assert_eq!(host.ok("kumiki node exec n1 -- uname -r"), format!("{release}\n"));
            assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n");
            host.ok("kumiki node stop n1");
        }
        host.ok("kumiki node delete n1; kumiki image rm cloud; rm -r cloud");
    }
    host.leave();
}
