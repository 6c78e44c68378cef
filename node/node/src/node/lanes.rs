//! Memory of the window for lines between programs of a node and one of its host, and a program's stream.
//!
//! A channel has a part of it, so that who has claimed the channel has that to itself; what stands there is theirs
//! who use it (`kumiki-places`). Mapped by this process it keeps the channel claimed.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use kumiki_node_wire::module::abi;
use kumiki_node_wire::wish::Run;
use kumiki_stream::exec::Client;
use kumiki_sys::shm::Window;

use crate::node::session::{Ending, Session};
use crate::{Error, ErrorKind, Result, Subject};

/// A program that runs in a node, and memory that both see.
#[derive(Debug)]
pub struct Lanes {
    /// Its input and output. The program ends when the other end of it is closed, and the other way round: a
    /// node that ends closes it.
    pub stream: UnixStream,
    /// The memory.
    pub window: Window,
    /// Offset of its beginning in the memory that [`here`](Self::here) gives in the node.
    pub base: u64,
    /// End of the program.
    pub ending: JoinHandle<Result<Ending>>,
}

impl Lanes {
    /// Starts a program in a running node.
    ///
    /// # Errors
    /// As of [`Session::open`]; no thread to be had.
    pub fn open(node: &str, run: Run) -> Result<Lanes> {
        let session = Session::open(node)?;
        let (window, base) = session.lanes()?;
        let failed = |source| Error::os("making a stream to a program in a node", source);
        let (stream, far) = UnixStream::pair().map_err(failed)?;
        let talk = move || {
            let (mut out, mut err) = (&far, io::stderr());
            let input = Some(far.as_fd());
            let mut client = Client { input, out: &mut out, err: &mut err, orders: None };
            session.run(&run, &mut client)
        };
        let thread = thread::Builder::new().name("node".to_owned()).spawn(talk);
        Ok(Lanes { stream, window, base, ending: thread.map_err(failed)? })
    }

    /// Maps, in a node, the memory of all channels; none if this kernel is no node.
    ///
    /// # Errors
    /// This process may not have it, which only root may.
    pub fn here() -> Result<Option<Window>> {
        let path = abi::GUEST_DEVICE;
        let device = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            device => device.map_err(|error| Error::file(path, error))?,
        };
        let window = Window::map(device.as_fd(), abi::LANES_AT as u64, abi::LANES_BYTES);
        window.map(Some).map_err(|error| {
            Error::refused(
                ErrorKind::Damaged,
                Subject::File(path.into()),
                format!("{path}: memory for lines: {error}"),
            )
        })
    }
}
