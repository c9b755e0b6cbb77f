//! The keys of the configuration file, section by section: what readers accept, what "did you mean" offers, and
//! what docs/configuration.md must describe.

/// A kind of mapping in the file.
#[derive(Debug)]
pub(super) struct Section {
    /// Where it stands, as the reference calls it; empty for the document itself.
    pub(super) path: &'static str,
    /// What it may hold.
    pub(super) keys: &'static [&'static str],
}

macro_rules! sections {
    ($($name:ident = $path:literal: $keys:expr;)*) => {
        $(pub(super) const $name: Section = Section { path: $path, keys: &$keys };)*
        /// All of them.
        #[cfg(test)]
        pub(super) const ALL: &[Section] = &[$($name),*];
    };
}

const TCP_STATES: [&str; 10] = [
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait",
    "time_wait",
    "close",
    "close_wait",
    "last_ack",
    "listen",
    "synack",
];
const SCTP_STATES: [&str; 13] = [
    "established",
    "init1",
    "init",
    "cookie_sent",
    "cookie_replied",
    "cookie_wait",
    "cookie",
    "cookie_echoed",
    "shutdown_sent",
    "shutdown_received",
    "shutdown_ack_sent",
    "rejected",
    "closed",
];

sections! {
    DOCUMENT = "": [
        "node", "api", "metrics", "ports", "routes", "kernel_routes", "announce", "neighbours", "local_addresses", "pools", "services",
        "marks", "vips", "snat", "timeouts", "settings",
    ];
    NODE = "node": [
        "name", "workers", "workers_per_cpu", "control_cpu", "hugepages", "memory", "idle", "user", "seed", "mbufs", "limits", "eal",
        "drivers", "file_prefix",
    ];
    LIMITS = "node.limits": ["connections", "services", "servers", "neighbours", "fragments"];
    API = "api": ["socket", "mode", "group"];
    METRICS = "metrics": ["listen"];
    PORT = "ports[]": [
        "name", "device", "parent", "vlan", "addresses", "mtu", "mac", "queues", "check_peer_offload", "arp_announce",
        "kernel_device", "bond", "exception",
    ];
    BOND = "ports[].bond": ["mode", "members", "primary"];
    EXCEPTION = "ports[].exception": ["device", "rate"];
    ROUTE = "routes[]": ["to", "via", "port", "unreachable"];
    NEXT_HOP = "routes[].via[]": ["address", "weight", "port"];
    NEIGHBOUR = "neighbours[]": ["address", "mac", "port"];
    LOCAL_ADDRESSES = "local_addresses[]": ["name", "port", "addresses", "ports", "routed", "owner"];
    POOL = "pools[]": ["name", "servers"];
    SERVER = "pools[].servers[]": [
        "address", "port", "weight", "mode", "tunnel", "upper_threshold", "lower_threshold", "overloaded",
    ];
    SERVER_TUNNEL = "pools[].servers[].tunnel": ["type", "port", "checksum"];
    SERVICE = "services[]": [
        "name", "listen", "mark", "pool", "mode", "tunnel", "scheduler", "scheduler_flags", "local_addresses", "one_packet",
        "translate_replies", "hairpin_snat", "mss_clamp", "client_address", "timeouts", "on_remove", "drain_deadline",
        "on_idle", "expire_quiescent", "limits", "slow_start", "bound", "persistence", "queues",
    ];
    QUEUE = "services[].queues[]": ["port", "pool", "scheduler", "scheduler_flags"];
    SERVICE_LIMITS = "services[].limits": ["connections", "rate", "client_connections", "client_rate"];
    PERSISTENCE = "services[].persistence": ["timeout", "netmask", "prefix", "engine", "bound"];
    SERVICE_TUNNEL = "services[].tunnel": ["type", "port", "checksum"];
    MARK = "marks[]": ["mark", "destination", "source", "protocol", "ports", "input"];
    VIP = "vips[]": ["address", "no_service", "no_server", "owner", "announce"];
    SNAT = "snat[]": [
        "name", "source", "destination", "protocol", "ports", "local_addresses", "timeouts", "connections_per_client",
        "exempt",
    ];
    TIMEOUTS = "timeouts": ["tcp", "udp", "sctp", "icmp"];
    TCP_TIMEOUTS = "timeouts.tcp": TCP_STATES;
    SCTP_TIMEOUTS = "timeouts.sctp": SCTP_STATES;
    SERVICE_TIMEOUTS = "services[].timeouts": ["tcp", "udp", "sctp"];
    SERVICE_TCP_TIMEOUTS = "services[].timeouts.tcp": TCP_STATES;
    SERVICE_SCTP_TIMEOUTS = "services[].timeouts.sctp": SCTP_STATES;
    SETTINGS = "settings": [
        "sloppy_tcp", "sloppy_sctp", "conn_reuse_mode", "expire_nodest_conn", "expire_quiescent_template", "secure_tcp", "embryonic_limit", "no_service",
        "no_server", "no_local_port", "icmp_rate",
        "schedule_icmp", "nat_icmp_send", "pmtu_disc", "transit", "tunnel_source", "fragment_timeout",
    ];
}
