//! The connection record: one cache line that holds all a packet of a connection needs. The table owns
//! records, the pipeline reads and writes their fields, and nothing points into one: slots and indices only.

use bytemuck::{Pod, Zeroable};

use super::sctp::SctpState;
use super::state::TcpState;
use super::table::Query;
use crate::packet::FlowKey;
use crate::packet::ipv4::TCP;
use crate::time::Tick;

/// The place of a record in the table's arena. 0 is no record: a zeroed field names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct RecordId(pub u32);

impl RecordId {
    /// No record.
    pub const NONE: RecordId = RecordId(0);

    /// The index into the arena.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which way a packet of a connection travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// From the client to the server.
    Inbound,
    /// From the server to the client.
    Outbound,
}

/// How a connection's packets reach its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Mode {
    /// The destination is rewritten; replies pass the gateway.
    Nat = 0,
    /// The frame goes to the server's MAC as it is; replies do not pass the gateway.
    Dr = 1,
    /// The packet goes to the server in a tunnel; replies do not pass the gateway. The only one with this bit: see
    /// [`Flags::changes_length`].
    Tun = 4,
    /// Source and destination are rewritten; replies pass the gateway because they go to its local address.
    Fullnat = 3,
}

impl Mode {
    /// Whether the gateway sees the client's packets only.
    #[inline]
    #[must_use]
    pub const fn is_input_only(self) -> bool {
        matches!(self, Mode::Dr | Mode::Tun)
    }

    /// As written in configuration and listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Nat => "nat",
            Mode::Dr => "dr",
            Mode::Tun => "tun",
            Mode::Fullnat => "fullnat",
        }
    }
}

/// The flags of a connection, with its forwarding mode in three of their bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Flags(u16);

impl Flags {
    /// No flag, mode NAT.
    pub const NONE: Flags = Flags(0);
    /// The record is in use. The table sets and clears it.
    pub const LIVE: Flags = Flags(1 << 3);
    /// Counted among the inactive connections of its server.
    pub const INACTIVE: Flags = Flags(1 << 4);
    /// The TCP timestamp option was taken off the SYN, so it is taken off every segment.
    pub const STRIP_TIMESTAMPS: Flags = Flags(1 << 5);
    /// On the list of closing connections whose local port may be recycled.
    pub const CLOSING_LISTED: Flags = Flags(1 << 6);
    /// Ends with its first packet.
    pub const ONE_PACKET: Flags = Flags(1 << 7);
    /// A packet of the server has been seen. In FULLNAT also one of the connection that had the local port before.
    pub const SEEN_OUTPUT: Flags = Flags(1 << 8);
    /// Not a connection: it remembers the server of a persistent client.
    pub const TEMPLATE: Flags = Flags(1 << 9);
    /// FULLNAT: the server is told the client's address by a TCP option, see [`crate::forward::toa`].
    pub const TOA: Flags = Flags(1 << 10);
    /// With [`Flags::TOA`]: the server has answered the SYN, the client has not yet acknowledged more than that, and
    /// [`Record::sequence`] is the server's initial sequence number meanwhile. Without, it is [`Flags::PROXY`].
    pub const SERVER_ISN: Flags = Flags(1 << 11);
    /// Without [`Flags::TOA`], the bit of [`Flags::SERVER_ISN`], so that one test finds both. TCP: the server has answered
    /// the SYN, and has not yet acknowledged the whole header of [`crate::forward::proxy`]. UDP: each datagram of the
    /// client gets one.
    pub const PROXY: Flags = Flags::SERVER_ISN;
    /// With [`Flags::SERVER_ISN`]: the server has sent data or a FIN, so the handshake is over on its side.
    pub const SERVER_SPOKE: Flags = Flags(1 << 12);
    /// [`Record::extension`] is that of an [`super::Extension`], which then has the index of the addresses, if any.
    /// The table sets and clears it.
    pub const EXTENDED: Flags = Flags(1 << 13);
    /// With mode FULLNAT: not a connection of a service, but one from inside to a server outside that got its local port
    /// by a rule of SNAT. Its virtual address is the server itself, and [`Record::server`] is the slot of the rule.
    pub const SNAT: Flags = Flags(1 << 14);
    /// With mode FULLNAT: the client is of one family and the server of the other. The table sets it.
    pub const MIXED: Flags = Flags(1 << 15);
    const MODE: u16 = 0b111;

    /// The flags of a new connection of this mode.
    #[inline]
    #[must_use]
    pub const fn of_mode(mode: Mode) -> Flags {
        Flags(mode as u16)
    }

