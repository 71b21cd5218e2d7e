//! The socket, frames, and the requests whose answers have not been taken.
//!
//! What an answer that nobody takes has opened on the server, a cursor or a statement, is closed when the answer arrives. Since there may be as
//! many as the server allows, the next request of that kind waits for them first.
//!
//! The socket stays in blocking mode, so that a plain call is one `send` and one `recv`. But sending must not block
//! without reading: a server with many unread answers stops reading requests, and two sides that both only write
//! deadlock. So `send` does not wait; where it would, everything that has arrived is read before it is tried again.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use treedb_protocol::bytes::Reader;
use treedb_protocol::call::{Call, Close, Forget, Hello, Resource, Welcome};
use treedb_protocol::error_frame::ErrorFrame;
use treedb_protocol::frame::{ANSWER, CLOSING, ERROR, HEADER, Header, MAX_BODY, MORE, VERSION, opcode};

use crate::error::{Error, Result};
use crate::transport::Transport;

/// Bytes of requests that are collected before they are sent.
const COLLECT: usize = 32 * 1024;

/// Bytes asked of the socket at a time.
const CHUNK: usize = 64 * 1024;

/// A connection after its greeting.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    timeout: Option<Duration>,
    welcome: Welcome,
    /// Requests not sent yet.
    out: Vec<u8>,
    /// Bytes received from `start` to `end`: whole frames and the beginning of one. What follows is room that has been initialized.
    received: Vec<u8>,
    start: usize,
    end: usize,
    next_id: u64,
    /// Requests whose answer has not been taken to its end.
    awaited: HashMap<u64, Awaited>,
    /// Those among them whose answer nobody takes, and may open something on the server.
    unwanted_opens: usize,
    /// Why the connection has ended, once it has.
    ended: Option<String>,
}

/// A request whose answer has not been taken to its end.
#[derive(Debug)]
struct Awaited {
    /// What arrived while another answer was waited for.
    arrived: VecDeque<Frame>,
    /// The last frame has arrived.
    complete: bool,
    /// Somebody takes the answer.
    wanted: bool,
    /// Finds what it has opened; `None` if that is nothing.
    opens: Option<ResourceInFrame>,
}

/// Finds what an answer in a frame has opened on the server.
pub(crate) type ResourceInFrame = fn(&Frame) -> Option<Resource>;

/// What the answer to a `C` in a frame has opened on the server.
pub(crate) fn resource_in<C: Call>(frame: &Frame) -> Option<Resource> {
    let resource_of = C::OPENS?;
    let (answer, _) = read_answer::<C>(&frame.header, &frame.body).ok()?;
    resource_of(&answer)
}

