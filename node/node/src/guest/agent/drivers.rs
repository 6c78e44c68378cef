//! In a node: drivers, by the lists that its image carries.

use std::fs;
use std::path::Path;

use super::load;
use crate::image::drivers::{FOLDER, file_of};
use crate::{Error, ErrorKind, Result};

/// Loads the modules of a list, those that are not there.
pub(super) fn load_list(list: &str) -> Result<()> {
    let names = fs::read_to_string(Path::new(FOLDER).join(list)).map_err(|_| {
        Error::refused(ErrorKind::NotFound, format!(
            "no drivers for {list} in this image: kumiki image add needs osnode-virtio.ko beside \
             osnode-guest.ko, and this kernel's modules in /lib/modules"
        ))
    })?;
    for name in names.lines().filter(|name| !Path::new("/sys/module").join(name).exists()) {
        // A failure is in the log.
        let _ = load(Path::new(&file_of(name)), c"");
    }
    Ok(())
}
