//! Bonds: two cables to the switch that are one port.

use crate::balance::curl;
use crate::failure::Download;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, RawSocket, number, until};
use crate::links::{await_link, await_page, page};
use std::time::{Duration, Instant};

/// The usual gateway, whose LAN is a bond of `lan0` and `lan1`, with `more` among the bond's keys, and a VLAN on it.
fn bonded(more: &str) -> String {
    let bond = format!(
        "bond: {{ mode: active-backup, members: [\"net_af_packet1,iface=lan0\", \"net_af_packet2,iface=lan1\"]{more} }}"
    );
    let port = "device: \"net_af_packet1,iface=lan0\"";
    let yaml = Gateway::usual();
    assert!(yaml.contains(port));
    yaml.replace(port, &bond).replace(
        "routes:\n",
        "  - { name: guests, parent: lan, vlan: 7, addresses: [10.7.0.1/24] }\nroutes:\n",
    )
}

/// The lab with a second cable from the gateway to the switch.
fn cabled() -> Lab {
    let lab = Lab::new();
    lab.link("gateway", "lan1", "switch", "gateway1");
    lab.host("switch").run("ip link set gateway1 master lan");
    lab
}

/// Of each member: whether its link is up, and whether it sends.
fn members(gateway: &Gateway) -> Vec<(bool, bool)> {
    let port = gateway.named("ports", "lan");
    let members = port["members"].as_array().cloned().unwrap_or_default();
    let is = |member: &serde_json::Value, key: &str| member[key] == true;
    members
        .iter()
        .map(|member| (is(member, "link_up"), is(member, "active")))
        .collect()
}

fn await_members(gateway: &Gateway, expected: [(bool, bool); 2]) {
    until(&format!("members {expected:?}"), PATIENCE, || {
        (members(gateway) == expected).then_some(())
    });
}

fn mac(lab: &Lab, interface: &str) -> String {
    let path = format!("cat /sys/class/net/{interface}/address");
    lab.host("gateway").run(&path).trim().to_owned()
}

