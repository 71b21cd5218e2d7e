//! The asynchronous client: one connection, and any number of tasks that make requests at once.
//!
//! A request is a frame in the queue of a task that writes, and a place in the table of answers that are awaited. Another task reads, and
//! hands each frame to the place with its request's id. So a request that is given up, because its future is dropped, leaves the connection
//! as it was: its answer is thrown away when it comes, and what it would leave on the server, a cursor or a statement, is closed. So does one that
//! has taken too long. Requests with one answer are in `requests`.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use treedb_protocol::bytes::Reader;
use treedb_protocol::call::{
    Ack, Authenticate, Batch, Bound, Call, Close, Credit, Find, FindWith, Forget, Hello, Insert, Ping,
    Prepared, Prove, Pull, Resource, Welcome,
};
use treedb_protocol::error_frame::ErrorFrame;
use treedb_protocol::frame::{CLOSING, ERROR, HEADER, Header, MAX_BODY, VERSION};
use treedb_protocol::scram::{ClientExchange, Mechanism};

use crate::connection::{Frame, ResourceInFrame, has_more, read_answer, resource_in};
use crate::error::{Error, Result};
use crate::results::{Pair, Remaining};
#[cfg(feature = "async-tls")]
use crate::tls::Tls;

/// Bytes of frames that are written at once.
const TOGETHER: usize = 64 * 1024;

/// Batches that a stream has credit for.
const CREDIT: u32 = 4;

/// A connection to a server's native port. Cheap to clone; it is closed with the last clone.
#[derive(Debug, Clone)]
pub struct AsyncClient {
    inner: Arc<Inner>,
    pub(crate) ack: Ack,
    timeout: Option<Duration>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    welcome: Welcome,
    /// The requests that the server executes at once: more are not sent before some have been answered.
    places: Arc<Semaphore>,
    tasks: [JoinHandle<()>; 2],
}

/// What the tasks that read and write share with requests.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    queue: mpsc::UnboundedSender<Vec<u8>>,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Where the frames of each answer go.
    awaited: HashMap<u64, Awaited>,
    /// Why the connection has ended, once it has.
    ended: Option<String>,
}

/// An answer that is awaited. The place among the server's requests is free when it has come, wanted or not.
#[derive(Debug)]
struct Awaited {
    frames: mpsc::UnboundedSender<Frame>,
    opens: ResourceInFrame,
    _place: Option<OwnedSemaphorePermit>,
}

/// Where the frames of an answer arrive. Dropped, those that have not been taken are thrown away, and what they have opened is closed.
#[derive(Debug)]
struct Answer {
    frames: mpsc::UnboundedReceiver<Frame>,
    opens: ResourceInFrame,
    shared: Arc<Shared>,
}

impl Answer {
    /// The next frame; `None` if the connection has ended.
    async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let untaken: Vec<Frame> = {
            // Frames are filed under this lock: each is either here now, or cannot be handed over.
            let _state = self.shared.lock();
            self.frames.close();
            std::iter::from_fn(|| self.frames.try_recv().ok()).collect()
        };
        untaken.iter().for_each(|frame| self.shared.clean(frame, self.opens));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection with an error for all requests that wait for an answer.
    fn end(&self, reason: String) {
        let mut state = self.lock();
        state.ended.get_or_insert(reason);
        state.awaited.clear();
    }

    fn ended(&self) -> Error {
        Error::Ended(self.lock().ended.clone().unwrap_or_else(|| "closed".to_owned()))
    }

    /// Delivers a frame to the request that awaits it.
    ///
    /// # Errors
    /// The reason why the connection ends with it.
    fn file(&self, frame: Frame) -> std::result::Result<(), String> {
        let header = frame.header;
        if header.opcode == ERROR && header.flags & CLOSING != 0 {
            let error = ErrorFrame::read(&mut Reader::new(&frame.body));
            return Err(error.map_or_else(|malformed| malformed.to_string(), |error| error.to_string()));
        }
        let mut state = self.lock();
        let Some(awaited) = state.awaited.get(&header.request) else {
            return Err(format!("an answer to request {}, which was not made", header.request));
        };
        let (unwanted, opens) = (awaited.frames.send(frame).err(), awaited.opens);
        if !has_more(&header) {
            state.awaited.remove(&header.request);
        }
        drop(state);
        if let Some(mpsc::error::SendError(frame)) = unwanted {
            self.clean(&frame, opens);
        }
        Ok(())
    }

    /// Closes what an answer that nobody takes has opened on the server.
    fn clean(&self, frame: &Frame, opens: ResourceInFrame) {
        match opens(frame) {
            Some(Resource::Cursor(cursor)) => self.send_alone(&Close { cursor }),
            Some(Resource::Statement(statement)) => self.send_alone(&Forget { statement }),
            None => {}
        }
    }

