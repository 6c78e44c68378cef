//! `--nodes`: a machine in which OS nodes can be started at once.

use std::path::Path;

use anyhow::{Context, Result};
use kumiki_lab::{Cache, Config, Talk, kbuild};
use kumiki_node::program;

use crate::output;

/// The kernel modules' sources, so that nobody needs more than this program.
const SOURCES: [(&str, &str); 25] = [
    ("osnode/Kbuild", include_str!("../../kernel/osnode/Kbuild")),
    ("osnode/bell.h", include_str!("../../kernel/osnode/bell.h")),
    ("osnode/claim.c", include_str!("../../kernel/osnode/claim.c")),
    ("osnode/cpu.c", include_str!("../../kernel/osnode/cpu.c")),
    ("osnode/device.c", include_str!("../../kernel/osnode/device.c")),
    ("osnode/eventfd.c", include_str!("../../kernel/osnode/eventfd.c")),
    ("osnode/functions.c", include_str!("../../kernel/osnode/functions.c")),
    ("osnode/guest.c", include_str!("../../kernel/osnode/guest.c")),
    ("osnode/guest.h", include_str!("../../kernel/osnode/guest.h")),
    ("osnode/holding.c", include_str!("../../kernel/osnode/holding.c")),
    ("osnode/hotplug.c", include_str!("../../kernel/osnode/hotplug.c")),
    ("osnode/iommu.c", include_str!("../../kernel/osnode/iommu.c")),
    ("osnode/ipi.h", include_str!("../../kernel/osnode/ipi.h")),
    ("osnode/memory.c", include_str!("../../kernel/osnode/memory.c")),
    ("osnode/osnode.h", include_str!("../../kernel/osnode/osnode.h")),
    ("osnode/pci.c", include_str!("../../kernel/osnode/pci.c")),
    ("osnode/sleep.c", include_str!("../../kernel/osnode/sleep.c")),
    ("osnode/sleep.h", include_str!("../../kernel/osnode/sleep.h")),
    ("osnode/slice.c", include_str!("../../kernel/osnode/slice.c")),
    ("osnode/symbols.h", include_str!("../../kernel/osnode/symbols.h")),
    ("osnode/tree.c", include_str!("../../kernel/osnode/tree.c")),
    ("osnode/vector.h", include_str!("../../kernel/osnode/vector.h")),
    ("osnode/virtio.c", include_str!("../../kernel/osnode/virtio.c")),
    ("osnode/watch.c", include_str!("../../kernel/osnode/watch.c")),
    ("uapi/osnode.h", include_str!("../../kernel/uapi/osnode.h")),
];

/// Modules that the host's module does without where nobody asks for them.
const FURTHER: [&str; 5] =
    ["osnode-watch.ko", "osnode-eventfd.ko", "osnode-iommu.ko", "osnode-pci.ko", "osnode-claim.ko"];

/// Modules that this machine needs to serve nodes their devices, and nodes to use them.
const SERVING: [&str; 3] = ["tun", "vhost_net", "vhost_vsock"];
const DRIVERS: [&str; 15] = [
    "virtio_ring",
    "virtio",
    "virtio_net",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "virtiofs",
    "vmw_vsock_virtio_transport",
    "virtio_rng",
    "virtio_console",
    // Of a root from a container image.
    "libnvdimm",
    "nd_e820",
    "nd_pmem",
    "erofs",
    "overlay",
];

/// Adds the module, built for the machine's kernel, and what `kumiki image add`
/// looks for by itself.
pub(super) fn equipped(mut config: Config, cache: &Cache) -> Result<Config> {
    let talk = Talk::to(&|text| output::talk(text));
    let kernel = config.kernel.get(cache, talk)?;
    let sources = SOURCES.map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
    let modules = kbuild::build_from(cache, &kernel, &sources, "osnode", talk)?;
    let module = |name: &str| {
        let found = modules.iter().find(|path| path.ends_with(name));
        found.with_context(|| format!("the build for {} gave no {name}", kernel.version))
    };
    for name in [program::NODED, program::AGENT] {
        config.programs.push(program::find(name)?);
    }
    // By it a root is made of a container image, where this machine has it.
    config.programs.extend(kumiki_node::mkfs().ok().map(Path::to_owned));
    config.modules.push(module("osnode.ko")?.as_path().into());
    let of_kernel = Path::new("/lib/modules").join(&kernel.version);
    let guest = of_kernel.join("updates/osnode-guest.ko");
    config.files.push((module("osnode-guest.ko")?.clone(), guest));
    let devices = of_kernel.join("updates/osnode-virtio.ko");
    config.files.push((module("osnode-virtio.ko")?.clone(), devices));
    for further in FURTHER {
        config.modules.push(module(further)?.as_path().into());
    }
    config.files.extend(kernel.driver_files(&DRIVERS)?);
    for name in SERVING {
        config.modules.push(name.parse()?);
    }
    config.files.push((kernel.bzimage, "/boot/vmlinuz".into()));
    config.files.push((kernel.config, format!("/boot/config-{}", kernel.version).into()));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_source_of_the_module_is_brought_along() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node/kernel");
        let files = fs::read_dir(tree.join("osnode")).unwrap().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        // The Makefile is for people.
        let is_source =
            |name: &String| ["c", "h", "Kbuild"].contains(&name.rsplit('.').next().unwrap());
        let there: BTreeSet<_> =
            names.filter(is_source).filter(|name| !name.ends_with(".mod.c")).collect();
        let brought = SOURCES.iter().filter_map(|(path, _)| path.strip_prefix("osnode/"));
        assert_eq!(there, brought.map(str::to_owned).collect());
    }
}
