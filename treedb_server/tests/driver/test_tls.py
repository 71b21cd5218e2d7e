"""Connections through TLS: real certificates, good and bad ones."""
import datetime
import ipaddress
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from urllib.parse import quote

import pymongo
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pymongo.errors import ServerSelectionTimeoutError

from server import BIN, Server
from wire import Wire


class Certificates:
    """An authority, and a certificate by it in files."""

    def __init__(self, directory):
        self.authority = trustme.CA()
        self.ca = str(directory / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca)
        self.certificate, self.key = str(directory / "server.pem"), str(directory / "server.key")
        self.issue("127.0.0.1", "localhost")

    def issue(self, *names, authority=None, **options):
        """Writes a certificate for these names."""
        leaf = (authority or self.authority).issue_cert(*names, **options)
        leaf.private_key_pem.write_to_path(self.key + ".new")
        for at, part in enumerate(leaf.cert_chain_pems):
            part.write_to_path(self.certificate + ".new", append=at > 0)
        os.rename(self.key + ".new", self.key)
        os.rename(self.certificate + ".new", self.certificate)
        return leaf

    @property
    def flags(self):
        return ["--tls-certificate", self.certificate, "--tls-key", self.key]


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


@pytest.fixture
def secured(tmp_path, certificates):
    server = Server(tmp_path / "data", *certificates.flags, admin=True)
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


def connect(server, certificates, **options):
    return server.client(tls=True, tlsCAFile=certificates.ca, **{"serverSelectionTimeoutMS": 3000, **options})


def test_a_driver_reads_and_writes_through_tls(secured, certificates):
    with connect(secured, certificates) as client:
        client.shop.orders.insert_many([{"_id": i, "text": "x" * 1000} for i in range(5000)])
        assert sum(1 for _ in client.shop.orders.find()) == 5000
        big = {"_id": "big", "data": b"y" * 15_000_000}
        client.shop.orders.insert_one(big)
        assert client.shop.orders.find_one({"_id": "big"}) == big


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(secured, certificates, version):
    context = ssl.create_default_context(cafile=certificates.ca)
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(secured.addresses["mongo"]) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
            assert tls.version() == version.name.replace("_", ".")


def test_a_client_without_tls_is_not_answered(secured):
    with secured.client(serverSelectionTimeoutMS=1000) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
    with Wire(secured) as wire:
        wire.send(b"\0" * 100)
        # An alert, maybe, and the end.
        while wire.socket.recv(100):
            pass


def test_the_admin_port_speaks_https(secured, certificates):
    host, port = secured.addresses["admin"]
    context = ssl.create_default_context(cafile=certificates.ca)
    with urllib.request.urlopen(f"https://{host}:{port}/livez", context=context) as reply:
        assert reply.read() == b"ok\n"


@pytest.mark.parametrize("wrong", ["other authority", "other host", "expired", "self-signed"])
def test_clients_can_tell_a_wrong_certificate(tmp_path, certificates, wrong):
    day = datetime.timedelta(days=1)
    if wrong == "other host":
        certificates.issue("example.org")
    elif wrong == "expired":
        certificates.issue("127.0.0.1", not_after=datetime.datetime.now(datetime.timezone.utc) - day)
    elif wrong == "other authority":
        certificates.issue("127.0.0.1", authority=trustme.CA())
    else:
        own = trustme.CA()
        own.cert_pem.write_to_path(certificates.certificate)
        own.private_key_pem.write_to_path(certificates.key)
    server = Server(tmp_path / "data", *certificates.flags)
    with connect(server, certificates, serverSelectionTimeoutMS=1000) as client:
        with pytest.raises(ServerSelectionTimeoutError, match="(?i)certificate"):
            client.admin.command("ping")
    uri = "mongodb://{}:{}/?tls=true&tlsCAFile=".format(*server.addresses["mongo"]) + quote(certificates.ca, safe="")
    done = subprocess.run([BIN, "backup", "--uri", uri, str(tmp_path / "copy")], capture_output=True, text=True)
    assert done.returncode == 1 and "certificate" in done.stderr, done
    assert server.stop() == 0


