"""The image of treedb_server/docker, built and run without a daemon: see image.py."""
import os
import pathlib
import re
import signal
import sys
import time

import pytest
import trustme

from image import ROOT, Container, Image, instructions

PASSWORD = "a first password, with @:/ in it"
FOLDER = ROOT / "treedb_server/docker"


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    assert os.geteuid() == 0, "building a root file system and changing namespaces needs root"
    return Image(tmp_path_factory.mktemp("image"), pathlib.Path(os.environ["TREEDB_BIN"]))


@pytest.fixture
def start(image, tmp_path):
    """Starts containers, on the volume of the test."""
    started = []

    def start(wait=True, volume="volume", **options):
        container = Container(image, tmp_path / volume, **options)
        started.append(container)
        deadline = time.monotonic() + 30
        while wait and not container.healthy():
            assert container.process.poll() is None, container.stop()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return container

    yield start
    for container in started:
        container.kill()


def ask(container, script, host=Container.ADDRESS, user="root", password=PASSWORD, **options):
    """Runs a script with a driver, from the container's network."""
    program = (
        "import sys, pymongo\n"
        f"client = pymongo.MongoClient({host!r}, username={user!r}, password={password!r}, serverSelectionTimeoutMS=5000, **{options!r})\n"
        f"{script}\n")
    return container.in_its_network(sys.executable, "-c", program)


def told(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_container_has_a_user_and_lets_nobody_else_in(start):
    container = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD})
    assert told(ask(container, "print(client.shop.items.insert_one({'_id': 1}).inserted_id)", directConnection=True)) == "1"
    for user, password in [("root", "wrong"), ("nobody", PASSWORD)]:
        assert "Authentication failed" in ask(container, "client.shop.items.find_one()", user=user, password=password, directConnection=True).stderr
    assert "requires authentication" in container.in_its_network(sys.executable, "-c", f"import pymongo\n"
        f"pymongo.MongoClient({Container.ADDRESS!r}, directConnection=True).shop.items.find_one()").stderr
    # The password is neither among the arguments nor in the environment of the process.
    for name in ("cmdline", "environ"):
        assert PASSWORD not in pathlib.Path(f"/proc/{container.pid()}/{name}").read_bytes().decode()
    status = pathlib.Path(f"/proc/{container.pid()}/status").read_text()
    assert re.search(r"^Uid:\s+999\s+999", status, re.M) and re.search(r"^CapEff:\s+0+$", status, re.M)
    code, out, error = container.stop()
    assert code == 0 and PASSWORD not in out + error


def test_a_client_of_the_replica_set_has_transactions(start):
    container = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD, "TREEDB_ADVERTISE": f"{Container.ADDRESS}:27017"})
    script = ("with client.start_session() as session:\n"
              "    session.with_transaction(lambda s: client.shop.items.insert_one({'_id': 1}, session=s))\n"
              "print(client.shop.items.count_documents({}))")
    assert told(ask(container, script, replicaSet="rs0")) == "1"
    assert container.stop()[0] == 0


def test_users_and_documents_are_in_the_volume(start):
    first = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD, "TREEDB_ROOT_USER": "ann"})
    told(ask(first, "client.shop.items.insert_one({'_id': 1})", user="ann", directConnection=True))
    assert first.stop()[0] == 0
    # Neither without a password nor with another does the second start change the user.
    for env in [{}, {"TREEDB_ROOT_PASSWORD": "another", "TREEDB_ROOT_USER": "bob"}]:
        again = start(env=env)
        assert told(ask(again, "print(client.shop.items.count_documents({}))", user="ann", directConnection=True)) == "1"
        assert again.stop()[0] == 0


def test_the_password_may_be_a_secret_file(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    container = start(env={"TREEDB_ROOT_PASSWORD_FILE": "/run/secrets/root_password"}, files=[(secret, "/run/secrets/root_password")])
    assert told(ask(container, "print(client.admin.command('ping')['ok'])", directConnection=True)) == "1.0"
    assert container.stop()[0] == 0


@pytest.mark.parametrize("env, hint", [
    ({}, "set TREEDB_ROOT_PASSWORD"),
    ({"TREEDB_ROOT_PASSWORD": "a", "TREEDB_ROOT_PASSWORD_FILE": "/b"}, "exclude each other"),
    ({"TREEDB_ROOT_PASSWORD_FILE": "/missing"}, "/missing"),
    ({"TREEDB_ROOT_PASSWORD": "a", "TREEDB_TLS_CERTIFICATE": "/b"}, "TREEDB_TLS_KEY"),
])
def test_a_container_that_cannot_be_safe_does_not_start_and_says_why(start, env, hint):
    container = start(wait=False, env=env)
    _, error = container.process.communicate(timeout=20)
    assert container.process.returncode != 0 and hint in error, error


def test_with_a_certificate_the_port_speaks_tls_only(start, tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert(Container.ADDRESS)
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("server.pem", "server.key"):
        os.chown(tmp_path / name, 999, 999)
    container = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD, "TREEDB_TLS_CERTIFICATE": "/run/tls/server.pem",
                           "TREEDB_TLS_KEY": "/run/tls/server.key"},
                      files=[(tmp_path / name, f"/run/tls/{name}") for name in ("server.pem", "server.key")])
    ping = "print(client.admin.command('ping')['ok'])"
    assert told(ask(container, ping, directConnection=True, tls=True, tlsCAFile=str(tmp_path / "ca.pem"))) == "1.0"
    assert ask(container, ping, directConnection=True).returncode != 0
    assert container.stop()[0] == 0


def test_other_commands_of_treedb_run_in_the_image(start):
    container = start(wait=False, command=["--version"])
    out, _ = container.process.communicate(timeout=20)
    assert container.process.returncode == 0 and out.startswith("treedb ")


def test_a_server_that_does_not_answer_is_not_healthy(start):
    container = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD})
    os.kill(container.pid(), signal.SIGSTOP)
    assert not container.healthy()
    os.kill(container.pid(), signal.SIGCONT)
    assert container.healthy()


def test_the_compose_file_uses_what_the_image_has():
    compose = (FOLDER / "compose.yaml").read_text()
    settings = dict(instructions())
    assert f":{settings['EXPOSE']}" in compose and f"data:{settings['VOLUME']}" in compose
    entrypoint = (FOLDER / "entrypoint.sh").read_text()
    for name in re.findall(r"TREEDB_\w+", compose):
        assert f"${{{name}" in entrypoint or f'"${name}"' in entrypoint, name
