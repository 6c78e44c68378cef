//! Nodes that watch this machine's kernel: after each change they are told whose memory is whose, as they could not
//! ask when it is dead. What they write of it then has no memory of a node, and all of this machine's.

use kumiki_node_wire::device::Device;

/// Leaves word of the nodes and images that there are now. Who could not be told knows those of before: this is no
/// reason to undo anything.
pub fn tell() {
    let _ = kumiki_node_agent::watchman::tell();
}

/// Tells them as it goes, however what changes memory ends.
#[derive(Debug)]
pub struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        tell();
    }
}

/// Gives up a holding that would only be in the way: the caller's own error matters more than one of this.
pub fn abandon(device: &Device) {
    let _telling = Telling;
    let _ = device.release();
}
