//! Nodes that are kept asleep, and start where they slept.

use crate::Host;
use crate::pool::Kind;

/// Standing in the snapshot: a file, and a program whose client has gone.
pub(crate) const LEAVE: &str = "kumiki node exec n1 -- sh -c 'echo before > /tmp/said; \
                     setsid sleep 100000 < /dev/null > /dev/null 2>&1 & echo $! > /tmp/pid'";
/// What a copy of that still has.
pub(crate) const HAS: &str =
    "kumiki node exec n1 -- sh -c 'cat /tmp/said; kill -0 $(cat /tmp/pid)'";

#[test]
fn a_node_is_kept_and_starts_where_it_slept() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpus 1 --memory 256M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok(LEAVE);
    refused_while_it_runs(&host);
    host.ok("kumiki node snapshot n1 warm --json");
    assert!(host.ok("kumiki node ls").contains("stopped"));
    let list = host.ok("kumiki image ls");
    assert!(list.contains("warm") && list.contains("snapshot"), "{list}");
    host.ok("kumiki image verify warm");
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let stages = host.ok("kumiki node start n1 --from warm --timeout 60 --json");
        assert!(stages.contains("kernel_ms"), "{stages}");
        assert_eq!(host.ok(HAS), "before\n");
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
        let late = host.ok("echo $(($(date +%s) - $(kumiki node exec n1 -- date +%s)))");
        assert!(["-1\n", "0\n", "1\n"].contains(&&*late), "{late} s behind the host");
        drawn.push(host.ok("kumiki node exec n1 -- cat /proc/sys/kernel/random/uuid"));
        host.ok("kumiki node kill n1");
    }
    assert_ne!(drawn[0], drawn[1]);
    refused_elsewhere(&host);
    damaged(&host);
    // The image, in the same memory.
    host.ok("kumiki node start n1 --timeout 120");
    assert_ne!(host.run(HAS).exit.code(), 0);
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    host.leave();
}

/// The node goes on, and hears why.
fn refused_while_it_runs(host: &Host) {
    let said = host.refused("kumiki node snapshot n1 deb");
    assert!(said.contains("image deb exists"), "{said}");
    host.ok("kumiki node exec n1 -- sleep 777 & echo $! > client; sleep 1");
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("1 other client talks to the node"), "{said}");
    host.ok(
        "kill -9 $(cat client); until kumiki node exec n1 -- ps | { ! grep -q 'sleep 777'; }; \
             do sleep 0.2; done",
    );
    host.ok("kumiki node exec n1 -- sh -c 'echo core > /sys/power/pm_test'");
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("n1 goes on") && said.contains("pm_test"), "{said}");
    // Nobody would wake it.
    host.ok("kumiki node exec n1 -- sh -c 'echo none > /sys/power/pm_test; \
             ! echo mem > /sys/power/state; true'");
    // No room for the copy: it sleeps, and is woken in its own memory.
    let limit = "/sys/module/osnode/parameters/image_limit_mb";
    host.ok(&format!("echo 100 > {limit}"));
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("more than the limit of 104857600"), "{said}");
    assert!(said.contains("the node goes on"), "{said}");
    host.ok(&format!("echo 0 > {limit}"));
    assert_eq!(host.ok(HAS), "before\n");
    assert!(!host.ok("kumiki image ls").contains("warm"));
}

/// A snapshot is the same after it has been in a file, and one that is not as it was is none.
#[test]
#[ignore = "two minutes, most of them for compressing: `cargo xtask test long`, after a change to snapshots' files"]
fn a_snapshot_goes_through_a_file() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --memory 256M --image deb; kumiki node start n1 --timeout 120");
    host.ok(LEAVE);
    host.ok("kumiki node snapshot n1 warm; kumiki image save warm warm.zst; kumiki image rm warm");
    let said = host.refused("kumiki node start n1 --from warm");
    assert!(said.contains("there is no image warm"), "{said}");
    host.ok("size=$(stat -c %s warm.zst); head -c $((size / 2)) warm.zst > half; \
             (head -c $((size / 3)) warm.zst; printf kumiki; tail -c +$((size / 3 + 7)) warm.zst) > other");
    for file in ["half", "other"] {
        let said = host.refused(&format!("kumiki image load warm {file}"));
        assert!(said.contains(&format!("{file} is damaged")), "{said}");
        assert!(!host.ok("kumiki image ls").contains("warm"));
    }
    let said = host.refused("kumiki image load warm osnode.ko");
    assert!(said.contains("osnode.ko is no file of a snapshot"), "{said}");
    let said = host.refused("kumiki image save deb deb.zst");
    assert!(said.contains("image deb is no snapshot"), "{said}");
    host.ok("kumiki image load warm warm.zst; rm warm.zst half other");
    let said = host.refused("kumiki image load warm half");
    assert!(said.contains("image warm exists"), "{said}");
    host.ok("kumiki node restart n1 --from warm --timeout 60");
    assert_eq!(host.ok(HAS), "before\n");
    // One that runs, and maybe does not answer.
    host.ok("kumiki node exec n1 -- rm /tmp/said; kumiki node restart n1 --from warm");
    assert_eq!(host.ok(HAS), "before\n");
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    host.leave();
}

