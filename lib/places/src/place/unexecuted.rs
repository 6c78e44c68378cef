//! Programs that cannot be executed, by which of a shell's two statuses.

use std::io;

use kumiki_spawn::Refusal;
use rustix::io::Errno;

use crate::wire::Why;

/// Tells a refusal of a program by what a shell's exit status tells: it is not found, or none to execute; nothing of
/// other errors.
pub(crate) fn why_not_executed(source: &io::Error) -> Option<Why> {
    let refusal = Refusal::of(source).filter(|refusal| refusal.is_program())?;
    match Errno::from_io_error(refusal.error())? {
        Errno::NOENT | Errno::NOTDIR => Some(Why::NoProgram),
        Errno::ACCESS | Errno::NOEXEC => Some(Why::NotExecutable),
        _ => None,
    }
}
