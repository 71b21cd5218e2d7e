"""A client of TreeDB's native protocol."""
from .client import Client, Collection, Statement, Table, connect
from .errors import ConnectionLost, DocumentError, InsertError, ProtocolError, ServerError, TreeDBError
from .messages import Ack, Inserted, Param, Updated

__all__ = [
    "Ack", "Client", "Collection", "ConnectionLost", "DocumentError", "InsertError", "Inserted", "Param", "ProtocolError", "ServerError",
    "Statement", "Table", "TreeDBError", "Updated", "connect",
]
