//! What is asked of EAL, and the argument vector that says it.

use std::collections::BTreeSet;
use std::fs;

use super::EalError;
use crate::log::LogSink;

/// Where packet memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hugepages {
    /// From hugepages when the kernel has enough of them free, else from ordinary pages.
    #[default]
    Auto,
    /// From ordinary pages. Devices that do DMA need an IOMMU then.
    Off,
    /// From hugepages, this many MB, or not at all.
    Mb(u32),
}

/// What to start EAL with. The default starts it on the calling thread alone, with no device attached.
#[derive(Clone, Debug)]
pub struct EalOptions {
    /// The program's name in DPDK's log.
    pub program: String,
    /// EAL's `--lcores`. None: one lcore, free to run on every CPU that this process may use; workers are
    /// ordinary threads that call [`super::Eal::register_thread`].
    pub lcores: Option<String>,
    /// Names this process's runtime folder. None: `PROGRAM-PID`, which never meets another process.
    pub file_prefix: Option<String>,
    /// Where memory comes from.
    pub hugepages: Hugepages,
    /// How much memory to reserve, in MB. Not used with [`Hugepages::Mb`], which says it itself.
    pub memory_mb: u32,
    /// Virtual devices to attach at start. [`super::Eal::probe`] attaches one at a time, with better errors.
    pub vdevs: Vec<String>,
    /// PCI devices to attach at start. No other one is ever touched, except by [`super::Eal::probe`].
    pub allow_pci: Vec<String>,
    /// Leaves the PCI bus alone altogether; then no PCI device can be attached later.
    pub no_pci: bool,
    /// Drivers to load, a shared object or a folder of them each (EAL's `-d`).
    pub drivers: Vec<String>,
    /// Whether DPDK's telemetry socket is there.
    pub telemetry: bool,
    /// Where DPDK's log goes. None: nowhere; errors of this crate still quote it.
    pub log: Option<LogSink>,
    /// More arguments for EAL, as they are.
    pub extra: Vec<String>,
}

impl Default for EalOptions {
    fn default() -> EalOptions {
        EalOptions {
            program: "tidegate".to_owned(),
            lcores: None,
            file_prefix: None,
            hugepages: Hugepages::Auto,
            memory_mb: 256,
            vdevs: Vec::new(),
            allow_pci: Vec::new(),
            no_pci: false,
            drivers: Vec::new(),
            telemetry: true,
            log: None,
            extra: Vec::new(),
        }
    }
}

/// What of the machine decides the arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Host {
    /// Free hugepages of all sizes, in MB.
    pub(super) free_huge_mb: u64,
    /// The CPUs that this process may use, as the kernel lists them: `0-3,8`.
    pub(super) cpus: String,
    pub(super) pid: u32,
    pub(super) root: bool,
}

impl Host {
    pub(super) fn read() -> Host {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim_start_matches(':').trim().to_owned()
        };
        Host {
            free_huge_mb: free_hugepages_mb(),
            cpus: field("Cpus_allowed_list"),
            pid: std::process::id(),
            // Real, effective, saved, file system: the second one decides.
            root: field("Uid").split_whitespace().nth(1) == Some("0"),
        }
    }
}

fn free_hugepages_mb() -> u64 {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return 0;
    };
    sizes
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kb: u64 = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            let free: u64 = fs::read_to_string(entry.path().join("free_hugepages"))
                .ok()?
                .trim()
                .parse()
                .ok()?;
            Some(kb * free / 1024)
        })
        .sum()
}

impl EalOptions {
    /// The name of the runtime folder.
    pub(super) fn prefix(&self, host: &Host) -> String {
        let prefix = self.file_prefix.clone();
        prefix.unwrap_or_else(|| format!("{}-{}", self.program, host.pid))
    }

    /// The argument vector for EAL on this machine.
    ///
    /// # Errors
    /// [`EalError::NoHugepages`] when they are demanded and too few: EAL itself would only say "Cannot init memory".
    pub(super) fn arguments(&self, host: &Host) -> Result<Vec<String>, EalError> {
        let mut list = vec![
            self.program.clone(),
            "--file-prefix".to_owned(),
            self.prefix(host),
        ];
        let mut push = |parts: &[&str]| list.extend(parts.iter().map(|&p| p.to_owned()));
        match &self.lcores {
            Some(lcores) => push(&["--lcores", lcores]),
            None => push(&["--lcores", &format!("0@({})", host.cpus)]),
        }
        self.memory(host, &mut push)?;
        self.devices(&mut push);
        if !self.telemetry {
            push(&["--no-telemetry"]);
        }
        for argument in &self.extra {
            push(&[argument]);
        }
        Ok(list)
    }