    /// Sends a request whose answer nobody needs. Does not wait for a place: the server answers such requests where it reads them.
    fn send_alone<C: Call>(&self, call: &C) {
        let mut bytes = Vec::new();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if call.frame(id, &mut bytes).is_err() {
            return;
        }
        let (frames, _) = mpsc::unbounded_channel();
        let mut state = self.lock();
        if state.ended.is_none() {
            state.awaited.insert(id, Awaited { frames, opens: |_| None, _place: None });
            // A failure of the task that writes ends the connection itself.
            let _ = self.queue.send(bytes);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A stream of bytes, plain or through TLS.
trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

type Boxed = Box<dyn Bytes>;

/// A socket that is connected.
async fn socket(address: impl ToSocketAddrs) -> Result<TcpStream> {
    let io = |op| move |source| Error::Io { op, source };
    let stream = TcpStream::connect(address).await.map_err(io("connect"))?;
    stream.set_nodelay(true).map_err(io("set up"))?;
    Ok(stream)
}

impl AsyncClient {
    /// Connects to `address` and greets the server. Waits without limit.
    ///
    /// # Errors
    /// Nobody listens there, or not a TreeDB server's native port.
    pub async fn connect(address: impl ToSocketAddrs) -> Result<Self> {
        Self::greet(Box::new(socket(address).await?)).await
    }

    /// [`Self::connect`], with a limit to that and to each wait later, as [`Self::with_timeout`] sets it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_timeout(address: impl ToSocketAddrs, timeout: Duration) -> Result<Self> {
        let client = within(timeout, "connect", Self::connect(address)).await?;
        Ok(client.with_timeout(timeout))
    }

    /// [`Self::connect`] through TLS, with a limit to that and to each wait later if one is given.
    ///
    /// # Errors
    /// As [`Self::connect`]; the server's certificate is not to be trusted.
    #[cfg(feature = "async-tls")]
    pub async fn connect_tls(
        address: impl ToSocketAddrs,
        timeout: Option<Duration>,
        tls: &Tls,
    ) -> Result<Self> {
        let connected = async {
            let (connector, name) = tls.connector();
            let stream = connector.connect(name, socket(address).await?).await;
            Self::greet(Box::new(stream.map_err(|source| Error::Io { op: "begin TLS", source })?)).await
        };
        match timeout {
            None => connected.await,
            Some(timeout) => Ok(within(timeout, "connect", connected).await?.with_timeout(timeout)),
        }
    }

    async fn greet(stream: Boxed) -> Result<Self> {
        let io = |op| move |source| Error::Io { op, source };
        let (read, mut write) = tokio::io::split(stream);
        let mut read = BufReader::with_capacity(TOGETHER, read);
        let mut hello = Vec::new();
        Hello { oldest: VERSION, newest: VERSION }.frame(1, &mut hello).map_err(Error::TooLarge)?;
        write.write_all(&hello).await.map_err(io("send"))?;
        let frame = frame(&mut read).await?;
        let (welcome, _) = read_answer::<Hello>(&frame.header, &frame.body)?;
        if welcome.version != VERSION {
            return Err(Error::Protocol(format!("it speaks version {}", welcome.version)));
        }
        let (queue, queued) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { state: Mutex::default(), queue, next_id: AtomicU64::new(2) });
        let tasks = [
            tokio::spawn(write_frames(write, queued, Arc::clone(&shared))),
            tokio::spawn(read_frames(read, Arc::clone(&shared))),
        ];
        let places =
            Arc::new(Semaphore::new((welcome.max_requests as usize).clamp(1, Semaphore::MAX_PERMITS)));
        let inner = Arc::new(Inner { shared, welcome, places, tasks });
        Ok(AsyncClient { inner, ack: Ack::Server, timeout: None })
    }

    /// The same connection; what this clone writes is acknowledged so.
    pub fn with_ack(&self, ack: Ack) -> Self {
        AsyncClient { ack, ..self.clone() }
    }

    /// The same connection; each wait of this clone has a limit. A request whose answer has not come by then fails with an [`Error::Io`] of the kind
    /// [`io::ErrorKind::TimedOut`], and is given up as if its future had been dropped: the connection remains usable, and it is unknown whether a
    /// write was executed.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        AsyncClient { timeout: Some(timeout), ..self.clone() }
    }

    /// Waits, as long as this clone may.
    async fn in_time<T>(&self, wait: impl Future<Output = Result<T>>) -> Result<T> {
        match self.timeout {
            None => wait.await,
            Some(limit) => within(limit, "wait for an answer", wait).await,
        }
    }

    /// What the server said of itself.
    pub fn server(&self) -> &Welcome {
        &self.inner.welcome
    }

