//! Why packets arrive at the worker that they arrive at: what `show ports` says of a device.

/// How a device spreads packets over the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Not at all: there is one queue, or one worker.
    #[default]
    OneQueue,
    /// By a hash that knows nothing of owners.
    Unknown,
    /// By our key and table: TCP and UDP over IPv4 arrive at the owner of their source.
    BySource,
    /// By our key and table: TCP and UDP over IPv4 arrive at the owner of their destination.
    ByDestination,
}

impl Spread {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Spread::OneQueue => "-",
            Spread::Unknown => "unknown",
            Spread::BySource => "source",
            Spread::ByDestination => "destination",
        }
    }
}
