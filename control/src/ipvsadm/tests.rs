use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

fn ok(line: &str) -> Command {
    parse_line(line).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn error(line: &str) -> (u8, String) {
    let UsageError { exit, message } = parse_line(line).expect_err(line);
    (exit, message)
}

fn service(line: &str) -> Service {
    match ok(line) {
        Command::AddService(service) | Command::EditService(service) => service,
        other => panic!("{line}: {other:?}"),
    }
}

fn server(line: &str) -> Server {
    match ok(line) {
        Command::AddServer(_, server) | Command::EditServer(_, server) => server,
        other => panic!("{line}: {other:?}"),
    }
}

const VIP: ServiceId = ServiceId::Address {
    protocol: Protocol::Tcp,
    address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 100)),
    port: 80,
};

#[test]
fn an_edit_returns_what_it_does_not_name_to_its_default() {
    let edited = service("-E -t 10.0.0.100:80");
    assert_eq!(
        (edited.id, edited.scheduler.as_str(), edited.persistence),
        (VIP, "wlc", None)
    );
    let edited = server("-e -t 10.0.0.100:80 -r 192.168.1.11:80");
    assert_eq!((edited.forwarding, edited.weight), (Forwarding::Dr, 1));
    assert_eq!((edited.upper_threshold, edited.lower_threshold), (0, 0));
}

#[test]
fn dr_and_tunnel_servers_take_the_port_of_the_service() {
    let port = |options: &str| {
        server(&format!("-a -t 10.0.0.100:80 -r 192.168.1.11:8080 {options}"))
            .endpoint
            .port
    };
    assert_eq!((port(""), port("-g"), port("-i")), (80, 80, 80));
    let ignored = |options: &str| server(&format!("-a -t 10.0.0.100:80 -r {options}")).ignored_port;
    assert_eq!(ignored("192.168.1.11:8080 -g"), Some(8080));
    assert_eq!(ignored("[fd01::11]:8080 -i"), Some(8080));
    assert_eq!(
        ["192.168.1.11:80 -g", "192.168.1.11 -i", "192.168.1.11:8080 -m"].map(ignored),
        [None; 3]
    );
    assert_eq!((port("-m"), port("--fullnat")), (8080, 8080));
    assert_eq!(server("-a -t 10.0.0.100:80 -r 192.168.1.11 -m").endpoint.port, 80);
    assert_eq!(server("-a -f 1 -r 192.168.1.11:8080 -g").endpoint.port, 8080);
    assert_eq!(server("-a -r 192.168.1.11 -t 10.0.0.100:80 -m").endpoint.port, 0);
    let deleted = ok("-d -t 10.0.0.100:80 -r 192.168.1.11:8080");
    let endpoint = Endpoint {
        address: "192.168.1.11".parse().unwrap(),
        port: 8080,
    };
    assert_eq!(deleted, Command::DeleteServer(VIP, endpoint));
}

#[test]
fn every_way_to_write_an_option() {
    for line in [
        "ipvsadm -A -t 10.0.0.100:80 -s rr -p 50",
        "-At 10.0.0.100:80 -s=rr -p=50",
        "-At10.0.0.100:80 -srr -p50",
        "--add-service --tcp-service 10.0.0.100:80 --scheduler rr --persistent 50",
        "--add-service --tcp-service=10.0.0.100:80 --scheduler=rr --persistent=50 --sort --",
        "-A -p 50 -s 'rr' -t \"10.0.0.100:http\"",
    ] {
        let service = service(line);
        let timeout = service.persistence.map(|p| p.timeout);
        assert_eq!(
            (service.id, service.scheduler.as_str(), timeout),
            (VIP, "rr", Some(50)),
            "{line}"
        );
    }
}

