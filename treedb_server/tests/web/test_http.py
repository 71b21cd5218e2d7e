"""The HTTP layer of the web page: who is answered, and hostile requests."""
import http.client
import json
import socket
import time

import pytest

from server import PASSWORD, ROOT, Locked, Server

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("locked") / "data", admin=True)
    with server.as_user() as client:
        client.shop.films.insert_one({"_id": 1, "title": "Alien"})
        client.admin.command("createUser", "ann", pwd="secret", roles=[{"role": "read", "db": "shop"}])
        client.admin.command("createUser", "bob", pwd="secret", roles=[{"role": "readWrite", "db": "shop"}])
        client.admin.command("createUser", "old", pwd="secret", roles=[], mechanisms=["SCRAM-SHA-1"])
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("free"), "--web-page", "on", admin=True)
    with server.client() as client:
        client.shop.films.insert_one({"_id": 1, "title": "Alien"})
    yield server
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


def host(server):
    return "{}:{}".format(*server.addresses["admin"])


def send(server, method, path, body=None, headers=None, source="127.0.0.1", to=None, **replaced):
    """Sends a request, and returns status, headers and body."""
    address, port = server.addresses["admin"]
    connection = http.client.HTTPConnection(to or address, port, timeout=30, source_address=None if to else (source, 0))
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    all_headers = {"Host": host(server), **(JSON if method == "POST" else {}), **(headers or {}), **replaced}
    if body is not None:
        all_headers.setdefault("Content-Length", str(len(body)))
    for name, value in all_headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body.encode() if isinstance(body, str) else body)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.headers, text


def log_in(server, user=ROOT, password=PASSWORD):
    """The headers that make a request one of a user."""
    status, headers, text = send(server, "POST", "/api/login", {"user": user, "password": password, "database": "admin"})
    assert status == 200, text
    return {"Cookie": headers["Set-Cookie"].split(";")[0], "TreeDB-Session": json.loads(text)["secret"]}


def command(server, who, database, body):
    status, _, text = send(server, "POST", "/api/command", {"database": database, "command": body}, who)
    return status, json.loads(text)


