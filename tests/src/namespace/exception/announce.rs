//! VIPs on the kernel's `lo`, which BIRD tells a router of over the exception path.

use super::*;
use crate::lab::Process;

/// Behind no port: who sends to it has to be told of a way.
const VIP: &str = "198.51.100.100";

fn announcing(weight: u32) -> String {
    yaml("tg0")
        .replace(FULLNAT, VIP)
        .replace("pools:", "announce: loopback\nvips: [{ address: 203.0.113.101, announce: off }]\npools:")
        .replace(
            "      - { address: 10.0.0.11, port: 8080, weight: 2 }\n      - { address: 10.0.0.12, port: 8080 }\n",
            &format!("      - {{ address: 10.0.0.11, port: 8080, weight: {weight} }}\n"),
        )
        // The VIP has no other service that could be served.
        .replace("  - name: names\n    servers:\n      - { address: 10.0.0.11 }\n      - { address: 10.0.0.12 }\n", "  - { name: names, servers: [] }\n")
}

/// The addresses of `lo` but its own.
fn on_lo(lab: &Lab) -> Vec<String> {
    let lo = device(lab, "lo").unwrap();
    let addresses = lo["addr_info"].as_array().unwrap().iter();
    let addresses = addresses.map(|one| one["local"].as_str().unwrap().to_owned());
    addresses
        .filter(|address| !address.starts_with("127.") && address != "::1")
        .collect()
}

fn await_lo(lab: &Lab, expected: &[&str]) {
    until(&format!("{expected:?} on lo"), PATIENCE, || {
        (on_lo(lab) == expected).then_some(())
    });
}

fn await_route(client: &Host, there: bool) {
    until(&format!("the route to the VIP: {there}"), PATIENCE, || {
        let route = client.run(&format!("ip route show {VIP}"));
        (route.contains("via 203.0.113.2") == there).then_some(())
    });
}

fn daemons(lab: &Lab) -> [Process; 2] {
    [
        bird::on_router(lab, &lab.client(), "203.0.113.1", &[OWN]),
        bird::on_gateway(lab, "gateway", OWN, "203.0.113.1"),
    ]
}

#[test]
fn a_vip_is_announced_while_it_can_be_served() {
    let lab = Lab::new();
    let _server = Nginx::start(&lab, 1);
    let client = lab.client();
    let gateway = Gateway::start(&lab, &announcing(1));
    let _birds = daemons(&lab);
    await_lo(&lab, &[VIP]);
    await_route(&client, true);
    assert_eq!(curl(&client, VIP, 20), vec!["server 1"; 20]);

    // Nobody is left for new connections, and one comes back.
    gateway.load(&announcing(0));
    await_lo(&lab, &[]);
    await_route(&client, false);
    gateway.load(&announcing(1));
    await_lo(&lab, &[VIP]);
    await_route(&client, true);
    // By the API of operators as well.
    gateway.load(&announcing(1).replace("announce: loopback", "announce: off"));
    await_lo(&lab, &[]);
    gateway.load(&announcing(1));
    await_lo(&lab, &[VIP]);
    await_route(&client, true);

    // An orderly end: routers hear of it while packets still move.
    gateway.finish();
    assert_eq!(on_lo(&lab), Vec::<String>::new());
    await_route(&client, false);
}

#[test]
fn a_crash_leaves_no_address_behind() {
    let lab = Lab::new();
    let host = lab.host("gateway");
    let gateway = Gateway::start(&lab, &announcing(1));
    await_lo(&lab, &[VIP]);
    gateway.crash();
    await_lo(&lab, &[]);
    // What the crash of the helper, too, has left behind goes at the next start; what is not ours stays.
    host.run("ip address add 198.51.100.77/32 dev lo");
    host.run("ip address add 198.51.100.78/32 dev lo label lo:tidegate");
    let gateway = Gateway::start(&lab, &announcing(1));
    await_lo(&lab, &["198.51.100.77", VIP]);
    gateway.finish();
    assert_eq!(on_lo(&lab), ["198.51.100.77"]);
}
