"""Clients that authenticate by their certificates: MONGODB-X509, and users of $external."""
import datetime
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pymongo.errors import ConnectionFailure, OperationFailure, ServerSelectionTimeoutError

from server import PASSWORD, ROOT, Locked
from test_tls import Certificates


class Authority:
    """One that certifies clients, and the files that it makes."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.count = folder, 0
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "those who are clients")])
        made = self.build(self.name, self.key, x509.BasicConstraints(ca=True, path_length=None), days=1)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def build(self, subject, key, constraints, days):
        now = datetime.datetime.now(datetime.timezone.utc)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = x509.CertificateBuilder(
            issuer_name=self.name, subject_name=subject, public_key=key.public_key(), serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(days=3), not_valid_after=now + datetime.timedelta(days=days))
        builder = builder.add_extension(constraints, critical=True)
        if not constraints.ca:
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def client(self, subject, days=1):
        """A file with a certificate of this subject and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self.build(x509.Name(subject), key, x509.BasicConstraints(ca=False, path_length=None), days)
        self.count += 1
        file = self.folder / f"client{self.count}.pem"
        file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return str(file)


def subject_of(file):
    """As administrators find it."""
    shown = subprocess.run(["openssl", "x509", "-in", file, "-noout", "-subject", "-nameopt", "RFC2253"],
                           capture_output=True, text=True, check=True)
    return shown.stdout.removeprefix("subject=").strip("\n")


def part(oid, text):
    return x509.RelativeDistinguishedName([x509.NameAttribute(oid, text)])


