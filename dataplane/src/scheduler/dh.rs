//! Destination hashing: 256 buckets, dealt out to the servers in turn whatever their weights. What counts is the
//! address that the client wants: for a service on one VIP, all clients go to one server.

use super::hash::{byte, folded};
use crate::service::Server;
use std::net::IpAddr;

/// The position of a server for each bucket; nothing without servers.
pub(super) fn table(servers: &[Server]) -> Box<[u32]> {
    (0..servers.len() as u32).cycle().take(256).collect()
}

/// The bucket of a destination.
pub(super) fn place(destination: IpAddr) -> usize {
    byte(folded(destination)).into()
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Dh;
    use super::super::testing::*;
    use super::super::{Arrival, SchedulerFlags};
    use super::*;

    #[test]
    fn the_destination_alone_decides_and_weight_0_refuses() {
        let to = |number: u32| Arrival {
            source: IpAddr::V4(number.into()),
            source_port: number as u16,
            destination: IpAddr::V4((0x0a09_0000 + number % 8).into()),
            ..Arrival::default()
        };
        let mut rig = Rig::with_flags(
            Dh,
            SchedulerFlags::FALLBACK,
            vec![server(3, 1), server(2, 5), server(1, 0)],
        );
        for number in 0..64 {
            let position = place(to(number).destination) % 3;
            assert_eq!(rig.pick_for(&to(number)), [Some(3), Some(2), None][position]);
        }
        assert!(table(&[]).is_empty());
    }
}
