//! The constants of `kumiki/spawn.h`. A test compiles the header against them.

/// A flag: the child's effective user and group are the caller's real ones.
pub const KUMIKI_SPAWN_RESETIDS: i16 = 0x01;
/// A flag: the process group of the attributes holds.
pub const KUMIKI_SPAWN_SETPGROUP: i16 = 0x02;
/// A flag: the attributes' signals do what they do by default.
pub const KUMIKI_SPAWN_SETSIGDEF: i16 = 0x04;
/// A flag: the attributes' signal mask holds.
pub const KUMIKI_SPAWN_SETSIGMASK: i16 = 0x08;
/// A flag: the real-time priority of the attributes holds.
pub const KUMIKI_SPAWN_SETSCHEDPARAM: i16 = 0x10;
/// A flag: the scheduling policy and priority of the attributes hold.
pub const KUMIKI_SPAWN_SETSCHEDULER: i16 = 0x20;
/// A flag that says nothing here.
pub const KUMIKI_SPAWN_USEVFORK: i16 = 0x40;
/// A flag: a session of its own.
pub const KUMIKI_SPAWN_SETSID: i16 = 0x80;
/// A flag that says nothing here: a cgroup holds without it.
pub const KUMIKI_SPAWN_SETCGROUP: i16 = 0x100;
/// A flag: no descriptor of the caller but 0 to 2 and those of the file actions.
pub const KUMIKI_SPAWN_CLOEXEC_DEFAULT: i16 = 0x4000;