SUBJECTS = [
    [part(NameOID.COUNTRY_NAME, "NO"), part(NameOID.STATE_OR_PROVINCE_NAME, "Oslo"), part(NameOID.LOCALITY_NAME, "Oslo"),
     part(NameOID.ORGANIZATION_NAME, "Example, Ltd."), part(NameOID.ORGANIZATIONAL_UNIT_NAME, "films"), part(NameOID.COMMON_NAME, "ann")],
    [part(NameOID.COMMON_NAME, " a+b=\"c\" <d>;\\ ")],
    [part(NameOID.COMMON_NAME, "#Åse Ødegård 友")],
    [part(NameOID.DOMAIN_COMPONENT, "org"), part(NameOID.DOMAIN_COMPONENT, "example"), part(NameOID.USER_ID, "bob"),
     part(NameOID.EMAIL_ADDRESS, "bob@example.org")],
    [part(NameOID.ORGANIZATION_NAME, "x"),
     x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "two"), x509.NameAttribute(NameOID.SERIAL_NUMBER, "7"),
                                     x509.NameAttribute(NameOID.GIVEN_NAME, "parts")])],
    [part(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1.5"), "unknown"), part(NameOID.COMMON_NAME, "x" * 64)],
    [part(NameOID.ORGANIZATION_NAME, "y" * 60 + "é"), part(NameOID.ORGANIZATIONAL_UNIT_NAME, "z" * 64), part(NameOID.POSTAL_CODE, "0150"),
     part(NameOID.STREET_ADDRESS, "Street 1"), part(NameOID.SURNAME, "S"), part(NameOID.TITLE, "T")],
]


class Places:
    """A server that asks for certificates, and who makes them."""

    def __init__(self, folder):
        self.files = Certificates(folder)
        self.authority, self.other = Authority(folder / "clients"), Authority(folder / "others")
        self.server = Locked(folder / "data", *self.files.flags, "--tls-client-ca", str(self.authority.ca))

    def client(self, file=None, **options):
        if file:
            options["tlsCertificateKeyFile"] = file
        return self.server.client(tls=True, tlsCAFile=self.files.ca, **{"serverSelectionTimeoutMS": 3000, **options})

    def certified(self, file, **options):
        return self.client(file, authMechanism="MONGODB-X509", **options)

    def root(self):
        return self.client(username=ROOT, password=PASSWORD)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    places = Places(tmp_path_factory.mktemp("x509"))
    yield places
    assert places.server.stop() == 0
    assert not [line for line in places.server.log if "panic" in line]


@pytest.fixture
def ann(places):
    """A certificate, and the name of the user who has it."""
    file = places.authority.client(SUBJECTS[0])
    with places.root() as root:
        root["$external"].command("createUser", subject_of(file), roles=[{"role": "readWrite", "db": "shop"}])
        yield file, subject_of(file)
        root["$external"].command("dropUser", subject_of(file))


def failed(client):
    with pytest.raises(OperationFailure) as failure:
        with client:
            client.shop.films.find_one()
    return failure.value.code


@pytest.mark.parametrize("subject", SUBJECTS, ids=range(len(SUBJECTS)))
def test_a_certificate_is_the_user_that_is_called_as_openssl_writes_its_subject(places, subject):
    file = places.authority.client(subject)
    name = subject_of(file)
    with places.root() as root:
        external = root["$external"]
        external.command("createUser", name, roles=[{"role": "readWrite", "db": "shop"}], customData={"a": 1})
        info, = external.command("usersInfo", name)["users"]
        assert (info["user"], info["db"], info["mechanisms"]) == (name, "$external", ["external"])
        with places.certified(file) as client:
            user, = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
            assert user == {"user": name, "db": "$external"}
            client.shop.films.insert_one({})
            with pytest.raises(OperationFailure) as failure:
                client.other.films.find_one()
            assert failure.value.code == 13
            external.command("dropUser", name)
            with pytest.raises(OperationFailure) as failure:
                client.shop.films.find_one()
            assert failure.value.code == 13


def test_the_command_authenticates_as_well_as_the_handshake(places, ann):
    file, name = ann
    with places.client(file, maxPoolSize=1) as client:
        with pytest.raises(OperationFailure) as failure:
            client.shop.films.find_one()
        assert failure.value.code == 13
        for user in ({}, {"user": name}):
            reply = client["$external"].command("authenticate", 1, mechanism="MONGODB-X509", **user)
            assert (reply["dbname"], reply["user"]) == ("$external", name)
        client.shop.films.find_one()
        client.admin.command("logout")
        for code, database, options in [
            (18, "$external", {"mechanism": "MONGODB-X509", "user": "CN=bob"}), (18, "$external", {"mechanism": "MONGODB-X509", "user": ""}),
            (17, "admin", {"mechanism": "MONGODB-X509"}), (334, "$external", {"mechanism": "SCRAM-SHA-256"})]:
            with pytest.raises(OperationFailure) as failure:
                client[database].command("authenticate", 1, **options)
            assert failure.value.code == code
        with pytest.raises(OperationFailure) as failure:
            client.shop.films.find_one()
        assert failure.value.code == 13


def test_others_have_to_have_a_password(places, ann):
    # The user exists, but not this certificate; neither, or no certificate at all.
    assert failed(places.certified(places.authority.client(SUBJECTS[1]))) == 18
    assert failed(places.certified(None)) == 18
    assert failed(places.client(None, username=ann[1], password="x", authSource="$external")) == 18
    with places.root() as root:
        assert root.admin.command("ping")["ok"] == 1
    with places.client(ann[0], username=ROOT, password=PASSWORD) as both:
        user, = both.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        assert user["user"] == ROOT


def test_certificates_of_other_authorities_and_old_ones_do_not_connect(places, ann):
    for file in (places.other.client(SUBJECTS[0]), places.authority.client(SUBJECTS[0], days=-1)):
        assert subject_of(file) == ann[1]
        with pytest.raises((ConnectionFailure, ServerSelectionTimeoutError)):
            with places.certified(file) as client:
                client.shop.films.find_one()


def test_users_of_external_have_no_password(places, ann):
    with places.root() as root:
        for command in [{"createUser": "CN=x", "roles": [], "pwd": "secret"}, {"updateUser": ann[1], "pwd": "secret"},
                        {"createUser": "CN=x", "roles": [], "mechanisms": ["SCRAM-SHA-256"]}]:
            with pytest.raises(OperationFailure) as failure:
                root["$external"].command(command)
            assert failure.value.code == 2 and "certificates" in str(failure.value)
        with pytest.raises(OperationFailure) as failure:
            root.shop.command("createUser", "ann", roles=[])
        assert failure.value.code == 2
        root["$external"].command("updateUser", ann[1], roles=[{"role": "root", "db": "admin"}])
    with places.certified(ann[0]) as client:
        assert client.admin.command("serverStatus")["ok"] == 1


def test_a_server_that_knows_no_authorities_asks_for_no_certificate(tmp_path):
    files, authority = Certificates(tmp_path), Authority(tmp_path / "clients")
    server = Locked(tmp_path / "data", *files.flags)
    file = authority.client(SUBJECTS[0])
    with server.client(tls=True, tlsCAFile=files.ca, username=ROOT, password=PASSWORD) as root:
        root["$external"].command("createUser", subject_of(file), roles=[{"role": "root", "db": "admin"}])
    assert failed(server.client(tls=True, tlsCAFile=files.ca, tlsCertificateKeyFile=file, authMechanism="MONGODB-X509")) == 18
    assert server.stop() == 0


def test_changed_authorities_are_used_without_a_restart(tmp_path):
    places = Places(tmp_path)
    before, after = places.authority.client(SUBJECTS[0]), places.other.client(SUBJECTS[0])
    with places.root() as root:
        root["$external"].command("createUser", subject_of(before), roles=[{"role": "root", "db": "admin"}])

    def connects(file):
        try:
            with places.certified(file, serverSelectionTimeoutMS=1000) as client:
                return client.admin.command("ping")["ok"] == 1
        except (ConnectionFailure, ServerSelectionTimeoutError):
            return False

    def until(condition):
        deadline = time.time() + 30
        while not condition() and time.time() < deadline:
            time.sleep(0.2)
        assert condition()

    assert connects(before) and not connects(after)
    # A file that has no certificate changes nothing.
    used = places.authority.ca.read_bytes()
    places.authority.ca.write_bytes(b"")
    until(lambda: any("the former ones stay" in line for line in places.server.log))
    assert connects(before) and not connects(after)
    with places.certified(before) as client:
        client.admin.command("ping")
        places.authority.ca.write_bytes(places.other.ca.read_bytes())
        until(lambda: connects(after))
        # A connection that is open stays; a new one is of an authority that is not trusted any more.
        client.admin.command("ping")
    assert not connects(before)
    places.authority.ca.write_bytes(used + places.other.ca.read_bytes())
    until(lambda: connects(before))
    assert connects(after)
    assert places.server.stop() == 0


def test_authorities_that_cannot_be_used_are_told(tmp_path):
    files = Certificates(tmp_path)
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "bad.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for name in ("empty.pem", "bad.pem", "missing.pem"):
        with pytest.raises(RuntimeError, match=name):
            Locked(tmp_path / "data", *files.flags, "--tls-client-ca", str(tmp_path / name))
    with pytest.raises(RuntimeError, match="tls_certificate"):
        Locked(tmp_path / "data", "--tls-client-ca", files.ca)
