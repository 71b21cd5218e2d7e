//! Asking for a password on the terminal, which does not show it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal that shows nothing of what is entered, until it is dropped.
struct Silent<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Silent<'t> {
    fn new(terminal: &'t File) -> rustix::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(terminal, OptionalActions::Now, &silent)?;
        Ok(Silent { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to be restored.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Asks for a password.
///
/// # Errors
/// There is no terminal, or nothing was entered.
pub(super) fn ask_password() -> Result<String, String> {
    let no_terminal =
        |error: &dyn std::fmt::Display| format!("there is no terminal to ask for the password: {error}");
    let mut terminal =
        File::options().read(true).write(true).open("/dev/tty").map_err(|error| no_terminal(&error))?;
    let mut password = String::new();
    let read = {
        // Before it is asked for: who is fast has begun to type by then.
        let _silent = Silent::new(&terminal).map_err(|error| no_terminal(&error))?;
        (&terminal).write_all(b"password: ").map_err(|error| no_terminal(&error))?;
        BufReader::new(&terminal).read_line(&mut password)
    };
    let _ = terminal.write_all(b"\n");
    read.map_err(|error| no_terminal(&error))?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() { Err("no password was entered".to_owned()) } else { Ok(password.to_owned()) }
}
