//! Disks that something has: they are neither given to nodes nor kept with them.

use crate::Host;
use crate::pool::Kind;

/// Mounts a disk where only one process sees it, until `enough` is there.
pub(crate) fn hidden(disk: &str) -> String {
    format!(
        "rm -f enough seen; (setsid unshare -m sh -c 'mkdir -p /hidden && \
         mount -t ext4 {disk} /hidden && touch seen; \
         until test -e enough; do sleep 0.1; done; umount /hidden; rm seen' > /dev/null 2>&1 &); \
         until test -e seen; do sleep 0.1; done; ! grep -q hidden /proc/mounts"
    )
}

pub(crate) const SHOWN: &str = "touch enough; while test -e seen; do sleep 0.1; done";

#[test]
fn a_disk_in_use_is_not_given_and_not_kept() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("truncate -s 16M plain back; losetup /dev/loop0 back; mke2fs /dev/loop0 > made 2>&1; \
             mkdir -p /mnt");
    of_the_host(&host);
    host.ok("kumiki node create n1 --memory 256M --image deb --disk plain --disk /dev/loop0");
    host.ok("kumiki node start n1 --timeout 120");
    // It is the node's as long as that runs, by whatever name.
    assert_ne!(host.run("mount -t ext4 /dev/loop0 /mnt").exit.code(), 0);
    let said = host.refused("kumiki node create n2 --memory 256M --image deb --disk back");
    assert!(said.contains("/dev/loop0"), "{said}");
    of_the_node(&host);
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    host.ok("mount -t ext4 /dev/loop0 /mnt; umount /mnt; losetup -d /dev/loop0");
    host.leave();
}

fn of_the_host(host: &Host) {
    let refused = |disk: &str, says: &str| {
        let said =
            host.refused(&format!("kumiki node create n1 --memory 256M --image deb --disk {disk}"));
        assert!(said.contains(says), "{disk}: {said}");
    };
    host.ok("mount -t ext4 /dev/loop0 /mnt");
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /mnt");
    refused("/dev/loop0,ro", "disk /dev/loop0 is mounted at /mnt");
    host.ok("umount /mnt; mount -t ext4 -o ro /dev/loop0 /mnt");
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /mnt");
    // Two that read have it both, also the second node.
    host.ok("kumiki node create n1 --memory 256M --image deb --disk /dev/loop0,ro; \
             kumiki node rm n1; umount /mnt");
    host.ok(&hidden("/dev/loop0"));
    refused("/dev/loop0", "disk /dev/loop0 is mounted at /hidden");
    host.ok(SHOWN);
    refused("back", "back is what /dev/loop0 lies over");
    host.ok("mkswap /dev/loop0 && swapon /dev/loop0");
    refused("/dev/loop0", "disk /dev/loop0 is swapped to");
    host.ok("swapoff /dev/loop0; mke2fs /dev/loop0 > made 2>&1");
}

fn of_the_node(host: &Host) {
    let there = |line: &str| host.ok(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    let refused = |says: &str| {
        let said = host.refused("kumiki node snapshot n1 warm");
        assert!(said.contains(says), "{said}");
    };
    there("mkswap /dev/vda && swapon /dev/vda");
    refused("disk vda is swapped to");
    there("swapoff /dev/vda; mkdir -p /m; mount -t ext4 /dev/vdb /m; mount -o remount,bind,ro /m");
    // What this mount only reads another one writes.
    refused("disk vdb is mounted at /m");
    there("umount /m");
    // The script goes there by a file: it has quotes of its own.
    host.ok(&format!(
        "cat > line <<'EOF'\n{}\nEOF\nkumiki node exec n1 -- sh -c 'cat > line' < line",
        hidden("/dev/vdb")
    ));
    there("sh line");
    refused("disk vdb is mounted at /hidden");
    there(SHOWN);
    there("mount -t ext4 -o ro /dev/vdb /m");
    host.ok("kumiki node snapshot n1 warm; kumiki node start n1 --from warm --timeout 120");
    assert!(there("cat /proc/mounts").contains("/dev/vdb /m ext4 ro"));
}