#[test]
fn a_bond_goes_on_by_its_other_member_and_by_the_first_when_it_is_back() {
    let lab = cabled();
    let servers = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let first = mac(&lab, "lan0");
    let gateway = Gateway::start(&lab, &bonded(""));
    await_members(&gateway, [(true, true), (true, false)]);
    let port = gateway.named("ports", "lan");
    assert_eq!(
        (port["mac"].as_str(), port["driver"].as_str()),
        (Some(&*first), Some("net_bonding"))
    );
    curl(&lab.client(), FULLNAT, 6);

    let switch = lab.host("switch");
    let download = Download::start(&lab, 0);
    until("an answer", PATIENCE, || download.server());
    switch.run("ip link set gateway down");
    await_members(&gateway, [(false, false), (true, true)]);
    await_page(&lab.client());
    assert_eq!(curl(&lab.client(), FULLNAT, 20).len(), 20);
    assert!(download.complete(), "a download whose member went away");
    assert_eq!(mac(&lab, "lan1"), first, "the bond keeps its MAC address");
    assert!(
        gateway.log().contains("this member of the bond sends now"),
        "{}",
        gateway.log()
    );
    // The bond itself was never down.
    let port = gateway.named("ports", "lan");
    assert_eq!(
        (port["link_up"].as_bool(), number(&port, "link_changes")),
        (Some(true), 0)
    );

    // Back, it waits for its turn.
    switch.run("ip link set gateway up");
    await_members(&gateway, [(true, false), (true, true)]);
    switch.run("ip link set gateway1 down");
    await_members(&gateway, [(true, true), (false, false)]);
    await_page(&lab.client());
    assert_eq!(curl(&lab.client(), FULLNAT, 20).len(), 20);

    switch.run("ip link set gateway down");
    await_link(&gateway, "lan", false);
    let before = gateway.dropped("link_down");
    assert!(!page(&lab.client()));
    assert!(gateway.dropped("link_down") > before);
    let metrics = gateway.metrics();
    for line in [
        "tidegate_port_link_up{port=\"lan\"} 0",
        // A VLAN has the link of its parent.
        "tidegate_port_link_up{port=\"guests\"} 0",
        "tidegate_port_member_link_up{port=\"lan\",device=\"net_af_packet1,iface=lan0\"} 0",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    switch.run("ip link set gateway1 up");
    await_link(&gateway, "lan", true);
    await_page(&lab.client());
    assert_eq!(curl(&lab.client(), FULLNAT, 20).len(), 20);
    gateway.finish();
    drop(servers);
}

#[test]
fn the_primary_of_a_bond_sends_whenever_it_can() {
    let lab = cabled();
    let servers = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let gateway = Gateway::start(&lab, &bonded(", primary: net_af_packet2"));
    await_members(&gateway, [(true, false), (true, true)]);
    curl(&lab.client(), FULLNAT, 6);
    let switch = lab.host("switch");
    switch.run("ip link set gateway1 down");
    await_members(&gateway, [(true, true), (false, false)]);
    await_page(&lab.client());
    switch.run("ip link set gateway1 up");
    await_members(&gateway, [(true, false), (true, true)]);
    await_page(&lab.client());
    assert_eq!(curl(&lab.client(), FULLNAT, 6).len(), 6);
    gateway.finish();
    drop(servers);
}

/// The kernel of a test has no VLANs: a host in one is frames from a raw socket.
#[test]
fn a_vlan_on_a_bond_answers_by_the_member_that_sends() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &bonded(""));
    await_members(&gateway, [(true, true), (true, false)]);
    let (switch, host) = (lab.host("switch"), [2, 0, 0, 0, 7, 9]);
    for (interface, other) in [("gateway", "gateway1"), ("gateway1", "gateway")] {
        switch.run(&format!("ip link set {interface} up"));
        switch.run(&format!("ip link set {other} down"));
        let active = |member: &str| (member == interface, member == interface);
        await_members(&gateway, [active("gateway"), active("gateway1")]);
        let socket = RawSocket::listening(&switch, interface);
        let mut question = [
            &[0xff; 6][..],
            &host,
            &[0x81, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        ]
        .concat();
        question.extend(host);
        question.extend([10, 7, 0, 9, 0, 0, 0, 0, 0, 0, 10, 7, 0, 1]);
        question.resize(64, 0);
        let asked = || {
            socket.send(&question);
            let deadline = Instant::now() + Duration::from_millis(500);
            while let Some(frame) = socket.next(deadline) {
                // The kernel keeps the tag beside the frame: an answer to the host's own MAC address is enough.
                let arp = frame.windows(8).any(|bytes| bytes == [0, 1, 8, 0, 6, 4, 0, 2]);
                if arp && frame[..6] == host && frame.windows(4).any(|bytes| bytes == [10, 7, 0, 1]) {
                    return Some(());
                }
            }
            None
        };
        until(&format!("an answer in the VLAN by {interface}"), PATIENCE, asked);
    }
    gateway.finish();
}

/// Two bonds with LACP, cabled to each other by two pairs of veth: they agree, and use both cables; when one is cut, the
/// other one.
#[test]
fn two_bonds_agree_by_lacp() {
    let lab = Lab::bare();
    let bond = |number: usize, own: &str, cables: [&str; 2]| {
        format!(
            "  - {{ name: {own}, bond: {{ mode: 802.3ad, members: [\"net_af_packet{},iface={}\", \
             \"net_af_packet{},iface={}\"] }}, addresses: [192.0.{number}.1/24] }}\n",
            2 * number,
            cables[0],
            2 * number + 1,
            cables[1]
        )
    };
    for (near, far) in [("a0", "b0"), ("a1", "b1")] {
        lab.link("gateway", near, "gateway", far);
    }
    let yaml = "node: { workers: auto, hugepages: off, memory: 256, idle: sleep, limits: { connections: 10000 } }\nports:\n"
        .to_owned()
        + &bond(0, "lan", ["a0", "a1"])
        + &bond(1, "other", ["b0", "b1"]);
    let gateway = Gateway::start(&lab, &yaml);
    await_members(&gateway, [(true, true), (true, true)]);
    for port in ["lan", "other"] {
        await_link(&gateway, port, true);
        // No worker sees LACP: what arrives are the announcements of the other bond.
        until("announcements", PATIENCE, || {
            (number(&gateway.named("ports", port), "worker_received") > 0).then_some(())
        });
    }
    let host = lab.host("gateway");
    host.run("ip link set b0 down");
    await_members(&gateway, [(false, false), (true, true)]);
    await_link(&gateway, "lan", true);
    host.run("ip link set b0 up");
    await_members(&gateway, [(true, true), (true, true)]);
    gateway.finish();
}
