//! The queues of a service with the scheduler `mq`: one for each port that it listens on, with a pool and a scheduler
//! of its own. What the service says beside them holds for each.

use std::collections::HashMap;

use dataplane::scheduler::{SchedulerFlags, SchedulerKind};

use super::field::{Field, Fields};
use super::network::reference;
use super::{At, scheduler, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;

/// What to write for queues.
const EXAMPLE: &str = "`queues: [ { port: 80, pool: web }, { port: 443, pool: tls, scheduler: mh } ]`, say";

/// A queue as it was written.
pub(crate) struct RawQueue {
    /// None also when another queue of the service has it.
    pub(crate) port: Option<At<u16>>,
    pub(crate) pool: Option<At<String>>,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) scheduler_flags: SchedulerFlags,
}

/// The queues of a service that says `mq` at `mq`; none of another one. Other keys that do not go with them are
/// refused here.
pub(crate) fn queues(fields: &Fields<'_>, mq: Option<Place>, report: &mut Report) -> Option<Vec<RawQueue>> {
    let field = match mq {
        Some(_) => fields.required("queues", EXAMPLE, report),
        None => fields.get("queues"),
    };
    let mut queues = field
        .and_then(|field| field.list(report, queue))
        .unwrap_or_default();
    let Some(_) = mq else {
        let is_readable = |queue: &RawQueue| queue.port.is_some() || queue.pool.is_some();
        let says_something = queues.is_empty() || queues.iter().any(is_readable);
        if let Some(field) = field.filter(|_| says_something) {
            let fault = Fault::new(
                "`queues` without `scheduler: mq`",
                "write `scheduler: mq`, or remove `queues` and write `pool`",
            );
            field.error(fault, report);
        }
        return None;
    };
    if let Some(field) = field.filter(|field| field.is_empty_list()) {
        field.error(Fault::new("an empty list", format!("write {EXAMPLE}")), report);
    }
    for (key, problem, remedy) in [
        (
            "pool",
            "`pool` with `mq`: each queue has its own",
            "write it in each element of `queues`",
        ),
        (
            "scheduler_flags",
            "`scheduler_flags` with `mq`: each queue has a scheduler of its own",
            "write them in the elements of `queues`",
        ),
        (
            "mark",
            "`mark` with `mq`: a mark says nothing of ports, which tell queues from one another",
            "write `listen: 203.0.113.100/tcp`, say, or a service for the mark with another scheduler",
        ),
    ] {
        if let Some(field) = fields.get(key) {
            field.error(Fault::new(problem, remedy), report);
        }
    }
    repeated(fields, &mut queues, report);
    Some(queues)
}

fn queue(field: Field<'_>, report: &mut Report) -> RawQueue {
    let fields = Fields::open(field, &schema::QUEUE, report);
    let port = fields.required("port", "`port: 80`, say", report);
    fields.required("pool", "`pool:` with the name of a pool", report);
    let (scheduler, scheduler_flags) = scheduler::scheduler(&fields, false, report);
    RawQueue {
        port: port.and_then(|port| port.value("a port from 1 to 65535", report, value::l4_port)),
        pool: reference(&fields, "pool", report),
        scheduler,
        scheduler_flags,
    }
}

/// A port is that of one queue.
fn repeated(fields: &Fields<'_>, queues: &mut [RawQueue], report: &mut Report) {
    let mut seen: HashMap<u16, (usize, Place)> = HashMap::new();
    for (index, queue) in queues.iter_mut().enumerate() {
        let Some(port) = queue.port else { continue };
        if let Some((first, place)) = seen.get(&port.value) {
            let problem = format!(
                "port {} is that of queues[{first}] already, on line {}",
                port.value, place.line
            );
            let fault = Fault::new(problem, "write another port, or remove one of them");
            report.error(
                port.place,
                format!("{}.queues[{index}].port", fields.path()),
                fault,
            );
            queue.port = None;
        } else {
            seen.insert(port.value, (index, port.place));
        }
    }
}