def test_files_have_headers_that_allow_nothing_from_elsewhere(free):
    for path, kind in [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css"), ("/icon.svg", "image/svg+xml")]:
        status, headers, text = send(free, "GET", path)
        assert status == 200 and headers["Content-Type"].startswith(kind) and len(text) > 100
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
    for path in ["/index.html", "/../Cargo.toml", "/api/command", "//", "/app.js/", "/%2e%2e/x"]:
        assert send(free, "GET", path)[0] == 404, path


def test_without_a_login_nothing_is_told(locked):
    for path in ["/api/command", "/api/statement"]:
        status, _, text = send(locked, "POST", path, {"database": "shop", "command": {"find": "films"}, "text": "show dbs"})
        assert (status, "Alien" in text) == (401, False)
    status, _, text = send(locked, "POST", "/api/session", {})
    assert status == 200 and json.loads(text)["authentication"] is True and "user" not in json.loads(text)
    for cookie in ["treedb_{}=", "treedb_{}=" + "0" * 64, "other=1", "treedb_{}", "=;=;;", "treedb_1=" + "0" * 64]:
        headers = {"Cookie": cookie.format(locked.addresses["admin"][1]), "TreeDB-Session": "0" * 64}
        status, *_ = send(locked, "POST", "/api/command", {"database": "shop", "command": {"ping": 1}}, headers)
        assert status == 401, cookie


def test_a_login_is_a_cookie_that_scripts_and_other_sites_do_not_get(locked):
    _, headers, text = send(locked, "POST", "/api/login", {"user": ROOT, "password": PASSWORD, "database": "admin"})
    cookie = headers["Set-Cookie"]
    name = f"treedb_{locked.addresses['admin'][1]}="
    assert cookie.startswith(name) and "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert len(cookie.split(";")[0]) == len(name) + 64
    who = {"Cookie": cookie.split(";")[0], "TreeDB-Session": json.loads(text)["secret"]}
    assert who["TreeDB-Session"] not in cookie and log_in(locked) != who
    status, reply = command(locked, who, "shop", {"find": "films"})
    assert status == 200 and reply["cursor"]["firstBatch"] == [{"_id": 1, "title": "Alien"}]
    status, headers, _ = send(locked, "POST", "/api/logout", {}, who)
    assert status == 200 and "Max-Age=0" in headers["Set-Cookie"]
    assert command(locked, who, "shop", {"ping": 1})[0] == 401


def test_a_cookie_is_of_no_use_without_the_secret_of_its_own_log_in(locked):
    who, other = log_in(locked), log_in(locked)
    for secret in [None, "", "0" * 64, other["TreeDB-Session"], who["TreeDB-Session"][:-1], who["Cookie"][-64:]]:
        stolen = {"Cookie": who["Cookie"], "TreeDB-Session": secret}
        assert command(locked, stolen, "shop", {"find": "films"})[0] == 401, secret
        assert "user" not in json.loads(send(locked, "POST", "/api/session", {}, stolen)[2])
        assert send(locked, "POST", "/api/logout", {}, stolen)[0] == 200
    assert command(locked, {"TreeDB-Session": who["TreeDB-Session"]}, "shop", {"find": "films"})[0] == 401
    # Nor did any of these end the log-in.
    assert command(locked, who, "shop", {"find": "films"})[1]["ok"] == 1
    assert json.loads(send(locked, "POST", "/api/session", {}, who)[2])["user"]["authenticatedUsers"] == [{"user": ROOT, "db": "admin"}]


def test_roles_decide_as_they_do_on_the_wire(locked):
    ann, bob = log_in(locked, "ann", "secret"), log_in(locked, "bob", "secret")
    assert command(locked, ann, "shop", {"find": "films"})[1]["ok"] == 1
    refused = command(locked, ann, "shop", {"insert": "films", "documents": [{"_id": 9}]})[1]
    assert (refused["code"], refused["codeName"]) == (13, "Unauthorized")
    assert command(locked, ann, "other", {"find": "films"})[1]["code"] == 13
    assert command(locked, ann, "admin", {"serverStatus": 1})[1]["code"] == 13
    assert command(locked, bob, "shop", {"insert": "films", "documents": [{"_id": 9}]})[1]["n"] == 1
    assert command(locked, bob, "shop", {"delete": "films", "deletes": [{"q": {"_id": 9}, "limit": 1}]})[1]["n"] == 1
    assert command(locked, bob, "admin", {"createUser": "eve", "pwd": "x", "roles": ["root"]})[1]["code"] == 13
    log_in(locked, "old", "secret")
    # A user who loses roles, or is dropped, loses them on the page as well.
    with locked.as_user() as client:
        client.admin.command("createUser", "tom", pwd="secret", roles=[{"role": "read", "db": "shop"}])
        tom = log_in(locked, "tom", "secret")
        assert command(locked, tom, "shop", {"find": "films"})[1]["ok"] == 1
        client.admin.command("revokeRolesFromUser", "tom", roles=[{"role": "read", "db": "shop"}])
        assert command(locked, tom, "shop", {"find": "films"})[1]["code"] == 13
        client.admin.command("dropUser", "tom")
        assert command(locked, tom, "shop", {"find": "films"})[0] == 401


def test_a_log_in_ends_when_the_password_changes(locked):
    with locked.as_user() as client:
        client.admin.command("createUser", "sue", pwd="secret", roles=[{"role": "read", "db": "shop"}])
        sue = log_in(locked, "sue", "secret")
        assert command(locked, sue, "shop", {"find": "films"})[1]["ok"] == 1
        client.admin.command("updateUser", "sue", pwd="another")
        assert command(locked, sue, "shop", {"find": "films"})[0] == 401
        client.admin.command("dropUser", "sue")


def test_an_address_that_tries_many_names_has_to_wait_and_others_do_not(locked):
    tried = lambda name: send(locked, "POST", "/api/login", {"user": name, "password": "x", "database": "admin"}, source="127.0.0.7")
    texts = [tried(f"nobody{i}")[2] for i in range(15)]
    assert "too many failed log-ins" in texts[-1] and "too many" not in texts[0]
    log_in(locked)


def test_without_authentication_there_is_a_page_only_if_it_was_asked_for(tmp_path):
    server = Server(tmp_path / "data", admin=True)
    try:
        with server.client() as client:
            client.shop.films.insert_one({"_id": 1, "title": "Alien"})
        for path in ["/", "/app.js"]:
            status, _, text = send(server, "GET", path)
            assert status == 404 and "--web-page on" in text
        for path in ["/api/session", "/api/command"]:
            status, _, text = send(server, "POST", path, {"database": "shop", "command": {"find": "films"}})
            assert status == 405 and "Alien" not in text
        assert send(server, "GET", "/livez")[0] == send(server, "GET", "/readyz")[0] == send(server, "GET", "/metrics")[0] == 200
    finally:
        assert server.stop() == 0
    server = Locked(tmp_path / "locked", "--web-page", "off", admin=True)
    try:
        assert send(server, "GET", "/")[0] == 404 and send(server, "POST", "/api/session", {})[0] == 405
    finally:
        assert server.stop() == 0


def test_passwords_do_not_travel_unencrypted_over_the_network(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: it only tells by which address this machine would.
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    assert not own.startswith("127."), "this machine has no address but loopback"
    server = Locked(tmp_path / "data", "--allow-unauthenticated", "admin", admin="0.0.0.0:0")
    try:
        body, name = {"user": ROOT, "password": PASSWORD, "database": "admin"}, f"{own}:{server.addresses['admin'][1]}"
        status, headers, text = send(server, "POST", "/api/login", body, to=own, Host=name)
        assert status == 403 and "TLS" in text and "Set-Cookie" not in headers
        assert "TLS" in json.loads(send(server, "POST", "/api/session", {}, to=own, Host=name)[2])["message"]
        assert send(server, "GET", "/metrics", to=own, Host=name)[0] == 200
        assert send(server, "POST", "/api/login", body, to="127.0.0.1")[0] == 200
        assert any("not encrypted" in line and "admin" in line for line in server.log)
    finally:
        assert server.stop() == 0


def metric(server, name):
    lines = [line for line in send(server, "GET", "/metrics")[2].splitlines() if line.startswith(name + " ")]
    return float(lines[0].split()[1])


def test_an_answer_that_nobody_reads_is_accounted_and_ends_the_connection(tmp_path):
    server = Server(tmp_path / "data", "--web-page", "on", "--stall-seconds", "3", admin=True)
    try:
        with server.client() as client:
            client.shop.big.insert_many([{"_id": i, "text": "x" * 1_000_000} for i in range(14)])
        body = json.dumps({"database": "shop", "command": {"find": "big", "batchSize": 14}})
        with socket.socket() as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream.connect(server.addresses["admin"])
            stream.sendall(f"POST /api/command HTTP/1.1\r\nHost: {host(server)}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            deadline = time.monotonic() + 20
            while metric(server, "treedb_inflight_bytes") < 10_000_000:
                assert time.monotonic() < deadline, "the answer does not count"
                time.sleep(0.05)
            while metric(server, "treedb_inflight_bytes") > 1_000_000:
                assert time.monotonic() < deadline, "the answer is held for ever"
                time.sleep(0.05)
            got = 0
            try:
                while part := stream.recv(1 << 20):
                    got += len(part)
            except ConnectionError:
                pass
            assert got < 14_000_000, "it was sent after all"
    finally:
        assert server.stop() == 0


def test_wrong_passwords_are_refused_logged_and_slowed_down(locked):
    body = {"user": "ann", "password": "b4dpass", "database": "admin"}
    messages = set()
    for _ in range(12):
        status, headers, text = send(locked, "POST", "/api/login", body, source="127.0.0.9")
        assert status == 401 and "Set-Cookie" not in headers
        messages.add(json.loads(text)["message"].split(":")[0])
    assert messages == {"Authentication failed.", "too many failed log-ins from this address"}
    assert send(locked, "POST", "/api/login", {**body, "user": "nobody"}, source="127.0.0.9")[0] == 401
    assert any("authentication failed" in line for line in locked.log)
    assert not any("b4dpass" in line for line in locked.log)
    for odd in [{}, {"user": 1, "password": 2}, {"user": "ann"}, {"user": "", "password": ""}, {"user": "a\u0000b", "password": "x"}]:
        assert send(locked, "POST", "/api/login", odd)[0] in (400, 401), odd


def test_a_server_without_authentication_can_only_be_read(free):
    with free.client() as client:
        for body in [
            {"find": "films"}, {"aggregate": "films", "pipeline": [], "cursor": {}}, {"count": "films"}, {"distinct": "films", "key": "title"},
            {"listCollections": 1}, {"listIndexes": "films"}, {"collStats": "films"}, {"dbStats": 1}, {"serverStatus": 1},
            {"aggregate": "films", "pipeline": [{"$indexStats": {}}], "cursor": {}}, {"explain": {"find": "films"}}, {"profile": -1},
            {"find": "system.profile"},
        ]:
            reply = command(free, None, "shop", body)[1]
            assert reply["ok"] == 1, (body, reply)
        for database, body in [
            ("shop", {"insert": "films", "documents": [{"_id": 2}]}),
            ("shop", {"update": "films", "updates": [{"q": {}, "u": {"$set": {"x": 1}}}]}),
            ("shop", {"delete": "films", "deletes": [{"q": {}, "limit": 0}]}),
            ("shop", {"findAndModify": "films", "query": {}, "remove": True}),
            ("shop", {"aggregate": "films", "pipeline": [{"$out": "copy"}], "cursor": {}}),
            ("shop", {"aggregate": "films", "pipeline": [{"$merge": "copy"}], "cursor": {}}),
            ("shop", {"create": "new"}), ("shop", {"drop": "films"}), ("shop", {"dropDatabase": 1}),
            ("shop", {"createIndexes": "films", "indexes": [{"key": {"title": 1}, "name": "t"}]}),
            ("shop", {"dropIndexes": "films", "index": "*"}), ("shop", {"collMod": "films", "validator": {}}),
            ("shop", {"convertToCapped": "films", "size": 4096}), ("shop", {"compact": "films"}), ("shop", {"profile": 2}),
            ("admin", {"renameCollection": "shop.films", "to": "shop.other"}),
            ("admin", {"bulkWrite": 1, "ops": [{"delete": 0, "filter": {}}], "nsInfo": [{"ns": "shop.films"}]}),
            ("admin", {"createUser": "eve", "pwd": "x", "roles": ["root"]}), ("admin", {"createRole": "r", "privileges": [], "roles": []}),
            ("admin", {"dropAllUsersFromDatabase": 1}), ("admin", {"setParameter": 1, "slowms": 5}), ("admin", {"fsync": 1}),
            ("admin", {"backupTo": "/tmp/never"}), ("admin", {"killAllSessions": []}), ("admin", {"grantRolesToUser": "eve", "roles": ["root"]}),
        ]:
            reply = command(free, None, database, body)[1]
            assert reply["ok"] == 0 and reply["code"] == 13, (body, reply)
        assert list(client.shop.films.find()) == [{"_id": 1, "title": "Alien"}]
        # Drivers may do everything, as before.
        client.shop.films.insert_one({"_id": 5})
        client.shop.films.delete_one({"_id": 5})


def test_transactions_and_sessions_of_others_are_not_taken_over(free):
    with free.client() as client:
        sessions = len(list(client.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}])))
    body = {"find": "films", "lsid": {"id": {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}}, "txnNumber": {"$numberLong": "1"},
            "startTransaction": True, "autocommit": False}
    assert command(free, None, "shop", body)[1]["ok"] == 1
    with free.client() as client:
        assert len(list(client.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}]))) <= sessions + 1