/// By what differs.
fn refused_elsewhere(host: &Host) {
    let said = host.refused("kumiki node start n1 --from deb");
    assert!(said.contains("image deb is no snapshot"), "{said}");
    let said = host.refused("kumiki node create n2 --memory 256M --image warm");
    assert!(said.contains("image warm is a snapshot"), "{said}");
    host.ok("kumiki node create n2 --memory 256M --image deb");
    let said = host.refused("kumiki node start n2 --from warm");
    assert!(said.contains("its slice below 1 MiB at"), "{said}");
    host.ok("kumiki node rm n2");
    let said = host.refused("kumiki node snapshot n1 cold");
    assert!(said.contains("node n1 does not run"), "{said}");
}

/// By the woken node itself, which can write anywhere.
fn damaged(host: &Host) {
    host.ok("kumiki node start n1 --from warm --timeout 60");
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/images/warm/memory");
    let address = u64::from_str_radix(memory[2..].split(' ').next().unwrap(), 16).unwrap();
    let flip = |at: u64| {
        let at = address + at;
        host.ok(&format!("kumiki node exec n1 -- sh -c 'devmem {at} 8 $(($(devmem {at} 8) ^ 1))'"));
    };
    // The first page behind the table.
    for (at, what) in [
        (1 << 20, "its copy of the node's pages"),
        (64 << 10, "its table of pages"),
        (60, "its header"),
    ] {
        flip(at);
        let output = host.run("kumiki image verify warm");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.exit.code() != 0 && said.contains(what), "{said}");
        if at == 1 << 20 {
            flip(at);
            host.ok("kumiki image verify warm");
        }
    }
    assert!(host.ok("kumiki image ls --json").contains(r#""state":"damaged""#));
    host.ok("kumiki node kill n1");
    let said = host.refused("kumiki node start n1 --from warm");
    assert!(said.contains("snapshot warm is damaged (the hash of its header)"), "{said}");
}

/// A service that a file says is kept up: it goes on where it was kept, and not where its image
/// begins.
#[test]
#[ignore = "over a minute: `cargo xtask test long`, after a change to start = { from = … } or to watch"]
fn a_service_that_ends_is_back_from_its_snapshot() {
    const FILE: &str = "[image.deb]\nkernel = \"/boot/vmlinux\"\n\
                        guest_module = \"osnode-guest.ko\"\n\
                        [node.n1]\nimage = \"deb\"\nmemory = \"256M\"\nrestart = true\n\
                        health = \"exec:test ! -e /tmp/ill\"\nstart = { from = \"warm\" }\n";
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok(&format!("printf '{}' > m.toml", FILE.replace('\n', "\\n")));
    // There is none yet.
    let steps = host.ok("kumiki node apply m.toml --timeout 120 --json");
    assert!(steps.contains(r#"{"step":"start","node":"n1","from":"warm"}"#), "{steps}");
    host.ok(LEAVE);
    host.ok("kumiki node snapshot n1 warm; kumiki node apply m.toml --timeout 60");
    assert_eq!(host.ok(HAS), "before\n");
    // It tells of an end only where it has seen the node before.
    host.ok("kumiki node supervise m.toml 2> watched & echo $! > watch.pid; \
             until kumiki node ls --json | grep -q '\"state\":\"up\"'; do sleep 0.2; done");
    host.run("kumiki node exec n1 -- sh -c 'rm /tmp/said; echo c > /proc/sysrq-trigger'");
    let is_back = "for i in $(seq 60); do kumiki node exec n1 -- cat /tmp/said && exit; sleep 1; \
                   done; cat watched; exit 1";
    assert_eq!(host.ok(&format!("({is_back}) 2> /dev/null")), "before\n");
    let said = host.ok("cat watched");
    assert!(said.contains("it has ended: panic"), "{said}");
    // Its kernel runs, and its service does not do what it is for.
    host.ok("until kumiki node ls | grep -q 'ready, restarts: 1'; do sleep 0.2; done; \
             kumiki node exec n1 -- sh -c 'rm /tmp/said; touch /tmp/ill'");
    assert_eq!(host.ok(&format!("({is_back}) 2> /dev/null")), "before\n");
    let said = host.ok("cat watched");
    assert!(said.contains("it is not healthy: "), "{said}");
    host.ok("kumiki node exec n1 -- test ! -e /tmp/ill; kumiki node restart n1 --from warm");
    assert_eq!(host.ok(HAS), "before\n");
    host.ok("kill $(cat watch.pid)");
    // Another image: none of the snapshot's, which does not keep the node from starting.
    host.ok("kumiki node rm n1 --force; kumiki image rm warm");
    host.leave();
}

/// Nobody asks for it: its cpu is the host's. The first frame, or command, wakes it.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to idle nodes, TAPs or sleep.c"]
fn an_idle_node_sleeps_and_wakes_for_who_asks() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --memory 256M --image deb \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24; \
             kumiki node start n1 --timeout 120; reached 10.77.0.2");
    host.ok(LEAVE);
    // An interface that is made anew has another number, and had no address for a while.
    let interfaces = "grep -H . /sys/class/net/*/ifindex";
    let before = host.ok(interfaces);
    host.ok("kumiki node idle n1 --after 3s 2> said & echo $! > idle.pid");
    let until = |what: &str, times: usize| {
        host.ok(&format!(
            "for n in $(seq 240); do test $(grep -c 'n1: {what}' said) -ge {times} && exit; \
             sleep 0.25; done; cat said; exit 1"
        ))
    };
    until("asleep", 1);
    let said = host.refused("kumiki node idle n1");
    assert!(said.contains("kumiki node idle n1 runs already"), "{said}");
    // Nobody's greetings wake it.
    host.ok("sleep 2; kumiki node ls | grep -q idle; ! grep -q awake said");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), crate::ALL_CPUS);
    // One packet, which waits for the node.
    host.ok("ping -c 1 -W 30 10.77.0.2");
    until("awake", 1);
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-2\n");
    until("asleep", 2);
    assert_eq!(host.ok(HAS), "before\n");
    until("awake", 2);
    until("asleep", 3);
    assert_eq!(host.ok(interfaces), before);
    // Nobody looks after it any more: a command wakes it itself.
    host.ok("kill $(cat idle.pid); while kill -0 $(cat idle.pid) 2> /dev/null; do sleep 0.1; done");
    assert_eq!(host.ok(HAS), "before\n");
    host.ok("ping -c 1 -w 30 10.77.0.2; cat said; kumiki node rm n1 --force");
    host.leave();
}

