//! What operations ask for and tell in the types of [`rustix`], so that whoever makes
//! them needs no dependency of their own on it, of the same version.

pub use rustix::event::PollFlags;
pub use rustix::event::epoll::{CreateFlags as EpollCreateFlags, EventFlags as EpollEventFlags};
pub use rustix::fs::inotify::{CreateFlags as InotifyCreateFlags, WatchFlags as InotifyWatchFlags};
pub use rustix::fs::{
    Access, Advice as FileAdvice, AtFlags, CWD, Dev, FallocateFlags, FileType, FlockOperation,
    MemfdFlags, Mode, OFlags, RenameFlags, ResolveFlags, SeekFrom, Stat, StatxFlags, UTIME_NOW,
    UTIME_OMIT, XattrFlags, makedev,
};
pub use rustix::io::{Errno, ReadWriteFlags};
pub use rustix::mm::{
    Advice as MemoryAdvice, MapFlags, MlockFlags, MprotectFlags, MremapFlags, MsyncFlags, ProtFlags,
};
pub use rustix::net::addr::SocketAddrArg;
pub use rustix::net::{
    AddressFamily, Protocol, RecvFlags, ReturnFlags, SendFlags, Shutdown, SocketAddrAny,
    SocketAddrUnix, SocketFlags, SocketType, ipproto,
};
pub use rustix::pipe::{PipeFlags, SpliceFlags};
pub use rustix::process::{Gid, Pid, Uid};
pub use rustix::rand::GetRandomFlags;
pub use rustix::time::{ClockId, Timespec};
