"""The built site as a reader sees it: tables without marks of their source, and none wider than its page."""

from __future__ import annotations

import contextlib
import functools
import html
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTH = 1280

#: Loads (page, whether scripts run) one after the other in a frame of WIDTH pixels and sends what sticks out. Scripts
#: take most of the time: the theme's style alone must keep tables in their place.
MEASURE = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const pages = PAGES, found = [], frame = document.createElement("iframe");
frame.style = "width:WIDTHpx;height:900px;border:0";
const tables = () => [...frame.contentDocument.querySelectorAll(".md-content table")];
function look(page) {
  const whole = frame.contentDocument.documentElement;
  if (whole.scrollWidth > whole.clientWidth + 1) found.push([page, "the page itself", whole.scrollWidth]);
  const room = frame.contentDocument.querySelector(".md-content").getBoundingClientRect();
  for (const table of tables()) {
    let box = table;
    while (box && !["auto", "scroll"].includes(frame.contentWindow.getComputedStyle(box).overflowX))
      box = box.parentElement;
    const beyond = Math.round((box || table).getBoundingClientRect().right - room.right);
    if (beyond > 1) found.push([page, table.querySelector("th").textContent, beyond]);
  }
}
function next() {
  if (!pages.length) return fetch("/found", {method: "POST", body: JSON.stringify(found)});
  const [page, scripts] = pages.shift();
  if (scripts) frame.removeAttribute("sandbox");
  else frame.sandbox = "allow-same-origin";
  let tries = scripts ? 100 : 0;
  const wait = () => {  // until the theme's script has put every table into a box that scrolls
    const ready = tables().every(table => table.closest(".md-typeset__scrollwrap"));
    if (!ready && tries--) return setTimeout(wait, 20);
    look(page);
    next();
  };
  frame.onload = wait;
  frame.src = "/" + page;
}
document.body.appendChild(frame);
next();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=REPOSITORY, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return folder


class Server(ThreadingHTTPServer):
    """Serves a folder, and keeps what a page posts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self.posted: queue.Queue[str] = queue.Queue()


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.posted.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    server = Server(site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def browser(address: str, profile: Path) -> Iterator[None]:
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={profile}", f"--window-size={WIDTH},900", address,
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def pages(site: Path) -> list[Path]:
    return [page for page in sorted(site.rglob("index.html")) if "assets" not in page.parts]


def test_no_mark_of_a_table_is_left_in_the_text(site: Path) -> None:
    for page in pages(site):
        content = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article")[0]
        words = html.unescape(re.sub(r"<[^>]*>", "", content))
        assert r"\|" not in words, page.parent.name
        assert not re.search(r"^\s*\|.*\|.*\|\s*$", words, re.MULTILINE), f"{page.parent.name}: a table was not made"


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*?(?:src|href)="([^"]+)"', page.read_text("utf-8")
        )
        assert loaded and not [each for each in loaded if each.startswith(("http", "//"))], page.parent.name


def columns(page: Path) -> int:
    """Columns of a page's widest table."""
    return max((row.count("<th") for row in re.findall(r"<tr>.*?</tr>", page.read_text("utf-8"), re.DOTALL)), default=0)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_no_table_is_wider_than_its_page(site: Path, server: Server, tmp_path: Path) -> None:
    names = {page: page.parent.relative_to(site).as_posix() + "/" for page in pages(site)}
    widest = sorted(names, key=columns)[-3:]
    wanted = [[name, False] for name in names.values()] + [[names[page], True] for page in widest]
    (site / "measure.html").write_text(MEASURE.replace("PAGES", json.dumps(wanted)).replace("WIDTH", str(WIDTH)))
    with browser(f"http://127.0.0.1:{server.server_address[1]}/measure.html", tmp_path):
        assert json.loads(server.posted.get(timeout=120)) == []
