#!/bin/sh
# tools/get_data against a server on this machine, with small stand-ins and their own sums: what it fetches,
# how it goes on after a cut, what it refuses, and that half a file never has a whole one's name.
set -eu
root=$(readlink -f -- "${1:-$(dirname -- "$0")/../..}")
command -v python3 >/dev/null || exit 77
no_proxy=127.0.0.1 DT_GET_DATA_WAIT=0 exec python3 - "$root/tools/get_data" <<'PYTHON'
import contextlib
import hashlib
import http.server
import io
import os
import runpy
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path

tool = sys.argv[1]
temp = tempfile.TemporaryDirectory()
top = Path(temp.name)


class Server(http.server.BaseHTTPRequestHandler):
    files, log = {}, []
    cut = 0  # answers that are cut off half way
    ranges = True

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        asked = self.headers.get("Range")
        Server.log.append((name, asked))
        data = Server.files.get(name)
        if data is None:
            self.send_error(404)
            return
        start = 0
        if asked and Server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        rest = data[start:]
        if Server.cut > 0:
            Server.cut -= 1
            rest = rest[:len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_address[1]}/mirror"


def archive(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                info.size = len(data)
            t.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


def begin(files, **how):
    """New stand-ins and a new folder; the sums are theirs unless said otherwise."""
    Server.files, Server.cut, Server.ranges = files, how.get("cut", 0), how.get("ranges", True)
    Server.log.clear()
    folder = Path(tempfile.mkdtemp(dir=top))
    lines = "".join(f"{hashlib.sha256(d).hexdigest()}  {n}\n" for n, d in files.items())
    (folder / "sums").write_text(how.get("sums", lines))
    return folder


def as_program(words):
    r = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    return r.returncode, r.stderr


def in_here(words):
    """As the program does, from its first line, but without a start of Python's."""
    said, before = io.StringIO(), sys.argv
    sys.argv = [str(w) for w in words]
    try:
        with contextlib.redirect_stderr(said):
            runpy.run_path(tool, run_name="__main__")
        return 0, said.getvalue()
    except SystemExit as e:
        return e.code or 0, said.getvalue()
    finally:
        sys.argv = before


def run(name, folder, code, text, how=in_here):
    got, said = how([tool, name, folder / "data", "--base", base, "--sums", folder / "sums"])
    if got != code or text not in said:
        sys.exit(f"{name}: exit code {got}, not {code}, or no '{text}' in:\n{said}")
    left = [p.name for p in (folder / "data").rglob("*")] if (folder / "data").exists() else []
    return sorted(left)


def expect(got, want, what):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


verse = os.urandom(300000)
text = {"input.txt": verse}

# plain, then nothing is left to do
f = begin(text)
expect(run("tinyshakespeare", f, 0, "sha256", as_program), ["tinyshakespeare.txt"], "files")
expect((f / "data/tinyshakespeare.txt").read_bytes(), verse, "bytes")
Server.log.clear()
run("tinyshakespeare", f, 0, "is there, and whole")
expect(Server.log, [], "asked again")

# cut off once: it goes on from there by itself
f = begin(text, cut=1)
run("tinyshakespeare", f, 0, "trying again")
expect(Server.log, [("input.txt", None), ("input.txt", "bytes=150000-")], "requests")
expect((f / "data/tinyshakespeare.txt").read_bytes(), verse, "bytes after a cut")

# cut off for good: half a file waits, under another name, for the next run
f = begin(text, cut=99)
expect(run("tinyshakespeare", f, 1, "run this again", as_program), ["tinyshakespeare.txt.part"], "left")
Server.cut = 0
expect(run("tinyshakespeare", f, 0, "sha256"), ["tinyshakespeare.txt"], "then")
expect((f / "data/tinyshakespeare.txt").read_bytes(), verse, "bytes of two runs")

# all was fetched, but the run ended before the file got its name
f = begin(text)
(f / "data").mkdir()
(f / "data/tinyshakespeare.txt.part").write_bytes(verse)
expect(run("tinyshakespeare", f, 0, "sha256"), ["tinyshakespeare.txt"], "after 416")

# a server without ranges begins anew
f = begin(text, cut=1, ranges=False)
run("tinyshakespeare", f, 0, "sha256")
expect((f / "data/tinyshakespeare.txt").read_bytes(), verse, "bytes without ranges")

# half of an older file is thrown away
f = begin(text)
(f / "data").mkdir()
(f / "data/tinyshakespeare.txt.part").write_bytes(b"x" * 1000)
run("tinyshakespeare", f, 0, "beginning anew")
expect((f / "data/tinyshakespeare.txt").read_bytes(), verse, "bytes after an old half")

# a wrong sum leaves nothing; a wrong file that is there is not touched
wrong = f"{'0' * 64}  input.txt\n"
f = begin(text, sums=wrong)
expect(run("tinyshakespeare", f, 3, "nothing was kept"), [], "left of a wrong file")
(f / "data/tinyshakespeare.txt").write_bytes(b"mine")
run("tinyshakespeare", f, 3, "move it away")
expect((f / "data/tinyshakespeare.txt").read_bytes(), b"mine", "a file of one's own")

# what is not there, and sums that are not
f = begin({}, sums=wrong)
expect(run("tinyshakespeare", f, 1, "404"), [], "left of nothing")
expect(len(Server.log), 1, "tries of what is not there")
run("mnist", f, 2, "no line for train-images-idx3-ubyte.gz")
f = begin(text, sums="one\n")
run("tinyshakespeare", f, 2, "--sums")

# four files in a folder
mnist = {f"{a}-{b}-ubyte.gz": os.urandom(500) for a in ("train", "t10k")
         for b in ("images-idx3", "labels-idx1")}
f = begin(mnist)
expect(run("mnist", f, 0, "sha256"), sorted([*mnist, "mnist"]), "files of mnist")

# an archive is unpacked, whole or not at all
batches = [(f"cifar-10-batches-bin/{n}", os.urandom(3073)) for n in ("data_batch_1.bin", "test_batch.bin")]
f = begin({"cifar-10-binary.tar.gz": archive(batches)})
want = ["cifar-10-batches-bin", "cifar-10-binary.tar.gz", "data_batch_1.bin", "test_batch.bin"]
expect(run("cifar10", f, 0, "2 files"), want, "files of cifar10")
expect((f / "data" / batches[1][0]).read_bytes(), batches[1][1], "an unpacked file")
expect(run("cifar10", f, 0, "is there"), want, "files of cifar10 again")

for name, data in (("../evil", b"x"), ("/evil", b"x"), ("cifar-10-batches-bin/../../evil", b"x"),
                   ("cifar-10-batches-bin/link", None), ("other/file", b"x")):
    f = begin({"cifar-10-binary.tar.gz": archive([*batches, (name, data)])})
    left = run("cifar10", f, 3, "does not belong there")
    expect(left, ["cifar-10-binary.tar.gz"], f"left of an archive with {name}")
f = begin({"cifar-10-binary.tar.gz": archive(batches)[:-2000]})
expect(run("cifar10", f, 3, "cifar-10-binary.tar.gz"), ["cifar-10-binary.tar.gz"], "left of half an archive")

if list(top.rglob("*evil*")):
    sys.exit("a file was written outside the folder")
server.shutdown()
temp.cleanup()
PYTHON
