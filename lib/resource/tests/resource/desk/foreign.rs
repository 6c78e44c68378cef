//! Users' code that panics where others wait: wakers, and drops of what nobody wants.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};

use kumiki_resource::desk::LINES;

use super::{caller, desk};

struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("a waker, on purpose");
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a drop, on purpose");
    }
}

#[test]
fn a_waker_that_panics_does_not_end_the_server() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let (go, gone) = channel::<()>();
    let answer = caller.submit(move || gone.recv().is_err()).unwrap();
    let mut answer = pin!(answer);
    let waker = Waker::from(Arc::new(Bad));
    assert!(matches!(answer.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending));
    drop(go);
    assert_eq!(caller.call(|| 1).unwrap(), 1);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(answer.poll(&mut cx), Poll::Ready(Ok(true))));
    door.close();
    server.join().unwrap();
}

#[test]
fn a_result_whose_drop_panics_frees_its_line() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let (go, gone) = channel::<()>();
    // Given up before it is there.
    let bomb = move || {
        let _ = gone.recv();
        Bomb
    };
    caller.submit(bomb).unwrap().detach();
    drop(go);
    for i in 0..3 * LINES {
        assert_eq!(caller.call(move || i).unwrap(), i);
    }
    door.close();
    server.join().unwrap();
}
