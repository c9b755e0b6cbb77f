//! Mistakes and expectations that the field has taught, each with its case number.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::net::IpAddr;

use dataplane::scheduler::SchedulerKind;
use dataplane::service::NoService;
use tidegate::config::{self, Config};

/// A file with one port, servers at 10.0.0.11 and 10.0.0.12, and the given further lines.
fn parse(servers: &str, rest: &str) -> Result<Config, String> {
    let text = format!(
        "ports: [{{ name: lan, device: net_null0, addresses: [203.0.113.1/24, 10.0.0.1/24] }}]\n\
         local_addresses: [{{ name: dip, port: lan, addresses: [10.0.0.200-203] }}]\n\
         pools: [{{ name: web, servers: {servers} }}]\n{rest}\n"
    );
    config::parse("t", &text).map_err(|errors| errors.to_string())
}

const TWO: &str = "[{ address: 10.0.0.11 }, { address: 10.0.0.12 }]";

#[test]
fn lport_04_a_service_without_local_addresses_is_named() {
    let error = parse(
        TWO,
        "services: [{ name: shop, listen: 10.0.0.100:80/tcp, pool: web, mode: fullnat }]",
    );
    let error = error.expect_err("no local addresses");
    assert_eq!(
        error,
        "t:4:12: services[0]: `fullnat` without `local_addresses`: nothing can be sent to a server; write \
         `local_addresses: dip`, say"
    );
}

#[test]
fn lport_04_services_share_local_addresses_and_short_ranges_expand() {
    let services = "services:\n\
        - { name: a, listen: 10.0.0.100:80/tcp, pool: web, mode: fullnat, local_addresses: dip }\n\
        - { name: b, listen: 10.0.0.100:81/tcp, pool: web, mode: fullnat, local_addresses: [dip] }";
    let config = parse(TWO, services).expect("both may use the group");
    assert_eq!(
        (
            &*config.services[0].local_addresses,
            &*config.services[1].local_addresses
        ),
        (&[0][..], &[0][..])
    );
    let addresses: Vec<String> = config.local_addresses[0]
        .addresses()
        .map(|address| address.to_string())
        .collect();
    assert_eq!(
        addresses,
        ["10.0.0.200", "10.0.0.201", "10.0.0.202", "10.0.0.203"]
    );
}

#[test]
fn rld_05_a_server_without_a_port_gets_that_of_each_listener() {
    let servers = "[{ address: 10.0.0.11 }, { address: 10.0.0.12, port: 8080 }]";
    let services = "services: [{ name: a, listen: [10.0.0.100:80/tcp, 10.0.0.100:2333/tcp], pool: web, \
        mode: fullnat, local_addresses: dip }]";
    let config = parse(servers, services).expect("is right");
    let ports = |server: usize| {
        let server = config.pools[0].servers[server];
        config.services[0]
            .listeners
            .iter()
            .map(|listener| server.port_for(listener))
            .collect::<Vec<_>>()
    };
    assert_eq!((ports(0), ports(1)), (vec![80, 2333], vec![8080, 8080]));
}

