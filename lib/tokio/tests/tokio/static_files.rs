//! The example for axum: both of its ways answer alike.

#[path = "../../examples/static_files.rs"]
mod example;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use tower::ServiceExt;

use super::{content, make_cold};

#[tokio::test]
async fn both_ways_answer_alike() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, bytes) in [("none", 0), ("sub/small", 17), ("large", 300_001)] {
        std::fs::write(folder.path().join(name), content(bytes)).unwrap();
        make_cold(&std::fs::File::open(folder.path().join(name)).unwrap());
    }
    let app = example::router(folder.path());
    let answer = async |way: &str, target: &str| {
        let request = Request::get(format!("/{way}/{target}")).body(Body::empty()).unwrap();
        let answer = app.clone().oneshot(request).await.unwrap();
        let length = answer.headers().get("content-length").cloned();
        let status = answer.status();
        (status, length, to_bytes(answer.into_body(), 1 << 20).await.unwrap())
    };
    for target in ["none", "sub/small", "large", "missing", "sub%2Fsmall", "..%2Fetc%2Fpasswd"] {
        let ours = answer("kumiki", target).await;
        let theirs = answer("serve_dir", target).await;
        assert_eq!(ours.0, theirs.0, "{target}");
        if ours.0 == StatusCode::OK {
            assert!(ours == theirs, "{target}: {:?} and {:?}", ours.1, theirs.1);
        }
    }
    // What is in memory now.
    assert_eq!(answer("kumiki", "large").await.2[..], content(300_001)[..]);
}
