//! Many starts under load, by request: they take half an hour.

use std::path::Path;

use kumiki_lab::Config;

use crate::{Host, controllers};

const DISK_BYTES: u64 = 128 << 20;

/// What loads the host while nodes start and stop: processes, a disk whose
/// interrupts go through the IO-APIC, and a network card that talks to another
/// one in a name space of its own. Each compares what it reads with what was
/// written, and says so in /tmp/errors if it differs.
const LOAD: &str = r#"
set -e
mke2fs /dev/vda > /dev/null 2>&1
mount -t ext4 /dev/vda /mnt
unshare -n sleep 100000 &
there=$!
until [ "$(readlink /proc/$there/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link set eth1 netns $there
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
mkdir -p /tmp/www
head -c 4000000 /dev/urandom > /tmp/www/block
nsenter -t $there -n sh -c 'ip addr add 192.0.2.2/24 dev eth1; ip link set eth1 up; httpd -h /tmp/www'
(while :; do
    head -c 8000000 /dev/urandom > /mnt/file || echo "the disk cannot be written" >> /tmp/errors
    sum=$(md5sum < /mnt/file)
    sync
    echo 1 > /proc/sys/vm/drop_caches
    [ "$(md5sum < /mnt/file)" = "$sum" ] || echo "the disk has other bytes" >> /tmp/errors
done) > /dev/null 2>&1 &
disk=$!
(while :; do
    wget -q -O - http://192.0.2.2/block | cmp -s - /tmp/www/block ||
        echo "the network brought other bytes" >> /tmp/errors
done) > /dev/null 2>&1 &
network=$!
(while :; do ls -lR /proc/self /sys/class; done) > /dev/null 2>&1 &
echo $disk $network $! > /tmp/pids
"#;

/// `KUMIKI_NODE_STARTS=100 cargo test -p kumiki-cli --test node -- --ignored soak`
#[test]
#[ignore = "half an hour; `cargo xtask test long`, after a change to the module"]
fn starts_and_stops_of_two_nodes_under_load() {
    let rounds = std::env::var("KUMIKI_NODE_STARTS").map_or(100, |text| text.parse().unwrap()) / 2;
    let folder = tempfile::tempdir().unwrap();
    let (disk, monitor) = (folder.path().join("disk"), folder.path().join("monitor"));
    std::fs::File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
    let Some(host) = Host::own(&crate::chosen_kernel(), |config| machine(config, &disk, &monitor))
    else {
        return;
    };
    host.add_image();
    host.ok(LOAD);
    // What the load takes for itself, and interrupts that it has for the first time.
    host.ok("sleep 5");
    let before = host.resources();
    let controllers_before = controllers::settings(&monitor, 4);
    for name in ["n1", "n2"] {
        host.ok(&format!("kumiki node create {name} --memory 256M --image deb"));
    }
    let mut start_ms = Vec::new();
    for round in 0..rounds {
        let started = host.run(
            "kumiki node start n1 --timeout 300 --json > /tmp/n1 & one=$!; \
             kumiki node start n2 --timeout 300 --json > /tmp/n2; two=$?; wait $one && exit $two",
        );
        if started.exit.code() != 0 {
            // Where the cpus are says more than a node that wrote nothing.
            panic!("{}", controllers::registers(&monitor, 4));
        }
        for name in ["n1", "n2"] {
            let stages: serde_json::Value =
                serde_json::from_str(&host.ok(&format!("cat /tmp/{name}"))).unwrap();
            start_ms.push(stages["start_ms"].as_f64().unwrap());
            assert_eq!(
                host.ok(&format!("kumiki node exec {name} -- hostname")),
                format!("{name}\n")
            );
        }
        let ways = ["stop", "kill"];
        host.ok(&format!("kumiki node {} n1", ways[round % 2]));
        host.ok(&format!("kumiki node {} n2", ways[(round + 1) % 2]));
        eprintln!("round {} of {rounds}", round + 1);
    }
    host.ok("kumiki node rm n1 && kumiki node rm n2");
    let moved =
        host.ok("awk '{print \"disk: sectors read\", $3, \"written\", $7}' /sys/block/vda/stat; \
         cd /sys/class/net/eth0/statistics; echo network: bytes received $(cat rx_bytes), \
         errors $(cat rx_errors) $(cat tx_errors); grep -E 'IO-APIC|ERR|MIS' /proc/interrupts");
    assert!(moved.contains("errors 0 0"), "{moved}");
    for count in ["ERR:", "MIS:"] {
        let line = moved.lines().find(|line| line.trim().starts_with(count)).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some("0"), "{moved}");
    }
    assert_eq!(host.ok("cat /tmp/errors 2> /dev/null || true"), "");
    // While the load goes on: its interrupts are what has to come through.
    assert_eq!(controllers::settings(&monitor, 4), controllers_before);
    let after = host.resources();
    assert_eq!(after.0, before.0);
    assert!(after.1 + 48 * 1024 > before.1, "{} KiB free, {} before", after.1, before.1);
    host.ok("kill $(cat /tmp/pids)");
    start_ms.sort_by(f64::total_cmp);
    eprintln!(
        "{} starts, ms: median {:.0}, longest {:.0}\n{moved}",
        start_ms.len(),
        start_ms[start_ms.len() / 2],
        start_ms[start_ms.len() - 1]
    );
    host.machine.shut_down(0).unwrap();
}

/// A disk and two network cards on one wire within QEMU. The disk and one card
/// share the IO-APIC with everything else; all interrupts stay on cpu 0, so that
/// a cpu's going and coming does not move them.
fn machine(config: &mut Config, disk: &Path, monitor: &Path) {
    config.modules.extend(
        ["virtio_blk", "virtio_net", "ext4", "crc32c_generic"].map(|name| name.parse().unwrap()),
    );
    // A busy machine lets a cpu of the emulator wait for longer than the 21 s after
    // which the kernel in it would complain of itself.
    config.append.push("irqaffinity=0 rcupdate.rcu_cpu_stall_timeout=300 nosoftlockup".to_owned());
    let disk = format!("file={},if=none,id=disk,format=raw", disk.display());
    let words = [
        "-drive",
        &disk,
        "-device",
        "virtio-blk-pci,drive=disk,vectors=0",
        "-netdev",
        "hubport,id=near,hubid=0",
        "-device",
        "virtio-net-pci,netdev=near,vectors=0",
        "-netdev",
        "hubport,id=far,hubid=0",
        "-device",
        "virtio-net-pci,netdev=far",
    ];
    config.qemu.extend(words.map(Into::into));
    config.qemu.extend(controllers::monitor(monitor));
}
