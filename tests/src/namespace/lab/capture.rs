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
const KERNELS: [&str; 3] = ["203.0.113.1", "10.0.0.11", "10.0.0.12"];

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
        let line = format!(
            "tcpdump -nn -i {interface} -s 0 -B 16384 -U -c {FRAMES} -Z root -w {}",
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
        for protocol in ["ip", "tcp", "udp"] {
            command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        let output = command.output().expect("tshark");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tshark {arguments:?}: {message}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Asserts that there were frames whose `protocol` checksum was verified, and none that was bad.
    pub(crate) fn assert_good_checksums(&self, protocol: &str) {
        let statuses = ["ip", "tcp", "udp", "icmp"].map(|name| format!("{name}.checksum.status"));
        let mut arguments = vec![
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "ip.src",
            "-e",
            "tcp.checksum",
        ];
        for status in &statuses {
            arguments.extend(["-e", status]);
        }
        let of_protocol = statuses
            .iter()
            .position(|status| status.starts_with(protocol))
            .unwrap();
        let (mut good, mut bad) = (0, Vec::new());
        for line in self.tshark(&arguments).lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, source, tcp_checksum, statuses @ ..] = &fields[..] else {
                panic!("tshark said {line:?}");
            };
            // A quoted header has a status of its own, behind a comma.
            let wrong = statuses
                .iter()
                .any(|status| status.split(',').any(|one| one == "0"));
            if wrong && !(*tcp_checksum == "0xffff" && KERNELS.contains(source)) {
                bad.push((*number).to_owned());
            }
            good += u32::from(statuses[0].starts_with('1') && statuses[of_protocol].starts_with('1'));
        }
        if let Some(first) = bad.first() {
            let filter = format!("frame.number == {first}");
            let bytes = self.tshark(&["-x", "-V", "-Y", &filter]);
            panic!("{} bad checksums in {:?}, the first:\n{bytes}", bad.len(), self.0);
        }
        assert!(good > 0, "no {protocol} checksum was verified in {:?}", self.0);
    }
}
