/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet ports. Which values to ask of a device is decided by the caller, from tg_port_info. */
#include <stdlib.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_string_fns.h>
#include <rte_thash.h>

#include "common.h"

static const struct {
	uint32_t feature;
	uint64_t offload;
} rx_offloads[] = {
	{ TG_FEATURE_RX_IPV4_CHECKSUM, RTE_ETH_RX_OFFLOAD_IPV4_CKSUM },
	{ TG_FEATURE_RX_UDP_CHECKSUM, RTE_ETH_RX_OFFLOAD_UDP_CKSUM },
	{ TG_FEATURE_RX_TCP_CHECKSUM, RTE_ETH_RX_OFFLOAD_TCP_CKSUM },
	{ TG_FEATURE_RX_SCATTER, RTE_ETH_RX_OFFLOAD_SCATTER },
	{ TG_FEATURE_RX_RSS_HASH, RTE_ETH_RX_OFFLOAD_RSS_HASH },
};

static uint64_t rss_types(uint32_t features)
{
	return (features & TG_FEATURE_RSS_IPV4_TCP ? RTE_ETH_RSS_NONFRAG_IPV4_TCP : 0) |
	       (features & TG_FEATURE_RSS_IPV4_UDP ? RTE_ETH_RSS_NONFRAG_IPV4_UDP : 0);
}