    /// Authenticates as a user of `database`, by SCRAM-SHA-256.
    ///
    /// # Errors
    /// Code 18 for a wrong user or password; the server does not know the password; the connection's.
    pub async fn authenticate(&self, database: &str, user: &str, password: &str) -> Result<()> {
        let mechanism = Mechanism::Sha256;
        let (mut exchange, first) = ClientExchange::new(mechanism, user, password)?;
        let begin = Authenticate { database, mechanism: mechanism.name(), payload: first.as_bytes() };
        let challenge = self.call(&begin).await?;
        let proof = exchange.answer(&challenge.payload)?;
        let prove = Prove { exchange: challenge.exchange, payload: proof.as_bytes() };
        let last = self.call(&prove).await?;
        Ok(exchange.verify(&last.payload)?)
    }

    /// Puts a request on its way: where the frames of its answer will come from. With `waits` it takes one of the places of
    /// the server's requests.
    async fn submit<C: Call>(&self, call: &C, waits: bool) -> Result<Answer> {
        let inner = &self.inner;
        let mut bytes = Vec::new();
        let id = inner.shared.next_id.fetch_add(1, Ordering::Relaxed);
        call.frame(id, &mut bytes).map_err(Error::TooLarge)?;
        let length = u32::try_from(bytes.len() - HEADER).unwrap_or(u32::MAX);
        let header = Header { length, opcode: C::OPCODE, flags: 0, request: id };
        header.within(inner.welcome.max_body).map_err(Error::TooLarge)?;
        // The semaphore is never closed.
        let place = if waits { Arc::clone(&inner.places).acquire_owned().await.ok() } else { None };
        let (sender, frames) = mpsc::unbounded_channel();
        let opens: ResourceInFrame = resource_in::<C>;
        {
            let mut state = inner.shared.lock();
            if let Some(reason) = &state.ended {
                return Err(Error::Ended(reason.clone()));
            }
            state.awaited.insert(id, Awaited { frames: sender, opens, _place: place });
        }
        inner.shared.queue.send(bytes).map_err(|_| inner.shared.ended())?;
        Ok(Answer { frames, opens, shared: Arc::clone(&inner.shared) })
    }

    /// Makes any request and waits for its answer. If the future is dropped, a cursor or statement that the answer brings is closed.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub async fn call<C: Call>(&self, call: &C) -> Result<C::Answer> {
        let frame = self.in_time(async {
            let mut answer = self.submit(call, true).await?;
            answer.next().await.ok_or_else(|| self.inner.shared.ended())
        });
        self.read::<C>(&frame.await?).map(|(answer, _)| answer)
    }

    /// Reads a frame of an answer; what cannot be read ends the connection.
    fn read<C: Call>(&self, frame: &Frame) -> Result<(C::Answer, bool)> {
        let read = read_answer::<C>(&frame.header, &frame.body);
        if let Err(error @ Error::Protocol(_)) = &read {
            self.inner.shared.end(error.to_string());
        }
        read
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    /// It does not.
    pub async fn ping(&self) -> Result<()> {
        self.call(&Ping { payload: &[] }).await.map(|_| ())
    }

    /// Inserts a document; see [`crate::Client::insert_one`].
    ///
    /// # Errors
    /// Code 11000 if the `_id`, or the key of a unique index, exists already.
    pub async fn insert_one(&self, namespace: &str, document: &RawDocument) -> Result<()> {
        let insert = Insert { namespace, documents: vec![document], ordered: true, ack: self.ack };
        match self.call(&insert).await?.errors.into_iter().next() {
            Some(failed) => Err(Error::Server(failed.error)),
            None => Ok(()),
        }
    }

    /// The documents that match, all of one snapshot. The server sends batches while the first are read.
    ///
    /// # Errors
    /// The filter, sort or projection is not valid.
    pub async fn find(&self, find: &Find<'_>) -> Result<DocumentStream> {
        let first = self.call(find).await?;
        self.stream(first, find.batch).await
    }

    /// The documents of a first batch, and those after it, in batches of so many.
    async fn stream(&self, first: Batch, batch: u32) -> Result<DocumentStream> {
        let Batch { cursor, documents } = first;
        let mut stream =
            DocumentStream { client: self.clone(), ready: documents.into_iter(), pulled: None, taken: 0 };
        if cursor != 0 {
            let frames = self.submit(&Pull { cursor, batch, credit: CREDIT }, false).await?;
            stream.pulled = Some((cursor, frames));
        }
        Ok(stream)
    }

    /// The documents that match a filter with these values, by a statement ([`Shape::Find`](crate::Shape::Find)), `limit` of them at most (0: all).
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub async fn execute_find(
        &self,
        statement: Prepared,
        values: &RawDocument,
        limit: u64,
    ) -> Result<DocumentStream> {
        let first = self.execute(statement, FindWith { batch: 0, skip: 0, limit, values }).await?;
        self.stream(first, 0).await
    }

    /// The keys between two bounds with their values, in order, or from the last down.
    pub fn kv_range(&self, table: &str, low: Bound<'_>, high: Bound<'_>, descending: bool) -> PairStream {
        let range = Remaining::new(table, low, high, descending);
        PairStream { client: self.clone(), range, ready: Vec::new().into_iter() }
    }
}

