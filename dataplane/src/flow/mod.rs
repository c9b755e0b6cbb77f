//! Connections: the table and its index, the record, time, protocol state, and the description of a
//! connection for the outside. A worker owns one of each and calls it from its pipeline; nothing here knows of
//! packets, services or other workers.

pub mod addresses;
mod bucket;
pub mod export;
pub mod extension;
pub mod hash;
pub mod index;
mod lines;
mod recent;
pub mod record;
pub mod sctp;
pub mod sequences;
pub mod state;
pub mod table;
pub mod template;
pub mod timeouts;
pub mod wheel;

pub use addresses::{Addresses6, Ends};
pub use export::Connection;
pub use extension::Extension;
pub use hash::FlowHasher;
pub use index::TagIndex;
pub use record::{Direction, Flags, Mode, Record, RecordId};
pub use sctp::SctpState;
pub use sequences::Sequences;
pub use state::TcpState;
pub use table::{ConnectionTable, FlowIndex, Hit, InsertError, Query};
pub use template::Template;
pub use timeouts::Timeouts;
pub use wheel::{Verdict, Wheel};
