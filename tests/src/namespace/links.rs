//! Links that go down and come up while there is traffic.

use crate::balance::curl;
use crate::failure::Download;
use crate::lab::{Capture, FULLNAT, Gateway, Host, Lab, Nginx, PATIENCE, number, on_taps, until};

/// Waits until the gateway has seen the state of a port's link.
pub(crate) fn await_link(gateway: &Gateway, port: &str, up: bool) {
    until(&format!("the link of {port} to be up: {up}"), PATIENCE, || {
        (gateway.named("ports", port)["link_up"] == up).then_some(())
    });
}

/// Whether a page comes within a short while.
pub(crate) fn page(client: &Host) -> bool {
    let line = format!("curl -sS --fail --max-time 2 http://{FULLNAT}/");
    client.attempt(&line).status.success()
}

pub(crate) fn await_page(client: &Host) {
    until("a page", PATIENCE, || page(client).then_some(()));
}

#[test]
fn a_link_that_was_down_is_used_again_and_connections_go_on() {
    let lab = Lab::new();
    let servers = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let gateway = Gateway::start(&lab, &Gateway::usual());
    curl(&lab.client(), FULLNAT, 6);
    let download = Download::start(&lab, 0);
    until("an answer", PATIENCE, || download.server());

    // The other end of the cable goes, as when a switch is switched off.
    let switch = lab.host("switch");
    switch.run("ip link set gateway down");
    await_link(&gateway, "lan", false);
    let before = gateway.dropped("link_down");
    assert!(!page(&lab.client()), "a page over a dead link");
    assert!(gateway.dropped("link_down") > before);
    assert_eq!(number(&gateway.named("ports", "lan"), "link_changes"), 1);
    assert!(
        gateway
            .metrics()
            .contains("tidegate_port_link_up{port=\"lan\"} 0")
    );
    assert!(gateway.log().contains("the link is down"), "{}", gateway.log());

    let capture = Capture::start(&lab, &switch, "lan");
    switch.run("ip link set gateway up");
    await_link(&gateway, "lan", true);
    await_page(&lab.client());
    assert!(download.complete(), "a download that a dead link held up");
    assert_eq!(curl(&lab.client(), FULLNAT, 6).len(), 6);
    let seen = number(&gateway.named("ports", "lan"), "worker_sent");
    until("announcements", PATIENCE, || {
        (number(&gateway.named("ports", "lan"), "worker_sent") > seen).then_some(())
    });
    let announced = capture.end().frames("arp.isgratuitous == 1");
    assert!(!announced.is_empty(), "addresses are announced anew");
    assert_eq!(number(&gateway.named("ports", "lan"), "link_changes"), 2);
    assert!(
        gateway
            .metrics()
            .contains("tidegate_port_link_changes_total{port=\"lan\"} 2")
    );

    // The gateway's own end.
    let host = lab.host("gateway");
    for _ in 0..3 {
        host.run("ip link set wan0 down");
        await_link(&gateway, "wan", false);
        host.run("ip link set wan0 up");
        await_link(&gateway, "wan", true);
        await_page(&lab.client());
    }
    assert_eq!(curl(&lab.client(), FULLNAT, 20).len(), 20);
    gateway.finish();
    drop(servers);
}

/// The link of a TAP device is its interface's own; one that has been moved to where its cable ends cannot be asked, and
/// is used.
#[test]
fn the_link_of_a_tap_device_is_seen_and_of_one_elsewhere_taken_for_up() {
    let lab = Lab::bare();
    let yaml = on_taps(&Gateway::usual()).replace("      - { address: 10.0.0.12, port: 8080 }\n", "");
    let gateway = Gateway::start(&lab, &yaml);
    let host = lab.host("gateway");
    await_link(&gateway, "wan", true);
    host.run("ip link set tgwan down");
    await_link(&gateway, "wan", false);
    host.run("ip link set tgwan up");
    await_link(&gateway, "wan", true);
    lab.plug("tgwan", &lab.client(), &["203.0.113.1/24"]);
    lab.plug("tglan", &lab.server(1), &["10.0.0.11/24"]);
    let _server = Nginx::start(&lab, 1);
    await_page(&lab.client());
    for port in ["wan", "lan"] {
        await_link(&gateway, port, true);
    }
    gateway.finish();
}

const SECOND: &str = r#"ports:
  - { name: alt, device: "net_af_packet2,iface=alt0", addresses: [198.18.0.2/24] }
"#;

/// A client behind two links: when one is down its flows go by the other at once, not after questions in vain.
#[test]
fn a_route_over_two_links_leaves_the_one_that_is_down() {
    let lab = Lab::new();
    let servers = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let (client, host) = (lab.client(), lab.host("gateway"));
    lab.link("client", "alt0", "gateway", "alt0");
    client.run("ip address add 198.18.0.1/24 dev alt0");
    client.run("ip address add 198.51.100.1/32 dev lo");
    // Requests come by the second link, whatever way replies take.
    client.run(&format!(
        "ip route add {FULLNAT}/32 via 198.18.0.2 src 198.51.100.1"
    ));
    let yaml = Gateway::usual().replacen("ports:\n", SECOND, 1).replace(
        "routes:\n",
        "routes:\n  - { to: 198.51.100.0/24, via: [203.0.113.1, 198.18.0.1] }\n",
    );
    let gateway = Gateway::start(&lab, &yaml);
    assert_eq!(curl(&client, FULLNAT, 40).len(), 40);
    let by_wan = number(&gateway.named("ports", "wan"), "worker_sent");
    assert!(by_wan > 40, "replies go by both: {by_wan}");

    host.run("ip link set wan0 down");
    await_link(&gateway, "wan", false);
    // All of them, at the first attempt.
    assert_eq!(curl(&client, FULLNAT, 40).len(), 40);
    let state = |gateway: &Gateway| {
        let rows = gateway.rows("routes");
        let hop = rows
            .iter()
            .find(|row| row["to"] == "198.51.100.0/24" && row["via"] == "203.0.113.1");
        hop.map(|hop| hop["state"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(state(&gateway).as_deref(), Some("link down"));

    host.run("ip link set wan0 up");
    await_link(&gateway, "wan", true);
    until("replies by both links again", PATIENCE, || {
        let before = number(&gateway.named("ports", "wan"), "worker_sent");
        curl(&client, FULLNAT, 20);
        (number(&gateway.named("ports", "wan"), "worker_sent") > before + 20).then_some(())
    });
    gateway.finish();
    drop(servers);
}
