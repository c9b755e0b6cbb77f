//! What `tidegate server-setup` prints, run for real: servers are ready after it, also when it runs twice, and as they
//! were after `--undo`.

use crate::balance::curl;
use crate::lab::{Gateway, Host, Lab, Nginx, authority};
use crate::modes::NETWORK;

const VIPS: [&str; 2] = ["203.0.113.111", "2001:db8:1::111"];

fn yaml() -> String {
    NETWORK.to_owned()
        + "pools:\n\
           \x20 - { name: four, servers: [{ address: 10.0.0.11 }, { address: 10.0.0.12 }] }\n\
           \x20 - { name: six, servers: [{ address: \"fd00::11\" }, { address: \"fd00::12\" }] }\n\
           services:\n\
           \x20 - { name: dr, listen: \"203.0.113.111:80/tcp\", pool: four, mode: dr, scheduler: rr }\n\
           \x20 - { name: dr6, listen: \"[2001:db8:1::111]:80/tcp\", pool: six, mode: dr, scheduler: rr }\n\
           \x20 - { name: nat, listen: \"203.0.113.110:80/tcp\", pool: four, mode: nat, scheduler: rr }\n\
           \x20 - { name: nat6, listen: \"[2001:db8:1::110]:80/tcp\", pool: six, mode: nat, scheduler: rr }\n"
}

/// All that the scripts change on a machine.
fn state(host: &Host) -> String {
    host.run("ip -o address show dev lo")
        + &host.run("ip route show default")
        + &host.run("ip -6 route show default")
        + &host.run(
            "sysctl net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce net.ipv4.conf.lo.arp_ignore \
             net.ipv4.conf.lo.arp_announce net.ipv4.conf.lan0.rp_filter net.ipv6.conf.lan0.accept_ra_defrtr",
        )
}

#[test]
fn servers_are_ready_after_it_and_as_before_after_undo() {
    let lab = Lab::dual();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let gateway = Gateway::start(&lab, &yaml());
    let servers = [(1, ["10.0.0.11", "fd00::11"]), (2, ["10.0.0.12", "fd00::12"])];
    for number in [1, 2] {
        // As many distributions have it: a reply must leave where the request came in.
        lab.server(number).run("sysctl -qw net.ipv4.conf.all.rp_filter=1");
    }
    let before = [1, 2].map(|number| state(&lab.server(number)));
    let each = |undo: bool| {
        for (number, addresses) in servers {
            for (service, address) in ["dr", "dr6"].into_iter().zip(addresses) {
                lab.server(number)
                    .shell(&gateway.server_setup(service, address, undo));
            }
        }
    };
    each(false);
    let ready = [1, 2].map(|number| state(&lab.server(number)));
    each(false);
    assert_eq!([1, 2].map(|number| state(&lab.server(number))), ready);
    for vip in VIPS {
        assert!(ready[0].contains(vip), "{}", ready[0]);
        assert_eq!(curl(&lab.client(), &authority(vip), 20).len(), 20);
    }
    assert_quiet(&lab);
    each(true);
    assert_eq!([1, 2].map(|number| state(&lab.server(number))), before);
    each(true);
    gateway.finish();
}

/// Asserts that no server says by ARP that it has the VIP, when anyone on its link asks.
fn assert_quiet(lab: &Lab) {
    let asker = lab.host("switch");
    asker.run("ip address add 10.0.0.99/24 dev lan");
    asker.run(&format!("ip route add {}/32 dev lan", VIPS[0]));
    asker.attempt(&format!("ping -c 1 -W 1 {}", VIPS[0]));
    let heard = asker.run("ip neighbour show dev lan");
    assert!(heard.contains(VIPS[0]), "nobody was asked: {heard}");
    for number in [1, 2] {
        let mac = lab.server(number).run("cat /sys/class/net/lan0/address");
        assert!(!heard.contains(mac.trim()), "server {number} answered: {heard}");
    }
}

#[test]
fn nat_servers_get_their_default_route_and_lose_it() {
    let lab = Lab::dual();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let gateway = Gateway::start(&lab, &yaml());
    for (service, address, family, way) in [
        ("nat", "10.0.0.1", "ip -4", "via 10.0.0.1 dev lan0"),
        ("nat6", "fd00::1", "ip -6", "via fd00::1 dev lan0"),
    ] {
        for number in [1, 2] {
            let (server, address) = (lab.server(number), format!("{address}{number}"));
            server.run(&format!("{family} route flush exact default"));
            for _ in 0..2 {
                server.shell(&gateway.server_setup(service, &address, false));
            }
            let routes = server.run(&format!("{family} route show default"));
            assert!(routes.contains(way), "{routes}");
            for _ in 0..2 {
                server.shell(&gateway.server_setup(service, &address, true));
            }
            assert_eq!(server.run(&format!("{family} route show default")), "");
        }
    }
    gateway.finish();
}

#[test]
fn a_machine_that_is_no_server_is_left_alone() {
    let lab = Lab::dual();
    let gateway = Gateway::start(&lab, &yaml());
    let script = gateway.server_setup("dr", "10.0.0.12", false);
    let before = state(&lab.server(1));
    let output = lab
        .server(1)
        .command("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(message, "this machine has none of: 10.0.0.12\n");
    assert_eq!(state(&lab.server(1)), before);
    gateway.finish();
}
