//! When addresses are announced, by gratuitous ARP or unsolicited neighbour advertisement: every address that is
//! answered for, in rounds, after start, after a link came up, after a change of addresses. Driven by the worker
//! between bursts, which builds and sends the frames.

use super::address::AddressTable;
use crate::packet::PortId;
use crate::packet::arp::Operation;
use crate::time::Tick;
use std::net::IpAddr;

/// One announcement to be sent now. IPv4: gratuitous ARP to the Ethernet broadcast, with our MAC as sender and the
/// address as both sender and target (RFC 5227 3, RFC 5944 4.6). IPv6: a neighbour advertisement to all nodes, not
/// solicited and overriding (RFC 4861 7.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The port to send from.
    pub port: PortId,
    /// The address to announce.
    pub address: IpAddr,
    /// The form of ARP: some neighbours learn from requests only, others from replies only. An advertisement is
    /// always a reply.
    pub form: Operation,
}

/// The schedule: every address in each of its forms, `rounds` times (RFC 4861 allows 3), `interval` ticks from one round's start to the next.
#[derive(Clone, Debug)]
pub struct Announcer {
    rounds: u8,
    interval: u32,
    /// Rounds still to come, the current one included.
    left: u8,
    /// The next address of the current round.
    next: usize,
    /// When the current round may start, or started.
    round: Tick,
    /// The only port to announce on.
    only: Option<PortId>,
}

impl Announcer {
    /// A schedule whose first round is due at `now`.
    #[must_use]
    pub fn new(rounds: u8, interval: u32, now: Tick) -> Announcer {
        Announcer {
            rounds,
            interval,
            left: rounds,
            next: 0,
            round: now,
            only: None,
        }
    }

    /// Starts over: on one port when its link came up, on all after a new snapshot with other addresses. What
    /// was still to be announced on other ports is announced as well.
    pub fn restart(&mut self, only: Option<PortId>, now: Tick) {
        let other_left = self.left > 0 && self.only != only;
        self.only = if other_left { None } else { only };
        self.left = self.rounds;
        self.next = 0;
        self.round = now;
    }

    /// Whether every round is over.
    #[must_use]
    pub fn done(&self) -> bool {
        self.left == 0
    }

    /// Gives out what is due, at most `budget` addresses (at most two packets each), so that thousands of VIPs neither
    /// delay packets nor overrun the transmit queue; a round goes on at the next call.
    pub fn tick(
        &mut self,
        now: Tick,
        budget: usize,
        addresses: &AddressTable,
        mut announce: impl FnMut(Announcement),
    ) {
        if self.left == 0 || !now.reached(self.round) {
            return;
        }
        for _ in 0..budget {
            let Some((port, address)) = addresses.announcement(self.next) else {
                self.left -= 1;
                self.next = 0;
                self.round = self.round.after(self.interval);
                return;
            };
            self.next += 1;
            if self.only.is_none_or(|only| only == port) {
                if address.is_ipv4() {
                    let form = Operation::Request;
                    announce(Announcement { port, address, form });
                }
                let form = Operation::Reply;
                announce(Announcement { port, address, form });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connected, Prefix, Vip, VipArp};
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const WAN: PortId = PortId(0);
    const LAN: PortId = PortId(1);
    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2));
    const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 100));
    const LIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200));
    const OWN6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));
    const VIP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x100));

    fn addresses() -> AddressTable {
        let wan = [(OWN, 24), (OWN6, 64)].map(|(own, length)| Connected {
            port: WAN,
            prefix: Prefix::around(own, length),
        });
        let vips = [VIP, VIP6].map(|address| Vip {
            address,
            arp: VipArp::ByPrefix,
        });
        AddressTable::new(&[(WAN, OWN), (WAN, OWN6)], &vips, &[(LAN, LIP)], &wan).unwrap()
    }

    fn due(announcer: &mut Announcer, now: u32, budget: usize) -> Vec<(u8, IpAddr, Operation)> {
        let mut sent = Vec::new();
        announcer.tick(Tick(now), budget, &addresses(), |a| {
            sent.push((a.port.0, a.address, a.form))
        });
        sent
    }

    // Field case ARP-01: both forms, for own addresses, VIPs and local addresses, n times at an interval. An IPv6
    // address has one form (RFC 4861 7.2.6).
    #[test]
    fn every_form_of_every_address_n_times_at_the_interval() {
        use Operation::{Reply, Request};
        let mut announcer = Announcer::new(2, 100, Tick(0));
        let round = vec![
            (1, LIP, Request),
            (1, LIP, Reply),
            (0, OWN, Request),
            (0, OWN, Reply),
            (0, VIP, Request),
            (0, VIP, Reply),
            (0, OWN6, Reply),
            (0, VIP6, Reply),
        ];
        assert_eq!(due(&mut announcer, 0, 100), round);
        assert_eq!(due(&mut announcer, 99, 100), vec![]);
        assert!(!announcer.done());
        assert_eq!(due(&mut announcer, 100, 100), round);
        assert!(announcer.done());
        assert_eq!(due(&mut announcer, 500, 100), vec![]);
        // After a link flap again, on that port.
        announcer.restart(Some(LAN), Tick(600));
        assert_eq!(due(&mut announcer, 600, 100), round[..2]);
    }

    #[test]
    fn a_round_goes_on_where_the_budget_ended() {
        let mut announcer = Announcer::new(1, 100, Tick(0));
        assert_eq!(due(&mut announcer, 0, 2).len(), 4);
        assert_eq!(due(&mut announcer, 1, 2).len(), 3);
        assert!(!announcer.done());
        assert_eq!(due(&mut announcer, 2, 2), vec![(0, VIP6, Operation::Reply)]);
        assert!(announcer.done());
    }

    #[test]
    fn a_restart_for_one_port_forgets_no_other() {
        let mut announcer = Announcer::new(1, 100, Tick(0));
        assert_eq!(due(&mut announcer, 0, 1).len(), 2);
        announcer.restart(Some(LAN), Tick(1));
        assert_eq!(due(&mut announcer, 1, 100).len(), 8);
    }
}