    fn memory(&self, host: &Host, push: &mut impl FnMut(&[&str])) -> Result<(), EalError> {
        let (huge, mb) = match self.hugepages {
            Hugepages::Off => (false, self.memory_mb),
            Hugepages::Auto => (
                host.free_huge_mb >= u64::from(self.memory_mb.max(1)),
                self.memory_mb,
            ),
            Hugepages::Mb(mb) if host.free_huge_mb >= u64::from(mb.max(1)) => (true, mb),
            Hugepages::Mb(mb) => {
                return Err(EalError::NoHugepages {
                    wanted_mb: mb,
                    free_mb: host.free_huge_mb,
                    pages: mb.div_ceil(2),
                });
            }
        };
        if huge {
            // Anonymous hugepages: no hugetlbfs mount is needed, and a killed process leaves none behind.
            push(&["--in-memory"]);
        } else {
            // 22.11 refuses --no-huge with --in-memory. Telemetry works under --no-shconf, as it does under
            // --in-memory: its socket is made in the runtime folder in any case.
            push(&["--no-huge", "--no-shconf"]);
        }
        push(&["-m", &mb.max(1).to_string()]);
        Ok(())
    }

    fn devices(&self, push: &mut impl FnMut(&[&str])) {
        if self.no_pci {
            push(&["--no-pci"]);
        } else if self.allow_pci.is_empty() {
            // Without an allow list EAL takes every device it has a driver for. The host bridge, which is
            // never a network device, makes a list that lets none through; `probe` still attaches by address.
            push(&["-a", "0000:00:00.0"]);
        }
        let mut once = BTreeSet::new();
        for address in self
            .allow_pci
            .iter()
            .filter(|a| !self.no_pci && once.insert(a.as_str()))
        {
            push(&["-a", address]);
        }
        for vdev in &self.vdevs {
            push(&["--vdev", vdev]);
        }
        for driver in &self.drivers {
            push(&["-d", driver]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(free_huge_mb: u64) -> Host {
        Host {
            free_huge_mb,
            cpus: "0-3,8".to_owned(),
            pid: 42,
            root: true,
        }
    }

    fn line(options: &EalOptions, free_huge_mb: u64) -> String {
        options.arguments(&host(free_huge_mb)).unwrap().join(" ")
    }

    #[test]
    fn defaults_take_no_device_and_one_lcore() {
        let text = line(&EalOptions::default(), 0);
        assert_eq!(
            text,
            "tidegate --file-prefix tidegate-42 --lcores 0@(0-3,8) --no-huge --no-shconf -m 256 -a 0000:00:00.0"
        );
    }

    #[test]
    fn auto_takes_hugepages_only_when_there_are_enough() {
        let options = EalOptions {
            memory_mb: 100,
            ..EalOptions::default()
        };
        assert!(line(&options, 100).contains("--in-memory -m 100"));
        assert!(line(&options, 99).contains("--no-huge --no-shconf -m 100"));
        let off = EalOptions {
            hugepages: Hugepages::Off,
            ..options
        };
        assert!(line(&off, 1000).contains("--no-huge"));
    }

    #[test]
    fn missing_hugepages_say_how_many_pages_to_reserve() {
        let options = EalOptions {
            hugepages: Hugepages::Mb(301),
            ..EalOptions::default()
        };
        let error = options.arguments(&host(10)).unwrap_err().to_string();
        assert!(
            error.contains("echo 151 >") && error.contains("10 MB free"),
            "{error}"
        );
        assert!(line(&options, 302).contains("--in-memory -m 301"));
    }

    #[test]
    fn devices_drivers_and_the_rest() {
        let options = EalOptions {
            lcores: Some("(0)@2,(1)@4".to_owned()),
            file_prefix: Some("x".to_owned()),
            vdevs: vec!["net_null0".to_owned()],
            allow_pci: vec!["0000:01:00.0".to_owned(), "0000:01:00.0".to_owned()],
            drivers: vec!["/opt/pmd.so".to_owned()],
            telemetry: false,
            extra: vec!["--log-level=lib.eal:8".to_owned()],
            ..EalOptions::default()
        };
        let text = line(&options, 0);
        assert!(text.contains("--file-prefix x --lcores (0)@2,(1)@4"), "{text}");
        assert!(text.ends_with(
            "-a 0000:01:00.0 --vdev net_null0 -d /opt/pmd.so --no-telemetry --log-level=lib.eal:8"
        ));
        let no_pci = EalOptions {
            no_pci: true,
            ..options
        };
        assert!(line(&no_pci, 0).contains("--no-pci --vdev"));
    }

    #[test]
    fn the_host_is_read() {
        let host = Host::read();
        assert!(!host.cpus.is_empty() && host.pid > 0);
    }
}
