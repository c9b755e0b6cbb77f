/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole contract between Rust and DPDK. Functions in our own vocabulary over small plain structs of ours; no
 * DPDK struct crosses. What differs between DPDK releases is settled in the .c files.
 *
 * Unless said otherwise a function returns 0 or a count on success and a negative errno on failure.
 */
#ifndef TG_SHIM_H
#define TG_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* For the constants below only: the C compiler states the layout, Rust reads by it. */
#include <rte_mbuf.h>

/* Only ever used behind a pointer. */
typedef struct tg_mbuf tg_mbuf;
typedef struct tg_pool tg_pool;
typedef struct tg_ring tg_ring;
typedef struct tg_hash tg_hash;

enum tg_mbuf_layout {
	TG_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	TG_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	TG_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	TG_MBUF_PORT = offsetof(struct rte_mbuf, port),
	TG_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	TG_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	TG_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	TG_MBUF_RSS_HASH = offsetof(struct rte_mbuf, hash.rss),
	TG_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	TG_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
};

/* Bits of ol_flags that a received mbuf may carry. All lie in the low 32 bits. */
enum tg_mbuf_flag {
	TG_RX_RSS_HASH = RTE_MBUF_F_RX_RSS_HASH,
	TG_RX_IP_MASK = RTE_MBUF_F_RX_IP_CKSUM_MASK,
	TG_RX_IP_BAD = RTE_MBUF_F_RX_IP_CKSUM_BAD,
	TG_RX_IP_GOOD = RTE_MBUF_F_RX_IP_CKSUM_GOOD,
	TG_RX_L4_MASK = RTE_MBUF_F_RX_L4_CKSUM_MASK,
	TG_RX_L4_BAD = RTE_MBUF_F_RX_L4_CKSUM_BAD,
	TG_RX_L4_GOOD = RTE_MBUF_F_RX_L4_CKSUM_GOOD,
};

/* ---- EAL ---- */

/* Level is DPDK's: 1 emergency, 4 error, 5 warning, 6 notice, 7 info, 8 debug. Text is not terminated. */
typedef void (*tg_log_sink)(uint32_t level, const char *text, size_t len);

/* The DPDK release at run time, such as "DPDK 22.11.11". */
const char *tg_version(void);
/* Sends DPDK's log to `sink`, from any thread, from now on. Call before tg_eal_init. */
int tg_log_capture(tg_log_sink sink);
/* Starts EAL on the calling thread, whose CPU affinity is left as it was. */
int tg_eal_init(int argc, char **argv);
int tg_eal_cleanup(void);
/* 1 when memory comes from hugepages. */
int tg_eal_has_hugepages(void);
/* Where EAL keeps this process's files, its telemetry socket among them. */
const char *tg_runtime_dir(void);
/* Gives the calling thread an lcore id, and with it a cache in every mempool. */
int tg_thread_register(void);
void tg_thread_unregister(void);
/* The calling thread's lcore id; UINT32_MAX when it has none. */
uint32_t tg_lcore_id(void);
uint64_t tg_tsc(void);
/* Ticks of tg_tsc a second. */
uint64_t tg_tsc_hz(void);

/* ---- Ethernet ports ---- */

enum tg_length {
	TG_NAME_LEN = 64,
	TG_RSS_KEY_LEN = 40,
	/* Entries of the largest redirection table. */
	TG_RETA_MAX = 512,
};

/* What a device can do: bits of tg_port_info.features, and of tg_port_setup.features as a demand. */
enum tg_feature {
	TG_FEATURE_RX_IPV4_CHECKSUM = 1 << 0,
	TG_FEATURE_RX_UDP_CHECKSUM = 1 << 1,
	TG_FEATURE_RX_TCP_CHECKSUM = 1 << 2,
	TG_FEATURE_RX_SCATTER = 1 << 3,
	TG_FEATURE_RX_RSS_HASH = 1 << 4,
	TG_FEATURE_TX_MULTI_SEGS = 1 << 5,
	TG_FEATURE_RSS_IPV4_TCP = 1 << 6,
	TG_FEATURE_RSS_IPV4_UDP = 1 << 7,
};

struct tg_descriptor_limits {
	uint16_t min;
	uint16_t max;
	uint16_t align;
};

struct tg_port_info {
	char driver[TG_NAME_LEN];
	char device[TG_NAME_LEN];
	uint32_t features;
	/* The longest frame that can be received, Ethernet header included, and what of it is not MTU. */
	uint32_t max_frame;
	uint32_t frame_overhead;
	uint16_t min_mtu;
	uint16_t max_mtu;
	uint16_t mtu;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	struct tg_descriptor_limits rx_descriptors;
	struct tg_descriptor_limits tx_descriptors;
	uint16_t reta_size;
	uint8_t rss_key_size;
	/* -1 when the device belongs to no NUMA node. */
	int32_t socket;
};

struct tg_port_setup {
	tg_pool *pool;
	uint32_t features;
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_descriptors;
	uint16_t tx_descriptors;
	uint16_t mtu;
	uint8_t rss_key[TG_RSS_KEY_LEN];
};

struct tg_port_stats {
	uint64_t rx_packets;
	uint64_t tx_packets;
	uint64_t rx_bytes;
	uint64_t tx_bytes;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t tx_errors;
	uint64_t rx_no_mbuf;
};

struct tg_xstat {
	char name[TG_NAME_LEN];
	uint64_t value;
};

