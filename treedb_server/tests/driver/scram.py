"""A client's side of SCRAM-SHA-256, for raw connections of both protocols (RFC 7677)."""
import base64
import functools
import hashlib
import hmac

#: The client's nonce: what it is does not matter to a test.
NONCE = b"abcdefgh"


def first_message(name):
    """The first message of a client, without its header `n,,`."""
    return b"n=" + name.encode() + b",r=" + NONCE


@functools.cache
def salted(password, salt, count):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), count)


def last_message(password, first, answer):
    """The last message of a client: its proof that it knows the password, after the server's `answer`."""
    nonce, salt, count = (part[2:] for part in answer.split(b","))
    client_key, last = hmac.digest(salted(password, salt, int(count)), b"Client Key", "sha256"), b"c=biws,r=" + nonce
    signature = hmac.digest(hashlib.sha256(client_key).digest(), b",".join([first, answer, last]), "sha256")
    return last + b",p=" + base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature)))
