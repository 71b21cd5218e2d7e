//! A connection to a PostgreSQL server by libpq: statements that are prepared once and executed with parameters, as
//! applications do it. Parameters and results are in text, libpq's default, or in the binary forms of their types.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};

use rustix::thread::Pid;

use crate::Result;

/// An open connection, closed on drop.
pub(super) struct Connection(NonNull<pq_sys::PGconn>);

/// The result of a statement, freed on drop.
pub(super) struct Answer(*mut pq_sys::PGresult);

/// libpq's number for the binary form of a parameter or result.
const BINARY: c_int = 1;

impl Connection {
    /// Connects; `parameters` is libpq's connection string.
    ///
    /// # Errors
    /// What libpq says.
    pub(super) fn open(parameters: &str) -> Result<Connection> {
        let parameters = CString::new(parameters)?;
        // SAFETY: a string that ends with a zero.
        let raw = unsafe { pq_sys::PQconnectdb(parameters.as_ptr()) };
        let connection = Connection(NonNull::new(raw).ok_or("libpq: out of memory")?);
        // SAFETY: an open connection.
        match unsafe { pq_sys::PQstatus(raw) } {
            pq_sys::ConnStatusType::CONNECTION_OK => Ok(connection),
            _ => Err(connection.message().into()),
        }
    }

    /// The process that serves the connection.
    pub(super) fn backend(&self) -> Option<Pid> {
        // SAFETY: an open connection.
        Pid::from_raw(unsafe { pq_sys::PQbackendPID(self.0.as_ptr()) })
    }

    /// Prepares a statement under the name `name`.
    ///
    /// # Errors
    /// An SQL error.
    pub(super) fn prepare(&self, name: &CStr, statement: &str) -> Result<()> {
        let sql = CString::new(statement)?;
        // SAFETY: an open connection, and strings that end with a zero; the types of the parameters are the server's choice.
        let answer =
            unsafe { pq_sys::PQprepare(self.0.as_ptr(), name.as_ptr(), sql.as_ptr(), 0, ptr::null()) };
        self.check(&Answer(answer), statement)
    }

    /// Runs a statement without parameters.
    ///
    /// # Errors
    /// An SQL error.
    pub(super) fn run(&self, statement: &str) -> Result<Answer> {
        let sql = CString::new(statement)?;
        // SAFETY: an open connection, and a string that ends with a zero.
        let answer = Answer(unsafe { pq_sys::PQexec(self.0.as_ptr(), sql.as_ptr()) });
        self.check(&answer, statement)?;
        Ok(answer)
    }

    /// Executes a prepared statement and receives all its rows.
    ///
    /// # Errors
    /// An SQL error.
    pub(super) fn execute(&self, name: &CStr, parameters: &[CString]) -> Result<()> {
        let values: Vec<*const c_char> = parameters.iter().map(|value| value.as_ptr()).collect();
        // SAFETY: an open connection; as many strings as are said, each ending with a zero, all in text.
        let answer = unsafe {
            pq_sys::PQexecPrepared(
                self.0.as_ptr(),
                name.as_ptr(),
                c_int::try_from(values.len())?,
                values.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        self.check(&Answer(answer), &name.to_string_lossy())
    }

    /// The same with parameters and results in binary.
    ///
    /// # Errors
    /// An SQL error.
    pub(super) fn execute_binary(&self, name: &CStr, parameters: &[&[u8]]) -> Result<Answer> {
        let values: Vec<*const c_char> = parameters.iter().map(|value| value.as_ptr().cast()).collect();
        let lengths: Vec<c_int> = parameters
            .iter()
            .map(|value| c_int::try_from(value.len()))
            .collect::<std::result::Result<_, _>>()?;
        let formats = vec![BINARY; parameters.len()];
        // SAFETY: an open connection; as many values, lengths and formats as are said, each value of its length.
        let answer = Answer(unsafe {
            pq_sys::PQexecPrepared(
                self.0.as_ptr(),
                name.as_ptr(),
                c_int::try_from(values.len())?,
                values.as_ptr(),
                lengths.as_ptr(),
                formats.as_ptr(),
                BINARY,
            )
        });
        self.check(&answer, &name.to_string_lossy())?;
        Ok(answer)
    }

    fn check(&self, answer: &Answer, what: &str) -> Result<()> {
        // SAFETY: a result of libpq; it takes null for one of a connection that failed.
        match unsafe { pq_sys::PQresultStatus(answer.0) } {
            pq_sys::ExecStatusType::PGRES_COMMAND_OK | pq_sys::ExecStatusType::PGRES_TUPLES_OK => Ok(()),
            _ => Err(format!("{what}: {}", self.message()).into()),
        }
    }

    /// The message of the last error.
    fn message(&self) -> String {
        // SAFETY: an open connection; the message is copied.
        let message = unsafe { CStr::from_ptr(pq_sys::PQerrorMessage(self.0.as_ptr())) };
        message.to_string_lossy().trim().to_owned()
    }
}

impl Answer {
    /// The values of the first column, one for each row.
    pub(super) fn first_column(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: a result that is not freed yet; so are the following.
        let rows = unsafe { pq_sys::PQntuples(self.0) };
        (0..rows).map(move |row| {
            // SAFETY: null, without a first column, or the bytes of a value, which live as long as the result.
            let (value, length) =
                unsafe { (pq_sys::PQgetvalue(self.0, row, 0), pq_sys::PQgetlength(self.0, row, 0)) };
            match usize::try_from(length) {
                // SAFETY: so many bytes, which nobody changes.
                Ok(length) if !value.is_null() => unsafe { std::slice::from_raw_parts(value.cast(), length) },
                _ => &[],
            }
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: an open connection, which nobody uses afterwards.
        unsafe { pq_sys::PQfinish(self.0.as_ptr()) }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: a result that nobody uses afterwards; null is one too.
        unsafe { pq_sys::PQclear(self.0) }
    }
}