#[test]
fn services_of_every_kind() {
    let id = |line: &str| service(line).id;
    assert_eq!(
        id("-A -f 4294967295 -6"),
        ServiceId::Mark {
            mark: u32::MAX,
            family: Family::V6
        }
    );
    let v6 = ServiceId::Address {
        protocol: Protocol::Sctp,
        address: "fd00::100".parse().unwrap(),
        port: 2905,
    };
    assert_eq!(id("-A --sctp-service [fd00::100]:2905"), v6);
    let sip = service("-A -u 10.0.0.100:5060 -s wlc -p 60 --pe sip -o");
    assert_eq!((sip.engine.as_deref(), sip.one_packet), (Some("sip"), true));
    assert_eq!(
        service("-A -t 10.0.0.100:80 -p").persistence.unwrap().timeout,
        360
    );
    assert_eq!(service("-A -t 10.0.0.100:80 -M 255.255.255.0").persistence, None);
    let mask = |line: &str| service(line).persistence.unwrap().mask;
    assert_eq!(
        mask("-A -t 10.0.0.100:80 -p 10 -M 255.0.255.0"),
        Mask::V4(Ipv4Addr::new(255, 0, 255, 0))
    );
    assert_eq!(mask("-A -t [fd00::100]:80 -p 10 -M 64"), Mask::V6(64));
    assert_eq!(mask("-A -M 255.0.0.0 -t [fd00::100]:80 -p 10"), Mask::V6(128));
    let flags = service("-A -t 10.0.0.100:80 -b ,sh-port,sh-fallback, -s sh").flags;
    assert!(
        flags.has(SchedulerFlags::PORT.with(SchedulerFlags::FALLBACK)) && !flags.has(SchedulerFlags::THIRD)
    );
    let fullnat = service("-A -t 10.0.0.100:80 --local-addresses dip");
    assert_eq!(fullnat.local_addresses.as_deref(), Some("dip"));
}

#[test]
fn tunnels_of_every_kind() {
    let tunnel =
        |options: &str| server(&format!("-a -u 10.0.0.100:53 -r 192.168.1.11 -i {options}")).forwarding;
    assert_eq!(tunnel(""), Forwarding::Tun(Tunnel::Ipip));
    assert_eq!(
        tunnel("--tun-type gue --tun-port 6080 --tun-remcsum"),
        Forwarding::Tun(Tunnel::Gue {
            port: 6080,
            checksum: TunnelChecksum::Remote
        })
    );
    let checksum = TunnelChecksum::Full;
    assert_eq!(
        tunnel("--tun-type gre --tun-csum"),
        Forwarding::Tun(Tunnel::Gre { checksum })
    );
    server("-a -t [fd00::100]:80 -r 192.168.1.11:80 -i");
}

#[test]
fn timeouts_and_clear() {
    assert_eq!(
        ok("--set 0 5 2678400"),
        Command::SetTimeouts {
            tcp: 0,
            tcp_fin: 5,
            udp: 2_678_400
        }
    );
    assert_eq!(
        ok("--set 1 -- 2 3"),
        Command::SetTimeouts {
            tcp: 1,
            tcp_fin: 2,
            udp: 3
        }
    );
    assert_eq!((ok("-C"), ok("--clear")), (Command::Clear, Command::Clear));
}

