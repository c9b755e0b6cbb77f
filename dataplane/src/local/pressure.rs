//! How near a server is to its last local port, over all local addresses that a service has for it. Asked by the worker
//! after it has taken a port that says that the end may be near; a take itself looks at no more than what it has at hand.
//!
//! Connections that are closing count as well: their ports come back only when they end, or when nothing else is free.

use std::sync::Arc;

use super::pairs::ports_in;
use super::{LipPool, LocalPorts, Server};
use crate::worker::shard::ShardSet;

/// How few ports are left towards a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pressure {
    /// Four fifths of the ports are in use.
    High,
    /// Nineteen of twenty ports are in use.
    Critical,
}

impl Pressure {
    /// The share of ports in use at which it begins, in percent.
    #[must_use]
    pub const fn percent(self) -> u8 {
        match self {
            Pressure::High => 80,
            Pressure::Critical => 95,
        }
    }

    /// The pressure now, when `before` was that of the last look. It ends ten percent below the mark where it began, so
    /// that a server that stays about a mark rises once.
    #[must_use]
    pub fn now(before: Option<Pressure>, usage: Usage) -> Option<Pressure> {
        let reaches = |percent: u8| usage.used * 100 >= usage.capacity * u64::from(percent);
        [Pressure::Critical, Pressure::High].into_iter().find(|pressure| {
            let slack = if before >= Some(*pressure) { 10 } else { 0 };
            usage.used > 0 && reaches(pressure.percent() - slack)
        })
    }
}

/// How much of the ports of several local addresses towards one server is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Ports in use.
    pub used: u64,
    /// Ports of this worker's shards.
    pub capacity: u64,
}

impl LocalPorts {
    /// Says which shards the caller owns: their ports are the whole of what a pair has. All, until this is called.
    pub fn set_owned(&mut self, mine: ShardSet) {
        if self.mine != mine {
            self.mine = mine;
            self.addresses.forget_capacities();
        }
    }

    /// Whether ports may run low where one was taken since the last question: most ports of its address are in use, or
    /// another address had none of the right shard.
    #[inline]
    pub fn may_run_low(&mut self) -> bool {
        std::mem::take(&mut self.may_run_low)
    }

    /// How much of these pools' ports towards `server` is used. One or two look-ups for each address of its family.
    pub fn usage_towards(&mut self, pools: &[Arc<LipPool>], server: &Server) -> Usage {
        let mut sum = Usage { used: 0, capacity: 0 };
        for pool in pools {
            let ports = pool.ports();
            for local in pool.towards(server.address.is_ipv6()) {
                let pair = server.pair(*local);
                let id = self.find_pair(&self.hasher.seek(&pair));
                sum.used += id.map_or(0, |id| u64::from(self.pairs[id].used));
                let (key, mine) = (&self.key, self.mine);
                let capacity = || ports_in(key, *local, ports, mine);
                sum.capacity += u64::from(self.addresses.capacity(*local, ports, capacity));
            }
        }
        sum
    }
}

