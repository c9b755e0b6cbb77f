//! How a service, or a queue of one, chooses servers: `scheduler` and `scheduler_flags`.

use dataplane::scheduler::{SchedulerFlags, SchedulerKind};

use super::field::{Field, Fields};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::yaml::shown;

/// The scheduler that is none: each port of the service is a queue with its own.
pub(crate) const MQ: &str = "mq";

/// Where a service says `mq`, if it does.
pub(crate) fn mq(fields: &Fields<'_>) -> Option<Place> {
    let field = fields.get("scheduler")?;
    field.is_word(MQ).then(|| field.place())
}

/// What both keys say. `with_queues`: whether `mq` might have been there too.
pub(crate) fn scheduler(
    fields: &Fields<'_>,
    with_queues: bool,
    report: &mut Report,
) -> (SchedulerKind, SchedulerFlags) {
    let field = fields.get("scheduler");
    let kind = |text: &str| kind(text, with_queues);
    let kind = field.map(|field| field.value("the name of a scheduler, such as `wlc`", report, kind));
    let each = |field: Field<'_>, report: &mut Report| {
        let judge = |text: &str| match kind {
            // What belongs to a scheduler that could not be read cannot be judged.
            Some(None) => Ok(SchedulerFlags::NONE),
            Some(Some(at)) => flag(at.value, text),
            None => flag(SchedulerKind::Wlc, text),
        };
        field.value("the name of a flag, such as `sh-port`", report, judge)
    };
    let flags = fields
        .get("scheduler_flags")
        .map(|field| field.one_or_more(report, each));
    let all = flags.iter().flat_map(|flags| flags.iter());
    let all = all.fold(SchedulerFlags::NONE, |all, (_, at)| all.with(at.value));
    (kind.flatten().map_or(SchedulerKind::Wlc, |at| at.value), all)
}

fn kind(text: &str, with_queues: bool) -> Result<SchedulerKind, Fault> {
    SchedulerKind::from_name(text).ok_or_else(|| {
        if text == MQ {
            let remedy = "write the scheduler of its servers, such as `wlc`";
            return Fault::new("`mq` for a queue, which is one port", remedy);
        }
        let names = SchedulerKind::ALL.iter().map(|kind| kind.name());
        let names = names.chain(with_queues.then_some(MQ));
        Fault::new(
            format!("unknown scheduler `{}`", shown(text)),
            format!("available: {}", listed(names)),
        )
    })
}

/// A flag by the name that the scheduler has for it, or by its number.
fn flag(kind: SchedulerKind, text: &str) -> Result<SchedulerFlags, Fault> {
    let names = |flag: &SchedulerFlags| kind.flag_name(*flag) == Some(text);
    let numbered = ["flag-1", "flag-2", "flag-3"]
        .iter()
        .position(|number| *number == text);
    let number = numbered.map(|number| SchedulerFlags::EACH[number]);
    number
        .or_else(|| SchedulerFlags::EACH.into_iter().find(names))
        .ok_or_else(|| {
            let own = SchedulerFlags::EACH
                .into_iter()
                .filter_map(|flag| kind.flag_name(flag));
            let remedy = match listed(own) {
                none if none.is_empty() => "remove it: only `sh` and `mh` have flags".to_owned(),
                some => format!("available: {some}"),
            };
            Fault::new(
                format!("`{}` is no flag of `{}`", shown(text), kind.name()),
                remedy,
            )
        })
}

fn listed<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    words.join(", ")
}