static uint32_t features_of(const struct rte_eth_dev_info *dev)
{
	uint32_t features = 0;
	size_t i;

	for (i = 0; i < RTE_DIM(rx_offloads); i++)
		if (dev->rx_offload_capa & rx_offloads[i].offload)
			features |= rx_offloads[i].feature;
	if (dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		features |= TG_FEATURE_TX_MULTI_SEGS;
	if (dev->flow_type_rss_offloads & RTE_ETH_RSS_NONFRAG_IPV4_TCP)
		features |= TG_FEATURE_RSS_IPV4_TCP;
	if (dev->flow_type_rss_offloads & RTE_ETH_RSS_NONFRAG_IPV4_UDP)
		features |= TG_FEATURE_RSS_IPV4_UDP;
	return features;
}

int tg_dev_probe(const char *devargs)
{
	int ret;

	rte_errno = 0;
	ret = rte_dev_probe(devargs);
	if (ret >= 0)
		return 0;
	/* A bare -1 says nothing: EAL may have left the reason in rte_errno. */
	return ret == -1 ? tg_last_error(ENODEV) : ret;
}

int tg_port_find(const char *devargs)
{
	struct rte_dev_iterator iterator;
	uint16_t port;
	size_t name = strcspn(devargs, ",");
	char device[TG_NAME_LEN];

	/* By name first: for a PCI address or a vdev this is the port, and needs no parsing. */
	if (name < sizeof(device)) {
		memcpy(device, devargs, name);
		device[name] = '\0';
		if (rte_eth_dev_get_port_by_name(device, &port) == 0)
			return port;
	}
	RTE_ETH_FOREACH_MATCHING_DEV(port, devargs, &iterator) {
		rte_eth_iterator_cleanup(&iterator);
		return port;
	}
	return -ENODEV;
}

static void limits_of(struct tg_descriptor_limits *to, const struct rte_eth_desc_lim *from)
{
	to->min = from->nb_min;
	to->max = from->nb_max;
	to->align = from->nb_align;
}

int tg_port_info(uint16_t port, struct tg_port_info *info)
{
	struct rte_eth_dev_info dev;
	int ret = rte_eth_dev_info_get(port, &dev);

	if (ret != 0)
		return ret;
	memset(info, 0, sizeof(*info));
	rte_strscpy(info->driver, dev.driver_name ? dev.driver_name : "", sizeof(info->driver));
	rte_eth_dev_get_name_by_port(port, info->device);
	info->features = features_of(&dev);
	info->max_frame = dev.max_rx_pktlen;
	/* A driver that states no MTU of its own leaves the maximum; then it is the header and the CRC. */
	if (dev.max_mtu != UINT16_MAX && dev.max_mtu != 0 && dev.max_rx_pktlen > dev.max_mtu)
		info->frame_overhead = dev.max_rx_pktlen - dev.max_mtu;
	else
		info->frame_overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
	info->min_mtu = dev.min_mtu;
	info->max_mtu = dev.max_mtu;
	rte_eth_dev_get_mtu(port, &info->mtu);
	info->max_rx_queues = dev.max_rx_queues;
	info->max_tx_queues = dev.max_tx_queues;
	limits_of(&info->rx_descriptors, &dev.rx_desc_lim);
	limits_of(&info->tx_descriptors, &dev.tx_desc_lim);
	info->reta_size = dev.reta_size;
	info->rss_key_size = dev.hash_key_size;
	info->socket = rte_eth_dev_socket_id(port);
	return 0;
}

static int setup_queues(uint16_t port, const struct tg_port_setup *setup, const char **step)
{
	int socket = rte_eth_dev_socket_id(port);
	uint16_t queue;
	int ret;

	for (queue = 0; queue < setup->rx_queues; queue++) {
		*step = "set up a receive queue";
		ret = rte_eth_rx_queue_setup(port, queue, setup->rx_descriptors, socket, NULL,
					     (struct rte_mempool *)setup->pool);
		if (ret != 0)
			return ret;
	}
	for (queue = 0; queue < setup->tx_queues; queue++) {
		*step = "set up a transmit queue";
		ret = rte_eth_tx_queue_setup(port, queue, setup->tx_descriptors, socket, NULL);
		if (ret != 0)
			return ret;
	}
	return 0;
}

int tg_port_configure(uint16_t port, const struct tg_port_setup *setup, const char **step)
{
	struct rte_eth_dev_info dev;
	struct rte_eth_conf conf = { 0 };
	uint8_t key[UINT8_MAX] = { 0 };
	size_t i;
	int ret;

	*step = "ask what the device can do";
	ret = rte_eth_dev_info_get(port, &dev);
	if (ret != 0)
		return ret;
	conf.rxmode.mtu = setup->mtu;
	for (i = 0; i < RTE_DIM(rx_offloads); i++)
		if (setup->features & rx_offloads[i].feature)
			conf.rxmode.offloads |= rx_offloads[i].offload;
	/* Never FAST_FREE: it demands one pool a queue and no further segments, and we hand over both. */
	if (setup->features & TG_FEATURE_TX_MULTI_SEGS)
		conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (rss_types(setup->features) != 0) {
		memcpy(key, setup->rss_key, TG_RSS_KEY_LEN);
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = rss_types(setup->features);
		conf.rx_adv_conf.rss_conf.rss_key = key;
		/* Some devices take a longer key; the tail hashes nothing of an IPv4 or IPv6 tuple. */
		conf.rx_adv_conf.rss_conf.rss_key_len = dev.hash_key_size ? dev.hash_key_size : TG_RSS_KEY_LEN;
	}
	*step = "configure";
	ret = rte_eth_dev_configure(port, setup->rx_queues, setup->tx_queues, &conf);
	if (ret != 0)
		return ret;
	return setup_queues(port, setup, step);
}

int tg_port_start(uint16_t port)
{
	return rte_eth_dev_start(port);
}

int tg_port_stop(uint16_t port)
{
	return rte_eth_dev_stop(port);
}

int tg_port_remove(uint16_t port)
{
	struct rte_eth_dev_info dev;
	int ret = rte_eth_dev_info_get(port, &dev);
	uint16_t other;

	if (ret != 0)
		return ret;
	ret = rte_eth_dev_close(port);
	if (ret != 0 || dev.device == NULL)
		return ret;
	RTE_ETH_FOREACH_DEV_OF(other, dev.device)
		return 0;
	/* Without this the same vdev could not be attached again: its bus would still know it. */
	return rte_dev_remove(dev.device);
}

int tg_port_set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

int tg_port_mtu(uint16_t port, uint16_t *mtu)
{
	return rte_eth_dev_get_mtu(port, mtu);
}

int tg_port_mac(uint16_t port, uint8_t mac[6])
{
	struct rte_ether_addr address;
	int ret = rte_eth_macaddr_get(port, &address);

	if (ret == 0)
		memcpy(mac, address.addr_bytes, RTE_ETHER_ADDR_LEN);
	return ret;
}

int tg_port_set_mac(uint16_t port, const uint8_t mac[6])
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, RTE_ETHER_ADDR_LEN);
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

int tg_port_promiscuous(uint16_t port)
{
	return rte_eth_promiscuous_enable(port);
}

int tg_port_all_multicast(uint16_t port)
{
	return rte_eth_allmulticast_enable(port);
}

int tg_port_link(uint16_t port, uint32_t *speed)
{
	struct rte_eth_link link = { 0 };
	int ret = rte_eth_link_get_nowait(port, &link);

	if (ret != 0)
		return ret;
	*speed = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return link.link_status == RTE_ETH_LINK_UP;
}

