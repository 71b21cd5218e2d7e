"""The web page in a browser."""
import http.server
import json
import os
import pathlib
import threading
import time

import pytest

from browser import Browser
from server import PASSWORD, ROOT, Locked, Server
from test_http import send


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def page_complains_about_nothing(browser):
    browser.log()
    yield
    # The answer to a wrong password is told by the browser as well.
    assert [line for line in browser.log() if "/api/login" not in line] == []


def fill(client):
    client.shop.films.insert_many([
        {"_id": i, "title": f"film {i:04}", "year": 1950 + i % 75, "rating": i % 50 / 10, "seen": i % 3 == 0} for i in range(5000)])
    client.shop.films.create_index("year")
    client.shop.films.create_index("title", name="unused", unique=True)
    client.shop.orders.insert_many([{"_id": i, "customer": {"name": f"<b>{i}</b>", "tags": [1, 2]}} for i in range(20)])
    for year in range(1960, 1980):
        list(client.shop.films.find({"year": year}))
    client.shop.command("profile", 1, slowms=0)
    client.shop.films.count_documents({"rating": 2.5})
    client.shop.command("profile", 0, slowms=100)


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("locked") / "data", admin=True)
    with server.as_user() as client:
        fill(client)
        client.admin.command("createUser", "ann", pwd="secret", roles=[{"role": "read", "db": "shop"}])
    yield server
    assert server.stop() == 0


def url(server, view=""):
    return "http://{}:{}/".format(*server.addresses["admin"]) + (f"#{view}" if view else "")


def keep(browser, name):
    """For people who want to look at it."""
    if folder := os.environ.get("TREEDB_SCREENSHOTS"):
        for dark in (False, True):
            browser.dark(dark)
            browser.screenshot(pathlib.Path(folder) / f"{name}{'-dark' if dark else ''}.png")
        browser.dark(False)


def log_in(browser, server, user=ROOT, password=PASSWORD):
    browser.open("about:blank")
    browser.open(url(server))
    browser.wait("return document.querySelector('form input[name=user], #logout:not([hidden])')")
    if browser.run("return !document.getElementById('logout').hidden"):
        browser.click("Log out")
    browser.wait("return document.querySelector('form input[name=user]')")
    keep(browser, "login")
    browser.enter("input[name=user]", user)
    browser.enter("input[name=password]", password)
    browser.click("Log in", "button")


def run(browser, statement, button="Run"):
    browser.wait("return document.getElementById('statement')")
    browser.enter("#statement", statement)
    browser.click(button, "button")


def test_a_wrong_password_is_told_and_the_right_one_lets_in(browser, locked):
    log_in(browser, locked, password="wrong")
    browser.wait_for("Authentication failed.", ".error")
    assert browser.cookies() == []
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    assert "root@admin" in browser.text("header")
    cookie, = browser.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert browser.run("return document.cookie") == ""


def test_the_overview_has_charts_of_what_the_server_does(browser, locked):
    log_in(browser, locked)
    stop = threading.Event()

    def load():
        with locked.as_user() as client:
            n = 10_000
            while not stop.is_set():
                list(client.shop.films.find({"year": 1970}).limit(5))
                client.shop.orders.insert_one({"_id": n})
                n += 1

    thread = threading.Thread(target=load)
    thread.start()
    try:
        browser.wait("return [...document.querySelectorAll('.chart path.one:not(.area)')].every((path) => (path.getAttribute('d').match(/L/g) ?? []).length >= 3)"
                     " && document.querySelectorAll('.chart path.one:not(.area)').length === 2", timeout=40)
        operations = browser.run("return document.querySelector('.tile .value').innerText")
        assert float(operations.replace(",", "")) > 5
        legend = browser.text(".legend")
        assert "reads" in legend and "writes" in legend and "commands" in legend
        keep(browser, "overview")
    finally:
        stop.set()
        thread.join()
    with locked.as_user() as client:
        client.shop.orders.delete_many({"_id": {"$gte": 10_000}})