    /// The forwarding mode.
    #[inline]
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self.0 & Self::MODE {
            1 => Mode::Dr,
            4 => Mode::Tun,
            3 => Mode::Fullnat,
            _ => Mode::Nat,
        }
    }

    /// Whether every flag of `other` is set. The mode is no flag.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 & !Self::MODE == other.0 & !Self::MODE
    }

    /// Whether any flag of `other` is set. The mode is no flag.
    #[inline]
    #[must_use]
    pub const fn has_any(self, other: Flags) -> bool {
        self.0 & other.0 & !Self::MODE != 0
    }

    /// Whether packets of the connection may get another length on their way: in a tunnel, in the other family, or with
    /// a header of the PROXY protocol. One test of all, since every packet is asked.
    #[inline]
    #[must_use]
    pub const fn changes_length(self) -> bool {
        self.0 & (Mode::Tun as u16 | Self::MIXED.0 | Self::PROXY.0) != 0
    }

    /// Whether a packet in the middle of the connection, over IPv4, needs nothing but its rewrite: no other family, no header
    /// of the PROXY protocol or option that is still to be put in, nothing kept beside the record, and no tunnel. One test of
    /// all, since every packet is asked.
    #[inline]
    #[must_use]
    pub const fn go_straight(self) -> bool {
        self.0 & (Mode::Tun as u16 | Self::MIXED.0 | Self::SERVER_ISN.0 | Self::EXTENDED.0) == 0
    }

    /// These flags and those of `other`; the mode stays.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0 & !Self::MODE)
    }

    /// These flags but not those of `other`; the mode stays.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !(other.0 & !Self::MODE))
    }

    /// Sets or clears the flags of `other`.
    #[inline]
    pub fn set(&mut self, other: Flags, on: bool) {
        *self = if on { self.with(other) } else { self.without(other) };
    }
}

/// One connection, one cache line. Zeroed, it is no connection.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Record {
    /// The key of a packet from the client: client to VIP. Never changed while the record is in the table.
    pub inbound: FlowKey,
    /// The key of a packet from the server: server to local address (FULLNAT) or to the client (NAT). Zero
    /// when replies do not pass the gateway. Never changed while the record is in the table.
    pub outbound: FlowKey,
    /// The IP protocol number; part of both keys.
    pub protocol: u8,
    /// The protocol state: [`super::TcpState`] or [`super::SctpState`] as a number, 0 for UDP.
    pub state: u8,
    /// Flags and forwarding mode.
    pub flags: Flags,
    /// The slot of its server.
    pub server: u32,
    /// The slot of its service.
    pub service: u32,
    /// The neighbour that inbound packets are sent to, plus what the neighbour table makes of it; 0 = not
    /// resolved yet.
    pub neighbour_in: u16,
    /// The neighbour that outbound packets are sent to; 0 = not resolved yet.
    pub neighbour_out: u16,
    pub(super) last_seen: u32,
    pub(super) next: u32,
    pub(super) previous: u32,
    /// FULLNAT: what is added to the client's sequence numbers on their way to the server, modulo 2^32.
    pub sequence_shift: u32,
    /// FULLNAT: the end of what the server was shown of the client's sequence numbers, in host order; with
    /// [`Flags::TOA`] and [`Flags::SERVER_ISN`], the server's initial sequence number instead. See
    /// [`Record::last_shown`].
    pub sequence: u32,
    /// With [`Flags::EXTENDED`], the index of the extension; else that of the addresses of a connection with an IPv6
    /// key. 0 = none.
    pub(super) extension: u32,
}

const _: () = assert!(size_of::<Record>() == 64 && align_of::<Record>() == 64);

impl Record {
    /// A connection of this protocol and mode between these keys; everything else zero. `outbound` is
    /// `FlowKey::default()` when replies do not pass the gateway.
    #[must_use]
    pub fn new(protocol: u8, mode: Mode, inbound: FlowKey, outbound: FlowKey) -> Record {
        Record {
            inbound,
            outbound,
            protocol,
            flags: Flags::of_mode(mode),
            ..Record::zeroed()
        }
    }

    /// When the last packet of the connection was seen.
    #[inline]
    #[must_use]
    pub fn last_seen(&self) -> Tick {
        Tick(self.last_seen)
    }

    /// Notes that a packet of the connection was seen.
    #[inline]
    pub fn stamp(&mut self, now: Tick) {
        self.last_seen = now.0;
    }

    /// The state of a TCP connection.
    #[inline]
    #[must_use]
    pub fn tcp_state(&self) -> TcpState {
        TcpState::from_number(self.state)
    }

    /// The state of an SCTP connection.
    #[inline]
    #[must_use]
    pub fn sctp_state(&self) -> SctpState {
        SctpState::from_number(self.state)
    }

