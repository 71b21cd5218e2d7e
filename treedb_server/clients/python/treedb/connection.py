"""The socket, frames, and authentication.

An iterator that is forgotten closes its cursor wherever the garbage collector finds it: in the middle of a request, or on another thread. So
a thread holds the lock `turn` while it sends or receives, and a cursor that cannot be closed at once is closed by the thread that holds it, afterwards.
"""
from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import selectors
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from pymongo.saslprep import saslprep

from .errors import ConnectionLost, ProtocolError, TreeDBError
from .messages import ANSWER, CLOSING, ERROR, HEADER, MAGIC, MORE, VERSION, Op, Reader, blob, text, u64

T = TypeVar("T")

#: Bytes read from the socket at a time.
CHUNK = 64 * 1024
#: The longest body that a server may send.
LONGEST = 47_999_984
#: How often a server may let a client hash a password. Fewer times would give it away, more would keep the client busy.
ITERATIONS = range(4096, 10_000_000 + 1)


class Turn:
    """Whose turn it is to use a connection. Taken with `with`, to send one request or to take one answer."""

    def __init__(self) -> None:
        self.lock, self.owner = threading.Lock(), 0

    def take(self, *, wait: bool) -> bool:
        taken = self.lock.acquire(blocking=wait)
        if taken:
            self.owner = threading.get_ident()
        return taken

    def give_back(self) -> None:
        self.owner = 0
        self.lock.release()

    def __enter__(self) -> None:
        if not self.take(wait=False):
            if self.owner == threading.get_ident():
                raise TreeDBError("a finalizer has made a request in the middle of another one")
            self.take(wait=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.give_back()


class Connection:
    """One connection. Used by one thread at a time."""

    def __init__(self, address: str, timeout: float | None, tls_ca: str | None) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            self.socket: socket.socket = socket.create_connection((host, int(port)), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls_ca is not None:
                self.socket = ssl.create_default_context(cafile=tls_ca).wrap_socket(self.socket, server_hostname=host)
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"{address}: {error}") from error
        self.ended: str | None = None
        self.received = bytearray()
        self.last = 0
        self.turn = Turn()
        # Cursors that nobody reads any more, with the requests that pull them.
        self.abandoned: deque[tuple[int, int | None]] = deque()
        # Requests that will be answered; those whose answers nobody wants; and frames that came before they were waited for.
        self.owed: set[int] = set()
        self.unwanted: set[int] = set()
        self.arrived: dict[int, deque[tuple[int, int, bytes]]] = {}
        greeting = self.send(Op.HELLO, MAGIC + VERSION.to_bytes(2, "little") * 2)
        _, body = self.wait(greeting, Op.HELLO)
        if body.take(8) != MAGIC or body.number("H") != VERSION:
            raise self.end(ProtocolError(f"{address} is not a TreeDB server's native port (treedb serve --native)"))

    def end(self, error: TreeDBError) -> TreeDBError:
        """Ends the connection because of an error, which the caller raises."""
        self.ended = self.ended or str(error)
        self.socket.close()
        return error

    def close(self) -> None:
        self.ended = self.ended or "closed"
        self.socket.close()

    def send(self, opcode: int, body: bytes = b"", flags: int = 0, *, wanted: bool = True) -> int:
        """Sends a request, whose answer is to be waited for if it is `wanted`, and returns its id."""
        with self.turn:
            request = self.send_frame(opcode, body, flags, wanted)
        self.close_abandoned()
        return request

    def send_frame(self, opcode: int, body: bytes, flags: int, wanted: bool) -> int:
        if self.ended is not None:
            raise ConnectionLost(f"the connection has ended ({self.ended}): connect again")
        self.last += 1
        frame = HEADER.pack(len(body), opcode, flags, self.last) + body
        try:
            if self.owed or self.unwanted:
                self.send_and_read(frame)
            else:
                self.socket.sendall(frame)
        except OSError as error:
            raise self.end(ConnectionLost(str(error))) from error
        except BaseException as error:
            # Part of the frame may have been sent, so that nothing can follow it.
            self.end(ConnectionLost(f"interrupted by {type(error).__name__}"))
            raise
        (self.owed if wanted else self.unwanted).add(self.last)
        return self.last

    def send_and_read(self, frame: bytes) -> None:
        """Sends while answers may come. A server whose answers are not read stops reading: who only sent would wait for ever."""
        rest, patience = memoryview(frame), self.socket.gettimeout()
        self.socket.setblocking(False)
        try:
            while rest:
                try:
                    rest = rest[self.socket.send(rest):]
                except ssl.SSLWantReadError:
                    self.collect(selectors.EVENT_READ, patience)
                except (BlockingIOError, ssl.SSLWantWriteError):
                    self.collect(selectors.EVENT_READ | selectors.EVENT_WRITE, patience)
        finally:
            if self.ended is None:
                self.socket.settimeout(patience)

    def collect(self, events: int, patience: float | None) -> None:
        """Takes what has come; if that is nothing, waits until more can be read or sent."""
        try:
            more = self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            with selectors.DefaultSelector() as selector:
                selector.register(self.socket, events)
                if not selector.select(patience):
                    raise TimeoutError("timed out") from None
            return
        if not more:
            raise ConnectionResetError("the server closed the connection")
        self.received += more

    def abandon(self, cursor: int, pull: int | None = None) -> None:
        """Closes a cursor that nobody reads any more, and ends the request that pulls it; now, or after the request that is being made."""
        self.abandoned.append((cursor, pull))
        self.close_abandoned()

    def close_abandoned(self) -> None:
        """Closes abandoned cursors, unless the lock is held: then its holder closes them afterwards."""
        while self.abandoned and self.turn.take(wait=False):
            try:
                while self.abandoned and self.ended is None:
                    self.close_cursor(*self.abandoned.popleft())
                # With the connection its cursors have ended.
                self.abandoned.clear()
            except TreeDBError:
                # The next request says why the connection has ended.
                pass
            finally:
                self.turn.give_back()

    def close_cursor(self, cursor: int, pull: int | None) -> None:
        if pull is not None:
            self.arrived.pop(pull, None)
            if pull in self.owed:
                self.owed.remove(pull)
                self.unwanted.add(pull)
        closing = self.send_frame(Op.CLOSE, u64(cursor), 0, False)
        # What has been sent ahead is taken: a server that cannot send it closes the connection.
        while pull is not None and not self.unwanted.isdisjoint((pull, closing)):
            self.receive()

    def wait(self, request: int, opcode: int) -> tuple[bool, Reader]:
        """The next frame of the answer to a request: whether there are more, and its body."""
        with self.turn:
            while request not in self.arrived:
                self.receive()
            frames = self.arrived[request]
            answered, flags, body = frames.popleft()
            if not frames:
                del self.arrived[request]
        self.close_abandoned()
        reader = Reader(body)
        if answered == ERROR:
            raise reader.error()
        if answered != opcode | ANSWER:
            raise self.end(ProtocolError(f"opcode {answered:#06x} answers request {opcode:#06x}"))
        return answered == Op.PULL | ANSWER and flags & MORE != 0, reader

    def receive(self) -> None:
        """Waits for one frame."""
        try:
            self.receive_frame()
        except TreeDBError:
            raise
        except BaseException as error:
            # Part of the frame may have been taken, so that what follows could not be read.
            self.end(ConnectionLost(f"interrupted by {type(error).__name__}"))
            raise

    def receive_frame(self) -> None:
        length, opcode, flags, request = HEADER.unpack(self.take(HEADER.size))
        if length > LONGEST:
            raise self.end(ProtocolError(f"a frame of {length} bytes"))
        body = self.take(length)
        if opcode == ERROR and flags & CLOSING:
            raise self.end(ConnectionLost(str(Reader(body).error())))
        last = opcode != Op.PULL | ANSWER or not flags & MORE
        if request in self.owed:
            self.arrived.setdefault(request, deque()).append((opcode, flags, body))
            if last:
                self.owed.remove(request)
        elif request not in self.unwanted:
            raise self.end(ProtocolError(f"an answer to request {request}, which was not made"))
        elif last:
            self.unwanted.remove(request)

    def take(self, length: int) -> bytes:
        if self.ended is not None:
            raise ConnectionLost(f"the connection has ended ({self.ended}): connect again")
        while len(self.received) < length:
            try:
                more = self.socket.recv(max(CHUNK, length - len(self.received)))
            except OSError as error:
                raise self.end(ConnectionLost(str(error))) from error
            if not more:
                raise self.end(ConnectionLost("the server closed the connection"))
            self.received += more
        part = bytes(self.received[:length])
        del self.received[:length]
        return part

    def call(self, opcode: int, body: bytes, read: Callable[[Reader], T], flags: int = 0) -> T:
        """Makes a request and reads its answer."""
        _, reader = self.wait(self.send(opcode, body, flags), opcode)
        try:
            answer = read(reader)
            reader.finish()
        except ProtocolError as error:
            raise self.end(error) from None
        return answer

    def authenticate(self, database: str, user: str, password: str) -> None:
        """Proves to know a password (SCRAM-SHA-256), and that the server does."""
        nonce = base64.b64encode(secrets.token_bytes(24)).decode()
        # SASLprep is applied to the password only, as the server does.
        name = user.replace("=", "=3D").replace(",", "=2C")
        bare = f"n={name},r={nonce}"

        def challenge(body: Reader) -> tuple[int, str]:
            return body.number("i"), body.data().decode()

        begin = text(database) + text("SCRAM-SHA-256") + blob(f"n,,{bare}".encode())
        number, first = self.call(Op.AUTHENTICATE, begin, challenge)
        try:
            fields = dict(part.split("=", 1) for part in first.split(","))
            combined, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError) as error:
            raise self.end(ProtocolError(f"the server's challenge cannot be read: {error!r}")) from None
        if not combined.startswith(nonce) or combined == nonce:
            raise self.end(ProtocolError("the server's challenge is not one for this client"))
        if iterations not in ITERATIONS:
            raise self.end(ProtocolError(f"the server asks for {iterations} iterations, which is not safe"))
        salted = hashlib.pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)

        def mac(key: bytes, message: bytes) -> bytes:
            return hmac.digest(key, message, "sha256")

        client_key = mac(salted, b"Client Key")
        final = f"c=biws,r={combined}"
        message = f"{bare},{first},{final}".encode()
        signature = mac(hashlib.sha256(client_key).digest(), message)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        prove = number.to_bytes(4, "little", signed=True) + blob(f"{final},p={proof}".encode())
        _, last = self.call(Op.PROVE, prove, challenge)
        expected = base64.b64encode(mac(mac(salted, b"Server Key"), message)).decode()
        if not hmac.compare_digest(last, f"v={expected}"):
            raise self.end(ProtocolError("the server does not know the password"))

    def ping(self) -> None:
        self.call(Op.PING, b"", lambda _: None)

