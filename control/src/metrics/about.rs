//! What each metric is: the one list that the scrape and the documentation go by.

/// Whether a metric only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows; begins at 0 when what it is about comes into being.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A metric's name and meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// The names of its labels, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// What it means, in one line.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal $labels:tt $help:literal;)*) => {
        $(pub(super) const $id: About =
            About { name: $name, kind: Kind::$kind, labels: &$labels, help: $help };)*

        /// Every metric, in the order of the scrape.
        pub const ALL: &[About] = &[$($id),*];
    };
}

metrics! {
    BUILD_INFO Gauge "tidegate_build_info" ["version"] "Always 1; the version is in the label.";
    UPTIME Gauge "tidegate_uptime_seconds" [] "Seconds since the start.";
    EPOCH Gauge "tidegate_epoch" [] "Number of the newest snapshot of the configuration.";
    CONFIG_WARNINGS Gauge "tidegate_config_warnings" [] "Warnings of the configuration in force.";
    RELOADS Counter "tidegate_config_reloads_total" ["result"] "Reloads of the configuration, by result: success or failure.";
    RELOAD_SUCCESSFUL Gauge "tidegate_config_last_reload_successful" [] "Whether the last reload succeeded; 1 before the first.";
    LOADED_AT Gauge "tidegate_config_last_reload_success_timestamp_seconds" [] "UNIX time at which the configuration in force was loaded.";
    SCRAPE_COMPLETE Gauge "tidegate_scrape_complete" [] "1 when every worker answered; else neighbours or local ports are missing from this scrape.";

    SERVICE_SERVERS Gauge "tidegate_service_servers" ["service", "vip", "port", "protocol"] "Servers of the service, also those of weight 0.";
    SERVICE_OPENED Counter "tidegate_service_connections_opened_total" ["service", "vip", "port", "protocol"] "Connections that the service has opened, also to servers that are gone.";
    SERVICE_CONNECTIONS Gauge "tidegate_service_connections" ["service", "vip", "port", "protocol", "state"] "Connections of the service now, by state as LVS counts them: active or inactive.";
    SERVICE_PACKETS Counter "tidegate_service_packets_total" ["service", "vip", "port", "protocol", "direction"] "Packets forwarded; inbound from clients, outbound from servers (none in DR mode).";
    SERVICE_BYTES Counter "tidegate_service_bytes_total" ["service", "vip", "port", "protocol", "direction"] "Bytes of these packets from the IP header on, as they arrived.";
    SERVICE_DEPARTING Gauge "tidegate_service_departing_connections" ["service", "vip", "port", "protocol"] "Connections that removed servers of the service still have: they drain, or wait for their server.";

    SERVER_WEIGHT Gauge "tidegate_server_weight" ["service", "vip", "port", "protocol", "server", "server_port"] "The server's share of new connections; 0 = quiesced.";
    SERVER_OVERLOADED Gauge "tidegate_server_overloaded" ["service", "vip", "port", "protocol", "server", "server_port"] "1 while the operator has marked the server overloaded, so that it gets no new connections; else 0.";
    SERVER_OPENED Counter "tidegate_server_connections_opened_total" ["service", "vip", "port", "protocol", "server", "server_port"] "Connections that the server has been given.";
    SERVER_CONNECTIONS Gauge "tidegate_server_connections" ["service", "vip", "port", "protocol", "server", "server_port", "state"] "Connections of the server now, by state as LVS counts them: active or inactive.";
    SERVER_PACKETS Counter "tidegate_server_packets_total" ["service", "vip", "port", "protocol", "server", "server_port", "direction"] "Packets forwarded; inbound to the server, outbound from it (none in DR mode).";
    SERVER_BYTES Counter "tidegate_server_bytes_total" ["service", "vip", "port", "protocol", "server", "server_port", "direction"] "Bytes of these packets from the IP header on, as they arrived.";

    SNAT_OPENED Counter "tidegate_snat_connections_opened_total" ["rule"] "Connections that the rule has opened; 0 for one with exempt.";
    SNAT_REFUSED Counter "tidegate_snat_connections_refused_total" ["rule"] "Connections refused because their host inside has as many as connections_per_client allows.";
    SNAT_CONNECTIONS Gauge "tidegate_snat_connections" ["rule", "state"] "Connections of the rule now, by state as LVS counts them: active or inactive.";
    SNAT_PACKETS Counter "tidegate_snat_packets_total" ["rule", "direction"] "Packets translated; inbound from inside hosts, outbound from those outside.";
    SNAT_BYTES Counter "tidegate_snat_bytes_total" ["rule", "direction"] "Bytes of these packets from the IP header on, as they arrived.";

    WORKER_BUSY Gauge "tidegate_worker_busy_ratio" ["worker", "cpu"] "Share of time spent in turns that found packets, since the start; for the present, divide the rates of the two cycle counts.";
    WORKER_BUSY_CYCLES Counter "tidegate_worker_busy_cycles_total" ["worker"] "Cycles of the time-stamp clock spent in turns that found packets.";
    WORKER_CYCLES Counter "tidegate_worker_cycles_total" ["worker"] "Cycles of the time-stamp clock since the worker started.";
    WORKER_TURNS Counter "tidegate_worker_turns_total" ["worker"] "Turns of the worker's loop.";
    WORKER_BUSY_TURNS Counter "tidegate_worker_busy_turns_total" ["worker"] "Turns that found packets.";
    WORKER_EPOCH Gauge "tidegate_worker_epoch" ["worker"] "Number of the snapshot that the worker uses; behind tidegate_epoch for milliseconds after a reload.";
    WORKER_CONNECTIONS Gauge "tidegate_worker_connections" ["worker"] "Connections in the worker's table now.";
    WORKER_TEMPLATES Gauge "tidegate_worker_templates" ["worker"] "Templates of persistent clients in the worker's table now; they take room there as connections do.";
    WORKER_OPENED Counter "tidegate_worker_connections_opened_total" ["worker"] "Connections that the worker has opened.";
    WORKER_RECEIVED Counter "tidegate_worker_received_packets_total" ["worker"] "Packets received from ports.";
    WORKER_TAKEN_OVER Counter "tidegate_worker_taken_over_packets_total" ["worker"] "Packets taken over from other workers.";
    WORKER_MADE Counter "tidegate_worker_made_packets_total" ["worker"] "Packets that the gateway made itself (ARP, ICMP, resets), or that the kernel sent by it.";
    WORKER_SENT Counter "tidegate_worker_sent_packets_total" ["worker"] "Packets sent by ports.";
    WORKER_HANDED_OVER Counter "tidegate_worker_handed_over_packets_total" ["worker"] "Packets handed over to other workers.";
    WORKER_CONSUMED Counter "tidegate_worker_consumed_packets_total" ["worker"] "Packets that ended here on purpose: ARP and neighbour discovery, fragments that became a whole packet, a packet that went on in fragments, what the kernel was given.";
    WORKER_HELD Gauge "tidegate_worker_held_packets" ["worker"] "Packets that wait for a neighbour, for the other fragments, or for the device now.";
    WORKER_TO_KERNEL Counter "tidegate_worker_to_kernel_packets_total" ["worker"] "Packets given to the kernel by the exception path; they count as consumed.";
    WORKER_FROM_KERNEL Counter "tidegate_worker_from_kernel_packets_total" ["worker"] "Packets of the kernel's that the exception path has sent, or tried to; they count as made.";
    WORKER_COMPLETED Counter "tidegate_worker_completed_checksums_total" ["worker"] "Packets whose checksum their sender had left to an offload that never ran, and that was computed here: a peer on the same host; switch its tx checksum offload off to save the work.";
    WORKER_TOA_ADDED Counter "tidegate_worker_toa_added_total" ["worker"] "Client segments that went to a FULLNAT server with the client's address in a TCP option (client_address: toa).";
    WORKER_TOA_NO_ROOM Counter "tidegate_worker_toa_no_room_total" ["worker"] "Client segments that were due to carry it and went without: no room among the options, or within the MTU.";
    WORKER_SNAT_MOVED Counter "tidegate_worker_snat_moved_total" ["worker"] "SNAT connections that got another local address than the one of their host, because that had no port left towards their destination.";
    WORKER_PROXY_HEADERS_SENT Counter "tidegate_worker_proxy_headers_sent_total" ["worker"] "Connections whose FULLNAT server was sent the header of the PROXY protocol (client_address: proxy_v2).";
    WORKER_PROXY_HEADERS_RESENT Counter "tidegate_worker_proxy_headers_resent_total" ["worker"] "Headers of the PROXY protocol that were sent again, because the server had not acknowledged them.";
    WORKER_PROXY_HEADERS_UNACKNOWLEDGED Counter "tidegate_worker_proxy_headers_unacknowledged_total" ["worker"] "Headers of the PROXY protocol that a server did not acknowledge in two minutes; the gateway has given up on them.";
    WORKER_STEERED Counter "tidegate_worker_steered_packets_total" ["worker", "to"] "Packets handed over to that other worker. Only with several workers.";
    WORKER_STEER_FULL Counter "tidegate_worker_steer_full_packets_total" ["worker", "to"] "Packets dropped because the ring to that other worker was full; among the drops under steer_full. Only with several workers.";
    DROPS Counter "tidegate_drops_total" ["reason", "worker"] "Packets dropped, each under exactly one reason.";

    LOCAL_USED Gauge "tidegate_local_ports_used" ["pool"] "Local ports in use, towards all servers together.";
    LOCAL_FREE Gauge "tidegate_local_ports_free" ["pool"] "Local ports left: (addresses x ports of each x distinct servers of the same family that are reached from the pool), less those in use. One server can run dry while others have many left. None of a pool that SNAT uses: hosts outside have no number.";
    LOCAL_ADDRESS_USED Gauge "tidegate_local_address_ports_used" ["pool", "address"] "Local ports of the address in use, towards all servers together.";
    LOCAL_ADDRESS_FREE Gauge "tidegate_local_address_ports_free" ["pool", "address"] "Local ports of the address left: (ports x distinct servers of the same family that are reached from the pool), less those in use; 0 while it drains. None of a pool that SNAT uses.";
    LOCAL_DRAINING Gauge "tidegate_local_address_draining" ["pool", "address"] "1 while the address has left its pool and connections still have it; else 0.";
    LOCAL_TAKEN Counter "tidegate_local_ports_taken_total" ["pool", "address"] "Local ports handed out.";
    LOCAL_BORROWED Counter "tidegate_local_ports_borrowed_total" ["pool", "address"] "Of these, ports of another shard than the client's.";
    LOCAL_RECYCLED Counter "tidegate_local_ports_recycled_total" ["pool", "address"] "Connections that gave up their local port while closing, because none else was free.";
    LOCAL_EXHAUSTED Counter "tidegate_local_ports_exhausted_total" ["pool", "address"] "Times that no local port was free and none could be recycled.";
    LOCAL_NO_MEMORY Counter "tidegate_local_ports_out_of_memory_total" ["pool", "address"] "Times that the memory for local ports was used up.";
    LOCAL_SERVER_USED Gauge "tidegate_local_server_ports_used" ["pool", "address", "server", "server_port", "protocol"] "Local ports of the address in use towards this server. Series only where ports are used or were borrowed, recycled or missing; of these the 1,000 with the fewest ports left.";
    LOCAL_SERVER_FREE Gauge "tidegate_local_server_ports_free" ["pool", "address", "server", "server_port", "protocol"] "Local ports of the address left towards this server; 0 while the address drains.";
    LOCAL_SERVER_BORROWED Counter "tidegate_local_server_ports_borrowed_total" ["pool", "address", "server", "server_port", "protocol"] "Local ports towards this server that were handed out of another shard than the client's; begins anew when the server was not used for long and memory was short.";
    LOCAL_SERVER_RECYCLED Counter "tidegate_local_server_ports_recycled_total" ["pool", "address", "server", "server_port", "protocol"] "Connections to this server that gave up their local port while closing, because none else was free.";
    LOCAL_SERVER_EXHAUSTED Counter "tidegate_local_server_ports_exhausted_total" ["pool", "address", "server", "server_port", "protocol"] "Times that no local port of the address was free towards this server and none could be recycled.";

    PORT_INFO Gauge "tidegate_port_info" ["port", "device", "driver", "mac", "parent", "vlan"] "Always 1; what the port is stands in the labels. A VLAN has a parent instead of a device.";
    PORT_UP Gauge "tidegate_port_link_up" ["port"] "Whether the link is up.";
    PORT_LINK_CHANGES Counter "tidegate_port_link_changes_total" ["port"] "How often the link has come up or gone down; that of a VLAN is its parent's.";
    PORT_MEMBER_UP Gauge "tidegate_port_member_link_up" ["port", "device"] "Whether the link of a bond's member is up.";
    PORT_MEMBER_ACTIVE Gauge "tidegate_port_member_active" ["port", "device"] "Whether the bond sends by the member.";
    PORT_RECEIVED Counter "tidegate_port_received_packets_total" ["port"] "Packets that the device received.";
    PORT_RECEIVED_BYTES Counter "tidegate_port_received_bytes_total" ["port"] "Bytes that the device received.";
    PORT_SENT Counter "tidegate_port_sent_packets_total" ["port"] "Packets that the device sent.";
    PORT_SENT_BYTES Counter "tidegate_port_sent_bytes_total" ["port"] "Bytes that the device sent.";
    PORT_MISSED Counter "tidegate_port_missed_packets_total" ["port"] "Packets that the device lost because no worker took them in time.";
    PORT_RECEIVE_ERRORS Counter "tidegate_port_receive_errors_total" ["port"] "Packets received with errors.";
    PORT_TRANSMIT_ERRORS Counter "tidegate_port_transmit_errors_total" ["port"] "Packets that the device failed to send.";
    PORT_NO_BUFFER Counter "tidegate_port_no_buffer_total" ["port"] "Packets lost because no packet buffer was free.";

    NEIGHBOURS Gauge "tidegate_neighbours" ["port", "state"] "Neighbours by state.";
    ROUTES Gauge "tidegate_routes" ["source", "state"] "Next hops of routes, by source (port, static or kernel) and by state as show routes tells it.";
}
