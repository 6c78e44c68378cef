//! HTTPS, by rustls.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::moved::{Moved, lost_or_later};

/// Bytes that wait, encrypted, for the client to take them.
const WAITING: usize = 128 * 1024;

/// Reads a configuration from the files of a certificate chain and its key.
///
/// # Errors
/// One cannot be read, or they do not go together.
pub(crate) fn configuration(files: &[PathBuf]) -> Result<Arc<ServerConfig>> {
    let [chain, key] = files else { anyhow::bail!("--tls takes two files") };
    let read = |path: &Path| format!("reading {}", path.display());
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(chain).with_context(|| read(chain))?.collect();
    let certificates = certificates.with_context(|| read(chain))?;
    let key_der = PrivateKeyDer::from_pem_file(key).with_context(|| read(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("choosing versions of TLS")?;
    let mut configuration =
        builder
            .with_no_client_auth()
            .with_single_cert(certificates, key_der)
            .with_context(|| format!("{} and {}", chain.display(), key.display()))?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

/// A connection whose bytes are encrypted.
pub(crate) struct Encrypted {
    socket: OwnedFd,
    session: ServerConnection,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Encrypted {
    pub(crate) fn new(
        socket: OwnedFd,
        configuration: &Arc<ServerConfig>,
    ) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(Arc::clone(configuration))?;
        session.set_buffer_limit(Some(WAITING));
        Ok(Encrypted { socket, session })
    }

    pub(crate) fn receive(&mut self, input: &mut Vec<u8>, room: usize) -> Moved {
        let start = input.len();
        loop {
            input.resize(start + room, 0);
            let read = self.session.reader().read(&mut input[start..]);
            input.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(count) => return Moved::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                // The client has gone without a word.
                Err(_) => return Moved::Lost,
            }
            match self.session.read_tls(&mut Socket(&self.socket)) {
                Ok(0) => return Moved::Lost,
                Ok(_) => (),
                Err(error) => return lost_or_later(&error),
            }
            let processed = self.session.process_new_packets();
            // What the handshake answers, or why it has failed.
            let flushed = self.flush();
            if processed.is_err() || flushed == Moved::Lost {
                return Moved::Lost;
            }
        }
    }

    pub(crate) fn send(&mut self, head: &[u8], body: &[u8]) -> Moved {
        match self.flush() {
            Moved::Bytes(_) => (),
            other => return other,
        }
        let mut count = 0;
        for part in [head, body] {
            match self.session.writer().write(part) {
                Ok(taken) => count += taken,
                Err(error) => return lost_or_later(&error),
            }
        }
        match self.flush() {
            Moved::Lost => Moved::Lost,
            _ => Moved::Bytes(count),
        }
    }

    pub(crate) fn flush(&mut self) -> Moved {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(&self.socket)) {
                Ok(0) => return Moved::Lost,
                Ok(_) => (),
                Err(error) => return lost_or_later(&error),
            }
        }
        Moved::Bytes(0)
    }

    pub(crate) fn finish(&mut self) {
        self.session.send_close_notify();
        let _ = self.flush();
    }
}

impl AsFd for Encrypted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket, as the library reads and writes it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = rustix::net::RecvFlags::DONTWAIT;
        Ok(rustix::net::recv(self.0, buffer, flags).map(|(count, _)| count)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.0, data, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