    /// The forwarding mode.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.flags.mode()
    }

    /// FULLNAT: the highest of the client's sequence numbers that the server was shown. None while the server's own
    /// stands in its place: then the client has acknowledged nothing that the server has sent, so the server is not
    /// in TIME_WAIT, and nothing depends on it.
    #[inline]
    #[must_use]
    pub fn last_shown(&self) -> Option<u32> {
        (!self.holds_server_isn()).then_some(self.sequence)
    }

    /// Whether [`Record::sequence`] is the server's, which [`Flags::TOA`] alone needs.
    #[inline]
    #[must_use]
    pub fn holds_server_isn(&self) -> bool {
        self.flags.has(Flags::SERVER_ISN.with(Flags::TOA))
    }

    /// Whether the server is being sent the header of the PROXY protocol: see [`Flags::PROXY`].
    #[inline]
    #[must_use]
    pub fn is_proxying(&self) -> bool {
        self.flags.has(Flags::PROXY) && !self.flags.has(Flags::TOA)
    }

    /// FULLNAT: a TCP connection that both sides have closed. When the server was the second one, it still waits for the
    /// client's acknowledgement, with which the client has got everything; nobody else may have the local port before.
    #[inline]
    #[must_use]
    pub fn awaits_client(&self) -> bool {
        self.protocol == TCP && self.state == TcpState::TimeWait as u8
    }

    /// Whether [`Record::awaits_client`] has been so until this packet of the client's.
    #[inline]
    #[must_use]
    pub fn is_left_by_both(&self) -> bool {
        self.awaits_client() && self.mode() == Mode::Fullnat && !self.flags.has(Flags::CLOSING_LISTED)
    }

    /// Whether the record is a connection or template in the table, and not a free place.
    #[inline]
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.flags.has(Flags::LIVE)
    }

    /// Whether replies of this connection are looked up: it has an outbound key.
    #[inline]
    #[must_use]
    pub fn has_outbound(&self) -> bool {
        self.outbound.words() != [0; 3]
    }

    /// Which direction of this connection the queried packet belongs to, if any. A connection from the server
    /// to itself through the VIP has two different keys, so the answer is never ambiguous.
    #[inline]
    #[must_use]
    pub fn direction_of(&self, query: &Query) -> Option<Direction> {
        // Packets of both directions come in random order: without `&&` and `||` there is no branch here that
        // depends on the direction, and would be predicted wrong half the time.
        let inbound = self.inbound == query.key;
        let outbound = (self.outbound == query.key) & self.has_outbound();
        let direction = if inbound {
            Direction::Inbound
        } else {
            Direction::Outbound
        };
        ((self.protocol == query.protocol) & (inbound | outbound)).then_some(direction)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn query(key: FlowKey, protocol: u8) -> Query {
        Query {
            key,
            protocol,
            hash: 0,
        }
    }

    #[test]
    fn the_fields_lie_where_the_budget_says() {
        let mut record = Record::zeroed();
        record.protocol = 6;
        record.server = 0x0102_0304;
        record.extension = u32::MAX;
        let bytes = bytemuck::bytes_of(&record);
        assert_eq!(bytes[24], 6);
        assert_eq!(bytes[28..32], 0x0102_0304u32.to_ne_bytes());
        assert_eq!(bytes[60..], [255; 4]);
    }

    #[test]
    fn a_record_knows_both_its_directions_and_nothing_else() {
        let [client, vip, server, local] = [1u8, 2, 3, 4].map(|n| Ipv4Addr::new(10, 0, 0, n));
        let inbound = FlowKey::new(client, 1024, vip, 80);
        let outbound = FlowKey::new(server, 8080, local, 2000);
        let record = Record::new(6, Mode::Fullnat, inbound, outbound);
        assert_eq!(record.direction_of(&query(inbound, 6)), Some(Direction::Inbound));
        assert_eq!(
            record.direction_of(&query(outbound, 6)),
            Some(Direction::Outbound)
        );
        assert_eq!(record.direction_of(&query(inbound, 17)), None);
        assert_eq!(record.direction_of(&query(inbound.reversed(), 6)), None);

        let one_way = Record::new(6, Mode::Dr, inbound, FlowKey::default());
        assert_eq!(one_way.direction_of(&query(FlowKey::default(), 6)), None);
    }

    #[test]
    fn tunnels_and_the_other_family_change_the_length_of_packets() {
        for mode in [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat] {
            let flags = Flags::of_mode(mode).with(Flags::LIVE.with(Flags::SNAT));
            assert_eq!(flags.changes_length(), mode == Mode::Tun);
            assert!(flags.with(Flags::MIXED).changes_length());
            assert!(flags.has_any(Flags::LIVE.with(Flags::TOA)) && !flags.has_any(Flags::TOA));
        }
    }

    #[test]
    fn flags_and_mode_do_not_disturb_each_other() {
        for mode in [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat] {
            let mut flags = Flags::of_mode(mode).with(Flags::INACTIVE);
            assert_eq!(flags.mode(), mode);
            assert!(flags.has(Flags::INACTIVE) && !flags.has(Flags::TEMPLATE));
            flags.set(Flags::TEMPLATE, true);
            flags.set(Flags::INACTIVE, false);
            assert!(!flags.has(Flags::INACTIVE) && flags.has(Flags::TEMPLATE));
            assert_eq!(flags.without(Flags::TEMPLATE), Flags::of_mode(mode));
        }
    }
}
