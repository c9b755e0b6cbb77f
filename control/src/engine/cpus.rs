//! Which CPUs move packets, and which one does everything else.

use super::place;
use crate::config::{Config, Device, MOST_WORKERS, Workers};
use anyhow::{Result, bail};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs;

/// The CPU of each worker, by its number.
///
/// # Errors
/// A CPU is named that this process may not use, or there would be too many workers.
pub(super) fn of_workers(config: &Config) -> Result<Vec<u16>> {
    let usable = usable()?;
    let cpus = match &config.node.workers {
        Workers::Auto => automatic(config, &usable),
        Workers::Cpus(cpus) => {
            for &cpu in cpus {
                check(config, "workers", cpu, &usable)?;
            }
            cpus.clone()
        }
    };
    let each = usize::from(config.node.workers_per_cpu);
    let workers: Vec<u16> = cpus
        .into_iter()
        .flat_map(|cpu| std::iter::repeat_n(cpu, each))
        .collect();
    if workers.len() > MOST_WORKERS {
        bail!(
            "{}.workers: {} workers, and there may be {MOST_WORKERS}; write fewer CPUs, or a smaller workers_per_cpu",
            place(config),
            workers.len()
        );
    }
    Ok(workers)
}

/// The CPU of everything else, where one is named.
///
/// # Errors
/// This process may not use it.
pub(super) fn of_control(config: &Config) -> Result<Option<u16>> {
    let usable = usable()?;
    let named = config.node.control_cpu;
    if let Some(cpu) = named {
        check(config, "control_cpu", cpu, &usable)?;
    }
    Ok(named)
}

/// The CPUs of the threads of the control side that are this program's own: the one that is named, or all that the calling
/// thread may use. To be asked before DPDK binds that to one.
///
/// # Errors
/// The kernel does not say.
pub(super) fn for_control(config: &Config) -> Result<CpuSet> {
    let Some(cpu) = of_control(config)? else {
        return Ok(sched_getaffinity(Pid::from_raw(0))?);
    };
    let mut cpus = CpuSet::new();
    cpus.set(usize::from(cpu))?;
    Ok(cpus)
}

/// What `auto` means: with a PCI device, the CPUs of its NUMA node but for one that is left to everything else; with
/// software ports alone, the last CPU, as the first ones are busy with everything else.
fn automatic(config: &Config, usable: &[u16]) -> Vec<u16> {
    let last = usable.last().copied().unwrap_or(0);
    let parts = super::devices_of(config).flat_map(|(_, device)| device.parts());
    let pci = { parts }.find_map(|device| match device {
        Device::Pci(address) => Some(address),
        Device::Vdev(_) | Device::Bond(_) => None,
    });
    let Some(address) = pci else {
        return vec![last];
    };
    let mut cpus = choose(usable, &near(address), config.node.control_cpu);
    cpus.truncate(MOST_WORKERS / usize::from(config.node.workers_per_cpu.max(1)));
    if cpus.is_empty() { vec![last] } else { cpus }
}

/// The usable ones among `near`, less that of everything else: the one that is named, or the first. `near` is empty
/// where nobody knows.
fn choose(usable: &[u16], near: &[u16], control: Option<u16>) -> Vec<u16> {
    let is_near = |cpu: &u16| near.is_empty() || near.contains(cpu);
    let mut cpus: Vec<u16> = usable.iter().copied().filter(is_near).collect();
    match control {
        Some(control) => cpus.retain(|cpu| *cpu != control),
        None if cpus.len() > 1 => {
            cpus.remove(0);
        }
        None => {}
    }
    cpus
}

/// The CPUs of a PCI device's NUMA node; none when it has none.
fn near(address: &str) -> Vec<u16> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let node = read(format!("/sys/bus/pci/devices/{address}/numa_node"));
    match node.trim().parse::<u16>() {
        Ok(node) => cpu_list(&read(format!("/sys/devices/system/node/node{node}/cpulist"))),
        // -1: the machine has one node.
        Err(_) => Vec::new(),
    }
}

/// The kernel's words for a set of CPUs, such as `0-3,8`.
fn cpu_list(text: &str) -> Vec<u16> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u16>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// The CPUs that this process may use, in order.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn usable() -> Result<Vec<u16>> {
    let may = sched_getaffinity(Pid::from_raw(0))?;
    let cpus = 0..CpuSet::count();
    Ok(cpus
        .filter(|&cpu| may.is_set(cpu).unwrap_or(false))
        .map(|cpu| cpu as u16)
        .collect())
}

fn check(config: &Config, key: &str, cpu: u16, usable: &[u16]) -> Result<()> {
    if usable.contains(&cpu) {
        return Ok(());
    }
    bail!(
        "{}.{key}: there is no CPU {cpu} that this process may use; write one of {usable:?}",
        place(config)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_the_cpus_near_the_device_but_one() {
        let usable = [0, 1, 2, 3, 8, 9];
        assert_eq!(choose(&usable, &[2, 3, 4, 8], None), [3, 8]);
        assert_eq!(choose(&usable, &[2, 3, 4, 8], Some(3)), [2, 8]);
        assert_eq!(choose(&usable, &[2, 3, 4, 8], Some(0)), [2, 3, 8]);
        assert_eq!(choose(&usable, &[], None), [1, 2, 3, 8, 9]);
        assert_eq!(choose(&[5], &[], None), [5], "one CPU does it all");
        assert_eq!(choose(&usable, &[4], None), [] as [u16; 0]);
    }

    #[test]
    fn the_kernels_lists_of_cpus_are_read() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpu_list("\n"), [] as [u16; 0]);
    }

    #[test]
    fn software_ports_have_one_cpu_and_as_many_workers_as_it_is_told() {
        let config = |node: &str| {
            let text = format!("node: {{ {node} }}\nports: [{{ name: a, device: net_null0 }}]\n");
            crate::config::parse("gw.yaml", &text).unwrap()
        };
        let last = *usable().unwrap().last().unwrap();
        assert_eq!(of_workers(&config("workers: auto")).unwrap(), [last]);
        assert_eq!(of_workers(&config("workers_per_cpu: 3")).unwrap(), [last; 3]);
        let node = format!("workers: [{last}], workers_per_cpu: 2");
        assert_eq!(of_workers(&config(&node)).unwrap(), [last; 2]);
    }
}
