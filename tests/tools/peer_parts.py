"""Parts of tools/peer.py and tools/peer_memory.py that want neither PyTorch nor dnntrain.

    python3 tests/tools/peer_parts.py
"""

import contextlib
import io
import os
import stat
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True

import peer  # noqa: E402
import peer_memory  # noqa: E402

# Made up; sizes differ so that a wrong line would show in the sum.
SMAPS = """\
55d0c0000000-55d0c0100000 r--p 00000000 08:01 11                         /usr/bin/python3.11
Size:               1024 kB
Rss:                 512 kB
Pss:                 512 kB
Anonymous:             0 kB
7f0000000000-7f0000400000 r-xp 00001000 08:01 12                         /v/nvidia/lib/libcublas.so.13
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                3000 kB
Pss:                1500 kB
Shared_Clean:       2000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f0000400000-7f0000500000 rw-p 00401000 08:01 12                         /v/nvidia/lib/libcublas.so.13
Size:               1024 kB
Rss:                 200 kB
Anonymous:            50 kB
7f0000600000-7f0000700000 r-xp 00000000 08:01 13                         /with blanks/libnccl.so.2
Rss:                  40 kB
Anonymous:             0 kB
7f0000800000-7f0000900000 r--p 00000000 08:01 14                         /v/libnvrtc.so.13 (deleted)
Rss:                   7 kB
Anonymous:             0 kB
7f0000a00000-7f0000b00000 r-xp 00000000 08:01 15                         /v/torch/lib/libtorch_cuda.so
Rss:                9000 kB
Anonymous:             0 kB
7f0000c00000-7f0000d00000 r-xp 00000000 08:01 16                         /v/libcudart/libother.so
Rss:                 800 kB
Anonymous:             0 kB
7f0001000000-7f0002000000 rw-p 00000000 00:00 0 
Rss:               16000 kB
Anonymous:         16000 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  60 kB
Anonymous:            60 kB
"""
LEFT_OUT = (3000 + 200 - 50 + 40 + 7) * 1024


def said(*words):
    """The arguments as peer.py understands them, or its exit code and what it says."""
    errors = io.StringIO()
    with mock.patch.object(sys, "argv", ["peer.py", *words]), contextlib.redirect_stderr(errors):
        try:
            return peer.arguments()
        except SystemExit as e:
            return e.code, " ".join(errors.getvalue().split())


class Memory(unittest.TestCase):
    def test_pages_of_cudas_files_are_left_out(self):
        self.assertEqual(peer_memory.left_out(SMAPS), LEFT_OUT)
        self.assertEqual(peer_memory.left_out(""), 0)

    def test_peak_has_both_numbers(self):
        status = "Name:\tpython3\nVmPeak:\t 99999 kB\nVmHWM:\t   30000 kB\nVmRSS:\t 20000 kB\n"
        self.assertEqual(peer_memory.peak(status, SMAPS), (30000 * 1024, LEFT_OUT))

    def test_never_more_is_left_out_than_there_was(self):
        self.assertEqual(peer_memory.peak("VmHWM:\t 1000 kB\n", SMAPS), (1000 * 1024, 1000 * 1024))

    @unittest.skipUnless(os.path.exists("/proc/self/smaps"), "no smaps")
    def test_a_mapped_file_is_counted_by_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, counted in (("libnccl.so.9", True), ("libncurses.so.9", False)):
                path = Path(folder, name)
                path.write_bytes(b"\1" * (1 << 20))
                with open(path, "rb") as file, mapped(file) as pages:
                    before = peer_memory.own_peak()[1]
                    self.assertEqual(sum(pages[::4096]), 256)
                    after = peer_memory.own_peak()[1]
                self.assertEqual(after >= before + (1 << 19), counted, name)


@contextlib.contextmanager
def mapped(file):
    """Without read-ahead: nothing is resident before it is read."""
    import mmap
    pages = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    pages.madvise(mmap.MADV_RANDOM)
    try:
        yield pages
    finally:
        pages.close()


