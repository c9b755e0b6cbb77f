//! TAP devices that the gateway makes itself, moved into the namespaces of a client and a server.

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, on_taps};

#[test]
fn tap_devices_carry_ping_and_pages() {
    let lab = Lab::bare();
    let yaml = on_taps(&Gateway::usual()).replace("      - { address: 10.0.0.12, port: 8080 }\n", "");
    let gateway = Gateway::start(&lab, &yaml);
    let hosts = [
        ("tgwan", lab.client(), "203.0.113.1/24"),
        ("tglan", lab.server(1), "10.0.0.11/24"),
    ];
    for (interface, host, address) in &hosts {
        lab.plug(interface, host, &[address]);
    }
    let _server = Nginx::start(&lab, 1);
    let ping = lab.client().run(&format!("ping -c 20 -i 0.01 -W 5 {FULLNAT}"));
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    assert_eq!(curl(&lab.client(), FULLNAT, 30), vec!["server 1"; 30]);
    for (interface, host, _) in &hosts {
        for (counter, value) in host.checksum_errors() {
            assert_eq!(value, 0, "{counter} behind {interface}");
        }
    }
    gateway.finish();
}
