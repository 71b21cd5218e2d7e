//! `treedb find`.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use clap::Args;
use treedb_query::doc::json::to_json;

use super::Failure;
use super::export::Output;
use super::target::{Search, TargetArgs, json, namespace};

/// Query a collection and print the documents as JSON lines
#[derive(Debug, Args)]
#[command(after_help = "\
Filter, sort and projection are MongoDB's, as JSON. Documents are printed one a line, in relaxed extended JSON.

Example:
  treedb find shop.films '{\"year\": {\"$gte\": 1990}}' --sort '{\"year\": -1}' --limit 5 --dir ./data --time")]
pub(super) struct Find {
    /// Where to look: DATABASE.COLLECTION
    #[arg(value_name = "DB.COLL", value_parser = namespace)]
    namespace: String,
    /// Which documents, as a JSON filter
    #[arg(value_name = "FILTER", default_value = "{}", value_parser = json)]
    filter: RawDocumentBuf,
    #[command(flatten)]
    target: TargetArgs,
    /// In which order: {"year": -1}
    #[arg(long, value_name = "SORT", value_parser = json)]
    sort: Option<RawDocumentBuf>,
    /// Which fields: {"title": 1}
    #[arg(long, value_name = "PROJECTION", value_parser = json)]
    projection: Option<RawDocumentBuf>,
    /// Leave out the first N documents
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// At most N documents; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    limit: u64,
    /// Tell the milliseconds it took to get the documents, connecting, opening and printing not included
    #[arg(long)]
    time: bool,
}

impl Find {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut target = self.target.open(false)?;
        let search = Search {
            filter: self.filter,
            sort: self.sort,
            projection: self.projection,
            skip: self.skip,
            limit: self.limit,
        };
        let mut out = Output::open(Path::new("-"))?;
        let started = Instant::now();
        let mut found = target.find(&self.namespace, search)?;
        let mut took = started.elapsed();
        let mut documents = 0_u64;
        loop {
            let (document, step) = timed(|| found.next());
            took += step;
            let Some(document) = document else { break };
            documents += 1;
            if !out.line(&to_json(&document?))? {
                break;
            }
        }
        out.complete()?;
        if self.time {
            eprintln!("{:.3} ms, {documents} documents", took.as_secs_f64() * 1000.0);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}
