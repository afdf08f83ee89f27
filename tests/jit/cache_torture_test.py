#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel cache under many processes, kills, damage, read-only and full disks, odd clocks.

cache_torture_test.py KERNEL_PROBE: exits with 77 where there is no libnvrtc.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROBE = sys.argv.pop(1)
SPEC = "norm.simt dtype=f16 dtype_weight=f16 dtype_out=f16"
OTHER = "norm.simt dtype=f32 dtype_weight=f32 dtype_out=f32 vector_size=4"


def environment(folder, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FLASHINFER_")}
    if "FLASHINFER_NVRTC" in os.environ:
        env["FLASHINFER_NVRTC"] = os.environ["FLASHINFER_NVRTC"]
    return env | {"FLASHINFER_CACHE_DIR": str(folder)} | more


def start(folder, *specs, prefix=(), **more):
    return subprocess.Popen([*prefix, PROBE, "80", *specs], env=environment(folder, **more),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def get(folder, *specs, **more):
    """(exit code, [(origin, milliseconds, hash)], what was said)."""
    process = start(folder, *specs, **more)
    out, err = process.communicate(timeout=120)
    return process.returncode, [tuple(line.split()) for line in out.splitlines()], err


def can_unshare():
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class CacheTorture(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flashinfer-torture-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def kernels(self):
        return sorted((self.folder / "kernels").glob("*.kernel"))

    def get_one(self, origin, **more):
        code, lines, err = get(self.folder, SPEC, **more)
        self.assertEqual(code, 0, err)
        self.assertEqual(lines[0][0], origin, err)
        return lines[0][2], err

    def test_many_processes_compile_one_kernel_once(self):
        processes = [start(self.folder, SPEC) for _ in range(64)]
        results = [process.communicate(timeout=120) for process in processes]
        origins = [out.split()[0] for out, _ in results]
        self.assertEqual(len({out.split()[2] for out, _ in results}), 1)
        # The lock only saves work, yet here nothing keeps it from doing so.
        self.assertEqual(origins.count("compiled"), 1)
        self.assertEqual(origins.count("disk"), 63)
        self.assertEqual(len(self.kernels()), 1)
        self.assertEqual(list((self.folder / "kernels").glob("*.lock")), [])

    def test_killed_processes_leave_nothing_that_harms(self):
        good, _ = self.get_one("compiled")
        seed = random.randrange(1 << 30)
        print("seed", seed)
        rng = random.Random(seed)
        for _ in range(20):
            for path in self.kernels():
                path.unlink()
            process = start(self.folder, SPEC)
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            code, lines, err = get(self.folder, SPEC)
            self.assertEqual(code, 0, err)
            self.assertEqual(lines[0][2], good)
            self.assertEqual(err, "")

    def test_a_stopped_process_does_not_stop_others(self):
        # Its lock is held for good; another kernel must not wait for it.
        process = start(self.folder, SPEC)
        time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        try:
            code, _, err = get(self.folder, OTHER)
            self.assertEqual(code, 0, err)
        finally:
            process.kill()
            process.communicate()

    def test_damaged_entries_are_rebuilt_with_one_line(self):
        good, _ = self.get_one("compiled")
        (entry,) = self.kernels()
        whole = entry.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        for damaged in (whole[:len(whole) // 2], b"", bytes(flipped)):
            entry.write_bytes(damaged)
            again, err = self.get_one("compiled")
            self.assertEqual(again, good)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertIn("removed", err)
            self.assertEqual(entry.read_bytes(), whole)

    def test_the_clock_does_not_matter(self):
        self.get_one("compiled")
        for path in self.folder.rglob("*"):
            os.utime(path, (946684800, 946684800))  # the year 2000
        self.get_one("disk")
        os.utime(self.kernels()[0], (1 << 32, 1 << 32))
        self.get_one("disk")

    def test_other_versions_lie_side_by_side(self):
        self.get_one("compiled")
        (entry,) = self.kernels()
        # A compiler's version is in the name and in the file; this one's is not asked for.
        other = entry.with_name(re.sub(r"nvrtc-[\d.]+\.kernel", "nvrtc-1.0.kernel", entry.name))
        other.write_bytes(entry.read_bytes())
        self.get_one("disk")
        entry.unlink()
        self.get_one("compiled")
        self.assertEqual(len(self.kernels()), 2)

    def test_without_a_compiler_the_cache_still_serves(self):
        good, _ = self.get_one("compiled")
        nowhere = {"FLASHINFER_NVRTC": "/nowhere"}
        self.assertEqual(self.get_one("disk", **nowhere)[0], good)
        self.assertEqual(self.get_one("disk", FLASHINFER_DISABLE_JIT="1")[0], good)
        code, _, err = get(self.folder, OTHER, **nowhere)
        self.assertEqual(code, 3, err)
        self.assertIn("FLASHINFER_NVRTC: no libnvrtc can be opened at '/nowhere'", err)
        code, _, err = get(self.folder, OTHER, FLASHINFER_DISABLE_JIT="1")
        self.assertEqual(code, 3, err)
        for words in ("FLASHINFER_DISABLE_JIT", OTHER, "sm_80", "pack", "flashinfer compile"):
            self.assertIn(words, err)

    @unittest.skipUnless(can_unshare(), "no mount namespace here")
    def test_a_read_only_folder_costs_one_warning(self):
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        prefix = ["unshare", "-m", "sh", "-c", mount, str(self.folder)]
        code, lines, err = get(self.folder, SPEC, OTHER, prefix=prefix)
        self.assertEqual(code, 0, err)
        self.assertEqual([line[0] for line in lines], ["compiled", "compiled"])
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("kept in memory alone", err)
        self.get_one("compiled")  # what is there is read all the same
        self.assertEqual(get(self.folder, SPEC, prefix=prefix)[1][0][0], "disk")

    @unittest.skipUnless(can_unshare(), "no mount namespace here")
    def test_a_full_disk_costs_one_warning(self):
        mount = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
        prefix = ["unshare", "-m", "sh", "-c", mount, str(self.folder)]
        specs = [f"{SPEC} row_threads={n}" for n in (32, 64, 128, 256, 512, 1024)]
        code, lines, err = get(self.folder, *specs, prefix=prefix)
        self.assertEqual(code, 0, err)
        self.assertEqual([line[0] for line in lines], ["compiled"] * len(specs))
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("kept in memory alone", err)

    def test_a_warm_cache_is_quick(self):
        specs = [f"{SPEC} row_threads={n}" for n in (32, 64, 128, 256, 512, 1024)]
        get(self.folder, *specs)
        _, lines, _ = get(self.folder, *specs)
        # The first one opens the compiler's library, to know its version.
        times = sorted(float(line[1]) for line in lines[1:])
        print("warm cache, ms a kernel:", times)
        self.assertLess(times[0], 3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        has_compiler = get(scratch, SPEC)[0] != 3
    if not has_compiler:
        print("no libnvrtc here: the cache is not tortured")
        sys.exit(77)
    unittest.main(verbosity=2)