#[test]
fn rld_14_names_missing_parts_and_families_are_refused_or_filled_in() {
    let table = [
        ("203.0.113.10:80/tcp", "[{ address: 10.0.0.11 }]", ""),
        ("203.0.113.10:80/tcp", "[{ address: 10.0.0.11, port: 80 }]", ""),
        (
            "203.0.113.10:http/tcp",
            TWO,
            "`http`: names of ports are not looked up; write 80",
        ),
        (
            "203.0.113.10:nosuch/tcp",
            TWO,
            "`nosuch`: names of ports are not looked up; write its number, 1 to 65535",
        ),
        ("203.0.113.10:0/tcp", TWO, "needs `persistence`"),
        (
            "203.0.113.10/tcp",
            TWO,
            "`203.0.113.10` has no port; write it as 203.0.113.10:80/tcp",
        ),
        (
            "203.0.113.10:80",
            TWO,
            "write 203.0.113.10:80/tcp, 203.0.113.10:80/udp or 203.0.113.10:80/sctp",
        ),
        ("203.0.113.10:80/http", TWO, "`http` is not a protocol"),
        (
            "'[2001:db8::10]:80/tcp'",
            TWO,
            "server 10.0.0.11 is IPv4, but service `a` listens on [2001:db8::10]:80/tcp",
        ),
        (
            "203.0.113.10:80/tcp",
            "[{ address: '2001:db8::11' }]",
            "server 2001:db8::11 is in no network of a port",
        ),
        (
            "203.0.113.10:80/tcp",
            "[{ address: 10.0.0.11, port: http }]",
            "names of ports are not looked up; write 80",
        ),
        (
            "203.0.113.10:80/tcp",
            "[{ address: 10.0.0.11, port: 0 }]",
            "0 is out of range",
        ),
        (
            "203.0.113.10:80/tcp",
            "[{ address: 10.0.0.11:80 }]",
            "write `address: 10.0.0.11, port: 80`",
        ),
        (
            "www.example.net:80/tcp",
            TWO,
            "`www.example.net` is not an IP address",
        ),
    ];
    for (listen, servers, expected) in table {
        let services = format!("services: [{{ name: a, listen: {listen}, pool: web, mode: dr }}]");
        match parse(servers, &services) {
            Ok(config) => {
                assert_eq!(expected, "", "{listen}, {servers}");
                assert_eq!(
                    config.pools[0].servers[0].port_for(&config.services[0].listeners[0]),
                    80
                );
            }
            Err(error) => assert!(
                !expected.is_empty() && error.contains(expected),
                "{listen}, {servers}: {error}"
            ),
        }
    }
}

#[test]
fn ops_03_one_packet_is_for_udp() {
    let service = |protocol| {
        format!(
            "services: [{{ name: a, listen: 10.0.0.100:53/{protocol}, pool: web, mode: dr, one_packet: true }}]"
        )
    };
    assert!(parse(TWO, &service("udp")).expect("is right").services[0].one_packet);
    let error = parse(TWO, &service("tcp")).expect_err("is TCP");
    assert!(error.contains("one-packet scheduling is for UDP only"), "{error}");
}

#[test]
fn sch_03_weights_go_up_to_2147483647() {
    for (weight, right) in [
        ("0", true),
        ("65536", true),
        ("2147483647", true),
        ("2147483648", false),
        ("-1", false),
    ] {
        let servers = format!("[{{ address: 10.0.0.11, weight: {weight} }}]");
        assert_eq!(parse(&servers, "").is_ok(), right, "{weight}");
    }
}

#[test]
fn rld_02_a_configured_weight_of_0_stays_0() {
    let config = parse("[{ address: 10.0.0.11, weight: 0 }, { address: 10.0.0.12 }]", "").expect("is right");
    let weights: Vec<u32> = config.pools[0]
        .servers
        .iter()
        .map(|server| server.weight)
        .collect();
    assert_eq!(weights, [0, 1]);
}

#[test]
fn sch_11_an_unknown_scheduler_lists_those_that_exist() {
    let service = |scheduler| {
        format!(
            "services: [{{ name: a, listen: 10.0.0.100:80/tcp, pool: web, mode: dr, scheduler: {scheduler} }}]"
        )
    };
    let error = parse(TWO, &service("loadbalance")).expect_err("is unknown");
    assert!(
        error.contains("unknown scheduler `loadbalance`; available: `rr`, `wrr`, `lc`, `wlc`,"),
        "{error}"
    );
    assert_eq!(
        parse(TWO, &service("rr")).expect("is right").services[0].scheduler,
        SchedulerKind::Rr
    );
    let hashed = parse(TWO, &service("sh, scheduler_flags: [sh-port, flag-1]")).expect("is right");
    let flags: Vec<_> = hashed.services[0]
        .scheduler_flags
        .names(SchedulerKind::Sh)
        .collect();
    assert_eq!(flags, ["sh-fallback", "sh-port"]);
    let silent = "services: [{ name: a, listen: 10.0.0.100:80/tcp, pool: web, mode: dr }]";
    let by_default = &parse(TWO, silent).expect("is right").services[0];
    assert_eq!(
        (by_default.scheduler.name(), by_default.scheduler_flags.bits()),
        ("wlc", 0)
    );
}

