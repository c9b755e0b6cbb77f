//! What the table learns from what neighbours say.

use super::{Full, Heard, Learnt, Means, NeighbourTable, State};
use crate::packet::{MacAddr, PortId};
use crate::time::Tick;
use std::net::IpAddr;

impl<P> NeighbourTable<P> {
    /// Takes in what an ARP packet says of its sender, or neighbour discovery of a neighbour, and hands out the
    /// packets that waited for it, oldest first, with the port and MAC to send them to.
    ///
    /// RFC 826: a known sender's MAC is updated by whatever it sends, at once (a server or router may have failed
    /// over); a stranger is entered only when it asks for one of our addresses. Static entries and probes
    /// teach nothing. Only a reply confirms a neighbour: anything else proves one direction alone, and a MAC
    /// learnt from it is confirmed by a unicast request once it is used.
    ///
    /// RFC 4861 7.2.3, 7.2.5: a solicitation is such a request, and a solicited advertisement such a reply. One
    /// without the override flag changes no MAC that is known; it makes a reachable neighbour stale.
    pub fn learn(&mut self, heard: &Heard, now: Tick, release: impl FnMut(P, PortId, MacAddr)) -> Learnt {
        if !believable(heard) {
            return Learnt::Nothing;
        }
        let (id, new) = match (self.find(heard.port, heard.address), heard.means) {
            (Some(id), _) => (id, false),
            (None, Means::Request) => match self.find_or_create(heard.port, heard.address, now) {
                Ok(id) => (id, true),
                Err(Full) => return Learnt::NoRoom,
            },
            (None, _) => return Learnt::Nothing,
        };
        let entry = self.entries[id.index()];
        let known = entry.state.usable().then_some(entry.mac);
        let Some(mac) = heard.mac.or(known) else {
            return Learnt::Nothing;
        };
        if entry.state == State::Static {
            return Learnt::Nothing;
        }
        let moved = known.is_some_and(|known| known != mac);
        let (confirms, overrides) = match heard.means {
            Means::Reply => (true, true),
            Means::Request | Means::Overheard => (false, true),
            Means::Advertisement { solicited, overrides } => (solicited, overrides),
        };
        if moved && !overrides {
            if entry.state == State::Reachable {
                self.resolve(id, entry.mac, State::Stale, now, release);
            }
            return Learnt::Nothing;
        }
        if confirms {
            self.resolve(id, mac, State::Reachable, now, release);
        } else if moved || known.is_none() {
            self.resolve(id, mac, State::Stale, now, release);
        }
        match (new, moved) {
            (true, _) => Learnt::New,
            (false, true) => Learnt::Moved(entry.mac),
            (false, false) => Learnt::Known,
        }
    }
}

/// Whether the neighbour can be one at all: not a probe (RFC 5227 2.1.1, RFC 4862 5.4), a group or nobody.
fn believable(heard: &Heard) -> bool {
    let mac_is_one = |mac: MacAddr| mac.0 != [0; 6] && !mac.is_multicast();
    let is_host = match heard.address {
        IpAddr::V4(address) => !address.is_broadcast(),
        IpAddr::V6(address) => !address.is_loopback() && address.to_ipv4_mapped().is_none(),
    };
    let is_one = !heard.address.is_unspecified() && !heard.address.is_multicast();
    heard.mac.is_none_or(mac_is_one) && is_host && is_one
}
