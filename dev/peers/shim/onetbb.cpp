// oneTBB's parallel_invoke within an arena of two threads.
#include <cstdlib>

#include <sched.h>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

using work = void (*)(void *);

namespace {

// Binds the arena's worker as it arrives.
class binder : public tbb::task_scheduler_observer {
public:
	binder(tbb::task_arena &arena, int cpu) : task_scheduler_observer(arena), cpu(cpu)
	{
		observe(true);
	}

	~binder() override
	{
		observe(false);
	}

	void on_scheduler_entry(bool is_worker) override
	{
		if (!is_worker)
			return;
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof set, &set) != 0)
			std::abort();
	}

private:
	int cpu;
};

} // namespace

// Runs `body` as the master of the arena, so that what it forks has not to
// enter the arena each time.
extern "C" void bench_onetbb_inside(int helper_cpu, work body, void *data)
{
	// The calling thread is bound, from which TBB would conclude that there
	// is one cpu.
	tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
	tbb::task_arena arena(2, 1);
	arena.initialize();
	binder bound(arena, helper_cpu);
	arena.execute([&] { body(data); });
}

// The last function is the one that the caller runs itself.
extern "C" void bench_onetbb_both(work main_work, void *main_data, work other_work,
				  void *other_data)
{
	tbb::parallel_invoke([&] { other_work(other_data); }, [&] { main_work(main_data); });
}
