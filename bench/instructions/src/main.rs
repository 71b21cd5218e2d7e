//! TreeDB's hot paths, one at a time, for callgrind to count their instructions. `scripts/instructions.py` runs this
//! program and compares the counts with `bench/instructions/counts.json`.
//!
//! ```text
//! instructions list               one line for each path: its name, a tab, what one operation is
//! instructions prepare PATH DIR   fills DIR with the data of a path (not under valgrind: this is the slow part)
//! instructions run PATH DIR       warms up, runs the operations inside `measured`, prints how many there were
//! ```
//!
//! Only [`measured`](measure::measured) is counted, on the thread that calls it. What could make two runs differ is
//! kept out: data comes from fixed seeds, the store has no threads of its own and makes no checkpoint meanwhile, and
//! keys, filters and documents are made before the measured part. What remains is the random seed of std's hash maps.

mod data;
mod measure;
mod paths;

use std::path::Path;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["list"] => paths::PATHS.iter().for_each(|path| println!("{}\t{}", path.name, path.operation)),
        ["prepare", name, dir] => (paths::find(name)?.prepare)(Path::new(dir))?,
        ["run", name, dir] => println!("{}", (paths::find(name)?.run)(Path::new(dir))?),
        _ => return Err("usage: instructions list | prepare PATH DIR | run PATH DIR".into()),
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}