#[test]
fn rst_01_the_policy_for_other_ports_of_a_vip() {
    let policy = |rest| parse(TWO, rest).expect("is right").settings;
    assert_eq!(
        (policy("").no_service, policy("").icmp_rate),
        (NoService::Reject, 1000)
    );
    assert_eq!(
        policy("settings: { no_service: drop }").no_service,
        NoService::Drop
    );
}

#[test]
fn multi_01_one_server_behind_two_vips() {
    let services = "services:\n\
        - { name: a, listen: 10.0.0.100:80/tcp, pool: web, mode: dr }\n\
        - { name: b, listen: 10.0.0.101:80/tcp, pool: web, mode: fullnat, local_addresses: dip }";
    let config = parse(TWO, services).expect("is right");
    assert_eq!(
        config.pools[config.services[1].pool].servers[0].address,
        IpAddr::from([10, 0, 0, 11])
    );
}

/// PER-04, PER-05: any mask is taken, and all ports of a VIP with persistence.
#[test]
fn per_04_and_per_05_masks_and_all_ports() {
    let services = "services:\n\
        - { name: a, listen: \"203.0.113.100:0/tcp\", pool: web, mode: nat, persistence: { timeout: 300s } }\n\
        - { name: b, listen: \"203.0.113.100:80/tcp\", pool: web, mode: nat, persistence: { netmask: 0.0.0.0 } }\n\
        - { name: c, listen: \"203.0.113.100:81/tcp\", pool: web, mode: nat, persistence: { netmask: 255.0.255.0 } }";
    let config = parse(TWO, services).unwrap();
    let kept: Vec<_> = config
        .services
        .iter()
        .map(|service| service.persistence.unwrap())
        .map(|kept| (kept.timeout / 100, kept.netmask.to_string()))
        .collect();
    let row = |seconds, netmask: &str| (seconds, netmask.to_owned());
    assert_eq!(
        kept,
        [
            row(300, "255.255.255.255"),
            row(360, "0.0.0.0"),
            row(360, "255.0.255.0")
        ]
    );
    let server = config.pools[0].servers[0];
    assert_eq!(server.port_for(&config.services[0].listeners[0]), 0);
}

/// FTP-03: control and data by one mark; a service in each family that the mark's rules have.
#[test]
fn ftp_03_a_mark_gathers_ports_and_families() {
    let config = parse(
        "[{ address: 10.0.0.11 }]",
        "marks:\n\
         - { mark: 21, destination: 203.0.113.100, protocol: tcp, ports: [21, 10000-20000], input: lan }\n\
         - { mark: 22, destination: [10.9.0.0/16], source: [198.51.100.0/24, 192.0.2.1] }\n\
         services:\n\
         - { name: ftp, mark: 21, pool: web, mode: dr, persistence: { timeout: 300 } }\n\
         - { name: rest, mark: 22, pool: web, mode: dr }",
    )
    .unwrap();
    let keys: Vec<String> = config
        .services
        .iter()
        .flat_map(|service| service.listeners.iter().map(ToString::to_string))
        .collect();
    assert_eq!(keys, ["FWM 21", "FWM 22"]);
    let mark = &config.marks[0];
    assert_eq!(
        (mark.ports.len(), mark.ports[1].last, mark.input),
        (2, 20_000, Some(0))
    );
    assert_eq!(config.marks[1].sources[1].to_string(), "192.0.2.1/32");
    assert!(
        config
            .warnings
            .iter()
            .all(|warning| !warning.path.starts_with("marks"))
    );
}