class Arguments(unittest.TestCase):
    def test_sides(self):
        for text, sides in (("stock", ["stock"]), ("both", ["stock", "tuned"]), ("none", []),
                            ("all", ["stock", "tuned", "compiled"]),
                            ("compiled,stock", ["stock", "compiled"])):
            self.assertEqual(said("x.ini", "--torch", text).torch, sides)
        self.assertEqual(said("x.ini").torch, ["stock", "tuned", "compiled"])
        self.assertTrue(said("x.ini").all)
        self.assertFalse(said("x.ini", "--torch", "stock,tuned,compiled").all)

    def test_wrong_use(self):
        for words, says in ((("--torch", "fast"), "some of stock, tuned, compiled"),
                            (("--torch", "stock,none"), "some of stock, tuned, compiled"),
                            (("--torch", ""), "some of stock, tuned, compiled"),
                            (("--torch", "stock,fast"), "some of stock, tuned, compiled"),
                            (("--torch", "none", "--venv"), "leave out --torch none"),
                            (("--torch", "none", "--check"), "leave out --torch none"),
                            (("--torch", "none", "--checkpoint"), "leave out --torch none"),
                            (("--ours-before", "/nowhere/dnntrain"), "/nowhere/dnntrain is no program"),
                            (("--ours-before", "/tmp"), "/tmp is no program"),
                            (("--ours-before", "/bin/true", "--check"), "leave out --ours-before"),
                            (("--torch", "none", "--busy", "257"), "--busy is 0 to 256"),
                            (("--torch", "none", "--busy", "1", "--nice", "20"), "--nice 0 to 19"),
                            (("--venv", "/v", "--python", "/p"), "leave out one"),
                            (("--isa", "avx3"), "invalid choice: 'avx3'")):
            code, text = said("x.ini", *words)
            self.assertEqual(code, 2, words)
            self.assertIn(says, text)

    def test_venv_without_a_folder_is_in_the_cache(self):
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/cache"}):
            self.assertEqual(said("x.ini", "--venv").venv, "/cache/dnntrain/peer")
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "", "HOME": "/home/a"}):
            self.assertEqual(said("x.ini", "--venv").venv, "/home/a/.cache/dnntrain/peer")
        self.assertEqual(said("x.ini", "--venv", "/v").venv, "/v")
        self.assertIsNone(said("x.ini").venv)


class Steps(unittest.TestCase):
    def test_steps_that_pytorch_does_not_make_are_refused(self):
        plain = {"train.freeze": "", "train.rates": "", "train.states": "fp32", "train.eps": "1e-6"}
        peer.check_alike(plain)
        peer.check_alike({})
        for key, value in (("train.freeze", "layer1*"), ("train.rates", "fc:10"), ("train.states", "8bit")):
            with self.assertRaisesRegex(peer.Refused, f"{key} = .*: PyTorch's sides train all parameters"):
                peer.check_alike({**plain, key: value})


