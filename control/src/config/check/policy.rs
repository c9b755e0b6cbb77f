//! What a service says of its connections' lives needs a protocol, connections, or another key.

use dataplane::scheduler::SchedulerKind;
use dataplane::service::{OnRemove, Protocol};

use super::option::set;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::model::slow_start;

/// Checks the service that stands at `path`.
pub(crate) fn check(raw: &RawService, path: &str, report: &mut Report) {
    let own = &raw.policy;
    if let Some(place) = own
        .drain_deadline
        .filter(|_| own.policy.on_remove != OnRemove::Drain)
    {
        let problem = "`drain_deadline` without `on_remove: drain`: nothing drains";
        let fault = Fault::new(problem, "remove it, or write `on_remove: drain`");
        report.error(place, format!("{path}.drain_deadline"), fault);
    }
    let listens = |protocol| {
        let mut listeners = raw.listeners.iter().map(|(_, listener)| listener.key.protocol());
        // What could not be read may be anything.
        raw.listeners.incomplete()
            || raw.listeners.items.is_empty()
            || listeners.any(|other| other == Some(protocol))
    };
    if let Some(place) = own.reset_idle.filter(|_| !listens(Protocol::Tcp)) {
        let problem = "`on_idle: reset` without a TCP listener: only TCP has resets";
        let fault = Fault::new(problem, "remove `on_idle`");
        report.error(place, format!("{path}.on_idle"), fault);
    }
    if let Some(place) = own.expire_quiescent.filter(|_| !listens(Protocol::Udp)) {
        let problem = "`expire_quiescent` without a UDP listener: what else is open stays with its server";
        let fault = Fault::new(problem, "remove `expire_quiescent`");
        report.error(place, format!("{path}.expire_quiescent"), fault);
    }
    let shares = raw.schedulers().any(slow_start::is_possible);
    if let Some(place) = own.slow_start.filter(|_| !shares) {
        let problem = match raw.queues {
            None => format!(
                "`slow_start` with `{}`, which does not go by weight",
                raw.scheduler.name()
            ),
            Some(_) => "`slow_start`, and no queue goes by weight".to_owned(),
        };
        let fault = Fault::new(problem, "remove it, or use another scheduler than rr, lc and dh");
        report.error(place, format!("{path}.slow_start"), fault);
    }
    let hashes = raw.schedulers().any(|scheduler| scheduler == SchedulerKind::Mh);
    if let Some(place) = own.bound.filter(|_| !hashes) {
        let problem = match raw.queues {
            None => format!("`bound` with `{}`", raw.scheduler.name()),
            Some(_) => "`bound`, and no queue has the scheduler `mh`".to_owned(),
        };
        let fault = Fault::new(problem, "remove it, or write `scheduler: mh`");
        report.error(place, format!("{path}.bound"), fault);
    }
    if set(raw.one_packet).is_some() {
        for (key, place) in &own.counted {
            let problem = format!("`{key}` with `one_packet`: there is no connection to count");
            let fault = Fault::new(problem, "remove it; `rate` limits datagrams");
            report.error(*place, format!("{path}.limits.{key}"), fault);
        }
    }
}
