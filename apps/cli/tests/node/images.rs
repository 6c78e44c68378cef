//! Images: their names, who uses them, what they may take, whether they are whole.

use crate::Host;
use crate::pool::Kind;

#[test]
fn images_are_counted_shared_limited_checked_and_evicted() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    host.add_shipped_image();
    let add = |name: &str| {
        format!("kumiki image add {name} --kernel /boot/vmlinuz --guest-module osnode-guest.ko")
    };
    let memory =
        |name: &str| host.ok(&format!("cat /sys/class/misc/kumiki-osnode/images/{name}/memory"));
    let free = host.free_kib();
    let said = host.run(&add("twin"));
    assert!(String::from_utf8_lossy(&said.stderr).contains("the memory of image deb"));
    // One and the same memory, and none beside it: an image has 70 MiB.
    assert_eq!(memory("twin"), memory("deb"));
    assert!(host.free_kib() + 40 * 1024 > free);
    let list = host.ok("kumiki image ls --json");
    assert!(list.contains(r#""same_as":["deb"]"#) && list.contains(r#""same_as":["twin"]"#));
    host.ok("kumiki image verify deb");

    host.ok("kumiki node create n1 --memory 256M --image deb");
    let list = host.ok("kumiki image ls");
    assert!(list.contains("as deb") && list.contains("n1"), "{list}");
    limit(&host);

    let refusal = host.refused("kumiki image rm deb");
    assert!(refusal.contains("in use by n1") && refusal.contains("--force"), "{refusal}");
    host.ok("kumiki node start n1 --timeout 120");
    // The other name keeps the memory, and the node does not need the first to run.
    host.ok("kumiki image rm deb --force");
    assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
    host.ok("kumiki node stop n1");
    let refusal = host.refused("kumiki node start n1");
    assert!(refusal.contains("there is no image deb"), "{refusal}");
    host.ok(&add("deb"));
    assert_eq!(memory("twin"), memory("deb"));
    from_files(&host);
    host.ok("kumiki node start n1 --timeout 120");

    // A node can write anywhere, and that is seen. The kernel begins in the fifth page.
    let address = memory("deb");
    let address = u64::from_str_radix(address[2..].split(' ').next().unwrap(), 16).unwrap();
    for (page, what) in [(5, "uncompressed kernel"), (0, "header is not there")] {
        let at = address + page * 4096;
        // By a mapping: write(2) of /dev/mem ends where the node's own memory does.
        host.ok(&format!("kumiki node exec n1 -- devmem {at} 32 0x64616d61"));
        let output = host.run("kumiki image verify deb");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.exit.code() != 0 && said.contains(what), "{said}");
    }
    assert!(host.ok("kumiki image ls --json").contains(r#""state":"damaged""#));
    host.ok("kumiki node rm n1 --force");
    // What is damaged can still be removed.
    host.ok("kumiki image rm deb");
    host.ok("kumiki image rm twin");
    assert!(host.free_kib() > free + 40 * 1024);
    host.leave();
}

/// A start from files keeps what it has read, once for each content.
fn from_files(host: &Host) {
    let start = |more: &str| {
        let line = format!(
            "kumiki node start n1 --timeout 120 --json --kernel /boot/vmlinuz --guest-module \
             osnode-guest.ko {more} > stages; grep -o 'image .*' stages_said"
        );
        let name = host.ok(&line.replace("> stages", "> stages 2> stages_said"));
        assert_eq!(host.ok("kumiki node exec n1 hostname"), "n1\n");
        host.ok("kumiki node kill n1");
        name.trim().to_owned()
    };
    // The same content as the image `deb` and its twin.
    let known = start("");
    assert!(known == "image deb" || known == "image twin", "{known}");
    host.ok("echo other > text; echo text | cpio -o -H newc > overlay");
    let kept = start("--overlay overlay");
    let name = kept.strip_prefix("image kept-").unwrap_or_else(|| panic!("{kept}"));
    let list = || host.ok("kumiki image ls --json");
    assert!(list().contains(&format!(r#""name":"kept-{name}""#)));
    host.ok(&format!("kumiki image verify kept-{name}"));
    assert!(!host.ok("cat stages").contains(r#""keep_ms":0.0,"#));
    let images = list();
    assert_eq!(start("--overlay overlay"), kept);
    assert!(host.ok("cat stages").contains(r#""keep_ms":0.0,"#));
    assert_eq!(list(), images);
    host.ok(&format!("kumiki image rm kept-{name}"));
}

/// An image more than the machine's limit allows is refused, and leaves nothing.
fn limit(host: &Host) {
    let limit = "/sys/module/osnode/parameters/image_limit_mb";
    host.ok(&format!("echo 100 > {limit}"));
    let add = "echo text > text; echo text | cpio -o -H newc > overlay; kumiki image add other \
               --overlay overlay --kernel /boot/vmlinux --guest-module osnode-guest.ko";
    let refusal = host.refused(add);
    assert!(refusal.contains("the limit of 104857600") && refusal.contains("evict"), "{refusal}");
    assert!(!host.ok("kumiki image ls").contains("other"));
    host.ok(&format!("echo 0 > {limit}"));
    host.ok(add);
    // Only what no node starts from.
    assert_eq!(host.ok("kumiki image evict"), "other\ntwin\n");
    let list = host.ok("kumiki image ls --json");
    assert!(list.contains(r#""name":"deb""#) && list.contains(r#""nodes":["n1"]"#), "{list}");
    assert_eq!(host.ok("kumiki image evict"), "");
    host.ok("kumiki image add twin --kernel /boot/vmlinuz --guest-module osnode-guest.ko");
}

/// Killed at moments all along its way, and when the module has given it memory: that is the host's again, and
/// the name is free.
#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to image add or to whose memory is an image's"]
fn a_killed_image_add_gives_its_memory_back() {
    const ADD: &str = "kumiki image add deb --kernel /boot/vmlinux --guest-module osnode-guest.ko";
    const MOMENTS: u32 = 12;
    let Some(host) = Host::own(&crate::chosen_kernel(), |_| ()) else { return };
    let uptime = "cut -d ' ' -f 1 /proc/uptime";
    let times = host.ok(&format!("{uptime}; {ADD} > added 2>&1; {uptime}; kumiki image rm deb"));
    let mut times = times.lines().map(|line| line.parse::<f64>().unwrap());
    let (begin, end) = (times.next().unwrap(), times.next().unwrap());
    let free = host.free_kib();
    let is_gone = |when: &str| {
        assert_eq!(host.ok("kumiki image ls --json"), "[]\n", "{when}");
        // An image has 70 MiB.
        let now = host.free_kib();
        assert!(now + (30 << 10) > free, "{when}: {now} KiB free, {free} before");
    };
    for moment in 1..MOMENTS {
        let seconds = (end - begin) * f64::from(moment) / f64::from(MOMENTS);
        host.run(&format!("timeout -s KILL {seconds:.2} {ADD} && kumiki image rm deb"));
        is_gone(&format!("killed after {seconds:.2} s of {:.2}", end - begin));
    }
    // With memory, and not sealed, whenever that is on this machine: the shell's own words alone are fast enough, and
    // a process that is stopped does not go on.
    let mut states = String::new();
    for part in ["", "kill -CONT $!; sleep 0.05;", "kill -CONT $!; sleep 0.2;"] {
        states += &host.ok(&format!(
            "image=/sys/class/misc/kumiki-osnode/images/deb; {ADD} > added 2>&1 & \
             until {{ read -r memory < $image/memory; }} 2> /dev/null; do kill -0 $! || exit 9; done; \
             kill -STOP $!; cat $image/state; {part} kill -9 $!; wait $! || true; \
             ! grep -q sealed $image/state 2> /dev/null || kumiki image rm deb"
        ));
        is_gone(&format!("killed with memory, then {part}"));
    }
    assert!(states.starts_with("created"), "{states}");
    host.ok(&format!("{ADD}; kumiki image verify deb; kumiki image rm deb"));
    host.leave();
}