class InstructionSets(unittest.TestCase):
    ZEN4 = ("model name\t: made up\nflags\t\t: fpu avx avx2 fma avx512f avx512dq avx512bw avx512vl "
            "avx512_bf16\nbugs\t\t: none amx_tile amx_int8 amx_bf16\n")

    def test_both_sides_are_capped_alike(self):
        for isa, onednn, aten in (("avx2", "AVX2", "avx2"), ("avx512", "AVX512_CORE", "avx512"),
                                  ("avx512_bf16", "AVX512_CORE_BF16", "avx512"),
                                  ("amx", "AVX512_CORE_AMX", "avx512")):
            ours, torch = peer.cap(isa)
            self.assertEqual(ours, {"DT_ISA": isa})
            self.assertEqual(torch["ONEDNN_MAX_CPU_ISA"], onednn)
            self.assertEqual(torch["ATEN_CPU_CAPABILITY"], aten)
        self.assertEqual(peer.cap(None), ({}, {}))

    def test_words_are_those_of_the_engine(self):
        engine = (TOOLS.parent / "engine" / "base" / "isa.c").read_text()
        for isa in peer.ISAS:
            self.assertIn(f'"{isa}"', engine)

    def test_what_a_processor_lacks(self):
        for isa in ("avx2", "avx512", "avx512_bf16"):
            self.assertEqual(peer.lacking(isa, self.ZEN4), [])
        self.assertEqual(peer.lacking("amx", self.ZEN4), ["amx_tile", "amx_int8", "amx_bf16"])
        self.assertEqual(peer.lacking("avx2", "Features\t: asimd\n"), ["avx2", "fma"])

    def test_a_cap_of_the_callers_reaches_no_side(self):
        theirs = {"DT_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                  "MKL_ENABLE_INSTRUCTIONS": "AVX2", "TORCHINDUCTOR_CPP_MARCH": "x", "KEPT": "1"}
        with mock.patch.dict(os.environ, theirs, clear=True):
            self.assertEqual(peer.environment(3), {"KEPT": "1", "OMP_NUM_THREADS": "3"})
            self.assertEqual(peer.environment(3, DT_ISA="amx")["DT_ISA"], "amx")

    def test_tuning_does_not_lift_a_cap(self):
        self.assertNotIn("ATEN_CPU_CAPABILITY", peer.tuning([], "mkl", "avx2")[0])

    def test_a_pytorch_with_mkl_keeps_it(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "libopenblas.so.0").touch()
            self.assertIn("libopenblas", peer.tuning([folder], "open", None)[0]["LD_PRELOAD"])
            self.assertNotIn("LD_PRELOAD", peer.tuning([folder], "mkl", None)[0])


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class WhichPython(unittest.TestCase):
    """A Python is a script here that says whether it has torch."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.venv = self.folder / "dnntrain" / "peer"
        self.has = script(self.folder / "has", "exit 0\n")
        self.lacks = script(self.folder / "lacks", "exit 1\n")
        self.addCleanup(mock.patch.stopall)
        mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder)}).start()
        mock.patch.object(sys, "executable", self.has).start()

    def test_the_one_asked_for_and_no_other(self):
        named = script(self.folder / "named", "exit 0\n")
        self.assertEqual(peer.find_python(named, None), (named, "as named"))
        self.assertIsNone(peer.find_python(self.lacks, None))
        self.assertIsNone(peer.find_python("/nowhere/python3", None))

    def test_a_virtual_environment_is_before_the_one_that_runs(self):
        self.assertEqual(peer.find_python(None, None), (self.has, "the Python that runs this"))
        ours = script(self.venv / "bin" / "python3", "exit 0\n")
        self.assertEqual(peer.find_python(None, None), (ours, f"virtual environment {self.venv}"))
        script(self.venv / "bin" / "python3", "exit 1\n")  # broken off: the next one
        self.assertEqual(peer.find_python(None, None), (self.has, "the Python that runs this"))

    def test_the_systems_is_last(self):
        mock.patch.object(sys, "executable", self.lacks).start()
        mock.patch.object(peer, "has_torch", lambda path: path == "/usr/bin/python3").start()
        self.assertEqual(peer.find_python(None, None), ("/usr/bin/python3", "the system's Python"))

    def test_another_virtual_environment(self):
        other = script(self.folder / "other" / "bin" / "python3", "exit 0\n")
        found = peer.find_python(None, str(self.folder / "other"))
        self.assertEqual(found, (other, f"virtual environment {self.folder / 'other'}"))
        self.assertIsNone(peer.find_python(None, str(self.folder / "none")))


class OldPyTorch(unittest.TestCase):
    """One that answers as PyTorch 1.13 does."""

    def start(self, about, *words):
        with tempfile.TemporaryDirectory() as folder:
            python = script(Path(folder, "python3"), f"[ \"$1\" = -c ] || echo '{about}'\n")
            a = said("x.ini", "--python", python, *words)
            with mock.patch.object(peer, "compare", lambda a, python, folder: python):
                return peer.start(a, Path(folder))

    OLD = '{"torch": "1.13.1", "onednn": "2.7.2", "blas": "open", "too_old": true, "compiler": null}'
    BARE = '{"torch": "2.15.0", "onednn": null, "blas": "mkl", "too_old": false, "compiler": null}'
    GOOD = '{"torch": "2.15.0", "onednn": null, "blas": "mkl", "too_old": false, "compiler": "g++ 12"}'

    def test_compiled_is_refused_with_the_reason(self):
        for sides in ("compiled", "stock,compiled"):
            with self.assertRaisesRegex(peer.Refused, "1.13.1 has no torch.compile"):
                self.start(self.OLD, "--torch", sides)

    def test_all_goes_without_it_and_says_why(self):
        python = self.start(self.OLD)
        self.assertIn("1.13.1 has no torch.compile", python.cannot_compile())
        self.assertIn("1.13.1 of", python.words())
        self.assertIn("(as named), oneDNN 2.7.2", python.words())

    def test_without_a_compiler_it_says_so(self):
        self.assertIn("no C++ compiler", self.start(self.BARE, "--torch", "compiled").cannot_compile())
        self.assertIsNone(self.start(self.GOOD, "--torch", "compiled").cannot_compile())

    def test_an_instruction_set_that_is_not_there_is_refused(self):
        with mock.patch.object(peer, "lacking", lambda isa, text: ["amx_tile"]):
            with self.assertRaisesRegex(peer.Refused, "--isa amx: this processor lacks amx_tile"):
                self.start(self.GOOD, "--isa", "amx")


class MakingAnEnvironment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.made = self.folder / "made"

    def make(self, **env):
        """With pip, but from no index; it and venv are not heard."""
        more = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **env}
        with mock.patch.dict(os.environ, more), open(os.devnull, "w") as none, \
                mock.patch.object(sys, "stderr", none):
            peer.make_venv(self.made)

    def wheel(self):
        where = self.folder / "wheels"
        where.mkdir()
        with zipfile.ZipFile(where / "torch-9.0-py3-none-any.whl", "w") as z:
            z.writestr("torch/__init__.py", "")
            z.writestr("torch-9.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.0\n")
            z.writestr("torch-9.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr("torch-9.0.dist-info/RECORD", "torch/__init__.py,,\n"
                       "torch-9.0.dist-info/METADATA,,\ntorch-9.0.dist-info/WHEEL,,\n"
                       "torch-9.0.dist-info/RECORD,,\n")
        return str(where)

    def test_what_is_there_is_not_made_again(self):
        python = script(self.made / "bin" / "python3", "exit 0\n")
        before = os.stat(python)
        self.make()
        after = os.stat(python)
        self.assertEqual((before.st_ino, before.st_mtime_ns, before.st_size),
                         (after.st_ino, after.st_mtime_ns, after.st_size))
        self.assertEqual(os.listdir(self.made), ["bin"])

    def test_another_folder_or_a_file_is_left_alone(self):
        self.made.mkdir()
        (self.made / "thesis.tex").touch()
        with self.assertRaisesRegex(peer.Refused, "something else than a virtual environment"):
            self.make()
        self.made = self.made / "thesis.tex"
        with self.assertRaisesRegex(peer.Refused, "CONFIG comes first"):
            self.make()

    def test_without_venv_it_says_what_to_install(self):
        with mock.patch.object(sys, "executable", script(self.folder / "bare", "exit 1\n")):
            with self.assertRaisesRegex(peer.Refused, "apt-get install python3-venv"):
                self.make()

    def test_what_was_broken_off_is_gone_on_with(self):
        """A Python that pretends: the first pip fails, the second brings torch."""
        python = script(self.folder / "pretends", 'folder=$3\n[ "$*" = "-m venv $folder" ] || exit 9\n'
                        'mkdir -p "$folder/bin"\ntouch "$folder/pyvenv.cfg"\ncp "${0%/*}/inner" "$folder/bin/python3"\n')
        script(self.folder / "inner", 'at=${0%/*}\n[ "$1" != -c ] || exec test -e "$at/torch"\n'
               '[ "$*" = "-m pip install torch" ] || exit 9\n'
               '[ -e "$at/tried" ] || { touch "$at/tried"; exit 1; }\ntouch "$at/torch"\n')
        with mock.patch.object(sys, "executable", python):
            with self.assertRaisesRegex(peer.Refused, "pip install torch failed.*--venv again"):
                self.make()
            self.make()
        self.assertEqual(peer.find_python(None, str(self.made)),
                         (str(self.made / "bin" / "python3"), f"virtual environment {self.made}"))

    @unittest.skipUnless(os.environ.get("DT_TEST_SCALE") == "whole" or int(os.environ.get("DT_TEST_SEED") or 0) % 4 == 1,
                         "one commit in four makes a real one")
    def test_it_is_made_and_gone_on_with(self):
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            self.skipTest("no ensurepip")
        with self.assertRaisesRegex(peer.Refused, "pip install torch failed.*--venv again"):
            self.make()
        self.make(PIP_FIND_LINKS=self.wheel())
        self.assertEqual(peer.find_python(None, str(self.made)),
                         (str(self.made / "bin" / "python3"), f"virtual environment {self.made}"))


if __name__ == "__main__":
    unittest.main()
