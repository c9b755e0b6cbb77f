//! How long a packet may be on its way out, and what becomes of one that is longer: fragments, or an ICMP error.

use super::forwarding::Way;
use super::schedule::{Refusal, Reply};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::forward::tun;
use crate::fragment;
use crate::neighbour::NeighbourId;
use crate::packet::{Headers, Kind, Packet, PortId, ethernet, ipv4};
use crate::time::{Tick, seconds};
use arrayvec::ArrayVec;

/// The smallest MTU of an IPv6 link (RFC 8200 5): nobody has to send smaller packets.
const IPV6_LEAST_MTU: u16 = 1280;
/// The smallest MTU of an IPv4 path that is believed: Linux's `min_pmtu`.
const IPV4_LEAST_MTU: u16 = 552;
/// How long a tunnel's smaller MTU is believed, as Linux does (RFC 1191 6.3: ten minutes).
const PATH_MTU_LIFE: u32 = seconds(600);
/// Fragments of one packet at the most: those of the largest datagram over the smallest MTU, and one.
const FRAGMENTS: usize = 128;

/// What a worker has learnt of the path through the tunnel to a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathMtu {
    /// Bytes of the longest tunnel packet; 0 = nothing is known.
    mtu: u16,
    until: Tick,
}

impl PathMtu {
    /// Whether no router has told anything of the path.
    pub(super) fn is_unknown(&self) -> bool {
        self.mtu == 0
    }

    /// The MTU of a way whose first link has `link`.
    pub(super) fn within(&self, link: u16, now: Tick) -> u16 {
        if self.mtu == 0 || now.reached(self.until) {
            link
        } else {
            self.mtu.min(link)
        }
    }

    /// A router on the path has told of its MTU, behind a link of `link` bytes. The MTU that is believed: whoever tells
    /// of less than a path has for sure (an old router that does not know says 0, RFC 1191 5; an attacker anything)
    /// gets this least, as from Linux.
    pub(super) fn learn(&mut self, told: u32, link: u16, v6: bool, now: Tick) -> u16 {
        let least = if v6 { IPV6_LEAST_MTU } else { IPV4_LEAST_MTU };
        let mtu = u16::try_from(told).unwrap_or(u16::MAX).max(least).min(link);
        *self = PathMtu {
            mtu,
            until: now.after(PATH_MTU_LIFE),
        };
        mtu
    }
}

/// What a packet's way on does to its length.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// The longest IP packet that it carries, in bytes.
    mtu: u16,
    /// Bytes that a packet gets on it.
    extra: u16,
    /// They are a tunnel's.
    tunnel: bool,
}

impl Passage {
    /// A link, where packets get `extra` bytes behind their IP header.
    const fn link(mtu: u16, extra: u16) -> Passage {
        Passage {
            mtu,
            extra,
            tunnel: false,
        }
    }