/// On Debian 13, with two cpus, and all devices whose drivers sleep.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to sleep.c, or to what a node's devices do asleep"]
fn cpus_and_devices_come_back() {
    let Some(host) = Host::shared(Kind::Debian13) else { return };
    host.ok("truncate -s 8M disk; \
             kumiki node create n1 --cpus 2 --memory 192M,64M --image deb --vsock 42 --rng \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24 --disk disk");
    host.ok("kumiki node start n1 --timeout 120; reached 10.77.0.2");
    host.ok(LEAVE);
    host.ok("kumiki node exec n1 -- sh -c 'mkdir -p /data; mke2fs /dev/vda > /dev/null 2>&1; mount -t ext4 /dev/vda /data'");
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("disk vda is mounted at /data"), "{said}");
    host.ok("kumiki node exec n1 -- umount /data");
    host.ok("kumiki node snapshot n1 warm");
    for round in 0..4 {
        // Written by the host meanwhile.
        host.ok("dd if=/dev/urandom of=disk bs=1M count=2 seek=4 conv=notrunc 2> /dev/null");
        host.ok("kumiki node start n1 --from warm --timeout 60");
        assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n", "round {round}");
        assert_eq!(host.ok(HAS), "before\n");
        host.ok("reached 10.77.0.2; kumiki node exec n1 -- ping -c 1 -w 20 10.77.0.1");
        let sum = "dd if=disk bs=1M skip=4 count=2 2> /dev/null | md5sum";
        let there = sum.replace("disk", "/dev/vda");
        assert_eq!(host.ok(&format!("kumiki node exec n1 -- sh -c '{there}'")), host.ok(sum));
        host.ok("kumiki node exec n1 -- sh -c 'head -c 16 /dev/hwrng > /dev/null'");
        let list = host.ok("kumiki node device ls n1");
        assert_eq!(list.matches(" served").count(), 4, "{list}");
        host.ok("kumiki node kill n1");
    }
    host.ok("kumiki node rm n1; kumiki image rm warm");
    host.leave();
}

