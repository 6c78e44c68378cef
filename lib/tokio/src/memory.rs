//! Memory for what is read: as much as somebody asks for may not be there.

use std::io;

use kumiki_parasc::op::Aligned;

/// An empty vector with room for so many bytes.
pub(crate) fn room(bytes: usize) -> io::Result<Vec<u8>> {
    let mut memory = Vec::new();
    reserve(&mut memory, bytes)?;
    Ok(memory)
}

/// Room for so many bytes more.
pub(crate) fn reserve(memory: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    memory.try_reserve_exact(bytes).map_err(|_| lacking(bytes))
}

/// Room that a device may write to itself, as one does for a file with `O_DIRECT`.
pub(crate) fn aligned(bytes: usize) -> io::Result<Aligned> {
    Aligned::try_with_capacity(bytes).map_err(|_| lacking(bytes))
}

/// A copy that a device may read itself.
pub(crate) fn aligned_copy(bytes: &[u8]) -> io::Result<Aligned> {
    Aligned::copy_of(bytes).map_err(|_| lacking(bytes.len()))
}

/// Memory for so many bytes was refused.
pub(crate) fn lacking(bytes: usize) -> io::Error {
    let text = format!("there is no memory for {bytes} bytes at once: ask for fewer");
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}
