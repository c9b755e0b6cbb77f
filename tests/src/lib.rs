//! Placeholder until its first commit.
