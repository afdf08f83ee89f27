#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`flashinfer download-cubin` against a server on this machine that resumes, lies, hangs and fails.

download_test.py FLASHINFER: exits with 77 where packs cannot be built or libcurl is missing.
"""
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TOOL = sys.argv.pop(1)


def run(cache, *words):
    env = {k: v for k, v in os.environ.items() if k not in ("http_proxy", "HTTP_PROXY")}
    return subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60,
                          env=env | {"FLASHINFER_CACHE_DIR": str(cache), "no_proxy": "127.0.0.1"})


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.folder`, with ranges unless `server.ranges` is false."""

    def do_GET(self):
        server = self.server
        name = self.path.lstrip("/")
        server.requests.append((name, self.headers.get("Range")))
        path = server.folder / name
        if name in server.hang:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x")
            self.wfile.flush()
            server.released.wait(20)
            return
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        begin = 0
        asked = self.headers.get("Range")
        if asked and server.ranges:
            begin = int(asked.split("=")[1].rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        end = len(data) if name not in server.cut else begin + server.cut.pop(name)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:end])

    def log_message(self, *_):
        pass


class Download(unittest.TestCase):
    packs = None  # built once

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flashinfer-download-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copytree(Download.packs, self.folder / "served")
        self.cache = self.folder / "cache"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.folder = self.folder / "served"
        self.server.requests, self.server.hang, self.server.cut = [], set(), {}
        self.server.ranges = True
        self.server.released = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.server.released.set)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def installed(self):
        folder = self.cache / "packs"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []

    def download(self, *words, url=None):
        return run(self.cache, "download-cubin", "--url", url or self.url, *words)

    def test_installs_what_verifies_and_fetches_nothing_twice(self):
        result = self.download()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.installed(), ["flashinfer-sm75.pack", "flashinfer-sm80.pack"])
        self.server.requests.clear()
        result = self.download()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([name for name, _ in self.server.requests], ["manifest.txt"])
        used = run(self.cache, "compile", "--cached", "norm.simt", "--arch", "80", "--json")
        self.assertIn('"origin": "pack"', used.stdout, used.stderr)

    def test_one_architecture_and_a_file_url(self):
        result = self.download("--arch", "80", url=f"file://{self.server.folder}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.installed(), ["flashinfer-sm80.pack"])
        result = self.download("--arch", "90a")
        self.assertEqual(result.returncode, 6)
        self.assertIn("lists no pack for sm_90a", result.stderr)

    def test_resumes_what_broke_off(self):
        self.server.cut["flashinfer-sm80.pack"] = 1000
        result = self.download("--arch", "80")
        self.assertEqual(result.returncode, 6, result.stderr)
        self.assertNotIn("flashinfer-sm80.pack", self.installed())
        result = self.download("--arch", "80")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.server.requests[-1], ("flashinfer-sm80.pack", "bytes=1000-"))
        self.assertEqual(self.installed(), ["flashinfer-sm80.pack"])

    def test_starts_again_where_the_server_cannot_resume(self):
        self.server.cut["flashinfer-sm80.pack"] = 1000
        self.download("--arch", "80")
        self.server.ranges = False
        result = self.download("--arch", "80")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.installed(), ["flashinfer-sm80.pack"])

    def test_a_wrong_hash_is_not_installed(self):
        path = self.server.folder / "flashinfer-sm80.pack"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        result = self.download("--arch", "80")
        self.assertEqual(result.returncode, 6)
        self.assertIn("SHA-256 is " + hashlib.sha256(data).hexdigest(), result.stderr)
        self.assertEqual(self.installed(), [])

    def test_what_is_no_pack_is_not_installed(self):
        path = self.server.folder / "flashinfer-sm80.pack"
        path.write_bytes(b"not a pack\n")
        digest = hashlib.sha256(b"not a pack\n").hexdigest()
        (self.server.folder / "manifest.txt").write_text(f"{digest}  {path.name}\n")
        result = self.download()
        self.assertEqual(result.returncode, 6)
        self.assertIn("is not a pack of this version", result.stderr)
        self.assertNotIn(path.name, self.installed())

    def test_a_manifest_cannot_leave_the_folder(self):
        (self.server.folder / "manifest.txt").write_text("0" * 64 + "  ../../evil.pack\n")
        result = self.download()
        self.assertEqual(result.returncode, 6)
        self.assertIn("is not a line of SHA-256 and file name", result.stderr)

    def test_a_missing_file_names_url_and_answer(self):
        (self.server.folder / "manifest.txt").unlink()
        result = self.download()
        self.assertEqual(result.returncode, 6)
        self.assertIn(f"{self.url}/manifest.txt: the server answered 404", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_a_server_that_hangs_is_given_up(self):
        self.server.hang.add("flashinfer-sm80.pack")
        start = time.monotonic()
        result = self.download("--arch", "80", "--timeout", "1")
        self.assertEqual(result.returncode, 6)
        self.assertIn("nothing came for 1 s", result.stderr)
        self.assertLess(time.monotonic() - start, 15)

    def test_no_server_and_no_url(self):
        result = self.download(url="http://127.0.0.1:9")
        self.assertEqual(result.returncode, 6)
        self.assertIn("http://127.0.0.1:9/manifest.txt: ", result.stderr)
        result = run(self.cache, "download-cubin")
        self.assertEqual(result.returncode, 2)
        self.assertIn("FLASHINFER_CUBINS_REPOSITORY", result.stderr)


def build_packs(folder):
    recipe = folder / "recipe.txt"
    recipe.write_text("norm.simt  # with default fields\n")
    return run(folder / "cache", "pack", "build", "--arch", "75,80", "--recipe", str(recipe), "-o",
               str(folder / "packs"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        built = build_packs(pathlib.Path(scratch))
        if built.returncode == 3:
            print("packs cannot be built here:", built.stderr)
            sys.exit(77)
        assert built.returncode == 0, built.stderr
        Download.packs = pathlib.Path(scratch) / "packs"
        unfetched = run(pathlib.Path(scratch) / "cache", "download-cubin", "--url",
                        f"file://{scratch}/packs")
        if unfetched.returncode == 3:
            print("no libcurl here:", unfetched.stderr)
            sys.exit(77)
        sys.exit(not unittest.main(verbosity=2, exit=False).result.wasSuccessful())