/* Attaches a device; -EEXIST when it is attached already. */
int tg_dev_probe(const char *devargs);
/* The port id of an attached device, named as for tg_dev_probe; -ENODEV when it has none. */
int tg_port_find(const char *devargs);
int tg_port_info(uint16_t port, struct tg_port_info *info);
/* Configures the port and sets up all its queues. *step names the call that failed. */
int tg_port_configure(uint16_t port, const struct tg_port_setup *setup, const char **step);
int tg_port_start(uint16_t port);
int tg_port_stop(uint16_t port);
/* Closes the port, and detaches its device when no other port is on it. */
int tg_port_remove(uint16_t port);
int tg_port_set_mtu(uint16_t port, uint16_t mtu);
int tg_port_mtu(uint16_t port, uint16_t *mtu);
int tg_port_mac(uint16_t port, uint8_t mac[6]);
int tg_port_set_mac(uint16_t port, const uint8_t mac[6]);
int tg_port_promiscuous(uint16_t port);
int tg_port_all_multicast(uint16_t port);
/* 1 up, 0 down. Speed in Mbit/s; 0 when unknown. */
int tg_port_link(uint16_t port, uint32_t *speed);
int tg_port_stats(uint16_t port, struct tg_port_stats *stats);
/* Fills at most `room` entries; returns how many there are. */
int tg_port_xstats(uint16_t port, struct tg_xstat *entries, uint32_t room);
int tg_port_set_rss_key(uint16_t port, const uint8_t *key, uint8_t len, uint32_t features);
/* The key that the device hashes by, at most `len` bytes of it. */
int tg_port_rss_key(uint16_t port, uint8_t *key, uint8_t len);
/* The queue of each entry of the redirection table, whose size is the device's, at most TG_RETA_MAX. */
int tg_port_set_reta(uint16_t port, uint16_t size, const uint16_t *queues);
int tg_port_reta(uint16_t port, uint16_t size, uint16_t *queues);
/* The Toeplitz hash of `words` 32-bit words in host order. The key must be 4 bytes longer than the words. */
uint32_t tg_softrss(const uint32_t *words, uint32_t count, const uint8_t *key);

uint16_t tg_rx_burst(uint16_t port, uint16_t queue, tg_mbuf **mbufs, uint16_t room);
/* Takes mbufs from the front; returns how many it took. */
uint16_t tg_tx_burst(uint16_t port, uint16_t queue, tg_mbuf **mbufs, uint16_t count);
/* Frees transmitted mbufs that the driver still holds, where it can tell. */
int tg_tx_reclaim(uint16_t port, uint16_t queue);

/* ---- Bonds: several ports as one ---- */

enum tg_bond_mode {
	TG_BOND_ACTIVE_BACKUP = 1,
	TG_BOND_8023AD = 4,
};

/* The port id of a new bond without members. The name begins with net_bonding. */
int tg_bond_create(const char *name, int mode);
/* The member is attached and not configured; from then on the bond configures, starts and stops it. */
int tg_bond_add(uint16_t bond, uint16_t member);
/* Has the member send for the bond, while its link is up as far as its driver knows, with the bond's MAC address. */
int tg_bond_prefer(uint16_t bond, uint16_t member);
/* The member that sends where only one does; -EINVAL when there is none. */
int tg_bond_sender(uint16_t bond);
/* Whether the bond uses the member: its link is up, and with LACP its partner agrees. */
int tg_bond_uses(uint16_t bond, uint16_t member);

/* ---- Mempools and mbufs ---- */

/* data_room is the size of a buffer, headroom included. NULL on failure, with the reason in *error. */
tg_pool *tg_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t data_room, int socket, int *error);
void tg_pool_free(tg_pool *pool);
uint32_t tg_pool_available(const tg_pool *pool);
uint32_t tg_pool_in_use(const tg_pool *pool);
tg_mbuf *tg_mbuf_alloc(tg_pool *pool);
/* All or nothing. */
int tg_mbuf_alloc_bulk(tg_pool *pool, tg_mbuf **mbufs, uint32_t count);
void tg_mbuf_free(tg_mbuf *mbuf);
void tg_mbuf_free_bulk(tg_mbuf **mbufs, uint32_t count);
/* -ENOSPC when the first segment has no room for the others; then nothing has changed. */
int tg_mbuf_linearize(tg_mbuf *mbuf);
/* A copy in one segment; NULL when the pool is empty or its buffers are too small. */
tg_mbuf *tg_mbuf_copy(const tg_mbuf *mbuf, tg_pool *pool);
/* Appends `tail` as further segments; it belongs to `head` then. -EOVERFLOW when there would be too many. */
int tg_mbuf_chain(tg_mbuf *head, tg_mbuf *tail);

/* ---- Rings of mbufs ---- */

tg_ring *tg_ring_create(const char *name, uint32_t capacity, int socket, int single_producer, int *error);
void tg_ring_free(tg_ring *ring);
uint32_t tg_ring_count(const tg_ring *ring);
uint32_t tg_ring_enqueue(tg_ring *ring, tg_mbuf **mbufs, uint32_t count);
uint32_t tg_ring_dequeue(tg_ring *ring, tg_mbuf **mbufs, uint32_t room);

/* ---- The measured baseline of the connection table ---- */

enum tg_hash_size {
	TG_HASH_KEY_LEN = 16,
	TG_HASH_BULK_MAX = 32,
};

#define TG_HASH_MISS UINT32_MAX

tg_hash *tg_hash_create(const char *name, uint32_t entries, int socket, int extendable, int *error);
void tg_hash_free(tg_hash *hash);
int tg_hash_add(tg_hash *hash, const uint8_t *key, uint32_t value);
int tg_hash_remove(tg_hash *hash, const uint8_t *key);
uint32_t tg_hash_lookup(const tg_hash *hash, const uint8_t *key);
/* Keys lie one after the other. TG_HASH_MISS for each one that is absent. */
void tg_hash_lookup_bulk(const tg_hash *hash, const uint8_t *keys, uint32_t count, uint32_t *values);
uint32_t tg_hash_count(const tg_hash *hash);

#endif
