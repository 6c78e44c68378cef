//! The kinds that come with this crate.

use crate::interface::Builder;
use crate::large::LargeMemory;
use crate::memory::Memory;
use crate::region::Region;
use crate::space::Space;
use crate::thread::Thread;
use crate::user_space::UserSpace;

impl Builder {
    /// All kinds of this crate: memory, memory-2m, region, space, user-space, thread.
    pub fn standard(self) -> Self {
        // What is attached goes before what it is attached to, and threads before memory.
        self.kind::<Memory>()
            .kind::<LargeMemory>()
            .kind::<Region>()
            .kind::<Space>()
            .kind::<UserSpace>()
            .kind::<Thread>()
    }
}
