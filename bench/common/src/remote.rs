//! The protocol between the benchmark program and a document store in a process of its own, over stdin and stdout.
//!
//! A request is one byte for the operation, its argument (8 bytes), the number of user numbers (8 bytes) and the user
//! numbers (8 bytes each). A response is one byte, 0 for success and 1 for an error, and then either two numbers (8
//! bytes each) or the length of a message (8 bytes) and the message. All numbers are little-endian.

use std::io::{Error, ErrorKind, Read, Result, Write};

/// An operation on a document store. Operations without a result respond with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Inserts users; the argument is the number of documents per transaction.
    Insert = 1,
    /// Finds users by `_id`; responds with a checksum.
    FindById = 2,
    /// Finds users by `email`; responds with a checksum.
    FindByEmail = 3,
    /// Finds the users of a city, which is the argument; responds with a checksum.
    FindByCity = 4,
    /// Sets the `pad` field of users, one per transaction.
    Update = 5,
    /// Deletes users, one per transaction.
    Delete = 6,
    /// Responds with the number of users in total, and of those in city 7.
    Count = 7,
}

impl Operation {
    fn from_byte(byte: u8) -> Result<Operation> {
        use Operation::*;
        [Insert, FindById, FindByEmail, FindByCity, Update, Delete, Count]
            .into_iter()
            .find(|operation| *operation as u8 == byte)
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, format!("there is no operation {byte}")))
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// See [`Operation`]; otherwise 0.
    pub argument: u64,
    /// The users to do it with.
    pub users: Vec<u64>,
}

fn read_u64(from: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

impl Request {
    /// Sends the request.
    ///
    /// # Errors
    /// From the stream.
    pub fn write(&self, to: &mut impl Write) -> Result<()> {
        let mut bytes = vec![self.operation as u8];
        bytes.extend_from_slice(&self.argument.to_le_bytes());
        bytes.extend_from_slice(&(self.users.len() as u64).to_le_bytes());
        self.users.iter().for_each(|user| bytes.extend_from_slice(&user.to_le_bytes()));
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Receives a request; `None` at the end of the stream.
    ///
    /// # Errors
    /// From the stream, or for an unknown operation.
    pub fn read(from: &mut impl Read) -> Result<Option<Request>> {
        let mut operation = [0];
        if from.read(&mut operation)? == 0 {
            return Ok(None);
        }
        let operation = Operation::from_byte(operation[0])?;
        let (argument, count) = (read_u64(from)?, read_u64(from)?);
        let users = (0..count).map(|_| read_u64(from)).collect::<Result<_>>()?;
        Ok(Some(Request { operation, argument, users }))
    }
}

/// Sends a response.
///
/// # Errors
/// From the stream.
pub fn write_response(to: &mut impl Write, response: &std::result::Result<(u64, u64), String>) -> Result<()> {
    match response {
        Ok((first, second)) => {
            to.write_all(&[0])?;
            to.write_all(&first.to_le_bytes())?;
            to.write_all(&second.to_le_bytes())?;
        }
        Err(message) => {
            to.write_all(&[1])?;
            to.write_all(&(message.len() as u64).to_le_bytes())?;
            to.write_all(message.as_bytes())?;
        }
    }
    to.flush()
}

/// Receives a response: two numbers, or the error message of the other process.
///
/// # Errors
/// From the stream, or the message.
pub fn read_response(from: &mut impl Read) -> Result<(u64, u64)> {
    let mut status = [0];
    from.read_exact(&mut status)?;
    let first = read_u64(from)?;
    if status == [0] {
        return Ok((first, read_u64(from)?));
    }
    let mut message = String::new();
    from.take(first).read_to_string(&mut message)?;
    Err(Error::other(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_survive_the_stream() {
        let request = Request { operation: Operation::Delete, argument: 7, users: vec![1, u64::MAX] };
        let mut bytes = Vec::new();
        request.write(&mut bytes).unwrap();
        assert_eq!(Request::read(&mut bytes.as_slice()).unwrap(), Some(request));
        assert_eq!(Request::read(&mut [].as_slice()).unwrap(), None);
        assert!(Request::read(&mut [0; 17].as_slice()).is_err());

        let mut bytes = Vec::new();
        write_response(&mut bytes, &Ok((1, 2))).unwrap();
        assert_eq!(read_response(&mut bytes.as_slice()).unwrap(), (1, 2));
        bytes.clear();
        write_response(&mut bytes, &Err("no such user".into())).unwrap();
        assert_eq!(read_response(&mut bytes.as_slice()).unwrap_err().to_string(), "no such user");
    }
}