/// Whether most ports of a pair are in use; true when its capacity is not known yet.
#[inline]
pub(super) fn is_high(used: u16, capacity: u32) -> bool {
    u32::from(used) * 100 >= capacity * u32::from(Pressure::High.percent())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::super::Rotation;
    use super::super::tests::{LIP, LIP6, ports_of, range, small};
    use super::*;
    use crate::worker::shard::Shard;
    use proptest::prelude::*;

    const SERVER: Server = Server {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)),
        port: 8080,
        protocol: 6,
    };
    const SERVER6: Server = Server {
        address: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x11)),
        ..SERVER
    };

    fn of(before: Option<Pressure>, used: u64, capacity: u64) -> Option<u8> {
        Pressure::now(before, Usage { used, capacity }).map(Pressure::percent)
    }

    #[test]
    fn pressure_begins_at_its_mark_and_ends_ten_percent_below() {
        let (high, critical) = (Some(Pressure::High), Some(Pressure::Critical));
        assert_eq!(
            [79, 80, 94, 95].map(|used| of(None, used, 100)),
            [None, Some(80), Some(80), Some(95)]
        );
        assert_eq!(
            [69, 70, 94, 95].map(|used| of(high, used, 100)),
            [None, Some(80), Some(80), Some(95)]
        );
        assert_eq!(
            [69, 70, 84, 85].map(|used| of(critical, used, 100)),
            [None, Some(80), Some(80), Some(95)]
        );
        // A single port is critical at once, and calm again without a connection.
        assert_eq!(
            [of(None, 1, 1), of(critical, 0, 1), of(None, 0, 0)],
            [Some(95), None, None]
        );
    }

    proptest! {
        /// However the use wanders, what is said is said at a mark, and again only after a fall.
        #[test]
        fn a_rise_is_told_once(wandering in prop::collection::vec(0..=200u64, 1..100)) {
            let mut now = None;
            // The lowest use since each mark was told of.
            let mut lowest: [Option<u64>; 2] = [None; 2];
            for used in wandering {
                let next = Pressure::now(now, Usage { used, capacity: 200 });
                for low in lowest.iter_mut().flatten() {
                    *low = used.min(*low);
                }
                if let Some(pressure) = next.filter(|_| next > now) {
                    let mark = 2 * u64::from(pressure.percent());
                    prop_assert!(used >= mark);
                    prop_assert!(lowest[pressure as usize].is_none_or(|low| low < mark - 20));
                    lowest[pressure as usize] = Some(used);
                }
                prop_assert!(next.is_some() || used < 160);
                now = next;
            }
        }
    }

    #[test]
    fn all_addresses_of_all_pools_count() {
        let mut ports = ports_of(&small());
        // Half of the shards.
        let mine = ShardSet::from_bits(u128::from(u64::MAX));
        ports.set_owned(mine);
        let pool = |last: u8, ports| {
            let addresses = [last, last + 1].map(|last| IpAddr::from([10, 0, 0, last]));
            Arc::new(LipPool::new(addresses, ports))
        };
        let pools = [pool(200, range(1024, 1279)), pool(210, range(1024, 1151))];
        let usage = |ports: &mut LocalPorts| {
            let Usage { used, capacity } = ports.usage_towards(&pools, &SERVER);
            (used, capacity)
        };
        assert_eq!(usage(&mut ports), (0, 2 * 128 + 2 * 64), "before any was used");
        let mut rotation = Rotation::default();
        let mut take = |ports: &mut LocalPorts, pool: &LipPool| {
            ports
                .take_from_pool(pool, &mut rotation, &SERVER, Shard::from_low_bits(3), mine)
                .unwrap()
        };
        for _ in 0..3 {
            take(&mut ports, &pools[0]);
        }
        take(&mut ports, &pools[1]);
        assert_eq!(usage(&mut ports), (4, 384));
        ports.set_owned(ShardSet::ALL);
        assert_eq!(usage(&mut ports), (4, 768));
        let elsewhere = Server { port: 81, ..SERVER };
        assert_eq!(ports.usage_towards(&pools, &elsewhere).used, 0);
    }

    #[test]
    fn only_addresses_of_the_servers_family_count() {
        let mut ports = ports_of(&small());
        let locals = [LIP, LIP6, IpAddr::from([10, 0, 0, 201])];
        let pools = [Arc::new(LipPool::new(locals, range(10_000, 10_099)))];
        let mut rotation = Rotation::default();
        let mut take = |server| {
            let wanted = Shard::from_low_bits(3);
            ports
                .take_from_pool(&pools[0], &mut rotation, server, wanted, ShardSet::ALL)
                .unwrap();
        };
        for _ in 0..3 {
            take(&SERVER6);
        }
        take(&SERVER);
        let mut usage = |server| {
            let Usage { used, capacity } = ports.usage_towards(&pools, server);
            (used, capacity)
        };
        assert_eq!([usage(&SERVER), usage(&SERVER6)], [(1, 200), (3, 100)]);
    }

    #[test]
    fn a_take_says_when_the_end_may_be_near() {
        let mut ports = ports_of(&small());
        let pool = Arc::new(LipPool::new([LIP], range(10_000, 10_999)));
        let pair = SERVER.pair(LIP);
        let take = |ports: &mut LocalPorts, i| {
            ports
                .take(&pair, pool.ports(), Shard::from_low_bits(i), ShardSet::ALL)
                .unwrap();
            ports.may_run_low()
        };
        assert!(take(&mut ports, 0), "nothing is known yet");
        ports.usage_towards(std::slice::from_ref(&pool), &SERVER);
        let said: Vec<u32> = (1..900).filter(|i| take(&mut ports, *i)).collect();
        // The take of number i is the one that makes i + 1.
        assert_eq!(said, (799..900).collect::<Vec<_>>());
    }
}
