//! A connection to a PostgreSQL server by libpq: statements that are prepared once and executed with parameters, as
//! applications do it. Parameters and results are in text, libpq's default.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{self, NonNull};

use rustix::thread::Pid;

use crate::Result;

/// An open connection, closed on drop.
pub(super) struct Connection(NonNull<pq_sys::PGconn>);

/// The result of a statement, freed on drop.
struct Answer(*mut pq_sys::PGresult);

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
