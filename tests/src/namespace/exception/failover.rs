//! keepalived gives a VIP and a local address of FULLNAT to one of two gateways, over the exception path, and to the
//! other one when that dies.

use super::pair::{self, GATEWAYS, cabled};
use crate::lab::{Capture, Gateway, Host, Lab, Nginx, PATIENCE, Process, until};
use std::fs;

const VIP: &str = "203.0.113.100";
const LIP: &str = "203.0.113.200";

fn yaml(own: &str) -> String {
    let rest = format!(
        "
vips: [{{ address: {VIP}, owner: kernel }}]
local_addresses: [{{ name: dip, port: wan, addresses: [{LIP}], owner: kernel }}]
pools: [{{ name: web, servers: [{{ address: 203.0.113.11, port: 8080 }}, {{ address: 203.0.113.12, port: 8080 }}] }}]
services: [{{ name: web, listen: \"{VIP}:80/tcp\", pool: web, mode: fullnat, local_addresses: dip }}]
"
    );
    pair::yaml(own, &rest)
}

/// keepalived on a gateway's host.
fn keepalived(lab: &Lab, number: usize) -> Process {
    let (name, _) = GATEWAYS[number];
    let (state, priority) = [("MASTER", 150), ("BACKUP", 100)][number];
    let file = lab.file(&format!("keepalived-{name}.conf"));
    let text = format!(
        "global_defs {{
    router_id {name}
    dynamic_interfaces
    vrrp_version 3
}}
vrrp_instance tidegate {{
    state {state}
    interface tg0
    virtual_router_id 51
    priority {priority}
    advert_int 0.5
    virtual_ipaddress {{
        {VIP}/32 dev tg0
        {LIP}/32 dev tg0
    }}
}}
"
    );
    fs::write(&file, text).unwrap();
    let pid = |part: &str| {
        lab.file(&format!("keepalived-{name}-{part}.pid"))
            .display()
            .to_string()
    };
    let line = format!(
        "keepalived --dont-fork --log-console --no-syslog --use-file {} --pid {} --vrrp_pid {} --vrrp",
        file.display(),
        pid("parent"),
        pid("vrrp")
    );
    lab.host(name)
        .start(&line, &lab.file(&format!("keepalived-{name}.log")))
}

/// Whether a page comes from the VIP.
fn is_served(client: &Host) -> bool {
    let output = client.attempt(&format!("curl -sS --fail --max-time 2 http://{VIP}/"));
    String::from_utf8_lossy(&output.stdout).starts_with("server ")
}

/// The MAC of a gateway's port.
fn mac(lab: &Lab, name: &str) -> String {
    lab.host(name)
        .run("cat /sys/class/net/wan0/address")
        .trim()
        .to_owned()
}

/// The MAC at which the router has an address.
fn neighbour(router: &Host, address: &str) -> String {
    let shown = router.run(&format!("ip neighbour show {address} dev net"));
    let mut words = shown.split_whitespace().skip_while(|word| *word != "lladdr");
    words.nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_backup_takes_the_vip_and_the_local_address_over() {
    let lab = cabled(&[]);
    let (client, router) = (lab.client(), lab.host("switch"));
    let _nginx = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let first = Gateway::start_on(&lab, GATEWAYS[0].0, &yaml(GATEWAYS[0].1));
    let second = Gateway::start_on(&lab, GATEWAYS[1].0, &yaml(GATEWAYS[1].1));

    // Nobody has the addresses yet, and nobody answers for them.
    assert!(!is_served(&client));
    assert_eq!(neighbour(&router, VIP), "");

    let _daemons = [keepalived(&lab, 0), keepalived(&lab, 1)];
    until("the first gateway to serve", PATIENCE, || {
        is_served(&client).then_some(())
    });
    assert_eq!(neighbour(&router, VIP), mac(&lab, "gateway"));
    let heard = Capture::start(&lab, &router, "net");
    for _ in 0..10 {
        assert!(is_served(&client));
    }
    // The standby drops what it gets all the same: a neighbour that has not heard.
    let standby = mac(&lab, "gateway2");
    router.run(&format!(
        "ip neighbour replace {VIP} lladdr {standby} dev net nud permanent"
    ));
    assert!(!is_served(&client));
    assert!(second.dropped("standby") > 0);
    router.run(&format!("ip neighbour delete {VIP} dev net"));
    until("the first gateway to serve again", PATIENCE, || {
        is_served(&client).then_some(())
    });

    // The active one dies, and its device with it: keepalived there has nothing to advertise by.
    first.crash();
    until("the second gateway to serve", PATIENCE, || {
        is_served(&client).then_some(())
    });
    assert_eq!(neighbour(&router, VIP), standby);
    let heard = heard.end();
    for address in [VIP, LIP] {
        let told =
            format!("arp.isgratuitous && arp.src.proto_ipv4 == {address} && arp.src.hw_mac == {standby}");
        until("gratuitous ARP", PATIENCE, || {
            (!heard.frames(&told).is_empty()).then_some(())
        });
    }
    // Each question had one answer.
    let asked = heard.frames(&format!(
        "arp.opcode == 1 && arp.dst.proto_ipv4 == {VIP} && !arp.isgratuitous"
    ));
    let answers = heard.frames(&format!(
        "arp.opcode == 2 && arp.src.proto_ipv4 == {VIP} && !arp.isgratuitous && eth.dst != ff:ff:ff:ff:ff:ff"
    ));
    assert!(answers.len() <= asked.len(), "{asked:?} {answers:?}");

    // It comes back and, having the higher priority, gets the addresses again.
    let first = Gateway::start_on(&lab, GATEWAYS[0].0, &yaml(GATEWAYS[0].1));
    let active = mac(&lab, "gateway");
    until("the first gateway to be active", PATIENCE, || {
        (is_served(&client) && neighbour(&router, VIP) == active).then_some(())
    });
    first.finish();
    second.finish();
}
