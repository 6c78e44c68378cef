//! Answers that are awaited.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kumiki_resource::desk::Error;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::{caller, desk, waiter};

#[test]
fn answers_are_awaited_on_any_thread() {
    let (door, server) = desk();
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for id in 0..4_u64 {
            let mut caller = caller(&door);
            tasks.spawn(async move {
                for i in 0..500 {
                    // Some are not there yet when they are polled, some are.
                    let slow = i % 50 == 0;
                    let answer = caller
                        .submit(move || {
                            if slow {
                                thread::sleep(Duration::from_micros(100));
                            }
                            id * 1000 + i
                        })
                        .unwrap();
                    assert_eq!(answer.await.unwrap(), id * 1000 + i);
                }
            });
        }
        while let Some(outcome) = tasks.join_next().await {
            outcome.unwrap();
        }
    });
    door.close();
    server.join().unwrap();
}

#[test]
fn an_answer_of_a_server_that_ends_unserved_is_told_to_who_awaits_it() {
    let (door, server) = kumiki_resource::desk::open();
    let mut caller = door.caller(waiter());
    let answer = caller.submit(|| 1).unwrap();
    let awaiting = thread::spawn(|| {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(answer)
    });
    thread::sleep(Duration::from_millis(20));
    drop(server);
    assert!(matches!(awaiting.join().unwrap(), Err(Error::Gone)));
}

/// Nobody but the future waits, and nobody asks again.
#[test]
fn a_killed_server_is_told_to_a_future_alone() {
    // Awaited before the server serves, and while it does.
    for first in [true, false] {
        let (door, server) = kumiki_resource::desk::open();
        let mut asked = caller(&door);
        let serve = move || {
            thread::spawn(move || server.serve(&mut waiter()));
        };
        let mut serve = Some(serve);
        if !first {
            serve.take().unwrap()();
            asked.call(|| ()).unwrap();
        }
        let (wait, waits) = channel::<()>();
        let kill = asked.submit(move || {
            let _ = waits.recv();
            // SAFETY: ends the server's thread alone, which nobody joins.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        let behind = asked.submit(|| 7);
        let task = thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { (kill.unwrap().await, behind.unwrap().await) })
        });
        thread::sleep(Duration::from_millis(20));
        if let Some(serve) = serve {
            serve();
        }
        drop(wait);
        let (killed, behind) = task.join().unwrap();
        assert!(matches!(killed, Err(Error::Died)), "{killed:?}");
        assert!(matches!(behind, Err(Error::Gone)), "{behind:?}");
    }
}
