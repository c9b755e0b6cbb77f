//! Source hashing: 256 buckets, dealt out to the servers in list order, as many in a row as a server has weight.
//! A server of weight 0 keeps one bucket, so that quiescing it moves nobody else when its weight was 1.

use super::hash::{byte, folded};
use crate::service::Server;
use std::net::IpAddr;

const BUCKETS: usize = 256;

/// The position of a server for each bucket; nothing without servers.
pub(super) fn table(servers: &[Server]) -> Box<[u32]> {
    let turns = servers
        .iter()
        .zip(0u32..)
        .map(|(server, position)| (position, server.weight.clamp(1, BUCKETS as u32)));
    turns
        .cycle()
        .flat_map(|(position, buckets)| std::iter::repeat_n(position, buckets as usize))
        .take(BUCKETS)
        .collect()
}

/// The bucket of a client.
pub(super) fn place(source: IpAddr, port: u16, offset: u32) -> usize {
    let hash = byte(folded(source).wrapping_add(u32::from(port)));
    (u32::from(hash).wrapping_add(offset) % BUCKETS as u32) as usize
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Sh;
    use super::super::testing::*;
    use super::super::{Arrival, SchedulerFlags};
    use super::*;

    #[test]
    fn buckets_go_round_the_list_by_weight() {
        let seen = table(&[server(3, 2), server(2, 0), server(1, 3)]);
        assert_eq!(seen[..13], [0, 0, 1, 2, 2, 2, 0, 0, 1, 2, 2, 2, 0]);
        assert_eq!(seen.len(), 256);
        assert_eq!(*table(&[server(1, i32::MAX as u32)]), [0; 256]);
        assert!(table(&[]).is_empty());
    }

    #[test]
    fn a_bucket_is_the_high_byte_of_the_product() {
        let client = "10.0.0.1".parse().unwrap();
        assert_eq!((place(client, 0, 0), place(client, 7, 0)), (39, 212));
        assert_eq!(place(client, 0, 255), (place(client, 0, 0) + 255) % 256);
    }

    fn client(number: u32) -> Arrival {
        Arrival {
            source: IpAddr::V4((0x0a00_0000 + number * 7919).into()),
            source_port: 1024 + number as u16,
            ..Arrival::default()
        }
    }

    /// SCH-11: without the flag a client of a quiesced server is refused; with it, it is served, nobody else moves,
    /// and everybody comes back.
    #[test]
    fn sch_11_fallback_serves_the_clients_of_a_quiesced_server() {
        let all = |weights: [u32; 3], flags| {
            let servers = (1..=3).zip(weights).map(|(slot, weight)| server(slot, weight));
            let mut rig = Rig::with_flags(Sh, flags, servers.collect());
            (0..256)
                .map(|number| rig.pick_for(&client(number)))
                .collect::<Vec<_>>()
        };
        let before = all([1, 1, 1], SchedulerFlags::NONE);
        assert!((1..=3).all(|slot| before.contains(&Some(slot))));
        let refusing = all([1, 0, 1], SchedulerFlags::NONE);
        let falling_back = all([1, 0, 1], SchedulerFlags::FALLBACK);
        for ((before, refusing), falling_back) in before.iter().zip(&refusing).zip(&falling_back) {
            if *before == Some(2) {
                assert_eq!(*refusing, None);
                assert!(matches!(falling_back, Some(1 | 3)));
            } else {
                assert_eq!((before, before), (refusing, falling_back));
            }
        }
        assert_eq!(all([1, 1, 1], SchedulerFlags::FALLBACK), before);
        assert!(
            all([0, 0, 0], SchedulerFlags::FALLBACK)
                .iter()
                .all(Option::is_none)
        );
    }

    #[test]
    fn only_with_sh_port_does_the_port_count() {
        let servers = || vec![server(3, 1), server(2, 1), server(1, 1)];
        let picked = |flags| {
            let mut rig = Rig::with_flags(Sh, flags, servers());
            let arrivals = (0..64).map(|port| Arrival {
                source_port: 1024 + port,
                ..client(1)
            });
            let picked: std::collections::HashSet<_> =
                arrivals.map(|arrival| rig.pick_for(&arrival)).collect();
            picked.len()
        };
        assert_eq!(
            (picked(SchedulerFlags::NONE), picked(SchedulerFlags::PORT)),
            (1, 3)
        );
    }
}