def test_requests_of_other_sites_are_refused(free, locked):
    good = {"database": "shop", "command": {"find": "films"}}
    own = host(free)
    assert send(free, "POST", "/api/command", good, {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"})[0] == 200
    for headers, status in [
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": f"https://{own}"}, 403),
        ({"Origin": f"http://{own}.evil.example"}, 403), ({"Origin": "http://127.0.0.1:1"}, 403), ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": None}, 415), ({"Content-Type": "application/jsonp"}, 415),
    ]:
        for server in (free, locked):
            found, answer, text = send(server, "POST", "/api/command", good, headers)
            assert found == status and "Alien" not in text, headers
            assert "Access-Control-Allow-Origin" not in answer
    assert send(free, "OPTIONS", "/api/command", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})[0] == 405


def test_what_is_to_be_explained_is_never_run(locked):
    who = log_in(locked)
    with locked.as_user() as client:
        client.shop.kept.insert_many([{"_id": i} for i in range(5)])
        client.shop.kept.insert_one({"_id": "x"})
        for statement in ["db.kept.deleteMany({}) // old", "db.kept.deleteMany({_id: {$ne: '.explain('}})", "db.kept.deleteMany({});",
                          "db.kept.updateMany({}, {$set: {a: 1}}) // .explain(", "db.kept.findOneAndDelete({})",
                          "{\"delete\": \"kept\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}"]:
            status, _, text = send(locked, "POST", "/api/statement", {"database": "shop", "text": statement, "explain": True}, who)
            reply = json.loads(text).get("reply", {})
            assert status == 200 and reply.get("ok") == 1 and "executionStats" in reply, (statement, text)
        for statement in ["db.kept.drop()", "db.kept.insertOne({_id: 9})", "db.dropDatabase()"]:
            _, _, text = send(locked, "POST", "/api/statement", {"database": "shop", "text": statement, "explain": True}, who)
            assert json.loads(text)["reply"]["ok"] == 0, statement
        odd = send(locked, "POST", "/api/statement", {"database": "shop", "text": "db.kept.drop()", "explain": 1}, who)
        assert odd[0] == 400
        assert list(client.shop.kept.find({}, {"_id": 1}).sort("_id", 1)) == [*({"_id": i} for i in range(5)), {"_id": "x"}]
        assert client.shop.kept.count_documents({"a": 1}) == 0
        client.shop.kept.drop()


def test_names_that_another_site_may_have_are_refused(free):
    port = free.addresses["admin"][1]
    for name in ["evil.example", f"evil.example:{port}", f"localhost.evil.example:{port}", f"127.0.0.1.evil.example:{port}", "", "a b"]:
        for method, path in [("GET", "/"), ("GET", "/app.js"), ("POST", "/api/session")]:
            status, _, text = send(free, method, path, "{}" if method == "POST" else None, Host=name, Origin=f"http://{name}")
            assert status in (400, 421), (name, path)
            assert "read" not in text
    assert send(free, "GET", "/", Host=None)[0] == 400
    for name in [f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"]:
        assert send(free, "GET", "/", Host=name)[0] == 200, name
    # Load balancers and Prometheus come by other names.
    assert send(free, "GET", "/livez", Host="treedb.internal")[0] == 200
    assert send(free, "GET", "/metrics", Host="treedb.internal:9999")[0] == 200
    assert send(free, "POST", "/metrics", "{}")[0] == 405


def test_bodies_are_limited_and_have_to_be_documents(free, locked):
    for body in ["", "{", "[]", "1", "null", "\"x\"", "{\"database\": 1}", "{\"database\": \"shop\"}", "{\"database\": \"shop\", \"command\": []}",
                 "{\"database\": \"shop\", \"command\": 1}", "[" * 5000, "{\"a\":" * 5000, "{\"a\": {\"$oid\": \"x\"}}"]:
        assert send(free, "POST", "/api/command", body)[0] == 400, body[:50]
    assert send(free, "POST", "/api/command", b"\xff\xfe{}")[0] == 400
    for body in [{}, {"": 1}, {"find": 5}, {"find": "films", "$db": "other"}, {"nothing": 1}, {"find": "a\u0000b"}, {"$where": 1}]:
        status, reply = command(free, None, "shop", body)
        assert status == 200 and ("ok" in reply), body
    for database in ["", "a.b", "a b", "x" * 100, "$external", "a\u0000b"]:
        status, reply = command(free, None, database, {"find": "films"})
        assert status == 200 and reply["ok"] == 0, database
    assert send(free, "POST", "/api/command", "{", {"Content-Length": str(2 << 20)})[0] == 413
    assert send(locked, "POST", "/api/login", {"user": "a" * 9000, "password": "x"})[0] == 413
    # More is said to come than is sent: no memory is held for it.
    with socket.create_connection(free.addresses["admin"], timeout=10) as stream:
        stream.sendall(f"POST /api/command HTTP/1.1\r\nHost: {host(free)}\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{{".encode())
        assert b" 413 " in stream.recv(100)
    for statement in ["", "db", "show x", "db.films.find({", "db.films.x()", "use shop", "exit", "it", "db.films.find(); db.films.find()", "'", "{a", "\\x", "\u0000"]:
        status, _, text = send(free, "POST", "/api/statement", {"database": "shop", "text": statement})
        assert status == 200 and json.loads(text)["message"], statement


def test_garbage_and_floods_do_not_keep_others_out(free):
    for garbage in [b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 1000,
                    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n", b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"]:
        with socket.create_connection(free.addresses["admin"], timeout=10) as stream:
            try:
                stream.sendall(garbage)
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(4096):
                    pass
            except OSError:
                # It has hung up.
                pass
    streams = []
    try:
        for _ in range(300):
            streams.append(socket.create_connection(free.addresses["admin"], timeout=10))
        # Beyond the limit of an address they are closed; drivers and other addresses are not concerned.
        deadline = time.monotonic() + 20
        closed = 0
        while closed < 300 - 64:
            assert time.monotonic() < deadline, closed
            open_ones = []
            for stream in streams:
                stream.setblocking(False)
                try:
                    ended = stream.recv(1) == b""
                except BlockingIOError:
                    ended = False
                except ConnectionError:
                    ended = True
                closed += ended
                (stream.close() if ended else open_ones.append(stream))
            streams = open_ones
            time.sleep(0.05)
        for path in ["/livez", "/readyz", "/metrics"]:
            assert send(free, "GET", path, source="127.0.0.2")[0] == 200
        with free.client() as client:
            assert client.admin.command("ping")["ok"] == 1
    finally:
        for stream in streams:
            stream.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert send(free, "GET", "/livez")[0] == 200
            break
        except (ConnectionError, http.client.HTTPException):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_who_sends_or_reads_slowly_is_hung_up_on_and_holds_nobody_up(tmp_path):
    server = Server(tmp_path / "data", "--web-page", "on", "--stall-seconds", "1", admin=True)
    start = f"HTTP/1.1\r\nHost: {host(server)}\r\n".encode()
    post = start + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    # What is sent at once, what is sent again and again, and how often in a tenth of a second.
    slow = [
        (b"", b"", 0), (b"G", b"E", 1), (b"GET /livez " + start, b"", 0), (b"GET /livez " + start + b"X: ", b"x", 1),
        (b"GET /livez " + start, b"X: y\r\n", 1), (b"POST /api/command " + post, b"", 0), (b"POST /api/command " + post, b" ", 1),
        (b"POST /api/statement " + post, b" ", 1), (b"GET / " + start + b"\r\n", b"", 0), (b"", b"GET / " + start + b"\r\n", 300),
    ]
    streams = {}
    for at, (first, _, _) in enumerate(slow * 4):
        stream = socket.create_connection(server.addresses["admin"], timeout=10)
        stream.sendall(first)
        stream.setblocking(False)
        streams[at] = stream
    began = time.monotonic()
    while streams:
        assert time.monotonic() - began < 20, [slow[at % len(slow)] for at in streams]
        asked = time.monotonic()
        assert send(server, "GET", "/livez", source="127.0.0.2")[0] == 200
        assert time.monotonic() - asked < 5
        for at, stream in list(streams.items()):
            _, more, often = slow[at % len(slow)]
            try:
                stream.send(more * often)
                # The last kind reads nothing at all.
                ended = often <= 1 and stream.recv(1 << 16) == b""
            except BlockingIOError:
                ended = False
            except ConnectionError:
                ended = True
            if ended:
                stream.close()
                del streams[at]
        time.sleep(0.1)
    # None of them was hung up on at once.
    assert time.monotonic() - began > 0.9
    assert server.stop() == 0
    assert not [line for line in server.log if "panic" in line]


def test_a_request_that_is_given_up_stops_its_command(free):
    with free.client() as client:
        client.shop.many.insert_many([{"_id": i} for i in range(300)])
        pipeline = []
        for n in range(4):
            pipeline += [{"$lookup": {"from": "many", "pipeline": [], "as": f"x{n}"}}, {"$unwind": f"$x{n}"}]
        body = json.dumps({"database": "shop", "command": {"aggregate": "many", "pipeline": [*pipeline, {"$count": "n"}], "cursor": {}}})
        wanted = [{"$currentOp": {"allUsers": True}}, {"$match": {"command.aggregate": "many"}}]
        running = lambda: list(client.admin.aggregate(wanted))
        with socket.create_connection(free.addresses["admin"], timeout=10) as stream:
            stream.sendall(f"POST /api/command HTTP/1.1\r\nHost: {host(free)}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            deadline = time.monotonic() + 20
            while not (found := running()):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert found[0]["appName"] == "TreeDB web page"
        deadline = time.monotonic() + 20
        while running():
            assert time.monotonic() < deadline, "the command goes on although nobody waits for it"
            time.sleep(0.05)
