//! Packet flows: every packet that comes out, byte for byte, and the connection table after each event.

use super::frames;
use super::gateway::{Gateway, Port};
use super::recording::{FlowConnection, FlowEvent, Flows};
use super::report::Check;
use super::rules::{Expected, Packet};
use super::{sched, unsupported};
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
            Err(format!("the shell command `{shell}` is not known"))
        }
        other => Err(format!("operation `{other}` is not known")),
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
    let mut seen = Vec::new();
    for hex in &event.in_hex {
        let injected = gateway.inject(port, &frames::frame(port, &frames::unhex(hex)?));
        for sent in &injected.sent {
            let Some(packet) = frames::packet(&sent.frame) else {
                continue;
            };
            let side = if sent.port == Port::Wan { "client" } else { "rs" }.to_owned();
            let (to, hex) = (frames::receiver(&sent.frame), frames::masked_hex(packet));
            seen.push(Packet { side, to, hex });
        }
    }
    let mut expected = Vec::new();
    for packet in &event.out {
        let hex = packet.hex.as_ref().ok_or("no bytes of a packet that came out")?;
        let hex = frames::masked_hex(&frames::unhex(hex)?);
        expected.push(Packet {
            side: packet.nic.clone(),
            to: packet.to.clone(),
            hex,
        });
    }
    // The two ports are two queues: only the order within each is known.
    expected.sort_by(|a, b| a.side.cmp(&b.side));
    seen.sort_by(|a, b| a.side.cmp(&b.side));
    check.expect(Expected::Packets(expected), &Expected::Packets(seen));
    Ok(())
}

fn table(conns: &[FlowConnection], gateway: &mut dyn Gateway, check: &mut Check<'_>) {
    let row =
        |pro: &str, client: &str, service: &str, server: &str| format!("{pro} {client} {service} {server}");
    let mut seen: Vec<_> = gateway
        .connections()
        .into_iter()
        .map(|c| {
            let key = row(
                &c.protocol,
                &c.client.to_string(),
                &c.service.to_string(),
                &c.server.to_string(),
            );
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
                .map_or(left.as_secs(), |&(_, _, shown)| rounded(*left, shown))
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

/// The recorder read the table up to two seconds after the packet, and the kernel shows whole seconds.
pub(super) fn rounded(left: Duration, shown: u64) -> u64 {
    let (low, high) = (Duration::from_secs(shown), Duration::from_secs(shown + 2));
    if low <= left && left <= high {
        shown
    } else {
        left.as_secs()
    }
}
