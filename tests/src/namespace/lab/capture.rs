//! What passed on an interface, and whether its checksums hold. Frames are captured by tcpdump, which is light,
//! and judged by tshark when the traffic is over.

use super::wait::{PATIENCE, until};
use super::{Host, Lab, Process};
use std::path::PathBuf;
use std::process::Command;

/// The frames that are kept: enough for thousands of requests, and for tshark to read in seconds.
const FRAMES: u32 = 50_000;

/// A sum of zero as the kernels at both ends write it in software; every receiver takes it, tshark does not. Only
/// in packets that they sent themselves: what FULLNAT rewrites has another source, and no such excuse.
const KERNELS_ZERO: &str = "tcp.checksum == 0xffff && ip.src in {203.0.113.1, 10.0.0.11, 10.0.0.12}";

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
        let bad = ["ip", "tcp", "udp", "icmp"]
            .map(|name| format!("{name}.checksum.status == 0"))
            .join(" || ");
        let bad = format!("({bad}) && !({KERNELS_ZERO})");
        let frames = self.frames(&bad);
        if !frames.is_empty() {
            let bytes = self.tshark(&["-x", "-V", "-Y", &bad]);
            let first: Vec<&str> = bytes.lines().take(120).collect();
            panic!(
                "{} bad checksums in {:?}, the first:\n{}",
                frames.len(),
                self.0,
                first.join("\n")
            );
        }
        let good = self.frames(&format!(
            "{protocol}.checksum.status == 1 && ip.checksum.status == 1"
        ));
        assert!(
            !good.is_empty(),
            "no {protocol} checksum was verified in {:?}",
            self.0
        );
    }
}
