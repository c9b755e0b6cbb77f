//! The end of a TUN server's tunnel: the kernel's own tunnel devices, which take packets of any gateway.
//!
//! GUE is IPIP behind a UDP port: the kernel takes off UDP and GUE, then hands on to the same devices.

use super::answers;
use super::plan::Plan;
use super::text::Script;
use dataplane::service::{Tunnel, TunnelChecksum, TunnelKind};

/// A kind of tunnel device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Device {
    /// Its name on the server, in at most 15 characters.
    name: &'static str,
    /// The kernel module.
    module: &'static str,
    /// `ip link add`'s arguments that make it, but the addresses.
    kind: &'static str,
    /// Whether IPv4 and IPv6 packets come out of it.
    carries: (bool, bool),
}

const IPIP: Device = Device {
    name: "tg-ipip",
    module: "ipip",
    kind: "type ipip",
    carries: (true, false),
};
const SIT: Device = Device {
    name: "tg-sit",
    module: "sit",
    kind: "type sit mode ip6ip",
    carries: (false, true),
};
const IP6TNL: Device = Device {
    name: "tg-ip6tnl",
    module: "ip6_tunnel",
    kind: "type ip6tnl mode any",
    carries: (true, true),
};
const GRE: Device = Device {
    name: "tg-gre",
    module: "ip_gre",
    kind: "type gre",
    carries: (true, true),
};
const IP6GRE: Device = Device {
    name: "tg-ip6gre",
    module: "ip6_gre",
    kind: "type ip6gre",
    carries: (true, true),
};
// A receiver with a checksum wants one, and one without refuses it. So these have names of their own, and the kernel
// says no where a server would need both.
const GRE_CHECKSUM: Device = Device {
    name: "tg-gre-csum",
    kind: "type gre icsum",
    ..GRE
};
const IP6GRE_CHECKSUM: Device = Device {
    name: "tg-ip6gre-csum",
    kind: "type ip6gre icsum",
    ..IP6GRE
};

impl Device {
    /// Whether a VIP of that family belongs on it.
    fn takes(self, ipv4: bool) -> bool {
        if ipv4 { self.carries.0 } else { self.carries.1 }
    }
}

/// The devices that this plan's VIPs need.
fn devices(plan: &Plan, tunnel: Tunnel, over_ipv4: bool) -> Vec<Device> {
    let candidates: &[Device] = match (tunnel.kind, over_ipv4) {
        (TunnelKind::Gre, true) if tunnel.checksum == TunnelChecksum::None => &[GRE],
        (TunnelKind::Gre, true) => &[GRE_CHECKSUM],
        (TunnelKind::Gre, false) if tunnel.checksum == TunnelChecksum::None => &[IP6GRE],
        (TunnelKind::Gre, false) => &[IP6GRE_CHECKSUM],
        (_, true) => &[IPIP, SIT],
        (_, false) => &[IP6TNL],
    };
    let needed = |device: &Device| plan.vips.iter().any(|vip| device.takes(vip.address.is_ipv4()));
    candidates.iter().copied().filter(needed).collect()
}

/// Makes the tunnel's end, and puts the VIPs behind it.
pub(super) fn add(script: &mut Script, plan: &Plan, tunnel: Tunnel, over_ipv4: bool) {
    answers::quiet(script, plan);
    if let TunnelKind::Gue { port } = tunnel.kind {
        open_port(script, port, family(over_ipv4));
    }
    for device in devices(plan, tunnel, over_ipv4) {
        add_device(script, device);
        for ipv4 in [true, false] {
            if device.takes(ipv4) {
                answers::add_family(script, plan, device.name, ipv4);
            }
        }
    }
}

/// What `ip fou` wants for the outer family.
fn family(over_ipv4: bool) -> &'static str {
    if over_ipv4 { "" } else { " -6" }
}

fn open_port(script: &mut Script, port: u16, family: &str) {
    script.block(
        &[
            "GUE: the kernel takes off UDP and GUE, and hands on what is inside. Without the module or the port the",
            "server answers ICMP port unreachable.",
        ],
        &[
            "modprobe fou",
            &format!("ip fou add port {port} gue{family} 2>/dev/null || ip fou show | grep -q '^port {port} gue' || {{"),
            &format!("    echo 'UDP port {port} could not be opened for GUE' >&2"),
            "    exit 1",
            "}",
        ],
    );
}

fn add_device(script: &mut Script, device: Device) {
    let Device {
        name, module, kind, ..
    } = device;
    script.block(
        &[
            "The tunnel's end. Any address of any gateway may send: only the server's own is fixed. Without the",
            "module the server answers ICMP protocol unreachable.",
        ],
        &[
            &format!("modprobe {module}"),
            &format!("ip -d link show dev {name} 2>/dev/null | grep -q \" local $server \" ||"),
            &format!("    ip link add {name} {kind} local \"$server\" remote any"),
            &format!("ip link set {name} up"),
        ],
    );
    if device.carries.0 {
        script.block(
            &[
                "Packets of clients come out of the tunnel, and their answers leave by another interface. A strict",
                "reverse path filter (1) would take that for forgery; 2 is content with any route to the client.",
            ],
            &[&format!("sysctl -qw net/ipv4/conf/{name}/rp_filter=2")],
        );
    }
}

/// Says how to avoid packets that do not fit: a client that keeps to the server's MSS sends none. The gateway cannot
/// lower that MSS, because the server's SYN-ACK passes it by.
pub(super) fn room(script: &mut Script, plan: &Plan, room: u16) {
    let headers = if plan.vips.iter().any(|vip| vip.address.is_ipv6()) {
        60
    } else {
        40
    };
    let mss = room.saturating_sub(headers);
    script.block(
        &[
            &format!("A packet of a client has {room} bytes in this tunnel. Whoever sends more is told so by ICMP. Where"),
            "networks lose ICMP, let this machine announce shorter TCP segments on the way to its clients:",
            &format!("    ip route change default via ROUTER advmss {mss}"),
        ],
        &[],
    );
}

/// Takes the VIPs away, then what nothing needs any more.
pub(super) fn remove(
    script: &mut Script,
    plan: &Plan,
    tunnel: Tunnel,
    over_ipv4: bool,
    port_also_of: Option<&str>,
) {
    for device in devices(plan, tunnel, over_ipv4) {
        let name = device.name;
        for ipv4 in [true, false] {
            if device.takes(ipv4) {
                answers::remove_family(script, plan, name, ipv4);
            }
        }
        script.block(
            &["The tunnel's end goes with its last VIP."],
            &[
                &format!("if ip link show dev {name} >/dev/null 2>&1 &&"),
                &format!("    [ -z \"$(ip -o address show dev {name} scope global)\" ]; then"),
                &format!("    ip link del {name}"),
                "fi",
            ],
        );
    }
    let TunnelKind::Gue { port } = tunnel.kind else {
        return;
    };
    match port_also_of {
        Some(other) => script.block(
            &[&format!(
                "UDP port {port} stays: the service `{other}` uses it too."
            )],
            &[],
        ),
        None => script.block(
            &[],
            &[
                &format!("if ip fou show 2>/dev/null | grep -q '^port {port} gue'; then"),
                &format!("    ip fou del port {port}{}", family(over_ipv4)),
                "fi",
            ],
        ),
    }
}