/// The documents of a find, of which the server sends batches while they are read.
#[derive(Debug)]
pub struct DocumentStream {
    client: AsyncClient,
    ready: std::vec::IntoIter<RawDocumentBuf>,
    /// The server's cursor, and where its batches come from, while there are more.
    pulled: Option<(u64, Answer)>,
    /// Batches taken since credit was granted last.
    taken: u32,
}

impl DocumentStream {
    /// The next document; `None` after the last, and after an error, unless that is that it has taken too long
    /// ([`AsyncClient::with_timeout`]). Dropping the future loses nothing.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub async fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.ready.next() {
                return Some(Ok(document));
            }
            let (cursor, frames) = self.pulled.as_mut()?;
            let cursor = *cursor;
            let frame = match self.client.in_time(async { Ok(frames.next().await) }).await {
                Ok(frame) => frame,
                Err(late) => return Some(Err(late)),
            };
            match frame.map(|frame| self.client.read::<Pull>(&frame)) {
                Some(Ok((batch, more))) => {
                    self.ready = batch.documents.into_iter();
                    if !more {
                        self.pulled = None;
                        continue;
                    }
                    self.taken += 1;
                    if self.taken == CREDIT / 2 {
                        self.client
                            .inner
                            .shared
                            .send_alone(&Credit { cursor, batches: std::mem::take(&mut self.taken) });
                    }
                }
                Some(Err(error)) => {
                    self.pulled = None;
                    return Some(Err(error));
                }
                None => {
                    self.pulled = None;
                    return Some(Err(self.client.inner.shared.ended()));
                }
            }
        }
    }
}

impl Drop for DocumentStream {
    fn drop(&mut self) {
        if let Some((cursor, _)) = self.pulled.take() {
            self.client.inner.shared.send_alone(&Close { cursor });
        }
    }
}

/// Keys and values of a range, fetched in batches while they are read, each batch from the newest state.
#[derive(Debug)]
pub struct PairStream {
    client: AsyncClient,
    range: Remaining,
    ready: std::vec::IntoIter<Pair>,
}

impl PairStream {
    /// The next key and its value; `None` after the last. After an error it may be tried again.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub async fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            if let Some(pair) = self.ready.next() {
                return Some(Ok(pair));
            }
            match self.client.call(&self.range.request()?).await {
                Ok(answer) => self.ready = self.range.take(answer),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// What comes of a wait within `limit`.
async fn within<T>(limit: Duration, op: &'static str, wait: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Err(Error::Io { op, source: io::ErrorKind::TimedOut.into() });
    tokio::time::timeout(limit, wait).await.unwrap_or_else(late)
}

/// Writes frames, those that are there at once together, until the connection ends.
async fn write_frames(
    mut stream: WriteHalf<Boxed>,
    mut queued: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    while let Some(mut bytes) = queued.recv().await {
        while bytes.len() < TOGETHER
            && let Ok(next) = queued.try_recv()
        {
            bytes.extend_from_slice(&next);
        }
        let sent = match stream.write_all(&bytes).await {
            Ok(()) => stream.flush().await,
            failed => failed,
        };
        if let Err(error) = sent {
            return shared.end(format!("send: {error}"));
        }
    }
}

/// Reads frames and files them, until the connection ends.
async fn read_frames(mut stream: BufReader<ReadHalf<Boxed>>, shared: Arc<Shared>) {
    loop {
        let filed = match frame(&mut stream).await {
            Ok(frame) => shared.file(frame),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = filed {
            return shared.end(reason);
        }
    }
}

/// The next frame.
async fn frame(stream: &mut BufReader<ReadHalf<Boxed>>) -> Result<Frame> {
    let io = |source: io::Error| Error::Io { op: "receive", source };
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).await.map_err(io)?;
    let header = Header::from_bytes(&header);
    header.within(MAX_BODY).map_err(|malformed| Error::Protocol(malformed.what))?;
    let mut body = Vec::new();
    // Memory is allocated as bytes arrive, whatever the header says.
    let length = u64::from(header.length);
    let read = stream.take(length).read_to_end(&mut body).await.map_err(io)?;
    if read as u64 != length {
        return Err(io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Frame { header, body })
}
