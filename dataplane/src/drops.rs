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
    NotOurMac "not_our_mac" "The destination MAC is neither the port's nor a broadcast.",
    UnknownEthertype "unknown_ethertype" "Neither IPv4 nor ARP.",
    VlanTag "vlan_tag" "The frame carries a VLAN tag, and the port has no VLANs.",
    BadIpHeader "bad_ip_header" "The IPv4 header is malformed (version, header length, total length).",
    BadIpChecksum "bad_ip_checksum" "The IPv4 header checksum is wrong.",
    BadSource "bad_source" "The source address cannot be a sender (multicast, broadcast, loopback, zero, or one of ours).",
    BadL4Header "bad_l4_header" "The TCP, UDP or ICMP header is malformed or does not fit.",
    BadL4Checksum "bad_l4_checksum" "The TCP, UDP or ICMP checksum is wrong.",
    PartialChecksum "partial_checksum" "Only the pseudo-header sum stands in the checksum field: the sender left it to an offload that never ran; switch tx checksum offload off on the peer.",
    Fragment "fragment" "An IP fragment; fragments are not forwarded yet.",
    UnknownProtocol "unknown_protocol" "An IP protocol other than TCP, UDP or ICMP.",
    UnsupportedIcmp "unsupported_icmp" "An ICMP message that is neither an echo request to us nor an error that can be passed on: of another type, or with a quote that cannot be read.",
    MalformedArp "malformed_arp" "An ARP packet that is not Ethernet/IPv4, or whose addresses cannot be.",
    NotForUs "not_for_us" "The destination is no address, VIP or local address of this gateway.",
    TtlExceeded "ttl_exceeded" "The TTL ran out here; the sender is told by ICMP, within the rate limit.",
    NoService "no_service" "The VIP has no service on this port; the sender is told, within the rate limit.",
    NoServer "no_server" "The service has no usable server: none, all of weight 0, or all overloaded.",
    ServerGone "server_gone" "The connection's server has been removed from the configuration.",
    NotSyn "not_syn" "A TCP segment that belongs to no connection and does not open one.",
    NoConnection "no_connection" "A packet to a local address that belongs to no connection.",
    TableFull "table_full" "The connection table is full.",
    LocalPortsExhausted "local_ports_exhausted" "No local port is free towards this server, and none can be recycled.",
    LocalPortMemory "local_port_memory" "The memory for local port blocks is used up.",
    NoRoute "no_route" "No route to the next hop.",
    NeighbourTableFull "neighbour_table_full" "The neighbour table is full.",
    NeighbourQueueFull "neighbour_queue_full" "Too many packets wait for this neighbour's MAC; the oldest gave way.",
    NeighbourFailed "neighbour_failed" "The neighbour does not answer ARP or neighbour discovery.",
    ExceedsMtu "exceeds_mtu" "Larger than the outgoing port's MTU.",
    NoBuffer "no_buffer" "No packet buffer was free for a packet that the gateway wanted to make.",
    SteerFull "steer_full" "The ring to the owning worker is full.",
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
