//! OpenMP of gcc, two threads that wait awake. How they wait and where they run is said
//! by the environment that the process was started with.

use std::ffi::c_void;

use super::Loops;

type Task = unsafe extern "C" fn(*const c_void, usize);

unsafe extern "C" {
    fn bench_openmp_static(n: usize, task: Task, data: *const c_void);
    fn bench_openmp_dynamic(n: usize, task: Task, data: *const c_void);
    fn bench_openmp_two(
        n: usize,
        first: Task,
        first_data: *const c_void,
        second: Task,
        second_data: *const c_void,
    );
}

/// A parallel region for each loop, a half for each thread.
pub(crate) struct Static;

/// The same, tasks one by one.
pub(crate) struct Dynamic;

/// Both loops in one region, a half for each thread, with the barrier between them.
pub(crate) struct Met;

unsafe extern "C" fn call<F: Fn(usize) + Sync>(data: *const c_void, i: usize) {
    // SAFETY: `data` is the closure that `lent` was given, borrowed until the region
    // that calls this has ended; it is Sync.
    let task = unsafe { &*data.cast::<F>() };
    task(i);
}

/// A closure as C takes it: good as long as it is borrowed.
fn lent<F: Fn(usize) + Sync>(task: &F) -> (Task, *const c_void) {
    (call::<F>, (&raw const *task).cast())
}

impl Loops for Static {
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        let (task, data) = lent(&task);
        // SAFETY: the region ends before the closure does.
        unsafe { bench_openmp_static(n, task, data) }
    }
}

impl Loops for Dynamic {
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        let (task, data) = lent(&task);
        // SAFETY: the region ends before the closure does.
        unsafe { bench_openmp_dynamic(n, task, data) }
    }
}

impl Loops for Met {
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        Static.each(n, task);
    }

    fn two(
        &mut self,
        n: usize,
        first: impl Fn(usize) + Sync + Send,
        second: impl Fn(usize) + Sync + Send,
    ) {
        let ((first, first_data), (second, second_data)) = (lent(&first), lent(&second));
        // SAFETY: the region ends before the closures do.
        unsafe { bench_openmp_two(n, first, first_data, second, second_data) }
    }
}
