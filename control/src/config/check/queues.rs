//! A service with queues is a service for each of them: what a queue says of itself, and its name.

use std::collections::HashMap;

use dataplane::scheduler::{SchedulerFlags, SchedulerKind};

use crate::config::read::At;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::Listener;

/// Characters of a name.
const LONGEST: usize = 64;

/// What a service with queues says of each of them, and another one of itself.
pub(super) struct Part<'r> {
    /// The queue's port.
    pub(super) port: Option<At<u16>>,
    pub(super) pool: Option<&'r At<String>>,
    pub(super) scheduler: SchedulerKind,
    pub(super) scheduler_flags: SchedulerFlags,
    /// Where that stands.
    pub(super) path: String,
}

/// The parts of the service that stands at `path`: its queues, but for those whose port could not be read, or itself.
pub(super) fn parts<'r>(raw: &'r RawService, path: &str) -> Vec<Part<'r>> {
    let Some(queues) = &raw.queues else {
        return vec![Part {
            port: None,
            pool: raw.pool.as_ref(),
            scheduler: raw.scheduler,
            scheduler_flags: raw.scheduler_flags,
            path: path.to_owned(),
        }];
    };
    let queues = queues.iter().enumerate();
    let part = queues.filter_map(|(index, queue)| {
        Some(Part {
            port: Some(queue.port?),
            pool: queue.pool.as_ref(),
            scheduler: queue.scheduler,
            scheduler_flags: queue.scheduler_flags,
            path: format!("{path}.queues[{index}]"),
        })
    });
    part.collect()
}

/// Where the service `services[index]` listens, each listener with its path. Each queue is at all of its VIPs.
pub(super) fn listeners(service: &RawService, index: usize) -> Vec<(Listener, String)> {
    let listen = format!("services[{index}].listen");
    let with_path = |(item, listener): (usize, Listener)| (listener, service.listeners.path(&listen, item));
    let Some(queues) = &service.queues else {
        let listeners = service.listeners.iter();
        return listeners
            .map(|(item, listener)| with_path((item, *listener)))
            .collect();
    };
    let ports = queues.iter().filter_map(|queue| queue.port);
    ports
        .flat_map(|port| service.queue_listeners(port))
        .map(with_path)
        .collect()
}

/// The name of the queue for that port.
pub(super) fn name_of(service: &str, port: At<u16>) -> String {
    format!("{service}:{}", port.value)
}

/// Queues have names as services have: none too long, none that another service has.
pub(super) fn names(services: &[RawService], report: &mut Report) {
    let plain = services.iter().enumerate();
    let plain = plain.filter(|(_, service)| service.queues.is_none());
    let known: HashMap<&str, usize> = plain
        .filter_map(|(index, service)| Some((&*service.name.as_ref()?.value, index)))
        .collect();
    let with_queues = services.iter().enumerate();
    for (index, service) in with_queues.filter(|(_, service)| service.queues.is_some()) {
        let Some(own) = &service.name else { continue };
        for part in parts(service, &format!("services[{index}]")) {
            let Some(port) = part.port else { continue };
            let name = name_of(&own.value, port);
            if let Some(other) = known.get(&*name) {
                let problem = format!("this queue is called `{name}`, as services[{other}] is");
                let fault = Fault::new(problem, "give one of the services another name");
                report.error(port.place, format!("{}.port", part.path), fault);
            }
            if name.len() > LONGEST {
                let problem =
                    format!("this queue would be called `{name}`, which is longer than {LONGEST} characters");
                let fault = Fault::new(problem, "give the service a shorter name");
                report.error(own.place, format!("services[{index}].name"), fault);
            }
        }
    }
}
