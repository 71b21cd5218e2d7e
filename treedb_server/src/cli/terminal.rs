//! Asking for a password on the terminal, which does not show it.
//!
//! While it is asked for, the keys that interrupt, quit and suspend a program (Ctrl-C, Ctrl-\, Ctrl-Z) do not send their signals but are read
//! like others. So the terminal is as it was before the signal comes, which is sent here then: who presses Ctrl-C has a terminal that shows
//! what is entered. The signal goes to the whole process group, as the terminal would send it: to the script and the pipeline too that the
//! program is part of. Lines are put together here for the same reason: the terminal would keep such a key until the end of the line. A signal of
//! another program is not waited for: one that ends the process leaves a terminal that neither shows nor interprets keys (`stty sane` mends it).

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, SpecialCodes, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// The line of a password.
const PROMPT: &[u8] = b"password: ";

/// Ctrl-H and the other key that erases, whichever the terminal is set to.
const ERASE: [u8; 2] = [0x08, 0x7f];

/// A terminal that shows nothing of what is entered, until it is dropped.
struct Silent<'t> {
    terminal: &'t File,
    before: &'t Termios,
}

/// Why there is no password.
#[derive(Debug)]
pub(super) enum NoPassword {
    /// A key has interrupted the prompt, and its signal has not ended the process.
    Interrupted,
    Other(String),
}

impl std::fmt::Display for NoPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoPassword::Interrupted => f.write_str("no password was entered: interrupted"),
            NoPassword::Other(why) => f.write_str(why),
        }
    }
}

/// How a line has ended.
#[derive(Debug, PartialEq)]
enum Entered {
    Line(String),
    /// By a key that is to send this signal.
    Key(Signal),
}

impl<'t> Silent<'t> {
    fn new(terminal: &'t File, before: &'t Termios) -> rustix::io::Result<Self> {
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &silent)?;
        Ok(Silent { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to be restored.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, self.before);
    }
}

/// The signal of a key, if it has one.
fn signal(key: u8, keys: &SpecialCodes) -> Option<Signal> {
    let all = [
        (SpecialCodeIndex::VINTR, Signal::INT),
        (SpecialCodeIndex::VQUIT, Signal::QUIT),
        (SpecialCodeIndex::VSUSP, Signal::TSTP),
    ];
    // What is switched off is zero.
    all.iter().find(|(at, _)| key != 0 && keys[*at] == key).map(|(_, signal)| *signal)
}

/// Reads a line, byte by byte: what comes after it is for others.
fn read_line(terminal: &mut impl Read, keys: &SpecialCodes) -> io::Result<Entered> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match terminal.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let [key] = byte;
        let is = |at: SpecialCodeIndex| key != 0 && keys[at] == key;
        if let Some(signal) = signal(key, keys) {
            return Ok(Entered::Key(signal));
        }
        match key {
            b'\r' | b'\n' => break,
            _ if is(SpecialCodeIndex::VEOF) => break,
            // What is erased of a password is not seen: a word is as much as all.
            _ if is(SpecialCodeIndex::VKILL) || is(SpecialCodeIndex::VWERASE) => line.clear(),
            _ if is(SpecialCodeIndex::VERASE) || ERASE.contains(&key) => {
                // A character of several bytes goes as a whole.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            _ => line.push(key),
        }
    }
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "what was entered is not UTF-8");
    String::from_utf8(line).map(Entered::Line).map_err(wrong)
}

/// Stops the process as long as it is in the background, where the terminal is another's: what it would restore would be that one's mode.
fn wait_for_foreground(terminal: &File) -> rustix::io::Result<()> {
    // Once: who has left nobody to let it go on is not stopped.
    if tcgetpgrp(terminal)? != getpgrp() {
        kill_current_process_group(Signal::TTIN)?;
    }
    Ok(())
}

/// Asks for a password.
///
/// # Errors
/// There is no terminal, or nothing was entered, or Ctrl-C was pressed and does not end the process.
pub(super) fn ask_password() -> Result<String, NoPassword> {
    let no_terminal = |error: &dyn std::fmt::Display| {
        NoPassword::Other(format!("there is no terminal to ask for the password: {error}"))
    };
    let mut terminal =
        File::options().read(true).write(true).open("/dev/tty").map_err(|error| no_terminal(&error))?;
    wait_for_foreground(&terminal).map_err(|error| no_terminal(&error))?;
    let before = tcgetattr(&terminal).map_err(|error| no_terminal(&error))?;
    loop {
        let entered = {
            // Before it is asked for: who is fast has begun to type by then.
            let _silent = Silent::new(&terminal, &before).map_err(|error| no_terminal(&error))?;
            (&terminal).write_all(PROMPT).map_err(|error| no_terminal(&error))?;
            read_line(&mut &terminal, &before.special_codes)
        };
        let _ = terminal.write_all(b"\n");
        match entered.map_err(|error| no_terminal(&error))? {
            Entered::Line(password) if password.is_empty() => {
                return Err(NoPassword::Other("no password was entered".to_owned()));
            }
            Entered::Line(password) => return Ok(password),
            Entered::Key(signal) => {
                kill_current_process_group(signal).map_err(|error| no_terminal(&error))?;
                if signal != Signal::TSTP {
                    return Err(NoPassword::Interrupted);
                }
                // It asks again when it is let go on in the foreground.
                wait_for_foreground(&terminal).map_err(|error| no_terminal(&error))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a terminal as it is opened.
    fn keys() -> SpecialCodes {
        let terminal = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        tcgetattr(&terminal).unwrap().special_codes
    }

    #[test]
    fn a_line_is_what_is_left_of_it_when_it_ends() {
        let keys = keys();
        for (entered, line) in [
            ("secret\nmore", "secret"),
            ("secret\r", "secret"),
            ("secret", "secret"),
            ("secre\u{4}t", "secre"),
            ("\n", ""),
            ("secrex\u{7f}t\n", "secret"),
            ("\u{7f}\u{8}secret\n", "secret"),
            ("wrong\u{15}secret\n", "secret"),
            ("wrong\u{17}secret\n", "secret"),
            ("caf\u{e9}\u{20ac}\u{7f}\n", "caf\u{e9}"),
            ("with blanks \u{0}\n", "with blanks \u{0}"),
        ] {
            let read = read_line(&mut entered.as_bytes(), &keys).unwrap();
            assert_eq!(read, Entered::Line(line.to_owned()), "{entered:?}");
        }
        for (key, signal) in [("\u{3}", Signal::INT), ("\u{1c}", Signal::QUIT), ("\u{1a}", Signal::TSTP)] {
            let entered = format!("sec{key}ret\n");
            assert_eq!(read_line(&mut entered.as_bytes(), &keys).unwrap(), Entered::Key(signal));
        }
        assert!(read_line(&mut &b"\xff\n"[..], &keys).is_err());
    }

    #[test]
    fn a_key_that_is_switched_off_is_a_character() {
        let mut keys = keys();
        keys[SpecialCodeIndex::VINTR] = 0;
        let read = read_line(&mut &b"a\x03b\n"[..], &keys).unwrap();
        assert_eq!(read, Entered::Line("a\u{3}b".to_owned()));
    }
}