    /// The longest packet as it comes that fits, in bytes.
    const fn room(&self) -> u16 {
        self.mtu.saturating_sub(self.extra)
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// The longest IP packet that may go to `neighbour`, through the tunnel to `tunnel` if there is one: 0 when this
    /// one goes as it is, a limit when it goes in fragments, or a refusal that tells its sender.
    #[cold]
    #[inline(never)]
    pub(super) fn limit_for(
        &self,
        tunnel: Option<u32>,
        neighbour: NeighbourId,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        let link = self.link_mtu(neighbour);
        let way = match tunnel {
            None => Passage::link(link, 0),
            Some(server) => {
                let state = &self.servers[server as usize];
                Passage {
                    mtu: state.path_mtu.within(link, self.now),
                    extra: tun::overhead(&state.tunnel, state.end.is_ipv6()) as u16,
                    tunnel: true,
                }
            }
        };
        self.limit_through(way, packet, headers, port)
    }

    /// As [`Worker::limit_for`], for a packet that gets `extra` bytes more behind its IP header. One that is too long is
    /// refused as it came: its sender hears of an MTU that leaves room.
    #[cold]
    #[inline(never)]
    pub(super) fn limit_with(
        &self,
        extra: u16,
        neighbour: NeighbourId,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        if headers.end.checked_add(extra).is_none() {
            return Err(DropReason::ProxyNoRoom.into());
        }
        let link = self.link_mtu(neighbour);
        self.limit_through(Passage::link(link, extra), packet, headers, port)
    }

    /// Cuts what stands behind the packet, and refuses one that is longer than the port it came by takes.
    pub(super) fn check_arrived(
        &self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<(), Refusal> {
        cut_padding(packet, headers);
        let most = self.snapshot.ports[usize::from(port.0)].mtu;
        if headers.largest_fragment == 0 && headers.end - headers.l3 > most {
            return Err(DropReason::OversizedFrame.into());
        }
        Ok(())
    }

    /// The MTU of the link to a neighbour.
    pub(super) fn link_mtu(&self, neighbour: NeighbourId) -> u16 {
        self.snapshot.ports[usize::from(self.neighbours.port_of(neighbour).0)].mtu
    }

    fn limit_through(
        &self,
        way: Passage,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        self.check_arrived(packet, headers, port)?;
        let length = headers.end - headers.l3;
        let largest = headers.largest_fragment;
        let room = way.room();
        if headers.kind == Kind::Flow6 || headers.kind == Kind::Icmp6 {
            return limit_v6(length, largest, &way);
        }
        let limit = fragment::limit4(way.mtu, largest);
        if length <= room {
            return Ok(if largest != 0 && length + way.extra > largest {
                limit
            } else {
                0
            });
        }
        let keeps_whole = largest == 0 && ipv4::dont_fragment(&packet.bytes()[usize::from(headers.l3)..]);
        if keeps_whole && (!way.tunnel || self.snapshot.settings.pmtu_disc) {
            return Err(too_big(room));
        }
        Ok(limit)
    }

    /// Sends a packet in fragments. `headers` are those that it came with, `identification` is that of the IPv6
    /// fragments that it was put together from, if it was.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_in_fragments(
        &mut self,
        way: Way,
        mut packet: I::Packet,
        headers: &Headers,
        identification: u32,
    ) {
        // Fragments of a tunnel packet are between other ends than those of the packet in it.
        let kept = headers.largest_fragment != 0
            && headers.kind != Kind::Flow
            && headers.kind != Kind::Icmp
            && !way.shared;
        let identification = if kept {
            identification
        } else {
            self.next_identification()
        };
        let mut pieces = ArrayVec::<I::Packet, FRAGMENTS>::new();
        let io = &mut self.io;
        let mut lost = 0u64;
        let keep = |piece| {
            if pieces.try_push(piece).is_err() {
                lost += 1;
            }
        };
        let cut = match ethernet::ethertype(packet.bytes()) {
            ethernet::IPV6 => fragment::split6(&packet, identification, way.limit, || io.allocate(), keep),
            _ => {
                if way.shared
                    && let Some(packet) = packet.bytes_mut().get_mut(usize::from(headers.l3)..)
                {
                    ipv4::set_identification(packet, identification as u16);
                }
                fragment::split4(&packet, way.limit, || io.allocate(), keep)
            }
        };
        match cut {
            Err(reason) => self.discard(packet, reason),
            Ok(_) => {
                self.stats.consumed.add(1);
                self.stats.made.add(pieces.len() as u64 + lost);
                self.stats.drops[DropReason::TooManyFragments as usize].add(lost);
                drop(packet);
                for piece in pieces {
                    self.resolve(way.neighbour, piece);
                }
            }
        }
    }
}

/// Takes off what stands behind the IP packet in a frame, as far as Ethernet does not ask for it: on a link with a
/// smaller MTU that alone could make the frame too long.
pub(super) fn cut_padding<P: Packet>(packet: &mut P, headers: &Headers) {
    let end = usize::from(headers.end).max(ethernet::LEAST_LEN);
    if packet.bytes().len() > end {
        let shorter = packet.resize(end);
        debug_assert!(shorter, "cutting needs no room");
    }
}

/// As [`Worker::limit_for`], for an IPv6 packet of `length` bytes: routers do not cut what came whole, and what came in
/// fragments of up to `largest` bytes goes in such again.
fn limit_v6(length: u16, largest: u16, way: &Passage) -> Result<u16, Refusal> {
    let Passage { mtu, extra, tunnel } = *way;
    let room = way.room();
    // What counts is the longest packet that was on the wire; every link carries the least MTU, if need be in fragments
    // of the packets that the gateway is the source of.
    let (longest, most) = match largest {
        0 => (length, room),
        // A tunnel wraps fragments; what else the packet gets, its fragments share.
        _ => (largest, if tunnel { room } else { mtu }),
    };
    let told = most.max(IPV6_LEAST_MTU);
    if longest > told {
        return Err(too_big(told));
    }
    // The tunnel's own packets are cut, whose source the gateway is.
    let limit = match (tunnel, largest) {
        (true, 0) => mtu,
        (true, _) => fragment::limit6(mtu, largest.max(IPV6_LEAST_MTU)),
        (false, _) => fragment::limit6(mtu, largest),
    };
    let fits = if tunnel { room } else { limit.saturating_sub(extra) };
    Ok(if length > fits { limit } else { 0 })
}

pub(super) fn too_big(mtu: u16) -> Refusal {
    Refusal {
        reason: DropReason::ExceedsMtu,
        reply: Reply::TooBig(mtu),
    }
}
