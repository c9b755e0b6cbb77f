//! Why a packet ended here. Every dropped packet is counted under exactly one of these reasons; each is a
//! counter, a metric label and a line of `docs/metrics.md`, held together by one test.

macro_rules! drop_reasons {
    ($($variant:ident $label:literal $text:literal),* $(,)?) => {
        /// The closed list of drop reasons.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $text] $variant),* }

        impl DropReason {
            /// Every reason, in the order of its counter.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),*];

            /// The metric label: lower-case words joined by underscores.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(DropReason::$variant => $label),* }
            }

            /// One sentence for operators: what happened.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$variant => $text),* }
            }
        }
    };
}

drop_reasons! {
    RuntFrame "runt_frame" "The frame is shorter than its headers.",
    TruncatedFrame "truncated_frame" "The IP length is larger than the frame: the device cut it, or the sender lied.",
    NotOurMac "not_our_mac" "The destination MAC is neither the port's nor a multicast or broadcast.",
    UnknownEthertype "unknown_ethertype" "Neither IPv4, IPv6 nor ARP.",
    VlanTag "vlan_tag" "The frame carries the tag of a VLAN that the port does not have.",
    BadIpHeader "bad_ip_header" "The IP header is malformed (version, lengths, or a fragment that cannot be).",
    BadIpChecksum "bad_ip_checksum" "The IPv4 header checksum is wrong.",
    BadExtensionHeader "bad_extension_header" "IPv6 extension headers are malformed, too many, or ask for a route that is not at its end or a jumbogram.",
    SourceRoute "source_route" "An IPv4 packet whose source route is not at its end, to a server or a client with IPv6: such a route cannot be translated.",
    BadSource "bad_source" "The source address cannot be a sender (multicast, broadcast, loopback, zero, or one of ours).",
    BadL4Header "bad_l4_header" "The TCP, UDP, SCTP or ICMP header is malformed or does not fit.",
    BadL4Checksum "bad_l4_checksum" "The TCP, UDP, SCTP or ICMP checksum is wrong, or that of UDP is missing over IPv6.",
    PartialChecksum "partial_checksum" "Only the pseudo-header sum stands in the checksum field, left to an offload that never ran, and it could not be completed here.",
    Fragment "fragment" "An IP fragment; fragments are not forwarded yet.",
    FragmentTimeout "fragment_timeout" "Other fragments of the packet did not come in time.",
    FragmentOverlap "fragment_overlap" "Fragments of the packet overlap or contradict each other; all of them are dropped.",
    FragmentDuplicate "fragment_duplicate" "A fragment came twice; the packet is put together all the same.",
    FragmentTooLong "fragment_too_long" "The packet is too long to be put together, or in too many pieces, or its headers are too long.",
    FragmentTableFull "fragment_table_full" "Too many packets are being put together from fragments; the oldest gave way.",
    UnknownProtocol "unknown_protocol" "An IP protocol other than TCP, UDP, SCTP or ICMP.",
    UnsupportedIcmp "unsupported_icmp" "An ICMP message that is neither an echo request to us or for SNAT nor an error that can be passed on: of another type, or with a quote that cannot be read.",
    MalformedArp "malformed_arp" "An ARP packet that is not Ethernet/IPv4, or whose addresses cannot be.",
    MalformedNd "malformed_nd" "A neighbour discovery message that RFC 4861 7.1 does not let pass: hop limit, code, target, options.",
    NotForUs "not_for_us" "The destination is no address, VIP or local address of this gateway, and no SNAT rule is for the packet.",
    TtlExceeded "ttl_exceeded" "The TTL ran out here; the sender is told by ICMP, within the rate limit.",
    NoService "no_service" "The VIP has no service on this port; the sender is told, within the rate limit.",
    NoServer "no_server" "The service has no usable server: none, all of weight 0, or all overloaded.",
    ServerGone "server_gone" "The connection's server has been removed from the configuration.",
    NoCallId "no_call_id" "A datagram without a SIP Call-ID that can be read, to a service that knows its clients by it.",
    NotSyn "not_syn" "A TCP segment that belongs to no connection and does not open one.",
    NotInit "not_init" "An SCTP packet that belongs to no association and does not open one.",
    KeyCollision "key_collision" "An IPv6 packet whose addresses have the digest of another connection's: hardly ever happens.",
    HairpinUnsupported "hairpin_unsupported" "A NAT server asked for itself through the VIP: replies would not pass the gateway; switch `hairpin_snat` on.",
    ClientPortTaken "client_port_taken" "The client has a connection to this NAT server through another VIP from the same port, and no port could stand for it.",
    OnePacketFullnat "one_packet_fullnat" "A one-packet service has a FULLNAT server: no reply could be translated back.",
    ServerIsGateway "server_is_gateway" "The server is an address of the gateway itself, where nothing listens.",
    NoConnection "no_connection" "A packet to a local address, or an ICMP error, that belongs to no connection.",
    SnatLimit "snat_limit" "A host inside has as many connections as its SNAT rule allows.",
    FormerConnection "former_connection" "A server's last acknowledgement of a connection whose local port another one has already.",
    TableFull "table_full" "The connection table is full.",
    EmbryonicLimit "embryonic_limit" "A SYN beyond the half-open connections that `embryonic_limit` leaves room for.",
    ServiceLimit "service_limit" "The service has as many connections as its `limits.connections` allows.",
    ServiceRate "service_rate" "More new connections in a second than the service's `limits.rate` allows.",
    ClientLimit "client_limit" "The client has as many connections to the service as `limits.client_connections` allows.",
    ClientRate "client_rate" "More new connections of a client in a second than `limits.client_rate` allows.",
    LocalPortsExhausted "local_ports_exhausted" "No local port is free towards this server, and none can be recycled.",
    LocalPortMemory "local_port_memory" "The memory for local port blocks is used up.",
    NoRoute "no_route" "No route to the next hop.",
    NeighbourTableFull "neighbour_table_full" "The neighbour table is full.",
    NeighbourQueueFull "neighbour_queue_full" "Too many packets wait for this neighbour's MAC; the oldest gave way.",
    NeighbourFailed "neighbour_failed" "The neighbour does not answer ARP or neighbour discovery.",
    ExceedsMtu "exceeds_mtu" "Larger than the outgoing port's MTU.",
    OversizedFrame "oversized_frame" "Longer than the receiving port's MTU: segments merged by LRO or GRO, which has to be off, or a peer with a larger MTU.",
    NoTunnelSource "no_tunnel_source" "No port has an address of the tunnel's family towards the server.",
    ProxyNoRoom "proxy_no_room" "A datagram that a PROXY header would make longer than an IP packet can be, or whose buffer has no room in front.",
    NoHeadroom "no_headroom" "The buffer has no room for a tunnel header, a VLAN tag or the longer header of IPv6.",
    TooManyFragments "too_many_fragments" "Fragments beyond the 128 that one packet may go out in.",
    Standby "standby" "The destination is an address of ours that the kernel has to have (`owner: kernel`), and has not now: another node is the active one.",
    ExceptionRate "exception_rate" "A packet for the kernel beyond what the port's `exception` lets through in a second.",
    ExceptionFull "exception_full" "A packet for the kernel, which takes them too slowly: as many as there is room for wait.",
    IcmpRate "icmp_rate" "More ICMP errors than `icmp_rate` allows in a second.",
    NoBuffer "no_buffer" "No packet buffer was free for a packet that the gateway wanted to make.",
    SteerFull "steer_full" "The ring to the owning worker is full.",
    LinkDown "link_down" "The link of the port that the packet was to leave by is down.",
    TransmitFull "transmit_full" "The port's transmit queue did not take the packet.",
}

impl DropReason {
    /// How many reasons there are: the length of a counter array.
    pub const COUNT: usize = Self::ALL.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unique_and_well_formed() {
        let mut labels: Vec<_> = DropReason::ALL.iter().map(|r| r.label()).collect();
        assert!(labels.iter().all(|l| {
            l.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        }));
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), DropReason::COUNT);
    }
}
