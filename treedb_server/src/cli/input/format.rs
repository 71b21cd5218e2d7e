//! Which kind of file it is.

use std::io::{self, BufRead};

use clap::ValueEnum;

use super::Records;
use super::csv::{Csv, CsvOptions, check_fields};
use super::json_array::JsonArray;
use super::json_lines::JsonLines;

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// JSON documents, one a line
    Jsonl,
    /// A JSON array of documents, or documents one a line
    Json,
    /// Comma-separated cells
    Csv,
    /// Tab-separated cells
    Tsv,
}

impl Format {
    /// That of a file called so.
    pub(in crate::cli) fn of(file: &str) -> Format {
        let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Format::Csv,
            Some("tsv") => Format::Tsv,
            Some("jsonl" | "ndjson") => Format::Jsonl,
            _ => Format::Json,
        }
    }

    /// Whether it has cells.
    pub(in crate::cli) fn has_cells(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv)
    }
}

/// The records of a file.
///
/// # Errors
/// It cannot be read; the fields contradict each other.
pub(in crate::cli) fn records(
    mut input: Box<dyn BufRead + Send>,
    format: Format,
    options: CsvOptions,
) -> io::Result<Box<dyn Records>> {
    check_fields(&options.fields).map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
    Ok(match format {
        Format::Csv => Box::new(Csv::new(input, b',', options)),
        Format::Tsv => Box::new(Csv::new(input, b'\t', options)),
        Format::Json if begins_array(&mut input)? => Box::new(JsonArray::new(input)),
        Format::Json | Format::Jsonl => Box::new(JsonLines::new(input)),
    })
}

/// Whether the first byte that is not white space begins an array. Of a file with more white space at its beginning than the
/// buffer holds, the answer is no.
fn begins_array(input: &mut impl BufRead) -> io::Result<bool> {
    let ready = input.fill_buf()?;
    let text = ready.strip_prefix(b"\xef\xbb\xbf").unwrap_or(ready);
    Ok(text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'['))
}
