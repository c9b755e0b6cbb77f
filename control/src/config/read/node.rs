//! The `node` section: the gateway as a process.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::field::{Field, Fields};
use super::typed::{account, number, optional_number, path, word};
use super::value;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{Hugepages, Idle, Limits, MOST_WORKERS, Node, Workers};
use crate::config::yaml::shown;

const MEGABYTES: RangeInclusive<u64> = 64..=1_048_576;

/// The `node` section.
pub(crate) fn node(field: Option<Field<'_>>, report: &mut Report) -> Node {
    let fields = Fields::open_optional(field, &schema::NODE, report);
    let name = fields
        .get("name")
        .and_then(|field| field.value("a name", report, value::name));
    let node = Node {
        name: name.map_or("tidegate".to_owned(), |at| at.value),
        workers: fields
            .get("workers")
            .map_or(Workers::Auto, |field| workers(field, report)),
        workers_per_cpu: number(&fields, "workers_per_cpu", 1..=8, 1, report),
        control_cpu: optional_number(&fields, "control_cpu", 0..=1023, report),
        hugepages: fields
            .get("hugepages")
            .map_or(Hugepages::Auto, |field| hugepages(field, report)),
        memory: number(&fields, "memory", MEGABYTES, 512, report),
        idle: word(
            &fields,
            "idle",
            &[("sleep", Idle::Sleep), ("poll", Idle::Poll)],
            report,
        ),
        user: account(&fields, "user", "the name of a user", report),
        seed: optional_number(&fields, "seed", 0..=u64::MAX, report),
        mbufs: optional_number(&fields, "mbufs", 1024..=0x7fff_ffff, report),
        limits: limits(fields.get("limits"), report),
        eal: fields
            .list("eal", report, eal_argument)
            .into_iter()
            .flatten()
            .collect(),
        drivers: drivers(&fields, report),
        file_prefix: account(&fields, "file_prefix", "letters, digits, - _ and . only", report),
        place: fields.place(),
    };
    if let (Workers::Cpus(cpus), Some(cpu)) = (&node.workers, node.control_cpu)
        && cpus.contains(&cpu)
        && let Some(field) = fields.get("control_cpu")
    {
        let problem = format!("CPU {cpu} is a worker too: whatever else runs there delays packets");
        field.warn(
            Fault::new(problem, "write a CPU that is not in `workers`"),
            report,
        );
    }
    if let (2.., Idle::Poll, Some(field)) = (node.workers_per_cpu, node.idle, fields.get("workers_per_cpu")) {
        let problem = "workers that poll keep each other from their CPU";
        field.warn(Fault::new(problem, "write 1, or `idle: sleep`"), report);
    }
    node
}

/// `auto`, or a list of CPUs and ranges of them.
fn workers(field: Field<'_>, report: &mut Report) -> Workers {
    if field.is_scalar() {
        let parse = |text: &str| match text {
            "auto" => Ok(Workers::Auto),
            _ => {
                let problem = format!("`{}` may be a number of workers or of a CPU", shown(text));
                Err(Fault::new(
                    problem,
                    "write a list of CPUs such as [1] or [2-9], or `auto`",
                ))
            }
        };
        return field
            .value("`auto`", report, parse)
            .map_or(Workers::Auto, |at| at.value);
    }
    let mut cpus = BTreeSet::new();
    let elements = field.list(report, |element, report| {
        let Some(range) = element.value("a CPU such as 1, or a range such as 2-9", report, cpu_range) else {
            return;
        };
        for cpu in range.value {
            if !cpus.insert(cpu) {
                element.error(
                    Fault::new(format!("CPU {cpu} is there twice"), "keep it once"),
                    report,
                );
            }
        }
    });
    if elements.is_some_and(|elements| elements.is_empty()) {
        field.error(
            Fault::new(
                "no CPU at all",
                "write a list of CPUs such as [1] or [2-9], or `auto`",
            ),
            report,
        );
    } else if cpus.len() > MOST_WORKERS {
        let problem = format!("{} workers, and there may be {MOST_WORKERS}", cpus.len());
        field.error(Fault::new(problem, "write fewer CPUs"), report);
    }
    Workers::Cpus(cpus.into_iter().collect())
}

