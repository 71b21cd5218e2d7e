//! The program of `make bench SUITE=name` and `make bench-docs`.

use std::process::ExitCode;

use bench::suites::{SUITES, Scale};
use bench::{Result, page, worker};

fn run(wanted: &str) -> Result<()> {
    if wanted == "docs" {
        println!("written to {}", page::write()?.display());
        return Ok(());
    }
    let chosen: Vec<_> = SUITES.iter().filter(|s| wanted == "all" || wanted == s.name).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
        return Err(format!("there is no suite {wanted:?}: choose {}, all or docs", names.join(", ")).into());
    }
    chosen.into_iter().try_for_each(|suite| suite.run(Scale::chosen()))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, task)) if first == worker::COMMAND => worker::run(task),
        first => run(first.map_or("all", |(wanted, _)| wanted)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}
