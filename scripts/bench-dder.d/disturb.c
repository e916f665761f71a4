/*
 * Truths for scripts/bench-dder to plant: loaded with LD_PRELOAD, it makes reads of some sizes
 * take longer.
 *   SLOWER_ABOVE=32768  calls for more bytes spin on for 5 % of the time that they took
 *   SLEEP_AT=4096       calls for a multiple of so many bytes sleep
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER_PERCENT = 5, SLEEP_NS = 20000 };

static size_t slower_above = SIZE_MAX;
static size_t sleep_at;

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("SLOWER_ABOVE");

	if (text)
		slower_above = strtoul(text, NULL, 10);
	text = getenv("SLEEP_AT");
	if (text)
		sleep_at = strtoul(text, NULL, 10);
}

/* Time in whatever unit: a call of a clock would take half of what is to be added. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t now;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

static ssize_t disturbed(long number, int file, void *into, size_t size, off_t offset)
{
	const uint64_t began = ticks();
	const ssize_t done = syscall(number, file, into, size, offset);
	const uint64_t ended = ticks();

	if (size > slower_above) {
		const uint64_t until = ended + (ended - began) * SLOWER_PERCENT / 100;

		while (ticks() < until)
			;
	}
	if (sleep_at && size && size % sleep_at == 0)
		nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
	return done;
}

ssize_t pread64(int file, void *into, size_t size, off_t offset)
{
	return disturbed(SYS_pread64, file, into, size, offset);
}

ssize_t pread(int file, void *into, size_t size, off_t offset)
{
	return disturbed(SYS_pread64, file, into, size, offset);
}

ssize_t read(int file, void *into, size_t size)
{
	return disturbed(SYS_read, file, into, size, 0);
}
