//! The command log: one frame a commit group, one write and one `fdatasync` a durable group.
