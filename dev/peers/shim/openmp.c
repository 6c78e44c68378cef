/* OpenMP's parallel region as a fork of one job and its join, and as loops. */
#include <omp.h>
#include <stddef.h>

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

/* Loops of which each turn is a task of its own. */
typedef void (*task)(const void *, size_t);

void bench_openmp_static(size_t n, task each, const void *data)
{
#pragma omp parallel for num_threads(2) schedule(static)
	for (size_t i = 0; i < n; i++)
		each(data, i);
}

void bench_openmp_dynamic(size_t n, task each, const void *data)
{
#pragma omp parallel for num_threads(2) schedule(dynamic, 1)
	for (size_t i = 0; i < n; i++)
		each(data, i);
}

/* Two loops in one region: at the end of the first the threads meet. */
void bench_openmp_two(size_t n, task first, const void *first_data, task second,
		      const void *second_data)
{
#pragma omp parallel num_threads(2)
	{
#pragma omp for schedule(static)
		for (size_t i = 0; i < n; i++)
			first(first_data, i);
#pragma omp for schedule(static)
		for (size_t i = 0; i < n; i++)
			second(second_data, i);
	}
}
