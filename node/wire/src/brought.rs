//! Files that an image's initramfs brings into a node: where its host puts them, and its agent
//! finds them.

/// Path of the agent's module in a node.
pub const GUEST_MODULE: &str = "/lib/kumiki/osnode-guest.ko";
/// Other modules, to be loaded in the order of their files' names.
pub const MODULES: &str = "/lib/kumiki/modules";
/// The program that a node's root is for, as JSON. It says that there is a root, too.
pub const PROGRAM: &str = "/lib/kumiki/root.json";

/// Drivers of a node's devices: a module a file, and a list of them for each kind of device.
pub const DRIVERS: &str = "/lib/kumiki/devices";
/// The list that comes before any other.
pub const TRANSPORT: &str = "transport";
/// List for a root from a container image: memory that is a device, the file system in it, and
/// the one by which a node writes.
pub const ROOT: &str = "root";

/// A driver's place in a node.
pub fn driver(name: &str) -> String {
    format!("{DRIVERS}/{name}.ko")
}
