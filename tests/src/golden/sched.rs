//! Scheduler sequences: which server each new connection goes to, and what the servers' counts are.

use super::facts::Mode;
use super::frames::{self, ACK, FIN, PSH, RST, SYN};
use super::gateway::{Gateway, Port};
use super::recording::{Counted, Sched, SchedEvent};
use super::report::Check;
use super::rig;
use super::rules::Expected;
use super::sctp;
use super::turns::Turns;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The sequence number of a client's SYN, and the acknowledgement of all its other segments.
const ISN: u32 = 1000;
const ACKNOWLEDGED: u32 = 5000;

/// Milliseconds in which no connection ends by itself.
const SOON: u64 = 1000;

struct Replay<'a> {
    gateway: &'a mut dyn Gateway,
    scenario: &'a Sched,
    /// Every server that the scenario has ever named.
    servers: BTreeMap<String, IpAddr>,
    clock_ms: u64,
    /// Judges instead of a comparison.
    turns: Option<Turns>,
}

/// Replays a scenario, and compares; where `turns` are given, these judge.
pub(super) fn replay(
    scenario: &Sched,
    gateway: &mut dyn Gateway,
    turns: Option<Turns>,
    check: &mut Check<'_>,
) -> Result<(), String> {
    settings(gateway, scenario.sysctl.iter(), check);
    for line in &scenario.ipvsadm {
        command(gateway, line)?;
    }
    let mut servers = BTreeMap::new();
    for dest in &scenario.dests {
        servers.insert(
            dest.id.clone(),
            dest.addr.parse().map_err(|e| format!("{}: {e}", dest.addr))?,
        );
    }
    let mut replay = Replay {
        gateway,
        scenario,
        servers,
        clock_ms: 0,
        turns,
    };
    for line in &scenario.ipvsadm {
        replay.note(line);
    }
    for (number, event) in scenario.events.iter().enumerate() {
        check.at(Some(number), &event.op);
        replay
            .event(event, check)
            .map_err(|problem| format!("event {number}: {problem}"))?;
        if let Some(counts) = &event.counts {
            replay.counts(counts, check);
        }
    }
    check.at(None, "final_counts");
    if let Some(counts) = &scenario.final_counts {
        replay.counts(counts, check);
    }
    if let Some(turns) = &replay.turns {
        check.judge("shares as recorded", "others", turns.shares());
    }
    Ok(())
}

/// Applies the scenario's settings; one that the gateway does not know is a failure.
pub(super) fn settings<'s>(
    gateway: &mut dyn Gateway,
    settings: impl Iterator<Item = (&'s String, &'s i64)>,
    check: &mut Check<'_>,
) {
    for (name, value) in settings {
        let taken = gateway.sysctl(name, *value);
        check.expect(
            Expected::Setting(name.clone(), true),
            &Expected::Setting(name.clone(), taken),
        );
    }
}

/// Runs a command that must succeed.
pub(super) fn command(gateway: &mut dyn Gateway, line: &str) -> Result<(), String> {
    let output = gateway.command(line);
    if output.exit == 0 {
        return Ok(());
    }
    Err(format!(
        "`ipvsadm {line}` gives {}: {}",
        output.exit,
        output.stderr.trim_end()
    ))
}