def test_collections_show_their_indexes_and_how_often_they_are_used(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Collections")
    browser.wait_for("Collections of shop")
    assert "5,000" in browser.text("main")
    browser.click("films")
    browser.wait_for("Indexes of films")
    rows = browser.run("return [...document.querySelectorAll('#indexes tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
    by_name = {row[0]: row for row in rows}
    assert by_name["year_1"][1] == '{"year":1}' and int(by_name["year_1"][4].split()[0].replace(",", "")) >= 20
    assert by_name["unused"][2] == "unique" and by_name["unused"][4] == "never"
    keep(browser, "collections")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    server = Locked(tmp_path_factory.mktemp("crowded") / "data", "--durability", "relaxed", admin=True)
    with server.as_user() as client:
        for n in range(1_210):
            client.many.create_collection(f"c{n:04}")
        client.many["c1209"].insert_one({"_id": 1})
        for n in range(110):
            client[f"d{n:03}"].c.insert_one({"_id": n})
        client.many.command("profile", 2)
        client["d109"].command("profile", 2)
        client["d109"].c.count_documents({"_id": 4711})
    yield server
    assert server.stop() == 0


ROWS = "return [...document.querySelectorAll('main table tbody tr')].map((row) => row.cells[0].innerText)"


def test_of_very_many_collections_it_says_how_many_are_not_shown_and_shows_them(browser, crowded):
    log_in(browser, crowded)
    browser.wait_for("Operations a second")
    browser.run("sessionStorage.setItem('database', 'many')")
    browser.open(url(crowded, "collections"))
    browser.run("location.reload()")
    browser.wait_for("Collections of many")
    browser.wait_for("1,010 more collections", ".more")
    assert len(browser.run(ROWS)) == 200
    for shown in (400, 600, 800, 1_000, 1_200):
        browser.click("Show 200 more", "button")
        browser.wait(f"return document.querySelectorAll('main table tbody tr').length === {shown}", timeout=60)
    # One is chosen: those that are shown stay.
    browser.run("[...document.querySelectorAll('td')].find((cell) => cell.innerText === 'c0007').click()")
    browser.wait_for("Indexes of c0007")
    browser.click("Show 10 more", "button")
    browser.wait("return document.querySelectorAll('main section:not(#indexes) table tbody tr').length === 1210", timeout=60)
    assert browser.run("return document.querySelector('.more')") is None
    # The one with a document is first now.
    assert browser.run(ROWS)[0] == "c1209"


def test_of_very_many_databases_it_says_whose_profiles_are_not_shown(browser, crowded):
    log_in(browser, crowded)
    browser.wait_for("Operations a second")
    browser.click("Slow operations")
    browser.wait_for("Kept by the profiler")
    # Besides those that were made: that of the collections, and `admin`.
    browser.wait_for("12 more databases", ".more")
    assert "4711" not in browser.run("return document.querySelector('main').textContent")
    browser.click("Show 12 more", "button")
    browser.wait("return document.querySelector('main').textContent.includes('4711')", timeout=60)
    assert browser.run("return document.querySelector('.more')") is None


def test_slow_operations_are_listed_with_their_commands(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Slow operations")
    browser.wait_for("Kept by the profiler")
    browser.wait_for("shop.films")
    assert '"rating":2.5' in browser.run("return document.querySelector('main').textContent")
    keep(browser, "slow")


def test_a_query_has_a_table_json_and_more(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    run(browser, "db.films.find({year: {$gte: 1980}}).sort({_id: 1})")
    browser.wait_for("100+ documents", "#said")
    heads = browser.run("return [...document.querySelectorAll('#results th')].map((head) => head.innerText)")
    assert heads == ["_id", "title", "year", "rating", "seen"]
    assert browser.run("return [...document.querySelector('#results tbody tr').cells].map((cell) => cell.textContent)")[:3] == ["30", "film 0030", "1980"]
    keep(browser, "query")
    browser.click("More", "button")
    browser.wait_for("200+ documents", "#said")
    run(browser, "db.aggregate([{$documents: [{a: NumberLong('9007199254740993'), b: '9007199254740993', c: 0.1234567890123456789}]}])")
    browser.wait_for("1 document", "#said")
    assert browser.run("return [...document.querySelector('#results tbody tr').cells].map((cell) => cell.textContent)") == [
        "9007199254740993", "9007199254740993", "0.12345678901234568"]
    run(browser, "db.films.find({year: {$gte: 1980}}).sort({_id: 1})")
    browser.wait_for("100+ documents", "#said")
    browser.click("JSON", "button")
    browser.wait("return document.querySelector('pre.json')")
    assert browser.text("pre.json").startswith('{\n  "_id": 30,\n  "title": "film 0030"')
    run(browser, "db.films.find({year: 1980 title: 1})")
    browser.wait_for("expected , or } and found t", ".error")
    run(browser, "db.nothing.insertMany([{_id: 1}, {_id: 1}])")
    browser.wait_for('"n": 1', "pre.json")
    run(browser, "db.runCommand({nothing: 1})")
    browser.wait_for("CommandNotFound (59)", ".error")


def test_a_plan_is_a_picture_of_its_stages(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    run(browser, "db.films.find({year: 1980, rating: {$gt: 1}}).sort({title: 1}).limit(5)", "Explain")
    browser.wait("return document.querySelector('svg.plan')")
    stages = browser.run("return [...document.querySelectorAll('svg.plan .title')].map((title) => title.textContent)")
    assert "IXSCAN" in stages and "FETCH" in stages and len(stages) >= 3
    assert browser.run("return document.querySelectorAll('svg.plan path').length") == len(stages) - 1
    assert browser.text("#said").startswith("returned 5, read 67 keys and 67 documents"), browser.text("#said")
    assert "index year_1" in browser.run("return document.querySelector('svg.plan').textContent")
    assert browser.run("return document.querySelector('svg.plan .good .title').textContent") == "IXSCAN"
    keep(browser, "plan")
    run(browser, "db.films.aggregate([{$match: {rating: 2}}, {$group: {_id: '$year', n: {$sum: 1}}}, {$sort: {n: -1}}])", "Explain")
    browser.wait("return document.querySelector('svg.plan .bad')")
    stages = browser.run("return [...document.querySelectorAll('svg.plan .title')].map((title) => title.textContent)")
    assert "$group" in stages and "COLLSCAN" in stages


def test_explain_never_runs_a_write(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    run(browser, "db.films.deleteMany({}) // .explain(", "Explain")
    browser.wait("return document.querySelector('svg.plan')")
    with locked.as_user() as client:
        assert client.shop.films.count_documents({}) == 5000


def test_statements_do_not_outlive_the_log_in(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    run(browser, "db.runCommand({ping: 'pwd-s3cret'})")
    browser.wait("return document.querySelector('pre.json')")
    browser.click("Overview")
    browser.wait_for("Operations a second")
    browser.click("Query")
    browser.wait("return document.getElementById('statement')?.value.includes('pwd-s3cret')")
    assert "pwd-s3cret" not in browser.run("return JSON.stringify({...sessionStorage, ...localStorage})")
    browser.click("Log out", "button")
    log_in(browser, locked, "ann", "secret")
    browser.click("Query")
    browser.wait("return document.getElementById('statement')")
    assert browser.run("return document.getElementById('statement').value") == ""


def test_a_new_query_closes_the_cursor_of_the_last_one(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    with locked.as_user() as client:
        cursors = lambda: client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]
        before = cursors()
        run(browser, "db.films.find({year: {$gte: 1980}})")
        browser.wait_for("100+ documents", "#said")
        assert cursors() == before + 1
        run(browser, "db.films.find({_id: 1})")
        browser.wait_for("1 document", "#said")
        deadline = time.monotonic() + 10
        while cursors() != before:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_documents_hold_is_text_and_never_runs(browser, locked):
    with locked.as_user() as client:
        attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
        client.shop.attack.insert_one({"_id": attack, attack: attack, "deep": {"a": [attack]}})
        client.shop["<i>name</i>"].insert_one({"_id": 1})
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.click("Query")
    run(browser, "db.attack.find()")
    browser.wait_for("1 document", "#said")
    assert "<script>" in browser.text("#results")
    browser.click("JSON", "button")
    browser.wait("return document.querySelector('pre.json')")
    browser.click("Collections")
    browser.wait_for("<i>name</i>")
    assert browser.run("return document.title").startswith("TreeDB")
    assert browser.run("return document.querySelectorAll('main img, main script, main i').length") == 0
    with locked.as_user() as client:
        client.shop.attack.drop()
        client.shop["<i>name</i>"].drop()


def test_a_reader_sees_what_it_may_and_is_told_what_not(browser, locked):
    log_in(browser, locked, "ann", "secret")
    browser.wait_for("Unauthorized (13)", ".error")
    browser.click("Query")
    run(browser, "db.films.find({_id: 1})")
    browser.wait_for("film 0001", "#results")
    run(browser, "db.films.deleteMany({})")
    browser.wait_for("Unauthorized (13)", ".error")
    with locked.as_user() as client:
        assert client.shop.films.count_documents({}) == 5000
    browser.click("Log out", "button")
    browser.wait("return document.querySelector('form input[name=user]')")


def test_a_server_without_authentication_is_shown_and_not_changed(browser, tmp_path):
    server = Server(tmp_path / "data", "--web-page", "on", admin=True)
    try:
        browser.open(url(server))
        browser.wait_for("Operations a second")
        assert "read-only" in browser.text("header")
        browser.click("Query")
        run(browser, "db.films.insertOne({_id: 1})")
        browser.wait_for("Unauthorized (13)", ".error")
        run(browser, "show dbs")
        browser.wait_for("local", "#results")
    finally:
        assert server.stop() == 0


def test_a_reload_keeps_the_log_in_and_a_new_tab_has_that_of_another_tab(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    browser.call("POST", "/refresh", {})
    browser.wait_for("Operations a second")
    first = browser.new_tab()
    try:
        browser.open(url(locked))
        browser.wait_for("Operations a second")
        assert "root@admin" in browser.text("header")
    finally:
        browser.back_to_tab(first)
    # With no other tab that could tell the secret, the cookie lets nobody in.
    browser.open("about:blank")
    first = browser.new_tab()
    try:
        browser.open(url(locked))
        browser.wait("return document.querySelector('form input[name=user]')")
        port = locked.addresses["admin"][1]
        assert [cookie["name"] for cookie in browser.cookies()].count(f"treedb_{port}") == 1
    finally:
        browser.back_to_tab(first)
    browser.open(url(locked))
    browser.wait_for("Operations a second")


class Blank(http.server.BaseHTTPRequestHandler):
    """A web site without a policy of its own."""

    #: The cookies that it was sent.
    cookies = set()

    def do_GET(self):
        self.cookies.add(self.headers.get("Cookie"))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title>")

    def log_message(self, *_):
        pass


def test_other_sites_in_the_same_browser_get_nothing_and_change_nothing(browser, locked):
    log_in(browser, locked)
    browser.wait_for("Operations a second")
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        # Another port of the same host gets the cookie sent along, another host does not.
        for other in ("127.0.0.1", "localhost"):
            browser.open(f"http://{other}:{site.server_port}/")
            browser.wait("return document.title === 'other'")
            outcome = json.loads(browser.run("""
                return (async () => {
                    const results = [];
                    for (const [mode, kind] of [["cors", "application/json"], ["cors", "text/plain"], ["no-cors", "text/plain"]]) {
                        for (const command of [{ find: "films" }, { insert: "attacked", documents: [{ a: 1 }] }]) {
                            try {
                                const answer = await fetch(arguments[0] + "api/command", { method: "POST", mode, credentials: "include",
                                    headers: { "Content-Type": kind }, body: JSON.stringify({ database: "shop", command }) });
                                results.push(answer.type + " " + (await answer.text()));
                            } catch (error) { results.push("refused"); }
                        }
                    }
                    return JSON.stringify(results);
                })()""", url(locked)))
            # CORS keeps the first four from being read, Cross-Origin-Resource-Policy the others. Those are sent,
            # though: that they change nothing is seen below.
            assert outcome == ["refused"] * 6, outcome
    finally:
        site.shutdown()
        site.server_close()
    with locked.as_user() as client:
        assert client.shop.attacked.count_documents({}) == 0
    # What that site was sent is half of a log-in, which is worth nothing.
    cookie, = Blank.cookies - {None}
    assert cookie.startswith("treedb_")
    body = {"database": "shop", "command": {"find": "films"}}
    for secret in (None, "0" * 64):
        assert send(locked, "POST", "/api/command", body, {"Cookie": cookie, "TreeDB-Session": secret})[0] == 401
    # The browser writes down what it refused.
    browser.log()
