// Highway's ThreadPool of the calling thread and another one, which waits as it does for
// runs that follow each other: spinning, from version 1.3 on by MWAITX or UMWAIT.
#include <cstdlib>
#include <memory>

#include <sched.h>

#include <hwy/contrib/thread_pool/thread_pool.h>

using work = void (*)(void *);

extern "C" void *bench_highway_new(int helper_cpu)
{
	auto pool = std::make_unique<hwy::ThreadPool>(2);
	pool->SetWaitMode(hwy::PoolWaitMode::kSpin);
	// Each has a task, but who is late finds its own made by the other.
	for (bool bound = false; !bound;)
		pool->Run(0, 2, [&](uint64_t, size_t thread) {
			if (thread != 0)
				return;
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET(helper_cpu, &set);
			if (sched_setaffinity(0, sizeof set, &set) != 0)
				std::abort();
			bound = true;
		});
	return pool.release();
}

extern "C" void bench_highway_free(void *pool)
{
	delete static_cast<hwy::ThreadPool *>(pool);
}

// The calling thread is the last of the pool, whose own task is the second one.
extern "C" void bench_highway_both(void *pool, work main_work, void *main_data, work other_work,
				   void *other_data)
{
	static_cast<hwy::ThreadPool *>(pool)->Run(0, 2, [&](uint64_t task, size_t) {
		if (task == 0)
			other_work(other_data);
		else
			main_work(main_data);
	});
}
