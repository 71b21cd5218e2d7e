//! `treedb check --uri`: a running server checks its collections.

use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Instant;

use bson::{Document, RawDocumentBuf, doc};
use indicatif::HumanCount;

use super::Failure;
use super::check::write_recall;
use super::dump::Place;

/// Checks all collections; the exit status tells whether something is wrong with one.
pub(super) fn check(mut server: Place, recall: Option<NonZeroU32>) -> Result<ExitCode, Failure> {
    let (started, mut damage, mut out) = (Instant::now(), Vec::new(), std::io::stdout().lock());
    for database in server.databases()? {
        for listed in server.collections(&database)?.iter().filter(|listed| !listed.is_view()) {
            let mut command = doc! { "validate": listed.name.as_str() };
            command.extend(recall.map(|searches| ("recall".to_owned(), i64::from(searches.get()).into())));
            command.insert("$db", database.as_str());
            let command = RawDocumentBuf::try_from(&command)?;
            let Place::Server(client) = &mut server else { break };
            // It may have been dropped meanwhile.
            let Some(reply) = client.run_on_existing(&command)? else { continue };
            let namespace = format!("{database}.{}", listed.name);
            let reply = Document::try_from(&*reply)?;
            if reply.get_bool("valid").unwrap_or(false) {
                report(&mut out, &namespace, &reply)?;
                continue;
            }
            let before = damage.len();
            let errors = reply.get_array("errors").into_iter().flatten();
            damage.extend(errors.map(|error| error.as_str().unwrap_or(&namespace).to_owned()));
            if damage.len() == before {
                damage.push(format!("{namespace} is damaged"));
            }
        }
    }
    if !damage.is_empty() {
        return Err(Failure(damage.join("\n")));
    }
    writeln!(out, "no damage in the collections ({:.2} s)", started.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

fn count(value: Option<&bson::Bson>) -> u64 {
    let number = value.and_then(|value| value.as_i64().or(value.as_i32().map(i64::from)));
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

/// Prints what `validate` replies of a collection.
fn report(out: &mut impl Write, namespace: &str, reply: &Document) -> std::io::Result<()> {
    writeln!(out, "collection {namespace}: {} documents", HumanCount(count(reply.get("nrecords"))))?;
    for (index, entries) in reply.get_document("keysPerIndex").into_iter().flatten() {
        let entries = HumanCount(count(Some(entries)));
        writeln!(out, "  index {index}: {entries} entries, each agrees with its document")?;
    }
    for measured in reply.get_array("recall").into_iter().flatten().filter_map(|one| one.as_document()) {
        let text = |name| measured.get_str(name).unwrap_or_default();
        let number = |name| count(measured.get(name));
        let recall = measured.get_f64("recall").unwrap_or_default();
        write_recall(
            out,
            (text("index"), text("path")),
            recall,
            number("numCandidates"),
            number("searches"),
        )?;
    }
    Ok(())
}
