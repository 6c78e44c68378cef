//! In a node: drivers, by the lists that its image carries.

use std::fs;
use std::path::Path;

use kumiki_node_wire::brought::{DRIVERS, driver};

use super::load;
use crate::{Error, ErrorKind, Result, Subject};

/// Loads the modules of a list, those that are not there.
pub(super) fn load_list(list: &str) -> Result<()> {
    let names = fs::read_to_string(Path::new(DRIVERS).join(list)).map_err(|_| {
        Error::refused(ErrorKind::NotFound, Subject::Module(list.to_owned()), format!(
            "no drivers for {list} in this image: kumiki image add needs osnode-virtio.ko beside \
             osnode-guest.ko, and this kernel's modules in /lib/modules"
        ))
    })?;
    for name in names.lines().filter(|name| !Path::new("/sys/module").join(name).exists()) {
        // A failure is in the log.
        let _ = load(Path::new(&driver(name)), c"");
    }
    Ok(())
}
