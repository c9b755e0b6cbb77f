//! State tables: each transition on a connection of its own, brought to its state by the recorded path.
//!
//! NAT's table is FULLNAT's too, which the recorded machine did not have: it is replayed through both. The server
//! answers the address that it saw. Through FULLNAT it acknowledges with all that it says, as servers do (RFC 9293
//! 3.4): what comes without, while the SYN waits for its answer, is taken for an older connection's there.

use super::facts::Mode;
use super::frames::{self, ACK, FIN, PSH, RST, SYN};
use super::gateway::{Gateway, Port};
use super::recording::{States, Transition};
use super::report::Check;
use super::rig;
use super::rules::Expected;
use super::{flows, sched, sctp};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The server.
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 11);
/// The first connection's source port.
const FIRST_PORT: u16 = 2001;

pub(super) fn replay(
    scenario: &States,
    gateway: &mut dyn Gateway,
    check: &mut Check<'_>,
) -> Result<(), String> {
    let modes: &[Mode] = match scenario.fwd.as_str() {
        "dr" => &[Mode::Dr],
        "tun" => &[Mode::Tun],
        "nat" => &[Mode::Nat, Mode::Fullnat],
        "fullnat" => &[Mode::Fullnat],
        other => return Err(format!("forwarding `{other}` is not known")),
    };
    sched::settings(gateway, scenario.sysctl.iter(), check);
    let mut port = FIRST_PORT;
    for &mode in modes {
        sched::command(gateway, "-C")?;
        table(scenario, mode, port, gateway, check)?;
        let used = u16::try_from(scenario.events.len()).map_err(|_| "too many events")?;
        port = port.checked_add(used).ok_or("too many events")?;
    }
    Ok(())
}

/// Replays the table through a server of this mode, each event from a source port of its own, from `first_port` on.
fn table(
    scenario: &States,
    mode: Mode,
    first_port: u16,
    gateway: &mut dyn Gateway,
    check: &mut Check<'_>,
) -> Result<(), String> {
    let talk = if scenario.events.iter().any(|event| event.chunk.is_some()) {
        Talk::Sctp
    } else {
        Talk::Tcp
    };
    let pool = if mode == Mode::Fullnat {
        format!(" --local-addresses {}", rig::LOCAL_ADDRESSES)
    } else {
        String::new()
    };
    let service = format!("{} {}:{}", talk.option(), rig::VIP, talk.port());
    sched::command(gateway, &format!("-A {service} -s rr{pool}"))?;
    sched::command(
        gateway,
        &format!("-a {service} -r {SERVER}:{} {}", talk.port(), mode.option()),
    )?;
    if let Some(line) = timeouts(&scenario.note) {
        sched::command(gateway, &line)?;
    }
    for (number, event) in scenario.events.iter().enumerate() {
        let what = event.packet().unwrap_or("?");
        let through = if mode == Mode::Fullnat { "FULLNAT " } else { "" };
        check.at(
            Some(number),
            &format!("{through}{} {} {what}", event.from, event.dir),
        );
        let port = u16::try_from(number)
            .ok()
            .and_then(|n| first_port.checked_add(n))
            .ok_or("too many events")?;
        if mode == Mode::Fullnat && event.dir == "out" && what == "-" {
            continue;
        }
        let mut connection = Connection {
            gateway: &mut *gateway,
            talk,
            acknowledges: mode == Mode::Fullnat,
            client: SocketAddr::new(rig::CLIENT.into(), port),
            local: None,
        };
        connection
            .transition(scenario, event, check)
            .map_err(|problem| format!("event {number}: {problem}"))?;
    }
    Ok(())
}

/// The recordings say only in words that `--set` came first.
fn timeouts(note: &str) -> Option<String> {
    let (_, values) = note.split_once("--set ")?;
    let values: Vec<_> = values
        .split_whitespace()
        .take_while(|word| word.parse::<u32>().is_ok())
        .collect();
    (values.len() == 3).then(|| format!("--set {}", values.join(" ")))
}

impl Transition {
    /// What is sent: flags or a chunk.
    fn packet(&self) -> Option<&str> {
        self.flags.as_deref().or(self.chunk.as_deref())
    }
}

/// The protocol of a table.
#[derive(Clone, Copy)]
enum Talk {
    Tcp,
    Sctp,
}

impl Talk {
    /// ipvsadm's option.
    fn option(self) -> &'static str {
        match self {
            Talk::Tcp => "-t",
            Talk::Sctp => "--sctp-service",
        }
    }

    /// The port of the service and of its server.
    fn port(self) -> u16 {
        match self {
            Talk::Tcp => 80,
            Talk::Sctp => 2905,
        }
    }

    /// The packet of these flags or this chunk.
    fn packet(
        self,
        from: SocketAddr,
        to: SocketAddr,
        from_client: bool,
        what: &str,
    ) -> Result<Vec<u8>, String> {
        match self {
            Talk::Tcp => {
                let (seq, ack) = if from_client { (1000, 2000) } else { (2000, 1001) };
                Ok(frames::tcp(from, to, flag_bits(what)?, seq, ack))
            }
            Talk::Sctp => {
                sctp::named(from, to, from_client, what).ok_or_else(|| format!("chunk `{what}` is not known"))
            }
        }
    }
}

