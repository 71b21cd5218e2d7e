//! The `treedb` command.

#[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
mod static_names;

use std::process::ExitCode;

use treedb_server::cli;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    static_names::look_up_without_modules();
    cli::run(cli::parse())
}
