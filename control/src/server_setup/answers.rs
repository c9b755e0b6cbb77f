//! What DR and TUN servers have in common: they have the VIP, nobody learns of that, and they answer clients by their
//! own way.

use super::plan::Plan;
use super::text::{Script, ip};
use std::net::IpAddr;

/// Whether the kernel's ARP and reverse path filter have anything to do with it: both are IPv4's.
pub(super) fn any_ipv4(plan: &Plan) -> bool {
    plan.vips.iter().any(|vip| vip.address.is_ipv4())
}

/// Lets packets of clients in by the interface that faces the gateway, wherever their answers leave.
pub(super) fn loose_source_check(script: &mut Script, plan: &Plan) {
    if any_ipv4(plan) {
        script.block(
            &[
                "Packets of clients come from the gateway, and their answers may leave by another interface. A strict",
                "reverse path filter (1) would take that for forgery; 2 is content with any route to the client.",
            ],
            &["sysctl -qw \"net/ipv4/conf/$interface/rp_filter=2\""],
        );
    }
}

/// The reverse: what this machine gives a new interface.
pub(super) fn strict_source_check(script: &mut Script, plan: &Plan) {
    if any_ipv4(plan) {
        script.block(
            &["Reverse path filter: back to what this machine gives a new interface."],
            &["sysctl -qw \"net/ipv4/conf/$interface/rp_filter=$(sysctl -n net.ipv4.conf.default.rp_filter)\""],
        );
    }
}

/// Keeps the kernel from telling anyone by ARP that it has the VIP.
pub(super) fn quiet(script: &mut Script, plan: &Plan) {
    if any_ipv4(plan) {
        script.block(
            &[
                "The VIP's ARP is the gateway's alone: answer only for addresses of the interface that was asked",
                "(arp_ignore 1), and never ask in the VIP's name (arp_announce 2). This comes before the VIP: one",
                "answer in between, and the router sends past the gateway for minutes.",
            ],
            &[
                "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
                "sysctl -qw net.ipv4.conf.lo.arp_ignore=1 net.ipv4.conf.lo.arp_announce=2",
            ],
        );
    }
}

/// The reverse, when no other VIP is left.
pub(super) fn loud(script: &mut Script, plan: &Plan) {
    if any_ipv4(plan) {
        script.block(
            &["ARP as the kernel has it by itself, unless another /32 is left, which may be another service's VIP."],
            &[
                "if ! ip -4 -o address show | grep -q '/32 '; then",
                "    sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0",
                "    sysctl -qw net.ipv4.conf.lo.arp_ignore=0 net.ipv4.conf.lo.arp_announce=0",
                "fi",
            ],
        );
    }
}

/// Puts the VIPs that `fits` on `device`.
fn add(script: &mut Script, plan: &Plan, device: &str, fits: impl Fn(IpAddr) -> bool) {
    let vips: Vec<IpAddr> = plan
        .vips
        .iter()
        .map(|vip| vip.address)
        .filter(|vip| fits(*vip))
        .collect();
    if vips.is_empty() {
        return;
    }
    let mut comments =
        vec!["Packets arrive with the VIP as their destination, and it is the source of the answers."];
    if vips.iter().any(IpAddr::is_ipv6) {
        comments.push(
            "IPv6 answers neighbour solicitations on the address's own interface only. nodad: the gateway",
        );
        comments.push(
            "has the address too; preferred_lft 0: connections of this machine's own take another source.",
        );
    }
    let commands: Vec<String> = vips
        .iter()
        .map(|vip| match vip {
            IpAddr::V4(vip) => format!("ip address replace {vip}/32 dev {device}"),
            IpAddr::V6(vip) => format!("ip -6 address replace {vip}/128 dev {device} nodad preferred_lft 0"),
        })
        .collect();
    script.block(
        &comments,
        &commands.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// Puts all VIPs on `device`.
pub(super) fn add_vips(script: &mut Script, plan: &Plan, device: &str) {
    add(script, plan, device, |_| true);
}

/// Puts the VIPs of one family on `device`.
pub(super) fn add_family(script: &mut Script, plan: &Plan, device: &str, ipv4: bool) {
    add(script, plan, device, |vip| vip.is_ipv4() == ipv4);
}

/// Takes the VIPs from `device`, but those that another service needs.
pub(super) fn remove_vips(script: &mut Script, plan: &Plan, device: &str) {
    remove_family(script, plan, device, true);
    remove_family(script, plan, device, false);
}

/// Takes the VIPs of one family from `device`, but those that another service needs.
pub(super) fn remove_family(script: &mut Script, plan: &Plan, device: &str, ipv4: bool) {
    for vip in plan.vips.iter().filter(|vip| vip.address.is_ipv4() == ipv4) {
        let address = vip.address;
        if let Some(other) = &vip.also_of {
            script.block(
                &[&format!(
                    "{address} stays: it is a VIP of the service `{other}` too."
                )],
                &[],
            );
            continue;
        }
        let (ip, length) = (ip(address), if ipv4 { 32 } else { 128 });
        script.block(
            &[],
            &[
                &format!(
                    "if {ip} -o address show dev {device} 2>/dev/null | grep -qF ' {address}/{length} '; then"
                ),
                &format!("    {ip} address del {address}/{length} dev {device}"),
                "fi",
            ],
        );
    }
}
