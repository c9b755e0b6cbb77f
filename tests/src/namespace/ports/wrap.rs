//! A small pool that goes round many times within the server's TIME_WAIT, under clients in the kernel's own TCP.

use super::server::{ANSWER, CLOSE, Server};
use super::{FIRST, Family, V4, V6, of_address};
use crate::lab::{Gateway, Host, number};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Local ports towards the one server.
const PORTS: u16 = 64;
/// Clients at once. A connection that is closing keeps its port until its client's last segment has been seen: on a busy
/// machine there can be many of those at once, and a pool that runs out is another test's.
const CLIENTS: usize = 16;
/// Connections of each client in a round.
const CONNECTIONS: usize = 30;
/// Rounds, each with another setting of `tcp_timestamps`.
const ROUNDS: usize = 9;
/// A lost SYN is sent again after a second, and the reset of a refused one brings the next within milliseconds; both are
/// counted. This is for what is not: no machine is so busy that a connection takes so long.
const LONGEST: Duration = Duration::from_secs(20);

/// Counters of a kernel by which it tells of a segment that it did not take, or of SYNs that it had to repeat. Those that
/// it does not have are 0.
pub(super) fn refusals(host: &Host) -> Vec<(String, u64)> {
    counters(
        host,
        &[
            "TcpExtPAWSEstab",
            "TcpExtPAWSTimewait",
            "TcpExtPAWSActive",
            "TcpExtTCPChallengeACK",
            "TcpExtTCPSYNChallenge",
            "TcpExtTCPACKSkippedTimeWait",
            "TcpExtTCPACKSkippedFinWait2",
            "TcpExtTCPACKSkippedSynRecv",
            "TcpExtTCPACKSkippedPAWS",
            "TcpExtTCPACKSkippedSeq",
            "TcpExtTCPSynRetrans",
            "TcpExtEmbryonicRsts",
            "TcpAttemptFails",
        ],
    )
}

fn counters(host: &Host, names: &[&str]) -> Vec<(String, u64)> {
    let table = host.run(&format!("nstat -asz {}", names.join(" ")));
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap().to_owned();
        (name, words.next().unwrap().parse().unwrap())
    })
    .collect()
}

/// A connection of this machine from one of its addresses. The kernel chooses the port when it knows the destination.
pub(super) fn connect_from(source: IpAddr, destination: SocketAddr) -> io::Result<TcpStream> {
    let family = if source.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let descriptor = socket(family, SockType::Stream, SockFlag::empty(), None)?;
    setsockopt(&descriptor, sockopt::IpBindAddressNoPort, &true)?;
    let limit = TimeVal::seconds(LONGEST.as_secs().cast_signed());
    setsockopt(&descriptor, sockopt::SendTimeout, &limit)?;
    let raw = descriptor.as_raw_fd();
    bind(raw, &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    connect(raw, &SockaddrStorage::from(destination))?;
    let stream = TcpStream::from(descriptor);
    stream.set_read_timeout(Some(LONGEST))?;
    Ok(stream)
}

/// One client's connections, one after another; how long the longest took, or what went wrong.
fn ask(source: IpAddr, vip: SocketAddr) -> Result<Duration, String> {
    let mut longest = Duration::ZERO;
    for n in 0..CONNECTIONS {
        let begun = Instant::now();
        let answer = connect_from(source, vip).and_then(|mut stream| {
            stream.write_all(&[CLOSE])?;
            let mut answer = vec![];
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        });
        match answer {
            Ok(answer) if answer == ANSWER => longest = longest.max(begun.elapsed()),
            other => return Err(format!("connection {n} from {source}: {other:?}")),
        }
    }
    Ok(longest)
}

fn a_pool_goes_round(family: Family) {
    let lab = family.lab();
    let (client, host) = (lab.client(), lab.server(1));
    let server = Server::start(&host, family.server(1));
    let gateway = Gateway::start(&lab, &family.yaml(1, PORTS, ""));
    let sources: Vec<IpAddr> = family
        .own
        .iter()
        .map(|address| address.split('/').next().unwrap().parse().unwrap())
        .collect();
    let vip = family.vip();
    // One connection first, by which the gateway learns its neighbours.
    let mut longest = client.inside(|| ask(sources[0], vip)).unwrap();
    let mut waiting = 0;
    for round in 0..ROUNDS {
        // Without timestamps, with a clock of its own for each pair of addresses, and with one clock for all.
        let setting = round % 3;
        client.run(&format!("sysctl -qw net.ipv4.tcp_timestamps={setting}"));
        let slowest = client.inside(|| {
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|n| {
                        scope.spawn({
                            let sources = &sources;
                            move || ask(sources[n % sources.len()], vip)
                        })
                    })
                    .collect();
                let results = clients.into_iter().map(|client| client.join().unwrap());
                results.collect::<Result<Vec<Duration>, String>>()
            })
        });
        let slowest = slowest.unwrap_or_else(|error| {
            let told = [&client, &host].map(refusals);
            panic!("round {round}: {error}\n{told:?}\n{:?}", gateway.rows("drops"))
        });
        longest = slowest.into_iter().fold(longest, Duration::max);
        let listed = host.run("ss -Htan state time-wait");
        waiting = waiting.max(listed.lines().count());
    }
    let total = ROUNDS * CLIENTS * CONNECTIONS + CONNECTIONS;
    println!("{total} connections over {PORTS} ports: {waiting} in TIME_WAIT, longest {longest:?}");
    for host in [&client, &host] {
        for (name, value) in refusals(host) {
            assert_eq!(value, 0, "{name} in {}", host.namespace());
        }
    }
    assert!(longest < LONGEST, "{longest:?}");
    // Each port has been taken some seventy times, most of them from the server's TIME_WAIT.
    assert!(waiting > usize::from(PORTS) / 2, "{waiting} in TIME_WAIT");
    let seen = server.clients();
    assert_eq!(seen.len(), usize::from(PORTS), "distinct clients at the server");
    let of_pool =
        |end: &SocketAddr| end.ip() == family.local() && (FIRST..FIRST + PORTS).contains(&end.port());
    assert!(seen.iter().all(of_pool), "{seen:?}");
    let row = gateway.named("services", "web");
    assert_eq!(number(&row, "connections"), total as u64, "{row}");
    assert_eq!(gateway.dropped("local_ports_exhausted"), 0);
    let recycled = of_address(&gateway, "recycled");
    assert!(recycled > total as u64 / 2, "{recycled} recycled of {total}");
    let text = gateway.metrics();
    let series = format!(
        "tidegate_local_ports_recycled_total{{pool=\"dip\",address=\"{}\"}} {recycled}\n",
        family.local
    );
    assert!(text.contains(&series), "no {series} in\n{text}");
    gateway.finish();
}

#[test]
fn a_small_pool_goes_round_within_time_wait_and_nothing_stalls() {
    a_pool_goes_round(V4);
}

#[test]
fn a_small_pool_goes_round_within_time_wait_and_nothing_stalls_in_ipv6() {
    a_pool_goes_round(V6);
}