struct Connection<'a> {
    gateway: &'a mut dyn Gateway,
    talk: Talk,
    /// Whether all that the server says acknowledges.
    acknowledges: bool,
    client: SocketAddr,
    /// Whom the server answers: the source of the last packet that it got.
    local: Option<SocketAddr>,
}

impl Connection<'_> {
    fn transition(
        &mut self,
        scenario: &States,
        event: &Transition,
        check: &mut Check<'_>,
    ) -> Result<(), String> {
        if event.from != "NEW" {
            let key = if event.seen_output {
                format!("{}/seen", event.from)
            } else {
                event.from.clone()
            };
            let path = scenario
                .paths
                .get(&key)
                .ok_or_else(|| format!("no path leads to {key}"))?;
            for step in path {
                let (direction, what) = step
                    .split_once(' ')
                    .ok_or_else(|| format!("not a step: {step}"))?;
                self.send(direction, what)?;
            }
            if self.state().map(|(state, _)| state).as_ref() != Some(&event.from) {
                let seen = Expected::State(self.state().map(|(state, left)| (state, left.as_secs())));
                check.fail(
                    &format!("{} after {}", event.from, path.join(", ")),
                    &seen.to_string(),
                );
                return Ok(());
            }
        }
        self.send(&event.dir, event.packet().ok_or("neither flags nor a chunk")?)?;
        let state = self.state();
        // SCTP's timers are no round numbers, 4 and 61 seconds, so that `timeout` is not what the kernel has.
        let (timeout, seen) = if let (Talk::Sctp, Some(shown)) = (self.talk, event.shown) {
            (
                shown,
                state.map(|(state, left)| (state, flows::rounded(left, shown, 2))),
            )
        } else {
            let timeout = event
                .timeout
                .or(event.shown.map(|shown| shown + 1))
                .unwrap_or_default();
            (
                timeout,
                state.map(|(state, left)| (state, rounded(left, timeout))),
            )
        };
        let expected = event.to.clone().map(|to| (to, timeout));
        check.expect(Expected::State(expected), &Expected::State(seen));
        Ok(())
    }

    fn send(&mut self, direction: &str, what: &str) -> Result<(), String> {
        if direction == "in" {
            let service = SocketAddr::new(rig::VIP.into(), self.talk.port());
            let packet = self.talk.packet(self.client, service, true, what)?;
            let injected = self.gateway.inject(Port::Wan, &frames::frame(Port::Wan, &packet));
            self.local = frames::source_towards_server(&injected).or(self.local);
        } else {
            let local = self
                .local
                .ok_or("no packet has reached the server, so it cannot answer")?;
            let server = SocketAddr::new(SERVER.into(), self.talk.port());
            let what = match what {
                "F" if self.acknowledges => "FA",
                "R" if self.acknowledges => "RA",
                other => other,
            };
            let packet = self.talk.packet(server, local, false, what)?;
            self.gateway.inject(Port::Lan, &frames::frame(Port::Lan, &packet));
        }
        Ok(())
    }

    fn state(&mut self) -> Option<(String, Duration)> {
        let client = self.client;
        let found = self
            .gateway
            .connections()
            .into_iter()
            .find(|connection| connection.client == client)?;
        Some((found.state, found.remaining))
    }
}

/// Whole seconds left, as those that it was armed with when not more than one has passed.
fn rounded(left: Duration, timeout: u64) -> u64 {
    let armed = Duration::from_secs(timeout);
    if left <= armed && left + Duration::from_secs(1) >= armed {
        timeout
    } else {
        left.as_secs()
    }
}

fn flag_bits(name: &str) -> Result<u8, String> {
    if name == "-" {
        return Ok(0);
    }
    name.chars().try_fold(0, |bits, letter| match letter {
        'S' => Ok(bits | SYN),
        'A' => Ok(bits | ACK),
        'F' => Ok(bits | FIN),
        'R' => Ok(bits | RST),
        'P' => Ok(bits | PSH),
        _ => Err(format!("flags `{name}` are not known")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_may_name_timeouts() {
        assert_eq!(
            timeouts("after --set 100 20 30").as_deref(),
            Some("--set 100 20 30")
        );
        assert_eq!(timeouts("secure_tcp=3: the denial-of-service table"), None);
        assert_eq!(timeouts("--set 1 2"), None);
    }

    #[test]
    fn flags_by_letter() {
        assert_eq!(
            (flag_bits("SA"), flag_bits("-"), flag_bits("X").is_err()),
            (Ok(SYN | ACK), Ok(0), true)
        );
    }

    #[test]
    fn a_second_may_have_passed() {
        assert_eq!(rounded(Duration::from_millis(59_900), 60), 60);
        assert_eq!(rounded(Duration::from_millis(60_100), 60), 60);
        assert_eq!(rounded(Duration::from_secs(120), 60), 120);
        assert_eq!(rounded(Duration::from_secs(10), 60), 10);
    }
}
