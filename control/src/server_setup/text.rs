//! The text for an operator: a shell script with `set -e`, in which each command may run again.

use super::plan::{Need, Plan};
use super::{answers, tunnel};
use dataplane::flow::Mode;
use std::net::IpAddr;

/// A script under construction.
#[derive(Debug)]
pub(super) struct Script(String);

impl Script {
    fn new(title: &str, note: &str) -> Script {
        Script(format!("#!/bin/sh\n# {title}\n# {note}\nset -e\n"))
    }

    /// A block: comments that say why, then commands.
    pub(super) fn block(&mut self, comments: &[&str], commands: &[&str]) {
        self.0.push('\n');
        for comment in comments {
            self.0.push_str("# ");
            self.0.push_str(comment);
            self.0.push('\n');
        }
        for command in commands {
            self.0.push_str(command);
            self.0.push('\n');
        }
    }

    fn text(self) -> String {
        self.0
    }
}

/// The commands that make a machine a server.
pub(super) fn setup(plan: &Plan) -> String {
    let title = format!(
        "Tidegate: makes this machine a real server of the service `{}`, mode {}.",
        plan.service,
        mode(plan).name()
    );
    let note = "Run it as root on the server, at each boot: nothing here outlives one. It may run again at any time.";
    let mut script = Script::new(&title, note);
    match &plan.need {
        Need::Nat { gateway } => nat(&mut script, plan, *gateway),
        Need::Dr => {
            who(&mut script, plan);
            answers::loose_source_check(&mut script, plan);
            answers::quiet(&mut script, plan);
            answers::add_vips(&mut script, plan, "lo");
        }
        Need::Tun {
            tunnel,
            over_ipv4,
            room,
            ..
        } => {
            who(&mut script, plan);
            tunnel::add(&mut script, plan, *tunnel, *over_ipv4);
            tunnel::room(&mut script, plan, *room);
        }
        Need::Fullnat => fullnat(&mut script),
    }
    script.text()
}

/// The commands that take it back.
pub(super) fn undo(plan: &Plan) -> String {
    let title = format!(
        "Tidegate: this machine is no longer a real server of the service `{}`, mode {}.",
        plan.service,
        mode(plan).name()
    );
    let note = "Run it as root on the server, after the gateway has stopped sending to it. It may run again.";
    let mut script = Script::new(&title, note);
    match &plan.need {
        Need::Nat { gateway } => undo_nat(&mut script, plan, *gateway),
        Need::Dr => {
            who(&mut script, plan);
            answers::remove_vips(&mut script, plan, "lo");
            answers::loud(&mut script, plan);
            answers::strict_source_check(&mut script, plan);
        }
        Need::Tun {
            tunnel,
            over_ipv4,
            port_also_of,
            ..
        } => {
            tunnel::remove(&mut script, plan, *tunnel, *over_ipv4, port_also_of.as_deref());
            answers::loud(&mut script, plan);
        }
        Need::Fullnat => fullnat(&mut script),
    }
    script.text()
}

fn mode(plan: &Plan) -> Mode {
    match plan.need {
        Need::Nat { .. } => Mode::Nat,
        Need::Dr => Mode::Dr,
        Need::Tun { .. } => Mode::Tun,
        Need::Fullnat => Mode::Fullnat,
    }
}

/// Sets `$server` to the address of whoever runs the script, and `$interface` to where it is.
fn who(script: &mut Script, plan: &Plan) {
    let servers: Vec<String> = plan.servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(" ");
    script.block(
        &["Not on the wrong machine."],
        &[
            "server= interface=",
            &format!("for address in {servers}; do"),
            "    found=$(ip -o address show to \"$address\" | awk '{ print $2; exit }')",
            "    [ -z \"$found\" ] || { server=$address interface=$found; }",
            "done",
            &format!("[ -n \"$server\" ] || {{ echo \"this machine has none of: {servers}\" >&2; exit 1; }}"),
        ],
    );
}

fn nat(script: &mut Script, plan: &Plan, gateway: Option<IpAddr>) {
    let Some(gateway) = gateway else {
        return off_link(script, plan);
    };
    who(script, plan);
    script.block(
        &[
            "Answers must pass the gateway, which puts the VIP back into them: it is the way to every client.",
            "A client on the servers' own link is answered directly all the same, and refuses the answer: see",
            "`hairpin_snat` of the service.",
        ],
        &[&format!("{} route replace default via {gateway}", ip(gateway))],
    );
    if gateway.is_ipv6() {
        script.block(
            &["A default route from router advertisements would stay beside it, and share the answers."],
            &[
                "sysctl -qw \"net/ipv6/conf/$interface/accept_ra_defrtr=0\"",
                "ip -6 route flush exact default proto ra",
            ],
        );
    }
}

fn undo_nat(script: &mut Script, plan: &Plan, gateway: Option<IpAddr>) {
    let Some(gateway) = gateway else {
        return off_link(script, plan);
    };
    let ip = ip(gateway);
    who(script, plan);
    script.block(
        &["The default route that was here before is not known: add it, or have the system do so."],
        &[
            &format!("if [ -n \"$({ip} route show default via {gateway})\" ]; then"),
            &format!("    {ip} route del default via {gateway}"),
            "fi",
        ],
    );
    if gateway.is_ipv6() {
        script.block(
            &[],
            &["sysctl -qw \"net/ipv6/conf/$interface/accept_ra_defrtr=1\""],
        );
    }
}

fn off_link(script: &mut Script, plan: &Plan) {
    let first = plan.servers.first().map(ToString::to_string).unwrap_or_default();
    script.block(
        &[
            &format!("{first} is not on a link of the gateway, so no command here can do it: the routers between"),
            "them must lead whatever this server sends to clients back to the gateway. Where they cannot, FULLNAT",
            "needs none of this.",
        ],
        &[],
    );
}

fn fullnat(script: &mut Script) {
    script.block(
        &[
            "Nothing to do: packets come from a local address of the gateway, and the answers go there by themselves.",
            "Only a route to those addresses must exist, which a server on their link has.",
        ],
        &[],
    );
}

/// `ip` for addresses of that family.
pub(super) fn ip(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip -6" }
}