impl Replay<'_> {
    fn event(&mut self, event: &SchedEvent, check: &mut Check<'_>) -> Result<(), String> {
        let is_later = event
            .t_ms
            .map_or(event.op == "wait", |at| at > self.clock_ms + SOON);
        if is_later && let Some(turns) = &mut self.turns {
            turns.time_passes();
        }
        match (event.t_ms, event.op.as_str(), event.ms) {
            (Some(at), _, _) => {
                self.gateway
                    .advance(Duration::from_millis(at.saturating_sub(self.clock_ms)));
                self.clock_ms = at;
            }
            (None, "wait", Some(ms)) => self.gateway.advance(Duration::from_millis(ms)),
            _ => {}
        }
        self.gateway.look_round();
        match event.op.as_str() {
            "wait" | "counts" => Ok(()),
            "sysctl" => {
                let name = event.key.as_ref().ok_or("no key")?;
                settings(
                    self.gateway,
                    std::iter::once((name, &event.value.ok_or("no value")?)),
                    check,
                );
                Ok(())
            }
            "add_dest" | "edit_dest" | "del_dest" | "edit_service" | "ipvsadm" => {
                if let (Some(id), Some(addr)) = (&event.id, &event.addr) {
                    self.servers
                        .insert(id.clone(), addr.parse().map_err(|e| format!("{addr}: {e}"))?);
                }
                let line = event.cmd.as_ref().ok_or("no command")?;
                self.note(line);
                command(self.gateway, line)
            }
            "syn" | "est" | "data" | "fin" | "rst" | "udp" | "sctp-init" => self.packets(event, check),
            other => Err(format!("operation `{other}` is not known")),
        }
    }

    fn packets(&mut self, event: &SchedEvent, check: &mut Check<'_>) -> Result<(), String> {
        let expect = event.expect.clone().ok_or("nothing is expected")?;
        let source = endpoint(event.src.as_deref().ok_or("no source")?)?;
        let target = match &event.dst {
            Some(dst) => endpoint(dst)?,
            None => self.service()?,
        };
        let tcp = |flags, seq, ack| frames::tcp(source, target, flags, seq, ack);
        let packets = match event.op.as_str() {
            "syn" => vec![tcp(SYN, ISN, 0)],
            "est" => vec![tcp(SYN, ISN, 0), tcp(ACK, ISN + 1, ACKNOWLEDGED)],
            "data" => vec![tcp(PSH | ACK, ISN + 1, ACKNOWLEDGED)],
            "fin" => vec![tcp(FIN | ACK, ISN + 1, ACKNOWLEDGED)],
            "rst" => vec![tcp(RST, ISN + 1, 0)],
            "sctp-init" => vec![sctp::init(source, target)],
            _ => vec![frames::udp(source, target, b"hello")],
        };
        let dr = self.scenario.fwd == "dr";
        let injected: Vec<_> = packets
            .iter()
            .map(|packet| self.gateway.inject(Port::Wan, &frames::frame(Port::Wan, packet)))
            .collect();
        let went = frames::went(&injected, &packets, dr);
        match &mut self.turns {
            None => check.expect(Expected::Went(expect), &Expected::Went(went)),
            Some(turns) => {
                let verdict = turns.went(event, (source, target), &expect, &went);
                check.judge(&expect, &went, verdict);
            }
        }
        Ok(())
    }

    /// Tells the judge of a command.
    fn note(&mut self, line: &str) {
        if let Some(turns) = &mut self.turns {
            turns.command(line, &self.servers);
        }
    }

    fn service(&self) -> Result<SocketAddr, String> {
        let service = &self.scenario.service;
        let vip: IpAddr = match &service.vip {
            Some(vip) => vip.parse().map_err(|e| format!("{vip}: {e}"))?,
            None => rig::VIP.into(),
        };
        let port = service
            .vport
            .ok_or_else(|| format!("no port, protocol {:?}", service.proto))?;
        Ok(SocketAddr::new(vip, port))
    }

    fn is_v6(&self) -> bool {
        self.servers.values().any(IpAddr::is_ipv6)
    }

    fn counts(&mut self, counts: &Counted, check: &mut Check<'_>) {
        let mut all = BTreeMap::new();
        let named: Vec<_> = counts.keys().chain(self.servers.keys()).cloned().collect();
        for id in named.into_iter().collect::<std::collections::BTreeSet<_>>() {
            let Some(address) = self
                .servers
                .get(&id)
                .copied()
                .or_else(|| rig::server_address(&id, self.is_v6()))
            else {
                check.fail(&format!("counts of {id}"), "a server whose address is not known");
                continue;
            };
            let seen = self.gateway.counts(address).map(|c| (c.active, c.inactive));
            if self.turns.is_some() {
                all.insert(id, seen);
                continue;
            }
            let expected = Expected::Counts(id.clone(), counts.get(&id).copied());
            check.expect(expected, &Expected::Counts(id, seen));
        }
        if let Some(turns) = &self.turns {
            check.judge(
                &format!("{counts:?}"),
                &format!("{all:?}"),
                turns.counts(counts, &all),
            );
        }
    }
}

fn endpoint(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("not an endpoint: {text}"))
}

impl Mode {
    /// ipvsadm's option.
    pub(super) fn option(self) -> &'static str {
        match self {
            Mode::Dr => "-g",
            Mode::Nat => "-m",
            Mode::Tun => "-i",
            Mode::Fullnat => "--fullnat",
        }
    }
}
