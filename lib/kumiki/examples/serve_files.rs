//! Serves files in a program of futures, none of which waits while another one's file comes from
//! the disk: a client sends a file's name and gets its content. Features `tokio`; tokio's own `net`
//! and `io-util`.
//!
//! ```console
//! $ cargo run -p kumiki --features tokio --example serve_files -- docs
//! ```

use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use kumiki::tokio::fs;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longest name of a file.
const NAME_BYTES: u64 = 255;

async fn answer(mut client: TcpStream, folder: Arc<PathBuf>) -> io::Result<()> {
    let (from, mut to) = client.split();
    let mut line = String::new();
    BufReader::new(from.take(NAME_BYTES + 1)).read_line(&mut line).await?;
    let name = line.trim_end();
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return to.write_all(b"no such name\n").await;
    }
    // What is in memory is read at once, as cheap as by the plain call. What would sleep is read by
    // another thread, and other tasks run meanwhile.
    match fs::read(folder.join(name)).await {
        Ok(content) => to.write_all(&content).await,
        Err(error) => to.write_all(format!("{name}: {error}\n").as_bytes()).await,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let folder =
        env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: serve_files FOLDER"))?;
    let folder = Arc::new(PathBuf::from(folder));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            if let Err(error) = answer(client, folder).await {
                eprintln!("a client: {error}");
            }
        });
    }
}