int tg_port_stats(uint16_t port, struct tg_port_stats *stats)
{
	struct rte_eth_stats from;
	int ret = rte_eth_stats_get(port, &from);

	if (ret != 0)
		return ret;
	stats->rx_packets = from.ipackets;
	stats->tx_packets = from.opackets;
	stats->rx_bytes = from.ibytes;
	stats->tx_bytes = from.obytes;
	stats->rx_missed = from.imissed;
	stats->rx_errors = from.ierrors;
	stats->tx_errors = from.oerrors;
	stats->rx_no_mbuf = from.rx_nombuf;
	return 0;
}

int tg_port_xstats(uint16_t port, struct tg_xstat *entries, uint32_t room)
{
	int count = rte_eth_xstats_get(port, NULL, 0);
	struct rte_eth_xstat *values;
	struct rte_eth_xstat_name *names;
	int i;

	if (count <= 0 || (uint32_t)count > room)
		return count;
	values = calloc((size_t)count, sizeof(*values));
	names = calloc((size_t)count, sizeof(*names));
	if (values == NULL || names == NULL) {
		count = -ENOMEM;
	} else if (rte_eth_xstats_get(port, values, (unsigned int)count) != count ||
		   rte_eth_xstats_get_names(port, names, (unsigned int)count) != count) {
		count = -EAGAIN;
	}
	for (i = 0; i < count; i++) {
		rte_strscpy(entries[i].name, names[values[i].id].name, TG_NAME_LEN);
		entries[i].value = values[i].value;
	}
	free(values);
	free(names);
	return count;
}

int tg_port_set_rss_key(uint16_t port, const uint8_t *key, uint8_t len, uint32_t features)
{
	uint8_t copy[UINT8_MAX] = { 0 };
	struct rte_eth_rss_conf conf = { .rss_key = copy, .rss_hf = rss_types(features) };
	struct rte_eth_dev_info dev;
	int ret = rte_eth_dev_info_get(port, &dev);

	if (ret != 0)
		return ret;
	if (conf.rss_hf == 0)
		return -ENOTSUP;
	memcpy(copy, key, len);
	conf.rss_key_len = dev.hash_key_size ? dev.hash_key_size : TG_RSS_KEY_LEN;
	return rte_eth_dev_rss_hash_update(port, &conf);
}

int tg_port_rss_key(uint16_t port, uint8_t *key, uint8_t len)
{
	uint8_t copy[UINT8_MAX] = { 0 };
	struct rte_eth_rss_conf conf = { .rss_key = copy };
	struct rte_eth_dev_info dev;
	int ret = rte_eth_dev_info_get(port, &dev);

	if (ret != 0)
		return ret;
	conf.rss_key_len = dev.hash_key_size ? dev.hash_key_size : TG_RSS_KEY_LEN;
	ret = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (ret == 0)
		memcpy(key, copy, len);
	return ret;
}

#define RETA_GROUPS (TG_RETA_MAX / RTE_ETH_RETA_GROUP_SIZE)

int tg_port_set_reta(uint16_t port, uint16_t size, const uint16_t *queues)
{
	struct rte_eth_rss_reta_entry64 reta[RETA_GROUPS] = { 0 };
	uint16_t i;

	if (size == 0 || size > TG_RETA_MAX)
		return -ENOTSUP;
	for (i = 0; i < size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &reta[i / RTE_ETH_RETA_GROUP_SIZE];

		group->mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = queues[i];
	}
	return rte_eth_dev_rss_reta_update(port, reta, size);
}

int tg_port_reta(uint16_t port, uint16_t size, uint16_t *queues)
{
	struct rte_eth_rss_reta_entry64 reta[RETA_GROUPS] = { 0 };
	uint16_t i;
	int ret;

	if (size == 0 || size > TG_RETA_MAX)
		return -ENOTSUP;
	for (i = 0; i < size; i++)
		reta[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
	ret = rte_eth_dev_rss_reta_query(port, reta, size);
	for (i = 0; ret == 0 && i < size; i++)
		queues[i] = reta[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return ret;
}

uint32_t tg_softrss(const uint32_t *words, uint32_t count, const uint8_t *key)
{
	/* The function writes nothing, although it does not say so. */
	return rte_softrss((uint32_t *)(uintptr_t)words, count, key);
}

uint16_t tg_rx_burst(uint16_t port, uint16_t queue, tg_mbuf **mbufs, uint16_t room)
{
	return rte_eth_rx_burst(port, queue, (struct rte_mbuf **)mbufs, room);
}

uint16_t tg_tx_burst(uint16_t port, uint16_t queue, tg_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, (struct rte_mbuf **)mbufs, count);
}

int tg_tx_reclaim(uint16_t port, uint16_t queue)
{
	return rte_eth_tx_done_cleanup(port, queue, 0);
}
