//! What passed on an interface, and whether its checksums hold. Frames are captured by tcpdump, which is light,
//! and judged by tshark when the traffic is over.

use super::wait::{PATIENCE, until};
use super::{Host, Lab, Process};
use std::path::PathBuf;
use std::process::Command;

/// The frames that are kept: enough for tens of thousands of requests, and for tshark to read in seconds.
const FRAMES: u32 = 100_000;

/// The kernels at both ends. A sum of zero they write in software as 0xffff; every receiver takes it, tshark does
/// not. Only in packets that they sent themselves: what FULLNAT rewrites has another source, and no such excuse.
const KERNELS: [&str; 10] = [
    "203.0.113.1",
    "10.0.0.11",
    "10.0.0.12",
    "2001:db8:1::1",
    "fd00::11",
    "fd00::12",
    // Behind routers.
    "198.51.100.2",
    "2001:db8:3::2",
    "10.1.0.11",
    "fd01::11",
];

/// What has checksums.
const PROTOCOLS: [&str; 5] = ["ip", "tcp", "udp", "icmp", "icmpv6"];

/// A capture that is running.
pub(crate) struct Capture {
    process: Process,
    file: PathBuf,
}

/// A capture that has ended.
pub(crate) struct Captured(PathBuf);

impl Capture {
    /// Starts to capture whole frames on an interface of a host.
    pub(crate) fn start(lab: &Lab, host: &Host, interface: &str) -> Capture {
        let name = format!("{}-{interface}", host.namespace());
        let file = lab.file(&format!("{name}.pcap"));
        // Without immediate mode the kernel would keep the last frames for up to a second, and lose them at the end.
        let line = format!(
            "tcpdump -nn --immediate-mode -i {interface} -s 0 -B 16384 -U -c {FRAMES} -Z root -w {}",
            file.display()
        );
        let process = host.start(&line, &lab.file(&format!("{name}.tcpdump")));
        until("tcpdump to listen", PATIENCE, || {
            process.output().contains("listening on").then_some(())
        });
        Capture { process, file }
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Captured {
        if self.process.ended().is_none() {
            self.process.signal("INT");
        }
        self.process.end("tcpdump", PATIENCE);
        Captured(self.file.clone())
    }
}

impl Captured {
    /// The lines that tshark prints for the frames that a display filter takes, with all checksums verified.
    pub(crate) fn frames(&self, filter: &str) -> Vec<String> {
        self.tshark(&["-Y", filter]).lines().map(str::to_owned).collect()
    }

    fn tshark(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tshark");
        command.arg("-nr").arg(&self.0).args(arguments);
        // ICMP's are verified always.
        for protocol in ["ip", "tcp", "udp"] {
            command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        let output = command.output().expect("tshark");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tshark {arguments:?}: {message}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Asserts that there were frames whose `protocol` checksum was verified, and none that was bad, in tunnels and
    /// quotes as well. `protocol` is `ip`, `tcp`, `udp`, `icmp` or `icmpv6`.
    pub(crate) fn assert_good_checksums(&self, protocol: &str) {
        let statuses = PROTOCOLS.map(|name| format!("{name}.checksum.status"));
        let mut arguments = vec!["-T", "fields", "-e", "frame.number"];
        for field in ["ip.src", "ipv6.src", "tcp.checksum"] {
            arguments.extend(["-e", field]);
        }
        for status in &statuses {
            arguments.extend(["-e", status]);
        }
        let of_protocol = PROTOCOLS.iter().position(|name| *name == protocol).unwrap();
        let (mut good, mut bad) = (0, Vec::new());
        for line in self.tshark(&arguments).lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, source, source6, tcp_checksum, statuses @ ..] = &fields[..] else {
                panic!("tshark said {line:?}");
            };
            // What an ICMP error quotes is cut short, and so is what its TCP or UDP checksum is over.
            let is_icmp = PROTOCOLS
                .iter()
                .zip(statuses)
                .any(|(name, status)| name.starts_with("icmp") && !status.is_empty());
            let judged = PROTOCOLS
                .iter()
                .zip(statuses)
                .filter(|(name, _)| !is_icmp || !["tcp", "udp"].contains(name));
            // Headers in a tunnel and quoted ones have a status of their own, behind a comma.
            let wrong = judged
                .map(|(_, status)| status)
                .any(|status| status.split(',').any(|one| one == "0"));
            let kernel = [source, source6].map(|source| source.rsplit(',').next().unwrap());
            if wrong && !(*tcp_checksum == "0xffff" && kernel.iter().any(|source| KERNELS.contains(source))) {
                bad.push((*number).to_owned());
            }
            good += u32::from(!wrong && statuses[of_protocol].split(',').any(|one| one == "1"));
        }
        if let Some(first) = bad.first() {
            let filter = format!("frame.number == {first}");
            let bytes = self.tshark(&["-x", "-V", "-Y", &filter]);
            panic!("{} bad checksums in {:?}, the first:\n{bytes}", bad.len(), self.0);
        }
        assert!(good > 0, "no {protocol} checksum was verified in {:?}", self.0);
    }
}
