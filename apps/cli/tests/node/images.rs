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
