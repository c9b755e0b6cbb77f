//! What passed on an interface, and whether its checksums hold. Frames are captured by tcpdump, which is light,
//! and judged by tshark when the traffic is over.

use super::wait::{PATIENCE, until};
use super::{Host, Lab, Process};
use std::path::PathBuf;
use std::process::Command;

/// The frames that are kept: enough for tens of thousands of requests, and for tshark to read in seconds.
const FRAMES: u32 = 200_000;

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
        let mut command = Command::new("tshark");
        command.arg("-nr").arg(&self.0).args(["-Y", filter]);
        for protocol in ["ip", "tcp", "udp"] {
            command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        let output = command.output().expect("tshark");
        assert!(
            output.status.success(),
            "tshark {filter}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Asserts that there were frames whose `protocol` checksum was verified, and none that was bad.
    pub(crate) fn assert_good_checksums(&self, protocol: &str) {
        let bad = "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 || icmp.checksum.status == 0";
        let bad = self.frames(bad);
        assert!(
            bad.is_empty(),
            "{} bad checksums in {:?}, such as {}",
            bad.len(),
            self.0,
            bad[0]
        );
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