fn cpu_range(text: &str) -> Result<RangeInclusive<u16>, Fault> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        value::number(text.trim(), 0..=1023)
            .map(|cpu| cpu as u16)
            .map_err(|fault| {
                Fault::new(
                    fault.problem,
                    "write a CPU from 0 to 1023, or a range such as 2-9",
                )
            })
    };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        let problem = format!("the range ends at {last}, before it starts at {first}");
        return Err(Fault::new(problem, format!("write {last}-{first}")));
    }
    Ok(first..=last)
}

fn hugepages(field: Field<'_>, report: &mut Report) -> Hugepages {
    let expected = "`auto`, `off` or a number of MB";
    let parse = |text: &str| match text {
        "auto" => Ok(Hugepages::Auto),
        "off" => Ok(Hugepages::Off),
        _ => value::number(text, MEGABYTES)
            .map(|megabytes| Hugepages::Megabytes(megabytes as u32))
            .map_err(|fault| Fault::new(fault.problem, "write `auto`, `off`, or MB from 64 to 1048576")),
    };
    field
        .value(expected, report, parse)
        .map_or(Hugepages::Auto, |at| at.value)
}

fn limits(field: Option<Field<'_>>, report: &mut Report) -> Limits {
    let fields = Fields::open_optional(field, &schema::LIMITS, report);
    let usual = Limits::default();
    Limits {
        connections: number(&fields, "connections", 1..=0x7fff_ffff, usual.connections, report),
        services: number(&fields, "services", 1..=0xff_ffff, usual.services, report),
        servers: number(&fields, "servers", 1..=0xff_ffff, usual.servers, report),
        neighbours: number(&fields, "neighbours", 1..=65_534, usual.neighbours, report),
        fragments: number(&fields, "fragments", 1..=32_768, usual.fragments, report),
    }
}

/// An argument of EAL, unless the gateway itself gives that one, from another key.
fn eal_argument(field: Field<'_>, report: &mut Report) -> Option<String> {
    const TAKEN: [(&str, &str); 13] = [
        ("-l", "node.workers"),
        ("-c", "node.workers"),
        ("--lcores", "node.workers"),
        ("-s", "node.workers"),
        ("-a", "ports[].device"),
        ("--allow", "ports[].device"),
        ("--vdev", "ports[].device"),
        ("-d", "node.drivers"),
        ("--file-prefix", "node.file_prefix"),
        ("-m", "node.memory"),
        ("--no-huge", "node.hugepages"),
        ("--socket-mem", "node.hugepages"),
        ("--in-memory", "node.hugepages"),
    ];
    let parse = |text: &str| {
        let option = text.split(['=', ' ']).next().unwrap_or_default();
        if text.is_empty() || text.contains('\0') {
            return Err(Fault::new(
                "an empty argument",
                "write one such as --log-level=lib.eal:debug",
            ));
        }
        match TAKEN.iter().find(|(taken, _)| *taken == option) {
            Some((_, key)) => {
                let problem = format!("the gateway itself sets `{option}`");
                Err(Fault::new(problem, format!("use the key `{key}` for it")))
            }
            None => Ok(text.to_owned()),
        }
    };
    Some(
        field
            .value("an argument such as --log-level=lib.eal:debug", report, parse)?
            .value,
    )
}

fn drivers(fields: &Fields<'_>, report: &mut Report) -> Vec<PathBuf> {
    let each = |field: Field<'_>, report: &mut Report| field.value("a path", report, |text| path(text, 4096));
    let list = fields.get("drivers").map(|field| field.one_or_more(report, each));
    list.into_iter()
        .flat_map(|list| list.items)
        .flatten()
        .map(|at| at.value)
        .collect()
}
