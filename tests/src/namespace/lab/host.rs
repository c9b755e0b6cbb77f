//! One namespace, as the machine that it stands for.

use super::process::Process;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output};

/// A machine of the lab.
#[derive(Clone)]
pub(crate) struct Host(String);

impl Host {
    pub(super) fn new(namespace: String) -> Host {
        Host(namespace)
    }

    /// The name of its namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.0
    }

    /// A command that will run there. Its process id is the program's own.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// Runs a command line without quotes or spaces in its words; what it printed.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.attempt(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{line}: {} {}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs a command line that may fail.
    pub(crate) fn attempt(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().expect("a program"));
        command
            .args(words)
            .output()
            .expect("the command `ip` (package iproute2)")
    }

    /// Starts a command line, its output going to `log`.
    pub(crate) fn start(&self, line: &str, log: &Path) -> Process {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().expect("a program"));
        command.args(words);
        Process::start(command, log)
    }

    /// Runs a shell script.
    pub(crate) fn shell(&self, script: &str) -> String {
        let output = self.command("sh").args(["-c", script]).output().expect("sh");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{}{}of the script\n{script}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Gives its interfaces IPv6, of which a lab has none at first. Addresses are there at once: nobody has them twice.
    pub(crate) fn enable_ipv6(&self) {
        for key in ["all", "default"] {
            self.run(&format!(
                "sysctl -qw net.ipv6.conf.{key}.disable_ipv6=0 net.ipv6.conf.{key}.accept_ra=0"
            ));
        }
    }

    /// The MTU of the way to an address, as this machine has learnt it by ICMP; none when it has not.
    pub(crate) fn learnt_mtu(&self, address: &str) -> Option<u32> {
        let route = self.run(&format!("ip -o route get {address}"));
        let mut words = route.split_whitespace().skip_while(|word| *word != "mtu");
        words.nth(1)?.parse().ok()
    }

    /// Runs `work` in a thread that stands in this namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace: OwnedFd = File::open(Path::new("/run/netns").join(&self.0)).unwrap().into();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                nix::sched::setns(namespace.as_fd(), nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().expect("no panic in the namespace")
        })
    }

    /// Packets that this machine's kernel found broken: TCP, UDP, ICMP checksums and IP headers, of both families.
    pub(crate) fn checksum_errors(&self) -> Vec<(String, u64)> {
        let table = self.run(
            "nstat -asz TcpInCsumErrors UdpInCsumErrors IcmpInCsumErrors IpInHdrErrors Udp6InCsumErrors \
             Icmp6InCsumErrors Ip6InHdrErrors",
        );
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        rows.map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap().to_owned();
            (name, words.next().unwrap().parse().unwrap())
        })
        .collect()
    }
}

/// Runs `ip` outside of every namespace.
pub(super) fn ip(arguments: &[&str]) {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .expect("the command `ip` (package iproute2)");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "ip {arguments:?}: {message} (namespaces need root)"
    );
}
