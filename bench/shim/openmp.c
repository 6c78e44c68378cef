/* OpenMP's parallel region as a fork of one job and its join. */
#include <omp.h>

typedef void (*work)(void *);

void bench_openmp_both(work main_work, void *main_data, work other_work, void *other_data)
{
#pragma omp parallel num_threads(2)
	{
		if (omp_get_thread_num() == 0)
			main_work(main_data);
		else
			other_work(other_data);
	}
}
