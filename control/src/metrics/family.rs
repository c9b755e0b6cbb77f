//! Families of samples on their way into the text, one at a time: with 10,000 services no two need be in memory at
//! once.

use super::about::{About, Kind};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// The text of a scrape, as it grows.
#[derive(Debug, Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
}

/// One series of a metric: the values of its labels, in the order of [`About::labels`], and its value.
pub(super) struct Sample<'a, const LABELS: usize>(pub(super) [&'a str; LABELS], pub(super) f64);

impl Text {
    /// Adds a metric with its series; nothing when there are none.
    pub(super) fn family<'a, const LABELS: usize>(
        &mut self,
        about: &About,
        samples: impl IntoIterator<Item = Sample<'a, LABELS>>,
    ) {
        debug_assert_eq!(about.labels.len(), LABELS, "{}", about.name);
        let metrics: Vec<Metric> = samples.into_iter().map(|sample| metric(about, &sample)).collect();
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(about.name.to_owned());
        family.set_help(about.help.to_owned());
        family.set_field_type(match about.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        family.set_metric(metrics);
        // Only a family without name or samples is refused, and memory does not fail to be written.
        let _ = TextEncoder::new().encode(&[family], &mut self.bytes);
    }

    /// Adds a metric without labels.
    pub(super) fn single(&mut self, about: &About, value: f64) {
        self.family(about, [Sample([], value)]);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn metric<const LABELS: usize>(about: &About, Sample(values, value): &Sample<'_, LABELS>) -> Metric {
    let labels = about.labels.iter().zip(values);
    let mut metric = Metric::from_label(labels.map(|(name, value)| label(name, value)).collect());
    match about.kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(*value);
            metric.set_counter(counter);
        }
        Kind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(*value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