def own_authority(certificates, *, host="127.0.0.1", begins=-20, ends=10, is_authority=True):
    """A certificate that is its own authority, as `openssl req -x509` makes them; valid between these days from now."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)])
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now + datetime.timedelta(days=begins)).not_valid_after(now + datetime.timedelta(days=ends))
                   .add_extension(names, critical=False)
                   .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
                   .sign(key, hashes.SHA256()))
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    with open(certificates.certificate, "wb") as file:
        file.write(pem)
    with open(certificates.key, "wb") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return pem


@pytest.mark.parametrize("what, is_accepted", [
    ("own", True), ("no authority", True), ("expired", False), ("not valid yet", False), ("other host", False), ("not trusted", False), ("same name", False),
])
def test_a_certificate_that_is_its_own_authority_is_accepted_if_it_is_trusted_itself(tmp_path, certificates, what, is_accepted):
    options = {"expired": {"ends": -1}, "not valid yet": {"begins": 1}, "other host": {"host": "example.org"},
               "no authority": {"is_authority": False}}.get(what, {})
    pem = own_authority(certificates, **options)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(pem)
    if what == "not trusted":
        certificates.authority.cert_pem.write_to_path(trusted)
    elif what == "same name":
        # Another key: the server has this one, and the client trusts the one before.
        own_authority(certificates)
    server = Server(tmp_path / "data", *certificates.flags, native=True)
    mongo, native = (f"{host}:{port}" for host, port in (server.addresses["mongo"], server.addresses["native"]))
    uri = f"mongodb://{mongo}/?tlsCAFile={quote(str(trusted), safe='')}"
    for command in (["shell", uri, "--eval", "db.runCommand({ping: 1})"],
                    ["import", "shop.films", "-", "--native", native, "--tls-ca", str(trusted)]):
        done = subprocess.run([BIN, *command], input="", capture_output=True, text=True, timeout=30)
        assert (done.returncode == 0) == is_accepted, (command, done)
        assert is_accepted or "certificate" in done.stderr, done
    # As drivers do.
    with server.client(tls=True, tlsCAFile=str(trusted), serverSelectionTimeoutMS=1000) as client:
        if is_accepted:
            client.admin.command("ping")
        else:
            with pytest.raises(ServerSelectionTimeoutError, match="(?i)certificate"):
                client.admin.command("ping")
    assert server.stop() == 0


def test_a_changed_certificate_is_used_without_a_restart(secured, certificates):
    def served():
        return ssl.get_server_certificate(secured.addresses["mongo"])

    with connect(secured, certificates) as client:
        client.admin.command("ping")
        before = served()
        # A file that is not a certificate is not used.
        with open(certificates.certificate, "w") as file:
            file.write("no certificate")
        deadline = time.time() + 30
        while not any("cannot be used" in line for line in secured.log) and time.time() < deadline:
            time.sleep(0.2)
        assert served() == before
        certificates.issue("127.0.0.1", "localhost")
        while served() == before and time.time() < deadline:
            time.sleep(0.2)
        assert served() != before
        # A connection that is open stays, and a new one is certified.
        client.admin.command("ping")
    with connect(secured, certificates) as client:
        client.admin.command("ping")


def test_a_server_with_unusable_certificates_does_not_start(tmp_path, certificates):
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    other = Certificates(elsewhere)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for certificate, key, hint in [
        (certificates.certificate, other.key, "server.pem and"),
        (str(empty), certificates.key, "no certificate"),
        (certificates.certificate, str(empty), "empty.pem"),
        ("/nowhere.pem", certificates.key, "/nowhere.pem"),
    ]:
        done = subprocess.run(
            [BIN, "serve", "--dir", str(tmp_path / "d"), "--tls-certificate", certificate, "--tls-key", key],
            capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and hint in done.stderr, done
        assert not (tmp_path / "d").exists()


def test_commands_work_through_the_native_port_with_tls(tmp_path, certificates):
    server = Server(tmp_path / "data", *certificates.flags, native=True)
    host, port = server.addresses["native"]
    at = ["--native", f"{host}:{port}"]
    films = tmp_path / "films.jsonl"
    films.write_text('{"_id": 1}\n')
    done = subprocess.run([BIN, "import", "shop.films", str(films), *at, "--tls-ca", certificates.ca], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done
    done = subprocess.run([BIN, "export", "shop.films", *at, "--tls-ca", certificates.ca], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and '"_id"' in done.stdout, done
    assert subprocess.run([BIN, "export", "shop.films", *at], capture_output=True, timeout=20).returncode == 1
    assert server.stop() == 0


def test_a_backup_is_made_through_tls(tmp_path, secured, certificates):
    with connect(secured, certificates) as client:
        client.shop.orders.insert_one({"_id": 1})
    host, port = secured.addresses["mongo"]
    uri = f"mongodb://{host}:{port}/?tls=true&tlsCAFile={quote(certificates.ca, safe='')}"
    done = subprocess.run([BIN, "backup", "--uri", uri, str(tmp_path / "copy")], capture_output=True, text=True)
    assert done.returncode == 0, done


def test_a_peer_that_never_begins_tls_is_disconnected(tmp_path, certificates):
    server = Server(tmp_path / "data", *certificates.flags, "--stall-seconds", "1")
    with Wire(server) as wire:
        assert wire.is_closed()
    assert server.stop() == 0


def test_commands_that_cannot_begin_tls_say_why_and_what_to_do(tmp_path, secured, certificates):
    plain = Server(tmp_path / "plain")
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    for server, options, hint in [
        (secured, "", "the server has closed the connection: if it asks for TLS, add ?tlsCAFile=FILE to the URI"),
        (secured, f"?tlsCAFile={quote(str(other), safe='')}", "has to be certified by one in " + str(other)),
        (plain, f"?tlsCAFile={quote(certificates.ca, safe='')}", "does not speak TLS: leave out tls and tlsCAFile"),
        (secured, "?tls=true", "/etc/ssl/certs/ca-certificates.crt"),
    ]:
        host, port = server.addresses["mongo"]
        done = subprocess.run([BIN, "shell", f"mongodb://{host}:{port}/{options}", "--eval", "show dbs"],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and hint in done.stderr, done
    assert plain.stop() == 0
    assert any("the beginning of TLS" in line for line in plain.log)
