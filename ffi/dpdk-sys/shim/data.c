/* SPDX-License-Identifier: Apache-2.0 */
/* Mempools, mbufs, rings and the hash. */
#include <string.h>

#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "common.h"

static struct rte_mempool *pool_of(tg_pool *pool)
{
	return (struct rte_mempool *)pool;
}

static struct rte_mbuf *mbuf_of(tg_mbuf *mbuf)
{
	return (struct rte_mbuf *)mbuf;
}

tg_pool *tg_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t data_room, int socket, int *error)
{
	struct rte_mempool *pool;

	rte_errno = 0;
	pool = rte_pktmbuf_pool_create(name, count, cache, 0, data_room, socket);
	*error = pool == NULL ? tg_last_error(ENOMEM) : 0;
	return (tg_pool *)pool;
}

void tg_pool_free(tg_pool *pool)
{
	rte_mempool_free(pool_of(pool));
}

uint32_t tg_pool_available(const tg_pool *pool)
{
	return rte_mempool_avail_count((const struct rte_mempool *)pool);
}

uint32_t tg_pool_in_use(const tg_pool *pool)
{
	return rte_mempool_in_use_count((const struct rte_mempool *)pool);
}

tg_mbuf *tg_mbuf_alloc(tg_pool *pool)
{
	return (tg_mbuf *)rte_pktmbuf_alloc(pool_of(pool));
}

int tg_mbuf_alloc_bulk(tg_pool *pool, tg_mbuf **mbufs, uint32_t count)
{
	return rte_pktmbuf_alloc_bulk(pool_of(pool), (struct rte_mbuf **)mbufs, count) != 0 ? -ENOBUFS : 0;
}

void tg_mbuf_free(tg_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf_of(mbuf));
}

void tg_mbuf_free_bulk(tg_mbuf **mbufs, uint32_t count)
{
	rte_pktmbuf_free_bulk((struct rte_mbuf **)mbufs, count);
}

int tg_mbuf_linearize(tg_mbuf *mbuf)
{
	return rte_pktmbuf_linearize(mbuf_of(mbuf)) != 0 ? -ENOSPC : 0;
}

tg_mbuf *tg_mbuf_copy(const tg_mbuf *mbuf, tg_pool *pool)
{
	const struct rte_mbuf *from = (const struct rte_mbuf *)mbuf;
	struct rte_mbuf *to = rte_pktmbuf_alloc(pool_of(pool));
	const void *data;
	char *room;

	if (to == NULL)
		return NULL;
	if (from->pkt_len > rte_pktmbuf_tailroom(to)) {
		rte_pktmbuf_free(to);
		return NULL;
	}
	room = rte_pktmbuf_append(to, (uint16_t)from->pkt_len);
	/* Returns a pointer into the mbuf itself, without copying, when the frame is in one segment. */
	data = rte_pktmbuf_read(from, 0, from->pkt_len, room);
	if (data != room)
		memcpy(room, data, from->pkt_len);
	to->port = from->port;
	to->ol_flags = from->ol_flags & (TG_RX_RSS_HASH | TG_RX_IP_MASK | TG_RX_L4_MASK);
	to->hash.rss = from->hash.rss;
	return (tg_mbuf *)to;
}

int tg_mbuf_chain(tg_mbuf *head, tg_mbuf *tail)
{
	return rte_pktmbuf_chain(mbuf_of(head), mbuf_of(tail));
}

tg_ring *tg_ring_create(const char *name, uint32_t capacity, int socket, int single_producer, int *error)
{
	unsigned int flags = RING_F_EXACT_SZ | RING_F_SC_DEQ | (single_producer ? RING_F_SP_ENQ : 0);
	struct rte_ring *ring;

	rte_errno = 0;
	ring = rte_ring_create(name, capacity, socket, flags);
	*error = ring == NULL ? tg_last_error(ENOMEM) : 0;
	return (tg_ring *)ring;
}

void tg_ring_free(tg_ring *ring)
{
	rte_ring_free((struct rte_ring *)ring);
}

uint32_t tg_ring_count(const tg_ring *ring)
{
	return rte_ring_count((const struct rte_ring *)ring);
}

uint32_t tg_ring_enqueue(tg_ring *ring, tg_mbuf **mbufs, uint32_t count)
{
	return rte_ring_enqueue_burst((struct rte_ring *)ring, (void *const *)mbufs, count, NULL);
}

uint32_t tg_ring_dequeue(tg_ring *ring, tg_mbuf **mbufs, uint32_t room)
{
	return rte_ring_dequeue_burst((struct rte_ring *)ring, (void **)mbufs, room, NULL);
}

tg_hash *tg_hash_create(const char *name, uint32_t entries, int socket, int extendable, int *error)
{
	struct rte_hash_parameters parameters = {
		.name = name,
		.entries = entries,
		.key_len = TG_HASH_KEY_LEN,
		.hash_func = rte_hash_crc,
		.socket_id = socket,
		.extra_flag = extendable ? RTE_HASH_EXTRA_FLAGS_EXT_TABLE : 0,
	};
	struct rte_hash *hash;

	rte_errno = 0;
	hash = rte_hash_create(&parameters);
	*error = hash == NULL ? tg_last_error(ENOMEM) : 0;
	return (tg_hash *)hash;
}

void tg_hash_free(tg_hash *hash)
{
	rte_hash_free((struct rte_hash *)hash);
}

int tg_hash_add(tg_hash *hash, const uint8_t *key, uint32_t value)
{
	return rte_hash_add_key_data((struct rte_hash *)hash, key, (void *)(uintptr_t)value);
}

int tg_hash_remove(tg_hash *hash, const uint8_t *key)
{
	int position = rte_hash_del_key((struct rte_hash *)hash, key);

	return position < 0 ? position : 0;
}

uint32_t tg_hash_lookup(const tg_hash *hash, const uint8_t *key)
{
	void *value;
	int position = rte_hash_lookup_data((const struct rte_hash *)hash, key, &value);

	return position < 0 ? TG_HASH_MISS : (uint32_t)(uintptr_t)value;
}

void tg_hash_lookup_bulk(const tg_hash *hash, const uint8_t *keys, uint32_t count, uint32_t *values)
{
	const void *pointers[TG_HASH_BULK_MAX];
	void *found[TG_HASH_BULK_MAX];
	uint64_t hits = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		pointers[i] = keys + i * TG_HASH_KEY_LEN;
	if (rte_hash_lookup_bulk_data((const struct rte_hash *)hash, pointers, count, &hits, found) < 0)
		hits = 0;
	for (i = 0; i < count; i++)
		values[i] = hits & (UINT64_C(1) << i) ? (uint32_t)(uintptr_t)found[i] : TG_HASH_MISS;
}

uint32_t tg_hash_count(const tg_hash *hash)
{
	return (uint32_t)rte_hash_count((const struct rte_hash *)hash);
}
