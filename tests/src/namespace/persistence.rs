//! Clients that stay on their server: by their network, through quiescing, on all ports of a VIP; and the configuration
//! that is shipped for it.

mod shipped;
mod workers;

use crate::failure::Download;
use crate::lab::{FULLNAT, Gateway, Host, Lab, Nginx, PATIENCE, until};
use serde_json::Value;

/// Connections that have ended are forgotten soon, so that nothing holds a template but its own time.
const TIMEOUTS: &str =
    "timeouts: { tcp: { syn_recv: 2, fin_wait: 1, time_wait: 1, close: 1, close_wait: 1, last_ack: 1 } }\n";

/// Networks of clients, each with two of them: enough that both servers are certain to have some.
const NETWORKS: u8 = 16;

/// The lab, whose client has addresses 10 and 99 of each network, with a web server on both servers.
fn lab() -> (Lab, [Nginx; 2]) {
    let lab = Lab::new();
    let client = lab.client();
    // It asks for the VIP's MAC by the address on that link, whatever the packet's.
    client.run("sysctl -qw net.ipv4.conf.all.arp_announce=2");
    for network in 0..NETWORKS {
        for host in [10, 99] {
            client.run(&format!("ip address add {} dev lo", address(network, host)));
        }
    }
    let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    (lab, servers)
}

fn address(network: u8, host: u8) -> String {
    format!("198.51.{network}.{host}")
}

/// The usual services, `web` in turn and with these keys more.
fn with(keys: &str) -> String {
    Gateway::usual().replace(
        "pool: web, mode: fullnat, scheduler: wrr",
        &format!("pool: web, mode: fullnat, scheduler: rr, {keys}"),
    )
}

/// Asks for so many pages from an address of the client, each in a connection of its own: the one server that answered.
pub(crate) fn server_of(client: &Host, from: &str, url: &str, count: u32) -> String {
    let output = client
        .command("curl")
        .args(["-gsS", "--fail", "--max-time", "60", "--interface", from])
        .args(["-H", "Connection: close"])
        .args((0..count).map(|_| url))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{url} from {from}: {message}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!(answers.len(), count as usize);
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{from} at {url}: {answers:?}"
    );
    answers[0].to_owned()
}

/// The templates that are listed.
pub(crate) fn templates(gateway: &Gateway) -> Vec<Value> {
    let mut rows = gateway.connections();
    rows.retain(|row| row["template"] == true);
    rows
}

/// A template's client, VIP and server.
pub(crate) fn ends(template: &Value) -> [&str; 3] {
    ["client", "virtual", "server"].map(|key| template[key].as_str().unwrap())
}

/// PER-04.
#[test]
fn per_04_clients_of_one_network_share_a_server_until_their_template_ends() {
    networks(str::to_owned);
}

/// As the configuration is after `changed`.
pub(super) fn networks(changed: impl Fn(&str) -> String) {
    let (lab, _servers) = lab();
    let client = lab.client();
    let keys = "persistence: { timeout: 6, netmask: 255.255.255.0 }";
    let gateway = Gateway::start(&lab, &changed(&(with(keys) + TIMEOUTS)));
    let url = format!("http://{FULLNAT}/");
    let mut used: Vec<String> = vec![];
    for network in 0..NETWORKS {
        let server = server_of(&client, &address(network, 10), &url, 5);
        assert_eq!(server, server_of(&client, &address(network, 99), &url, 3));
        let rows = templates(&gateway);
        let (end, vip) = (format!("198.51.{network}.0:0"), format!("{FULLNAT}:80"));
        let own = rows.iter().find(|row| ends(row)[0] == end);
        let [_, at, to] = ends(own.unwrap_or_else(|| panic!("no {end} in {rows:?}")));
        let number = server.strip_prefix("server ").unwrap();
        assert_eq!((at, to), (&*vip, &*format!("10.0.0.1{number}:8080")));
        used.push(server);
    }
    for server in ["server 1", "server 2"] {
        let networks = used.iter().filter(|name| *name == server).count();
        assert!(networks >= 4, "{server} has {networks} of {NETWORKS} networks");
    }
    // One that fires while a connection of it is there waits for another minute.
    until("the templates to end", PATIENCE * 5, || {
        templates(&gateway).is_empty().then_some(())
    });
    gateway.finish();
}

/// PER-01.
#[test]
fn per_01_a_quiesced_server_keeps_its_clients_unless_they_are_to_leave() {
    quiescing(str::to_owned);
}