/// A lease that it has by DHCP may be somebody else's when a copy wakes up, and two copies are not
/// one machine.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to what is made anew in a node that wakes"]
fn lease_and_identity_are_made_anew() {
    const ID: &str = "kumiki node exec n1 -- cat /etc/machine-id";
    const SEED: &str = "kumiki node exec n1 -- md5sum /var/lib/systemd/random-seed";
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("ip link add br0 type bridge; ip addr add 10.79.0.1/24 dev br0; ip link set br0 up; \
             printf 'start 10.79.0.10\\nend 10.79.0.20\\ninterface br0\\nlease_file /root/leases\\n\
             option subnet 255.255.255.0\\n' > udhcpd.conf; touch leases; \
             udhcpd -f udhcpd.conf > dhcp.log 2>&1 & echo $! > dhcp.pid");
    let leased = |times: usize| {
        host.ok(&format!(
            "for n in $(seq 240); do test $(grep -c 'sending ACK' dhcp.log) -ge {times} && exit; \
             sleep 0.25; done; cat dhcp.log; exit 1"
        ));
    };
    host.ok("kumiki node create n1 --memory 256M --image deb --net bridge=br0,address=dhcp; \
             kumiki node start n1 --timeout 120");
    leased(1);
    host.ok(
        "kumiki node exec n1 -- sh -c 'echo 0123456789abcdef0123456789abcdef > /etc/machine-id; \
             mkdir -p /var/lib/systemd; echo seed > /var/lib/systemd/random-seed'; \
             kumiki node snapshot n1 warm",
    );
    let (mut ids, mut seeds) = (vec!["0123456789abcdef0123456789abcdef\n".to_owned()], Vec::new());
    for round in 2..=3 {
        host.ok("kumiki node start n1 --from warm --timeout 60");
        leased(round);
        host.ok("kumiki node exec n1 -- ping -c 1 -w 20 10.79.0.1");
        let id = host.ok(ID);
        assert!(id.len() == 33 && !ids.contains(&id), "{id} of {ids:?}");
        ids.push(id);
        let seed = host.ok(SEED);
        assert!(!seeds.contains(&seed), "{seed}");
        seeds.push(seed);
        host.ok("kumiki node kill n1");
    }
    host.ok("kumiki node rm n1; kumiki image rm warm; kill $(cat dhcp.pid); ip link del br0");
    host.leave();
}

/// Their kernels have neither a controller for DMA to spare nor a virtual machine's generation.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to sleep.c"]
fn cloud_flavours_wake() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    for flavour in ["6.1-cloud", "6.12-cloud"] {
        let built = crate::built(flavour).unwrap();
        host.ok("mkdir cloud");
        host.put(&built, "/root/cloud/vmlinuz", "/root/cloud/osnode-guest.ko");
        host.ok("kumiki image add cloud --kernel /root/cloud/vmlinuz \
                 --guest-module cloud/osnode-guest.ko; \
                 kumiki node create n1 --memory 256M --image cloud; \
                 kumiki node start n1 --timeout 240");
        host.ok(LEAVE);
        host.ok("kumiki node snapshot n1 warm");
        for _ in 0..3 {
            host.ok("kumiki node start n1 --from warm --timeout 60");
            assert_eq!(host.ok(HAS), "before\n");
            host.ok("kumiki node kill n1");
        }
        host.ok("kumiki node rm n1; kumiki image rm warm; kumiki image rm cloud; rm -r cloud");
    }
    host.leave();
}
