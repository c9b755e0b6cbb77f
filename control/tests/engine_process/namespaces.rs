//! Ports over interfaces of the kernel, in network namespaces of the test: traffic after root is given up, and the
//! warning of a peer that offloads.

use std::process::Command;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

/// Two namespaces joined by a veth: `near` in the gateway's, `far` with 192.0.2.2 in the client's.
struct Pair {
    gateway: String,
    client: String,
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}

impl Pair {
    fn new(name: &str) -> Pair {
        let id = std::process::id();
        let pair = Pair {
            gateway: format!("tg-{name}-g-{id}"),
            client: format!("tg-{name}-c-{id}"),
        };
        ip(&format!("netns add {}", pair.gateway));
        ip(&format!("netns add {}", pair.client));
        ip(&format!(
            "-n {} link add near type veth peer name far netns {}",
            pair.gateway, pair.client
        ));
        ip(&format!("-n {} link set near up", pair.gateway));
        ip(&format!("-n {} link set far up", pair.client));
        ip(&format!("-n {} addr add 192.0.2.2/24 dev far", pair.client));
        pair
    }

    fn start(&self, node: &str, device: &str) -> (Gateway, tempfile::TempDir) {
        let folder = folder();
        let path = config(folder.path(), node, &port(device));
        (
            Gateway::start_by(&["ip", "netns", "exec", &self.gateway], &path),
            folder,
        )
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.gateway, &self.client] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn within(namespace: &str, words: &str) -> bool {
    let command = Command::new("ip")
        .args(["netns", "exec", namespace])
        .args(words.split(' '))
        .output();
    command.unwrap().status.success()
}

const OFF: &str = "tx off tso off gso off gro off";

#[test]
fn af_packet_warns_of_offloads_at_both_ends_and_works_without_root() {
    root_only!();
    let pair = Pair::new("packet");
    let (gateway, _folder) = pair.start(NO_HUGE, "net_af_packet0,iface=near");
    let near = format!("ip netns exec {} ethtool -K near {OFF}", pair.gateway);
    let far = format!("ip netns exec {} ethtool -K far {OFF}", pair.client);
    let log = &gateway.log;
    assert!(
        log.contains(&near) && log.contains(&far) && log.contains("the veth peer far has"),
        "{log}"
    );
    assert!(log.contains("root is given up"), "{log}");
    assert!(within(&pair.client, "ping -c 3 -i 0.2 -W 5 192.0.2.1"));
    gateway.end();

    // As the warning says.
    assert!(within(&pair.gateway, &format!("ethtool -K near {OFF}")));
    assert!(within(&pair.client, &format!("ethtool -K far {OFF}")));
    let (gateway, _folder) = pair.start(NO_HUGE, "net_af_packet0,iface=near");
    assert!(!gateway.log.contains("offloads on"), "{}", gateway.log);
    gateway.end();
}

#[test]
fn the_warning_can_be_switched_off() {
    root_only!();
    let pair = Pair::new("quiet");
    let folder = folder();
    let port = port("net_af_packet0,iface=near").replace("addresses", "check_peer_offload: false, addresses");
    let path = config(folder.path(), NO_HUGE, &port);
    let gateway = Gateway::start_by(&["ip", "netns", "exec", &pair.gateway], &path);
    assert!(!gateway.log.contains("offloads on"), "{}", gateway.log);
    gateway.end();
}

/// CSUM-10: what the peer left unfinished is completed, and told with the remedy.
#[test]
fn an_unfinished_checksum_is_told_while_running() {
    root_only!();
    let pair = Pair::new("csum");
    let rest = format!(
        "{}\npools: [{{ name: p, servers: [{{ address: 192.0.2.9 }}] }}]\nservices: [{{ name: s, listen: \
         \"192.0.2.100:80/tcp\", pool: p, mode: dr, scheduler: rr }}]",
        port("net_af_packet0,iface=near")
    );
    let folder = folder();
    let path = config(folder.path(), NO_HUGE, &rest);
    let mut gateway = Gateway::start_by(&["ip", "netns", "exec", &pair.gateway], &path);
    // It gets no answer; that it was sent is all that matters.
    within(&pair.client, "curl -s -m 2 http://192.0.2.100/");
    let line = gateway.wait_for("unfinished checksums: their sender");
    assert!(
        line.contains("computed here") && line.contains("ethtool -K"),
        "{line}"
    );
    gateway.end();
}

#[test]
fn net_tap_works_without_root() {
    root_only!();
    let pair = Pair::new("tap");
    let (gateway, _folder) = pair.start(NO_HUGE, "net_tap0,iface=tg0");
    assert!(gateway.log.contains("root is given up"), "{}", gateway.log);
    ip(&format!("-n {} addr add 192.0.2.3/24 dev tg0", pair.gateway));
    ip(&format!("-n {} link set tg0 up", pair.gateway));
    assert!(within(&pair.gateway, "ping -c 3 -i 0.2 -W 5 192.0.2.1"));
    gateway.end();
}

/// XDP programs are detached only by root: this driver keeps it.
#[test]
fn net_af_xdp_stays_root_and_leaves_no_program() {
    root_only!();
    let pair = Pair::new("xdp");
    let (gateway, _folder) = pair.start(NO_HUGE, "net_af_xdp0,iface=near");
    assert!(
        gateway.log.contains("no other user is taken on"),
        "{}",
        gateway.log
    );
    assert!(within(&pair.client, "ping -c 3 -i 0.2 -W 5 192.0.2.1"));
    gateway.end();
    let link = Command::new("ip")
        .args(["-n", &pair.gateway, "link", "show", "near"])
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&link.stdout).contains("prog/xdp"));
}
