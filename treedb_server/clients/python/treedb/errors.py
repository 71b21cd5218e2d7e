"""Errors of a client."""
from __future__ import annotations

from dataclasses import dataclass


class TreeDBError(Exception):
    """Every error of this package."""


class ServerError(TreeDBError):
    """The server refused a request. The connection remains usable."""

    def __init__(self, code: int, code_name: str, message: str) -> None:
        super().__init__(f"{message} ({code_name}, code {code})")
        #: MongoDB's number.
        self.code = code
        self.code_name = code_name
        self.message = message


class ConnectionLost(TreeDBError):
    """The connection has ended: connect again. It is unknown whether unanswered writes were executed."""


class ProtocolError(ConnectionLost):
    """What came is not the native protocol."""


@dataclass(frozen=True)
class DocumentError:
    """A document that was not inserted."""

    index: int
    error: ServerError


class InsertError(TreeDBError):
    """Some documents were not inserted; `inserted` were."""

    def __init__(self, inserted: int, errors: list[DocumentError]) -> None:
        super().__init__(f"{inserted} inserted, {len(errors)} refused; the first: {errors[0].error}")
        self.inserted = inserted
        self.errors = errors
