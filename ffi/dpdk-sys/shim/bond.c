/* SPDX-License-Identifier: Apache-2.0 */
/* Bonds, by DPDK's bonding driver. Its "slaves" of 22.11 are "members" since 23.11. */
#include <errno.h>
#include <stdint.h>

#include <rte_eth_bond.h>
#include <rte_eth_bond_8023ad.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_version.h>

#include "common.h"

#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
#define bond_add rte_eth_bond_member_add
#define bond_active rte_eth_bond_active_members_get
#define bond_info_get rte_eth_bond_8023ad_member_info
typedef struct rte_eth_bond_8023ad_member_info bond_info;
#else
#define bond_add rte_eth_bond_slave_add
#define bond_active rte_eth_bond_active_slaves_get
#define bond_info_get rte_eth_bond_8023ad_slave_info
typedef struct rte_eth_bond_8023ad_slave_info bond_info;
#endif

/* How often members are looked at whose driver does not tell by itself, in ms. */
#define MONITOR_MS 50

int tg_bond_create(const char *name, int mode)
{
	int socket = (int)rte_socket_id();
	int bond = rte_eth_bond_create(name, (uint8_t)mode, socket < 0 ? 0 : (uint8_t)socket);

	if (bond < 0)
		return bond == -1 ? tg_last_error(EINVAL) : bond;
	if (rte_eth_bond_link_monitoring_set((uint16_t)bond, MONITOR_MS) != 0)
		return -EINVAL;
	if (mode == TG_BOND_8023AD)
		rte_eth_bond_xmit_policy_set((uint16_t)bond, BALANCE_XMIT_POLICY_LAYER34);
	return bond;
}

int tg_bond_add(uint16_t bond, uint16_t member)
{
	return bond_add(bond, member) == 0 ? 0 : tg_last_error(EINVAL);
}

int tg_bond_prefer(uint16_t bond, uint16_t member)
{
	struct rte_ether_addr mac;
	int ret = rte_eth_bond_primary_set(bond, member);

	if (ret != 0)
		return -EINVAL;
	/* Setting the address that it has is what moves it to the member that sends. */
	ret = rte_eth_macaddr_get(bond, &mac);
	return ret == 0 ? rte_eth_bond_mac_address_set(bond, &mac) : ret;
}

int tg_bond_sender(uint16_t bond)
{
	int member = rte_eth_bond_primary_get(bond);

	return member < 0 || member >= RTE_MAX_ETHPORTS ? -EINVAL : member;
}

int tg_bond_uses(uint16_t bond, uint16_t member)
{
	uint16_t active[RTE_MAX_ETHPORTS];
	bond_info info;
	int count = bond_active(bond, active, RTE_MAX_ETHPORTS);
	int i;

	for (i = 0; i < count; i++) {
		if (active[i] != member)
			continue;
		if (rte_eth_bond_mode_get(bond) != BONDING_MODE_8023AD)
			return 1;
		if (bond_info_get(bond, member, &info) != 0)
			return -EINVAL;
		return (info.actor_state & STATE_DISTRIBUTING) != 0;
	}
	return count < 0 ? -EINVAL : 0;
}
