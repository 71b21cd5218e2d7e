"""Chromium without a screen, driven over the WebDriver protocol, which is JSON over HTTP."""
import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-dev-shm-usage", "--no-first-run", "--window-size=1280,900", "--force-prefers-reduced-motion"]


class Failed(Exception):
    """An error of the browser."""


class Browser:
    """A browser with a profile of its own."""

    def __init__(self, profile):
        self.driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "HOME": str(profile)})
        try:
            self.start(profile)
        except BaseException:
            self.driver.kill()
            self.driver.wait()
            self.driver.stdout.close()
            raise

    def start(self, profile):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                self.base = f"http://127.0.0.1:{int(line.rstrip('. ').split()[-1].rstrip('.'))}"
                break
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def text(self, css="body"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def wait(self, what, timeout=20):
        """Waits until a script returns something; returns it."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.run(what)
            if found:
                return found
            assert time.monotonic() < deadline, f"{what}: {self.text()[:2000]} {self.log()}"
            time.sleep(0.1)

    def wait_for(self, text, css="body", timeout=20):
        script = f"return (document.querySelector({json.dumps(css)})?.innerText ?? '').includes({json.dumps(text)})"
        self.wait(script, timeout)

    def click(self, text, css="a, button, td"):
        """Clicks on what has this text."""
        found = self.wait(f"return [...document.querySelectorAll({json.dumps(css)})].find((e) => e.innerText.trim() === {json.dumps(text)})")
        self.call("POST", f"/element/{found[ELEMENT]}/click", {})

    def enter(self, css, text):
        found = self.call("POST", "/element", {"using": "css selector", "value": css})
        self.call("POST", f"/element/{found[ELEMENT]}/clear", {})
        self.call("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def log(self):
        """What the page has complained about since it was last asked."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def cookies(self):
        return self.call("GET", "/cookie")

    def new_tab(self):
        """Opens a tab and goes there; returns the one that it was before."""
        before = self.call("GET", "/window")
        opened = self.call("POST", "/window/new", {"type": "tab"})
        self.call("POST", "/window", {"handle": opened["handle"]})
        return before

    def back_to_tab(self, tab):
        """Closes the tab and goes to another."""
        self.call("DELETE", "/window")
        self.call("POST", "/window", {"handle": tab})

    def dark(self, dark):
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=20)
            self.driver.stdout.close()
