//! Static files by axum: tower-http's `ServeDir` beside a handler that reads by this crate.
//!
//! ```console
//! $ cargo run --release --package kumiki-tokio --features tokio --example static_files -- /usr/share/doc
//! listening on 127.0.0.1:8080: /serve_dir/… and /kumiki/…
//! ```
//!
//! `ServeDir` hands each open and each read over to tokio's blocking threads. Here a file in
//! memory is opened and read where the request is answered. Which is the faster one a client
//! tells, as `oha http://127.0.0.1:8080/kumiki/NAME`.

use std::io;
use std::path::{Component, Path, PathBuf};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Target, State};
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use kumiki_tokio::{File, Reader};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;
use tower_http::services::ServeDir;

/// Bytes of a body at once.
const PIECE: usize = 64 * 1024;

/// Both ways to serve a folder.
pub(crate) fn router(folder: &Path) -> Router {
    Router::new()
        .nest_service("/serve_dir", ServeDir::new(folder))
        .route("/kumiki/{*target}", get(serve))
        .with_state(folder.to_owned())
}

async fn serve(
    State(folder): State<PathBuf>,
    Target(target): Target<String>,
) -> Result<Response<Body>, StatusCode> {
    let is_name = |part| matches!(part, Component::Normal(_));
    if !Path::new(&target).components().all(is_name) {
        return Err(StatusCode::NOT_FOUND);
    }
    let status = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        // Of a name with a zero byte, too.
        _ => StatusCode::NOT_FOUND,
    };
    let file = File::open(folder.join(target)).await.map_err(status)?;
    let attributes = file.metadata().await.map_err(status)?;
    if !attributes.is_file() {
        return Err(StatusCode::NOT_FOUND);
    }
    // As long as has been promised, also of a file that grows.
    let body = Reader::new(file, 0).take(attributes.len());
    let body = Body::from_stream(ReaderStream::with_capacity(body, PIECE));
    let response = Response::builder().header(header::CONTENT_LENGTH, attributes.len());
    response.body(body).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[allow(dead_code, reason = "the test that includes this file has its own")]
#[tokio::main]
async fn main() -> io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: static_files FOLDER");
        std::process::exit(2);
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on {}: /serve_dir/… and /kumiki/…", listener.local_addr()?);
    axum::serve(listener, router(Path::new(&folder))).await
}
