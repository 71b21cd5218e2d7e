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
    ({"TREEDB_ROOT_PASSWORD": "a", "TREEDB_TLS_CERTIFICATE": "/b"}, "tls_certificate needs tls_key"),
    ({"TREEDB_ROOT_PASSWORD": "a", "TREEDB_TLS_KEY": "/b"}, "tls_key needs tls_certificate"),
    # Without a configuration of its own the server is not open to everybody.
    ({"TREEDB_AUTH": "false"}, "--auth"),
])
def test_a_container_that_cannot_be_safe_does_not_start_and_says_why(start, env, hint):
    container = start(wait=False, env=env)
    _, error = container.process.communicate(timeout=20)
    assert container.process.returncode != 0 and hint in error, error


@pytest.mark.parametrize("by", ["variables", "flags", "file"])
def test_with_a_certificate_the_port_speaks_tls_only_and_the_container_is_healthy(start, tmp_path, by):
    authority = trustme.CA()
    certificate = authority.issue_cert(Container.ADDRESS)
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "treedb.toml").write_text(
        'dir = "/data"\nmongo = "0.0.0.0:27017"\nadmin = "127.0.0.1:8080"\nauth = true\n'
        'tls_certificate = "/run/tls/server.pem"\ntls_key = "/run/tls/server.key"\n')
    names = ("server.pem", "server.key", "treedb.toml")
    for name in names:
        os.chown(tmp_path / name, 999, 999)
    files = {"tls_certificate": "/run/tls/server.pem", "tls_key": "/run/tls/server.key"}
    env, command = {
        "variables": ({f"TREEDB_{name.upper()}": file for name, file in files.items()}, None),
        "flags": ({}, ["serve", *(f"--{name.replace('_', '-')}={file}" for name, file in files.items())]),
        "file": ({"TREEDB_CONFIG": "/run/tls/treedb.toml", "TREEDB_ROOT_USER": "root"}, None),
    }[by]
    container = start(env={"TREEDB_ROOT_PASSWORD": PASSWORD, **env}, command=command,
                      files=[(tmp_path / name, f"/run/tls/{name}") for name in names])
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


def options(container, **login):
    """The settings that the server has been started with, as it tells them."""
    hello = told(ask(container, "h = client.admin.command('hello'); print(h.get('setName'), h.get('me'))", directConnection=True, **login))
    return tuple(hello.split())


def test_variables_that_kubernetes_sets_for_a_service_called_treedb_change_nothing(start):
    container = start(env={
        "TREEDB_ROOT_PASSWORD": PASSWORD, "TREEDB_PORT": "tcp://10.0.0.1:27017", "TREEDB_SERVICE_HOST": "10.0.0.1",
        "TREEDB_SERVICE_PORT": "27017", "TREEDB_PORT_27017_TCP": "tcp://10.0.0.1:27017", "TREEDB_PORT_27017_TCP_PORT": "27017",
        "TREEDB_PORT_27017_TCP_PROTO": "tcp", "TREEDB_PORT_27017_TCP_ADDR": "10.0.0.1"})
    assert options(container) == ("rs0", "localhost:27017")
    assert container.stop()[0] == 0


def test_defaults_of_the_image_give_way_to_variables_and_flags_of_the_server(start):
    for volume, env, command, address, expected in [
        ("a", {"TREEDB_PORT": "27019"}, None, "27019", ("rs0", "localhost:27019")),
        ("b", {"TREEDB_MONGO": "0.0.0.0:27018", "TREEDB_ADMIN": "127.0.0.1:8081"}, None, "27018", ("rs0", "localhost:27018")),
        ("c", {"TREEDB_REPLICA_SET": ""}, ["serve", "--mongo=0.0.0.0:27020"], "27020", ("None", "None")),
        ("d", {}, ["serve", "--replica-set", "mine", "--advertise", "db:1"], "27017", ("mine", "db:1")),
    ]:
        container = start(volume=volume, env={"TREEDB_ROOT_PASSWORD": PASSWORD, **env}, command=command)
        assert options(container, host=f"{Container.ADDRESS}:{address}") == expected, volume
        assert container.stop()[0] == 0


@pytest.mark.parametrize("by", ["variable", "flag"])
def test_a_configuration_file_is_not_overruled_by_the_image(start, tmp_path, by):
    file = tmp_path / "treedb.toml"
    file.write_text('dir = "/data"\nmongo = "0.0.0.0:27018"\nadmin = "127.0.0.1:8080"\nauth = true\nreplica_set = "file"\n'
                    'advertise = "db.example.org:1"\nroot_user = "ann"\nroot_password_file = "/run/secrets/ann"\n')
    secret = tmp_path / "ann"
    secret.write_text(PASSWORD)
    env, command = {"variable": ({"TREEDB_CONFIG": "/run/treedb.toml"}, None), "flag": ({}, ["serve", "--config=/run/treedb.toml"])}[by]
    container = start(env=env, command=command, files=[(file, "/run/treedb.toml"), (secret, "/run/secrets/ann")])
    assert options(container, user="ann", host=f"{Container.ADDRESS}:27018") == ("file", "db.example.org:1")
    assert container.stop()[0] == 0


def test_a_container_that_has_ended_is_told_with_what_it_wrote(start):
    container = start(wait=False)
    container.process.wait(timeout=20)
    with pytest.raises(AssertionError, match="a new database needs a first user"):
        container.healthy()


def test_the_compose_file_uses_what_the_image_has():
    compose = (FOLDER / "compose.yaml").read_text()
    settings = dict(instructions())
    assert f":{settings['EXPOSE']}" in compose and f"data:{settings['VOLUME']}" in compose
    entrypoint = (FOLDER / "entrypoint.sh").read_text()
    for name in re.findall(r"TREEDB_\w+", compose):
        assert re.search(rf"\b{name}\b", entrypoint), name
    for file in (ROOT / ".gitignore", FOLDER / "Dockerfile.dockerignore"):
        assert "secrets" in file.read_text().splitlines()
