//! Packet flows: every packet that comes out, byte for byte, and the connection table after each event.

use super::frames;
use super::gateway::{Gateway, Port};
use super::masks::Masks;
use super::recording::{FlowConnection, FlowEvent, Flows};
use super::report::Check;
use super::rules::{Expected, Packet};
use super::{sched, turns, unsupported};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Commands that show something and change nothing.
const VIEWS: &[&str] = &["ipvsadm -L", "ipvsadm -S", "cat /proc/net/"];

pub(super) fn replay(
    scenario: &Flows,
    gateway: &mut dyn Gateway,
    check: &mut Check<'_>,
) -> Result<(), String> {
    sched::settings(gateway, scenario.sysctl.iter(), check);
    for line in &scenario.ipvsadm {
        sched::command(gateway, line)?;
    }
    for (number, event) in scenario.events.iter().enumerate() {
        check.at(Some(number), &event.op);
        if check.facts().has_thresholds {
            gateway.look_round();
        }
        self::event(event, gateway, check).map_err(|problem| format!("event {number}: {problem}"))?;
        if let Some(conns) = &event.conns {
            table(conns, gateway, check);
        }
    }
    Ok(())
}

fn event(event: &FlowEvent, gateway: &mut dyn Gateway, check: &mut Check<'_>) -> Result<(), String> {
    match event.op.as_str() {
        "packet" => packets(event, gateway, check),
        "wait" => {
            gateway.advance(Duration::from_millis(event.ms.ok_or("no time to wait")?));
            Ok(())
        }
        "ipvsadm" => sched::command(gateway, event.cmd.as_ref().ok_or("no command")?),
        "sh" => {
            let shell = event.cmd.as_ref().ok_or("no command")?;
            if shell
                .split(';')
                .all(|part| VIEWS.iter().any(|view| part.trim().starts_with(view)))
            {
                check.skip(&unsupported::VIEW);
                return Ok(());
            }
            shell.split(';').try_for_each(|part| route(part.trim(), gateway))
        }
        other => Err(format!("operation `{other}` is not known")),
    }
}

/// A command about the machine's routes.
fn route(command: &str, gateway: &mut dyn Gateway) -> Result<(), String> {
    let address = |text: &str| text.parse::<IpAddr>().map_err(|e| format!("{text}: {e}"));
    match command.split_whitespace().collect::<Vec<_>>()[..] {
        ["ip", "route", "add", "unreachable", to] => gateway.unreachable(address(to)?, true),
        ["ip", "route", "del", "unreachable", to] => gateway.unreachable(address(to)?, false),
        // What the kernel has learnt of paths is no part of what is compared, and nothing comes after it.
        ["ip", "route", "flush", "cache"] | ["ip", "route", "get", _] => Ok(()),
        _ => Err(format!("the shell command `{command}` is not known")),
    }
}

fn packets(event: &FlowEvent, gateway: &mut dyn Gateway, check: &mut Check<'_>) -> Result<(), String> {
    let port = match event.at.as_deref() {
        Some("client") => Port::Wan,
        Some("rs") => Port::Lan,
        other => return Err(format!("a packet at {other:?}")),
    };
    if event.in_hex.is_empty() {
        return Err(format!(
            "no bytes of {}",
            event.what.as_deref().unwrap_or("the packet")
        ));
    }
    let came: Vec<_> = event
        .in_hex
        .iter()
        .map(|hex| frames::unhex(hex))
        .collect::<Result<_, _>>()?;
    let gue_port = check.facts().gue_port;
    let mut masks = Masks::new(gue_port);
    let mut seen = Vec::new();
    for packet in &came {
        let injected = gateway.inject(port, &frames::frame(port, packet));
        for sent in &injected.sent {
            let Some(packet) = frames::packet(&sent.frame) else {
                continue;
            };
            let side = if sent.port == Port::Wan { "client" } else { "rs" }.to_owned();
            let (to, hex) = (frames::receiver(&sent.frame), masks.hex(packet));
            seen.push(Packet { side, to, hex });
        }
    }
    let mut masks = Masks::new(gue_port);
    let mut expected = Vec::new();
    for packet in &event.out {
        let hex = packet.hex.as_ref().ok_or("no bytes of a packet that came out")?;
        let hex = masks.hex(&frames::unhex(hex)?);
        expected.push(Packet {
            side: packet.nic.clone(),
            to: packet.to.clone(),
            hex,
        });
    }
    // The two ports are two queues: only the order within each is known.
    expected.sort_by(|a, b| a.side.cmp(&b.side));
    seen.sort_by(|a, b| a.side.cmp(&b.side));
    check.came(came);
    if check.lets_any_server() {
        let masked = |packets: Vec<Packet>| packets.into_iter().map(turns::to_any_server).collect();
        (expected, seen) = (masked(expected), masked(seen));
    }
    check.expect(Expected::Packets(expected), &Expected::Packets(seen));
    Ok(())
}

fn table(conns: &[FlowConnection], gateway: &mut dyn Gateway, check: &mut Check<'_>) {
    let any = check.lets_any_server();
    let row = |pro: &str, client: &str, service: &str, server: &str| {
        let server = if any { "a server" } else { server };
        format!("{pro} {client} {service} {server}")
    };
    let mut seen: Vec<_> = gateway
        .connections()
        .into_iter()
        .map(|c| {
            let key = row(&c.protocol, &end(c.client), &end(c.service), &end(c.server));
            (key, c.state, c.remaining)
        })
        .collect();
    let mut expected: Vec<_> = conns
        .iter()
        .map(|c| {
            (
                row(&c.pro, &c.client, &c.service, &c.dest),
                c.state.clone(),
                c.shown,
            )
        })
        .collect();
    seen.sort();
    expected.sort();
    let seconds: Vec<_> = seen
        .iter()
        .enumerate()
        .map(|(i, (_, _, left))| {
            expected
                .get(i)
                .map_or(left.as_secs(), |&(_, _, shown)| rounded(*left, shown, SLACK))
        })
        .collect();
    let seen = seen
        .into_iter()
        .zip(seconds)
        .map(|((key, state, _), left)| format!("{key} {state} {left}"))
        .collect();
    let expected = expected
        .into_iter()
        .map(|(key, state, shown)| format!("{key} {state} {shown}"))
        .collect();
    check.expect(Expected::Table(expected), &Expected::Table(seen));
}

/// An endpoint as the recorder wrote it: without brackets in either family.
fn end(end: SocketAddr) -> String {
    format!("{}:{}", end.ip(), end.port())
}

/// Seconds that may have passed since the packet that set a timer when the recorder read the table: several events,
/// since not all of them set it anew. No two timers of a protocol are so close.
const SLACK: u64 = 5;

/// The seconds left as the recording shows them, when not more than `slack` have passed; the kernel shows whole ones.
pub(super) fn rounded(left: Duration, shown: u64, slack: u64) -> u64 {
    let (low, high) = (Duration::from_secs(shown), Duration::from_secs(shown + slack));
    if low <= left && left <= high {
        shown
    } else {
        left.as_secs()
    }
}
