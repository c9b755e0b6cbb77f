/* SPDX-License-Identifier: Apache-2.0 */
/* EAL's start and end, its log, threads and the clock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "common.h"

static tg_log_sink log_sink;

const char *tg_version(void)
{
	return rte_version();
}

/* DPDK flushes after each message, so the level of the current message is that of this text. */
static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	log_sink(rte_log_cur_msg_loglevel(), text, len);
	return (ssize_t)len;
}

int tg_log_capture(tg_log_sink sink)
{
	cookie_io_functions_t functions = { .write = log_write };
	FILE *stream;

	log_sink = sink;
	stream = fopencookie(NULL, "w", functions);
	if (stream == NULL)
		return -ENOMEM;
	/* The stream stays open for the life of the process: DPDK keeps the pointer. */
	return rte_openlog_stream(stream);
}

int tg_eal_init(int argc, char **argv)
{
	cpu_set_t before;
	int saved = pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	int ret;

	rte_errno = 0;
	ret = rte_eal_init(argc, argv);
	if (ret < 0)
		ret = tg_last_error(EINVAL);
	/* EAL pins its caller to the main lcore, and every thread made later would inherit that. */
	if (saved == 0)
		pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	return ret < 0 ? ret : 0;
}

int tg_eal_cleanup(void)
{
	return rte_eal_cleanup();
}

int tg_eal_has_hugepages(void)
{
	return rte_eal_has_hugepages();
}

const char *tg_runtime_dir(void)
{
	return rte_eal_get_runtime_dir();
}

int tg_thread_register(void)
{
	rte_errno = 0;
	return rte_thread_register() < 0 ? tg_last_error(ENOMEM) : 0;
}

void tg_thread_unregister(void)
{
	rte_thread_unregister();
}

uint32_t tg_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t tg_tsc(void)
{
	return rte_rdtsc();
}

uint64_t tg_tsc_hz(void)
{
	return rte_get_tsc_hz();
}