/// A frame as it was received.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    /// Greets the server. `timeout` bounds every wait from here on.
    pub(crate) fn open(transport: Transport, timeout: Option<Duration>) -> Result<Self> {
        let welcome =
            Welcome { version: VERSION, max_body: MAX_BODY, max_requests: 1, server: String::new() };
        let mut connection = Connection {
            transport,
            timeout,
            welcome,
            out: Vec::new(),
            received: Vec::new(),
            start: 0,
            end: 0,
            next_id: 1,
            awaited: HashMap::new(),
            unwanted_opens: 0,
            ended: None,
        };
        let id = connection.submit(&Hello { oldest: VERSION, newest: VERSION })?;
        let welcome = connection.wait::<Hello>(id)?;
        if welcome.version != VERSION {
            return Err(Error::Protocol(format!("it speaks version {}", welcome.version)));
        }
        connection.welcome = welcome;
        Ok(connection)
    }

    /// What the server said of itself.
    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Puts a request on its way and returns its id. It is sent when enough have been collected, or when an answer
    /// is waited for.
    pub(crate) fn submit<C: Call>(&mut self, call: &C) -> Result<u64> {
        self.alive()?;
        while C::OPENS.is_some() && self.unwanted_opens > 0 {
            self.advance()?;
        }
        let id = self.collect(call)?;
        if self.out.len() >= COLLECT {
            self.flush()?;
        }
        Ok(id)
    }

    /// Sends a request whose answer nobody takes.
    pub(crate) fn notify<C: Call>(&mut self, call: &C) -> Result<()> {
        let id = self.collect(call)?;
        self.forget(id);
        self.flush()
    }

    /// Appends a request to those that have not been sent.
    fn collect<C: Call>(&mut self, call: &C) -> Result<u64> {
        self.alive()?;
        let id = self.next_id;
        let before = self.out.len();
        call.frame(id, &mut self.out).map_err(Error::TooLarge)?;
        let body = self.out.len().saturating_sub(before + HEADER);
        let limit = self.welcome.max_body;
        if body > limit as usize {
            self.out.truncate(before);
            let header = Header { length: body as u32, opcode: C::OPCODE, flags: 0, request: id };
            return header.within(limit).map_err(Error::TooLarge).map(|()| id);
        }
        self.next_id += 1;
        let opens = C::OPENS.map(|_| resource_in::<C> as ResourceInFrame);
        let awaited = Awaited { arrived: VecDeque::new(), complete: false, wanted: true, opens };
        self.awaited.insert(id, awaited);
        Ok(id)
    }

    /// Waits for the answer to request `id`, which was submitted as a `C`.
    pub(crate) fn wait<C: Call>(&mut self, id: u64) -> Result<C::Answer> {
        self.wait_for_part::<C>(id).map(|(answer, _)| answer)
    }

    /// Waits for the next frame of the answer to request `id`, which was submitted as a `C`. True if there are more after it.
    pub(crate) fn wait_for_part<C: Call>(&mut self, id: u64) -> Result<(C::Answer, bool)> {
        if let Some(frame) = self.take_arrived(id) {
            let read = read_answer::<C>(&frame.header, &frame.body);
            return self.checked(read);
        }
        self.alive()?;
        self.flush()?;
        loop {
            if let Some(frame) = self.take_arrived(id) {
                let read = read_answer::<C>(&frame.header, &frame.body);
                return self.checked(read);
            }
            // Usually the frame at the front is the one: it is read where it lies.
            match self.front()? {
                Some(header) if header.request == id && self.awaited.contains_key(&id) => {
                    if !has_more(&header) {
                        self.awaited.remove(&id);
                    }
                    let start = self.start + HEADER;
                    let end = start + header.length as usize;
                    self.start = end;
                    let read = read_answer::<C>(&header, self.received.get(start..end).unwrap_or_default());
                    let read = self.checked(read);
                    // What the answers before it have opened is closed now. If that fails, the next request says so.
                    let _ = self.flush();
                    return read;
                }
                _ => self.advance()?,
            }
        }
    }

    /// Files a frame, or waits for more of one.
    fn advance(&mut self) -> Result<()> {
        match self.front()? {
            Some(_) => self.file(),
            None if self.out.is_empty() => self.receive(),
            None => self.flush(),
        }
    }

    /// Reads until all of the answer to `id`, which nobody takes, has been thrown away.
    pub(crate) fn drain(&mut self, id: u64) -> Result<()> {
        while self.awaited.contains_key(&id) {
            self.advance()?;
        }
        Ok(())
    }

    /// A frame of the answer to `id` that has arrived before it was waited for.
    fn take_arrived(&mut self, id: u64) -> Option<Frame> {
        let awaited = self.awaited.get_mut(&id)?;
        let frame = awaited.arrived.pop_front()?;
        if awaited.complete && awaited.arrived.is_empty() {
            self.awaited.remove(&id);
        }
        Some(frame)
    }

    /// An answer as it was read; what cannot be read ends the connection.
    fn checked<A>(&mut self, read: Result<A>) -> Result<A> {
        read.map_err(|error| match error {
            Error::Server(_) => error,
            other => self.end(other),
        })
    }

    /// Nobody will take the answer to `id`, or the rest of it.
    pub(crate) fn forget(&mut self, id: u64) {
        let Some(awaited) = self.awaited.get_mut(&id).filter(|awaited| awaited.wanted) else { return };
        awaited.wanted = false;
        let (arrived, opens) = (std::mem::take(&mut awaited.arrived), awaited.opens);
        if awaited.complete {
            self.awaited.remove(&id);
        } else if opens.is_some() {
            self.unwanted_opens += 1;
        }
        arrived.iter().for_each(|frame| self.discard(frame, opens));
    }

    /// Closes what an answer that nobody takes has opened on the server: with the next bytes that are sent.
    fn discard(&mut self, frame: &Frame, opens: Option<ResourceInFrame>) {
        let closed = match opens.and_then(|resource_in| resource_in(frame)) {
            Some(Resource::Cursor(cursor)) => self.collect(&Close { cursor }),
            Some(Resource::Statement(statement)) => self.collect(&Forget { statement }),
            None => return,
        };
        // It fails only if the connection has ended, and everything on the server with it.
        if let Ok(id) = closed {
            self.forget(id);
        }
    }

    /// Sends what has been collected.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let mut sent = 0;
        while sent < self.out.len() || self.transport.has_unsent() {
            match self.transport.send(self.out.get(sent..).unwrap_or_default()) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.readable_before_writable()? {
                        self.receive()?;
                        while self.front()?.is_some() {
                            self.file()?;
                        }
                    }
                }
                Err(source) => return Err(self.end(Error::Io { op: "send", source })),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Waits until the socket can be read or written; true if it can be read.
    fn readable_before_writable(&mut self) -> Result<bool> {
        let timeout = self.timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = [PollFd::new(self.transport.socket(), PollFlags::IN | PollFlags::OUT)];
        let ready = loop {
            match poll(&mut fds, timeout.as_ref()) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let [fd] = fds;
        let events = fd.revents();
        match ready {
            Ok(0) => Err(self.end(Error::Io { op: "send", source: io::ErrorKind::TimedOut.into() })),
            // The bytes before the end of the stream, or before the error, may contain the reason: read them first.
            Ok(_) => Ok(events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)),
            Err(error) => Err(self.end(Error::Io { op: "poll", source: error.into() })),
        }
    }

    /// Waits for bytes.
    fn receive(&mut self) -> Result<()> {
        if self.start > 0 {
            self.received.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // A long body is read at once, up to a limit that a wrong header cannot raise.
        let wanted = self.missing().clamp(CHUNK, 16 * CHUNK);
        let room = self.end + wanted;
        if room > self.received.len() {
            self.received.resize(room, 0);
        } else if self.received.len() > 32 * CHUNK {
            // The room of a long answer is not kept.
            self.received.truncate(room);
            self.received.shrink_to_fit();
        }
        let read = loop {
            let space = self.received.get_mut(self.end..).unwrap_or_default();
            match self.transport.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.end += *read.as_ref().unwrap_or(&0);
        match read {
            Ok(0) => {
                let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection");
                Err(self.end(Error::Io { op: "receive", source }))
            }
            Ok(_) => Ok(()),
            Err(source) => Err(self.end(Error::Io { op: "receive", source })),
        }
    }

    /// Bytes that the frame at the front still lacks.
    fn missing(&self) -> usize {
        let rest = self.received.get(self.start..self.end).unwrap_or_default();
        match rest.first_chunk::<HEADER>() {
            Some(header) => (HEADER + Header::from_bytes(header).length as usize).saturating_sub(rest.len()),
            None => HEADER,
        }
    }

    /// The header of the frame at the front, if that is complete.
    fn front(&mut self) -> Result<Option<Header>> {
        let rest = self.received.get(self.start..self.end).unwrap_or_default();
        let Some(header) = rest.first_chunk::<HEADER>().map(Header::from_bytes) else { return Ok(None) };
        if let Err(malformed) = header.within(MAX_BODY) {
            return Err(self.end(Error::Protocol(malformed.what)));
        }
        Ok((rest.len() - HEADER >= header.length as usize).then_some(header))
    }

    /// Files the frame at the front, which is complete.
    fn file(&mut self) -> Result<()> {
        let rest = self.received.get(self.start..self.end).unwrap_or_default();
        let Some(header) = rest.first_chunk::<HEADER>().map(Header::from_bytes) else { return Ok(()) };
        let body = rest.get(HEADER..HEADER + header.length as usize).unwrap_or_default();
        let frame = Frame { header, body: body.to_vec() };
        self.start += HEADER + frame.body.len();
        let id = header.request;
        if header.opcode == ERROR && header.flags & CLOSING != 0 {
            return Err(self.closing(&frame));
        }
        let awaited = match self.awaited.get_mut(&id) {
            Some(awaited) if !awaited.complete => awaited,
            _ => {
                let what = format!("an answer to request {id}, which was not made");
                return Err(self.end(Error::Protocol(what)));
            }
        };
        awaited.complete = !has_more(&header);
        if awaited.wanted {
            awaited.arrived.push_back(frame);
            return Ok(());
        }
        let opens = awaited.opens;
        if awaited.complete {
            self.awaited.remove(&id);
            self.unwanted_opens -= usize::from(opens.is_some());
        }
        self.discard(&frame, opens);
        Ok(())
    }

    /// The server's closing error.
    fn closing(&mut self, frame: &Frame) -> Error {
        match ErrorFrame::read(&mut Reader::new(&frame.body)) {
            Ok(error) => self.end(Error::Server(error)),
            Err(malformed) => self.end(Error::Protocol(malformed.to_string())),
        }
    }

    /// Marks the connection as ended by `error`. Answers that arrived before can still be taken.
    fn end(&mut self, error: Error) -> Error {
        self.ended.get_or_insert_with(|| error.to_string());
        error
    }

    fn alive(&self) -> Result<()> {
        match &self.ended {
            Some(reason) => Err(Error::Ended(reason.clone())),
            None => Ok(()),
        }
    }
}

/// Whether another frame of the same answer follows.
pub(crate) fn has_more(header: &Header) -> bool {
    header.opcode == opcode::PULL | ANSWER && header.flags & MORE != 0
}

/// The answer in a frame, and whether there are more frames of it.
pub(crate) fn read_answer<C: Call>(header: &Header, body: &[u8]) -> Result<(C::Answer, bool)> {
    let mut body = Reader::new(body);
    if header.opcode == ERROR {
        let error =
            ErrorFrame::read(&mut body).map_err(|malformed| Error::Protocol(malformed.to_string()))?;
        return Err(Error::Server(error));
    }
    if header.opcode != C::OPCODE | ANSWER {
        let what = format!("opcode {:#06x} answers request {:#06x}", header.opcode, C::OPCODE);
        return Err(Error::Protocol(what));
    }
    let answer = C::read_answer(&mut body).and_then(|answer| body.finish().map(|()| answer));
    let answer = answer.map_err(|malformed| Error::Protocol(malformed.to_string()))?;
    Ok((answer, has_more(header)))
}
