# SPDX-License-Identifier: Apache-2.0
"""kernel_commands_test.py FLASHINFER: the commands about kernels as a user runs them, without a GPU.

Exits with 77 where there is no compiler for kernels.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
SPECS = "norm.simt\nnorm.simt dtype=f16\nnorm.simt dtype=f32 dtype_weight=f32 dtype_out=f32\n"


class KernelCommandsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.environment = {**os.environ, "FLASHINFER_CACHE_DIR": str(self.folder / "cache")}
        self.addCleanup(self.scratch.cleanup)

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True,
                              env=self.environment, check=False)

    def output_of(self, *words):
        result = self.run_program(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def build(self, name, *words):
        (self.folder / "recipe.txt").write_text(SPECS, encoding="utf-8")
        self.output_of("pack", "build", "--arch", "80,90a,80", "--recipe", self.folder / "recipe.txt",
                       "-o", self.folder / name, *words)
        return {p.name: p.read_bytes() for p in sorted((self.folder / name).iterdir())}

    def interrupt(self, *words):
        """Exit code after Ctrl-C at half a second, and the seconds that it then took."""
        with subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=self.environment) as process:
            time.sleep(0.5)
            self.assertIsNone(process.poll(), "it was done before it could be interrupted")
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            return process.wait(60), time.monotonic() - start

    def test_packs_are_the_same_bytes_every_time(self):
        first = self.build("a", "--jobs", "1")
        self.assertEqual(list(first), ["flashinfer-sm80.pack", "flashinfer-sm90a.pack",
                                       "manifest.txt"])
        self.assertEqual(first, self.build("b", "--jobs", "2"))
        packs = sorted((self.folder / "a").glob("*.pack"))
        self.output_of("pack", "verify", *packs)
        self.assertEqual(self.output_of("pack", "list", packs[0]).count("norm.simt"), 3)

    def test_wheels_say_what_they_would_install(self):
        self.build("packs")
        pack = self.folder / "packs/flashinfer-sm90a.pack"
        for command, package in (("install-cubin-wheel", "flashinfer_cubin"),
                                 ("install-jit-cache-wheel", "flashinfer_jit_cache")):
            plan = json.loads(self.output_of(command, "--dry-run", "--json", "--python",
                                             sys.executable, pack))
            self.assertEqual((plan["package"], plan["installed"]), (package, False))
            self.assertEqual(plan["packs"], [str(pack)])
            refused = self.run_program(command, "--dry-run", "--python", "/no/such/python", pack)
            self.assertEqual(refused.returncode, 6)
            self.assertIn("'/no/such/python' cannot be run", refused.stderr)
        broken = self.folder / "broken.pack"
        broken.write_bytes(pack.read_bytes()[:-1])
        self.assertNotEqual(self.run_program("install-cubin-wheel", "--dry-run", broken).returncode,
                            0)

    def test_compile_says_what_a_kernel_takes(self):
        kernel = json.loads(self.output_of("compile", "norm.simt", "--arch", "90a", "--json"))
        kernel = kernel[0] if isinstance(kernel, list) else kernel
        self.assertGreater(kernel["registers"], 0)
        self.assertGreater(kernel["seconds"], 0)
        self.assertIn("flashinfer_kernel", self.output_of("compile", "norm.simt", "--show"))

    def test_machine_code_where_there_is_a_disassembler(self):
        result = self.run_program("compile", "norm.simt", "--arch", "90a", "--sass")
        if result.returncode == 3:
            self.assertEqual(result.stdout, "")
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(".text.flashinfer_kernel", result.stdout)
        self.assertIn("EXIT", result.stdout)

    def test_control_c_ends_a_compilation(self):
        everything = "75,80,86,87,88,89,90a,100a,103a,110a,120a,121a"
        exit_code, seconds = self.interrupt("compile", "decode.simt", "--arch", everything)
        self.assertEqual(exit_code, 130)
        self.assertLess(seconds, 20)

    def test_control_c_ends_a_build_and_leaves_no_pack(self):
        (self.folder / "recipe.txt").write_text("decode.simt\n" + SPECS, encoding="utf-8")
        exit_code, seconds = self.interrupt("pack", "build", "--arch", "80,90a,100a,120a", "--recipe",
                                            self.folder / "recipe.txt", "-o", self.folder / "out")
        self.assertEqual(exit_code, 130)
        self.assertLess(seconds, 20)
        self.assertEqual(list(self.folder.glob("out/*")), [])

    def test_lists(self):
        families = self.output_of("list-modules")
        self.assertIn("norm.simt", families)
        self.output_of("compile", "norm.simt", "--arch", "90a", "--cached")
        self.assertIn("norm.simt", self.output_of("list-cubins"))
        self.assertIn("norm.simt", self.output_of("module-status"))
        self.assertIn("flashinfer", self.output_of("collect-env"))
        json.loads(self.output_of("export-compile-commands"))
        self.output_of("clear-cache")
        self.assertNotIn("norm.simt", self.output_of("list-cubins"))


if __name__ == "__main__":
    config = subprocess.run([PROGRAM, "compile", "norm.simt", "--arch", "80"], capture_output=True,
                            text=True, check=False)
    if config.returncode == 3:
        print(config.stderr)
        sys.exit(77)
    unittest.main()
