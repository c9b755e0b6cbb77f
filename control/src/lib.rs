//! The control side of Tidegate: configuration, the table of services, and how operators change and see them.

pub mod ipvsadm;
