/* SPDX-License-Identifier: Apache-2.0 */
/* What the shim's own files share. Not part of the contract. */
#ifndef TG_COMMON_H
#define TG_COMMON_H

#include <errno.h>

#include <rte_errno.h>
#include <rte_version.h>

#include "shim.h"

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "Tidegate needs DPDK 22.11 or later"
#endif

/* DPDK reports through rte_errno, and now and then forgets to set it. */
static inline int tg_last_error(int fallback)
{
	return -(rte_errno ? rte_errno : fallback);
}

#endif
