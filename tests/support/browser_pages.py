"""Headless Chromium for tests of pages: the fixtures `context` and `watched`, for test files that import them."""

import shutil

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed; pip install '.[test-browser]'"
)
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
if CHROMIUM is None:
    pytest.skip("no Chromium is here; install the package chromium", allow_module_level=True)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="module", name="context")
def opened_context(tmp_path_factory):
    with playwright.sync_playwright() as started:
        folder = tmp_path_factory.mktemp("profile")
        made = started.chromium.launch_persistent_context(
            str(folder),
            executable_path=CHROMIUM,
            headless=True,
            args=FLAGS,
            viewport={"width": 1280, "height": 800},
        )
        yield made
        made.close()


class Watched:
    """A page, what it complained about, and what it asked the network for."""

    def __init__(self, context):
        self.page = context.new_page()
        self.complaints = []
        self.requests = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def show(self, path):
        self.page.goto(path.as_uri())
        return self.page

    def check_silence(self):
        """Nothing but the file itself was loaded, and nothing went wrong."""
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "about:"))] == []
        assert len([url for url in self.requests if url.startswith("file:")]) == 1


@pytest.fixture(name="watched")
def watched_page(context):
    made = Watched(context)
    yield made
    made.page.close()