/// A line, its exit status, what it prints: as ipvsadm 1.31 does, beyond what the recordings hold.
const ERRORS: &[(&str, u8, &str)] = &[
    (
        "-t 10.0.0.100:80 -A",
        255,
        "Try `ipvsadm -h' or 'ipvsadm --help' for more information.",
    ),
    (
        "--add -t 10.0.0.100:80",
        255,
        "Try `ipvsadm -h' or 'ipvsadm --help' for more information.",
    ),
    (
        "bogus",
        255,
        "Try `ipvsadm -h' or 'ipvsadm --help' for more information.",
    ),
    ("bogus -A", 2, "unexpected argument bogus"),
    (
        "-add-service -t 10.0.0.100:80",
        2,
        "invalid option `-add-service'",
    ),
    ("-A --tcp 10.0.0.100:80", 255, "--tcp: unknown option"),
    ("-A -t 10.0.0.100:80 -oq", 255, "-oq: unknown option"),
    (
        "-A -t 10.0.0.100:80 --ops=1",
        255,
        "--ops=1: option does not take an argument",
    ),
    ("-At 10.0.0.100:80 -os", 255, "-os: missing argument"),
    ("-A -t 10.0.0.100:80 -p -w", 255, "-w: missing argument"),
    ("-A -t 10.0.0.100:80 -p -", 2, "unexpected argument -"),
    (
        "-A -t 10.0.0.100:80 -s rr -s rr --nosuch",
        2,
        "multiple 'scheduler' options specified",
    ),
    (
        "-A -t 10.0.0.100:80 -b nosuch extra",
        2,
        "unexpected argument extra",
    ),
    (
        "-A -t 10.0.0.100:80 -b sh-port,nosuch",
        2,
        "incompatible scheduler flag `sh-port'",
    ),
    (
        "-D -t 10.0.0.100:80 -b nosuch",
        2,
        "invalid scheduler flag `nosuch'",
    ),
    (
        "-A -w 3 -n",
        2,
        "Illegal 'numeric' option with the 'add-service' command",
    ),
    (
        "-A -w 3",
        2,
        "You need to supply the 'service-address' option for the 'add-service' command",
    ),
    (
        "-A -t 10.0.0.100:0 -w 3",
        2,
        "Illegal 'weight' option with the 'add-service' command",
    ),
    (
        "-A -t 10.0.0.100:0 -o",
        2,
        "Zero port specified for non-persistent service",
    ),
    (
        "-A --sync-maxlen 3 --mcast-ttl 3 -f 1",
        2,
        "Illegal 'mcast-ttl' option with the 'add-service' command",
    ),
    ("-A -6 -f 1", 2, "-6 used before -f\n"),
    (
        "-A -t [fd00::100]",
        2,
        "illegal virtual server address[:port] specified",
    ),
    (
        "-a -r 1.1.1.1:http -t 10.0.0.100:80",
        2,
        "illegal real server address[:port] specified",
    ),
    (
        "-a -t 10.0.0.100:80",
        2,
        "You need to supply the 'real-server' option for the 'add-server' command",
    ),
    (
        "-a -t 10.0.0.100:80 -r [fd01::1]:80 --tun-type gue",
        2,
        "Different address family is allowed only for tunneling servers",
    ),
    (
        "-a -t 10.0.0.100:80 -r 1.1.1.1 -i --tun-type gue --tun-port 5 --tun-nocsum --tun-remcsum",
        2,
        "The option 'tun-remcsum' conflicts with the 'tun-nocsum' option in the 'gue' tunnel type",
    ),
    (
        "-a -t 10.0.0.100:80 -r 1.1.1.1 --fullnat -m",
        2,
        "multiple 'forwarding-method' options specified",
    ),
    ("--set a -n", 2, "--set option requires 3 timeout values"),
    ("--set 1 2 a -n", 2, "invalid timeout value `a' specified"),
    ("--set 1 2 3 4", 2, "unexpected argument 4"),
    (
        "--set=1 2 3",
        255,
        "Try `ipvsadm -h' or 'ipvsadm --help' for more information.",
    ),
];

#[test]
fn errors_are_those_of_ipvsadm() {
    for (line, exit, message) in ERRORS {
        assert_eq!(error(line), (*exit, (*message).to_owned()), "{line}");
    }
}

#[test]
fn commands_without_counterpart_say_what_there_is() {
    assert_eq!(error("-Ln").0, 2);
    assert!(error("").1.contains("tidegate show services"));
    assert_eq!(error("-A -t '10.0.0.100:80").1, "the quote ' does not end");
}

proptest! {
    #[test]
    fn no_line_panics(
        words in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "-A", "-E", "-a", "-e", "-d", "-D", "-C", "--set", "-t", "-f", "-r", "-p", "-M", "-6", "-b", "-i",
                    "10.0.0.100:80", "1", "--tun-type", "gue", "--tun-port", "-w", "--", "[fd00::1]:80", "-s", "sh",
                ]).prop_map(str::to_owned),
                "[ -~é]{0,8}",
            ],
            0..9,
        )
    ) {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let _ = parse(&args);
        let _ = parse_line(&args.join(" "));
    }
}