/// As the configuration is after `changed`.
pub(super) fn quiescing(changed: impl Fn(&str) -> String) {
    let (lab, _servers) = lab();
    let client = lab.client();
    let before = changed(&with("persistence: { timeout: 300 }"));
    let gateway = Gateway::start(&lab, &before);
    let url = format!("http://{FULLNAT}/");
    let download = Download::start(&lab, 0);
    let number = until("the download to begin", PATIENCE, || download.server());
    let server = format!("server {number}");
    assert_eq!(server_of(&client, crate::lab::CLIENT, &url, 4), server);

    let quiesced = if number == '1' {
        before.replace("port: 8080, weight: 2", "port: 8080, weight: 0")
    } else {
        before.replace("10.0.0.12, port: 8080", "10.0.0.12, port: 8080, weight: 0")
    };
    gateway.load(&quiesced);
    assert_eq!(server_of(&client, crate::lab::CLIENT, &url, 4), server, "known");
    assert_ne!(server_of(&client, &address(0, 10), &url, 4), server, "new");

    gateway.load(&(quiesced + "settings: { expire_quiescent_template: true }\n"));
    let other = server_of(&client, crate::lab::CLIENT, &url, 4);
    assert_ne!(other, server, "is to leave");
    // The old template stays to its end, where no packet finds it.
    let own = format!("{}:0", crate::lab::CLIENT);
    let rows = templates(&gateway);
    let own: Vec<_> = rows
        .iter()
        .map(ends)
        .filter(|[client, ..]| *client == own)
        .collect();
    let retired = own.iter().filter(|[_, _, to]| to.ends_with(":65535"));
    assert_eq!((own.len(), retired.count()), (2, 1), "{own:?}");
    // Weight again: a client that has left does not come back by itself.
    gateway.load(&before);
    assert_eq!(server_of(&client, crate::lab::CLIENT, &url, 4), other);
    assert!(download.complete(), "its connection went on");
    gateway.finish();
}

/// PER-02.
#[test]
fn per_02_a_client_of_a_removed_server_is_served_at_once() {
    removal(str::to_owned);
}

/// As the configuration is after `changed`.
pub(super) fn removal(changed: impl Fn(&str) -> String) {
    let (lab, _servers) = lab();
    let client = lab.client();
    let before = changed(&with("persistence: { timeout: 300 }"));
    let gateway = Gateway::start(&lab, &before);
    let (url, from) = (format!("http://{FULLNAT}/"), address(3, 10));
    let server = server_of(&client, &from, &url, 2);
    let line = if server == "server 1" {
        "      - { address: 10.0.0.11, port: 8080, weight: 2 }\n"
    } else {
        "      - { address: 10.0.0.12, port: 8080 }\n"
    };
    gateway.load(&before.replace(line, ""));
    let other = server_of(&client, &from, &url, 4);
    assert_ne!(other, server);
    gateway.load(&before);
    assert_eq!(server_of(&client, &from, &url, 4), other);
    gateway.finish();
}

/// PER-05.
#[test]
fn per_05_all_ports_of_a_vip_are_one_service_and_one_of_them_may_have_its_own() {
    all_ports(str::to_owned);
}

/// As the configuration is after `changed`.
pub(super) fn all_ports(changed: impl Fn(&str) -> String) {
    let (lab, servers) = lab();
    let client = lab.client();
    let all = changed(&Gateway::usual())
        .replace(&format!("{FULLNAT}:80/tcp"), &format!("{FULLNAT}:0/tcp"))
        .replace(
            "pool: web, mode: fullnat, scheduler: wrr",
            "pool: direct, mode: fullnat, scheduler: rr, persistence: { timeout: 300 }",
        );
    let gateway = Gateway::start(&lab, &all);
    let at = |port: u16| format!("http://{FULLNAT}:{port}/");
    let mut used = vec![];
    for network in 0..NETWORKS {
        let from = address(network, 10);
        let server = server_of(&client, &from, &at(80), 2);
        assert_eq!(server, server_of(&client, &from, &at(8080), 2), "{from}");
        used.push(server);
    }
    used.sort();
    used.dedup();
    assert_eq!(used.len(), 2, "both servers have clients");
    // Servers are asked on the port that the client has asked.
    until("the servers' logs", PATIENCE, || {
        let requests = servers.iter().flat_map(Nginx::requests);
        let ports: Vec<u16> = requests.map(|request| request.port).collect();
        let of = |port| ports.iter().filter(|one| **one == port).count();
        let each = 2 * usize::from(NETWORKS);
        (of(80) == each && of(8080) == each).then_some(())
    });
    let rows = templates(&gateway);
    let vip = format!("{FULLNAT}:0");
    assert_eq!(rows.len(), usize::from(NETWORKS));
    assert!(
        rows.iter()
            .map(ends)
            .all(|[_, at, to]| at == vip && to.ends_with(":0")),
        "{rows:?}"
    );

    // A service on the very port comes first, and knows nothing of the others' templates.
    let exact = format!(
        "{all}  - {{ name: exact, listen: \"{FULLNAT}:8080/tcp\", pool: only, mode: fullnat, local_addresses: dip }}\n"
    );
    let only = "pools:\n  - { name: only, servers: [{ address: 10.0.0.12, port: 80 }] }\n";
    gateway.load(&exact.replace("pools:\n", only));
    for network in 0..NETWORKS {
        let from = address(network, 10);
        assert_eq!(server_of(&client, &from, &at(8080), 2), "server 2");
        let stays = server_of(&client, &from, &at(80), 2);
        let known = format!("{from}:0");
        let own = rows.iter().map(ends).find(|[client, ..]| *client == known);
        let number = stays.strip_prefix("server ").unwrap();
        assert_eq!(own.unwrap()[2], format!("10.0.0.1{number}:0"));
    }
    gateway.finish();
}
